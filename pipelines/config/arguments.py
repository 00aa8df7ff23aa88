"""What callers from Python give, brought into the form of a configuration's sections."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from ...schemas.config.explain import shown
from ...schemas.errors import ConfigError
from ...schemas.run_folder import RunFolder

_DATASETS = "a path, a pandas DataFrame, an iterable of dicts, or a dict of columns"


def path_text(value: Any) -> Any:
    """A path, or a list of paths, as text; anything else as it is."""
    if isinstance(value, list | tuple) and value and all(isinstance(one, str | os.PathLike) for one in value):
        return [path_text(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def listed(value: Any, where: str) -> list[Any]:
    """Several things as a list.

    Raises:
        ConfigError: It is one thing: a text, a mapping, a function ...
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(f"found {shown(value)}", where=where, allowed="a list")
    return list(value)


def sections_of(
    dataset: Any, metrics: Any, runnable: Any, output: Any, config: Mapping[str, Any]
) -> tuple[dict[str, Any], Any]:
    """The arguments of `evaluate` as the sections of a configuration, and the rows that are in memory.

    Raises:
        ConfigError: One does not have the form that it should have.
    """
    given = dict(config)
    of_dataset, out = (_section(given.pop(name, None), name) for name in ("dataset_options", "output_options"))
    agent = _section(
        given.pop("agent", None), "agent", "a dict such as {'timeout': 30}; the agent itself is `runnable`"
    )
    if runnable is not None:
        agent["target"] = path_text(runnable)
    wanted = listed(metrics, "metrics")
    out["path"] = path_text(output or out.get("path")) or tempfile.mkdtemp(prefix="evalbeam-")
    found, rows = dataset_section(dataset, out["path"], of_dataset)
    return {**given, "dataset": found, "metrics": wanted, "agent": agent, "output": out}, rows


def _section(value: Any, where: str, allowed: str = "a dict") -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"found {shown(value)}", where=where, allowed=allowed)
    return dict(value or {})


def dataset_section(dataset: Any, output: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The `dataset` section of what a caller gave, and the rows that are in memory and will lie in `<output>/input`.

    Raises:
        ConfigError: It is no dataset, or in memory and said to be in files.
    """
    dataset = path_text(dataset)
    if isinstance(dataset, Mapping):
        path = path_text(dataset.get("path"))
        if isinstance(path, str | list) or "query_into" in dataset:
            return {**dataset, **({"path": path} if path else {}), **options}, None
    if isinstance(dataset, str) or (isinstance(dataset, list) and dataset and all(isinstance(d, str) for d in dataset)):
        return {"path": dataset, **options}, None
    if isinstance(dataset, bytes) or not isinstance(dataset, Iterable):
        raise ConfigError(f"found {type(dataset).__name__}", where="dataset", allowed=_DATASETS)
    own = {"path": [RunFolder(output).rows], "format": "jsonl"}
    if said := next((key for key in own if key in options), None):
        found = f"found {options[said]!r}, and the dataset is in memory"
        raise ConfigError(found, where=f"dataset_options.{said}", allowed="a dataset, or the path of one")
    return {**own, **options}, dataset

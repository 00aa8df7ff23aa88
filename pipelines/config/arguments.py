"""Converts the arguments of `evaluate()` to the sections of a configuration."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from ...schemas.config.explain import show_value
from ...schemas.errors import ConfigError
from ...schemas.run_folder import RunFolder

_DATASETS = "a path, a pandas DataFrame, an iterable of dicts, or a dict of columns"


def convert_path(value: Any) -> Any:
    """Converts a path, or a list of paths, to text; returns anything else unchanged."""
    if isinstance(value, list | tuple) and value and all(isinstance(one, str | os.PathLike) for one in value):
        return [convert_path(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def convert_to_list(value: Any, where: str) -> list[Any]:
    """Converts an iterable to a list.

    Raises:
        ConfigError: The value is not a collection: a string, a mapping, a function ...
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(f"found {show_value(value)}", where=where, allowed="a list")
    return list(value)


def build_sections(
    dataset: Any, metrics: Any, runnable: Any, output: Any, config: Mapping[str, Any]
) -> tuple[dict[str, Any], Any]:
    """Builds the sections of a configuration from the arguments of `evaluate`; returns them with the in-memory rows.

    Raises:
        ConfigError: An argument has the wrong type.
    """
    given = dict(config)
    of_dataset, out = (_copy_section(given.pop(name, None), name) for name in ("dataset_options", "output_options"))
    agent = _copy_section(
        given.pop("agent", None), "agent", "a dict such as {'timeout': 30}; the agent itself is `runnable`"
    )
    if runnable is not None:
        agent["target"] = convert_path(runnable)
    wanted = convert_to_list(metrics, "metrics")
    out["path"] = convert_path(output or out.get("path")) or tempfile.mkdtemp(prefix="evalbeam-")
    found, rows = build_dataset_section(dataset, out["path"], of_dataset)
    return {**given, "dataset": found, "metrics": wanted, "agent": agent, "output": out}, rows


def _copy_section(value: Any, where: str, allowed: str = "a dict") -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"found {show_value(value)}", where=where, allowed=allowed)
    return dict(value or {})


def build_dataset_section(dataset: Any, output: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Builds the `dataset` section; returns it with the in-memory rows, which will be written to `<output>/input`.

    Raises:
        ConfigError: The value is not a dataset, or it is in memory while the options name a path or format.
    """
    dataset = convert_path(dataset)
    if isinstance(dataset, Mapping):
        path = convert_path(dataset.get("path"))
        if isinstance(path, str | list) or "query_into" in dataset:
            return {**dataset, **({"path": path} if path else {}), **options}, None
    if isinstance(dataset, str) or (isinstance(dataset, list) and dataset and all(isinstance(d, str) for d in dataset)):
        return {"path": dataset, **options}, None
    if isinstance(dataset, bytes) or not isinstance(dataset, Iterable):
        raise ConfigError(f"found {type(dataset).__name__}", where="dataset", allowed=_DATASETS)
    own = {"path": [RunFolder(output).rows], "format": "jsonl"}
    if given := next((key for key in own if key in options), None):
        found = f"found {options[given]!r}, but the dataset is in memory"
        raise ConfigError(found, where=f"dataset_options.{given}", allowed="a dataset, or the path of one")
    return {**own, **options}, dataset

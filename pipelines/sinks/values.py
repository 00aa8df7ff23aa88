"""The parameters and statistics of a run by name, as several sinks show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...schemas.json import Json
from ...schemas.tables import json_text
from .base import FinishedRun

_STATISTICS = {"mean": "mean", "ci_low": "ci_low", "ci_high": "ci_high", "n": "scored_count", "failures": "error_count"}
"""Name of a statistic -> column of the summary table."""


def build_params(run: FinishedRun) -> dict[str, str]:
    """Builds the parameters of a run: the configuration's flat keys, its metrics, its agent and our version."""
    agent = run.config.get("agent") or {}
    own = {
        "agent": agent.get("target") or agent.get("type"),
        "evalbeam.agent_fingerprint": run.manifest.get("fingerprint"),
        "metrics": ", ".join(one["name"] for one in run.config.get("metrics") or ()),
        "evalbeam.version": run.version,
    }
    return {**dict(_flatten(run.config)), **{key: str(value) for key, value in own.items() if value}}


def _flatten(value: Json, key: str = "") -> Iterator[tuple[str, str]]:
    """Yields the dotted keys of a configuration with their values as text; what says nothing is left out."""
    if value is None or value == "" or value == [] or value == {}:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flatten(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        for i, inner in enumerate(value):
            yield from _flatten(inner, f"{key}.{i}")
    else:
        yield key, value if isinstance(value, str) else json_text(value)


def list_statistics(run: FinishedRun) -> Iterator[tuple[str, float]]:
    """Yields the statistics of each metric over the whole dataset: `<metric>/mean`, `/ci_low`, `/ci_high`, `/n` (rows
    with a score) and `/failures` (rows that the metric could not score); those that are not defined are left out."""
    for row in run.whole:
        for name, column in _STATISTICS.items():
            if row[column] is not None:
                yield f"{row['metric']}/{name}", float(row[column])

"""Follows the metrics of many runs over time, and finds the runs at which they changed."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from ..schemas.errors import ConfigError
from ..schemas.findings import HISTORY
from ..schemas.json import Json
from ..schemas.run_folder import FINISHED, RunFolder
from ..schemas.tables import json_text
from ..transforms.io import storage
from ..transforms.statistics.change_points import ChangePoint, find_changes
from ..transforms.statistics.intervals import normal_quantile
from ..transforms.statistics.permutation import key_of
from .compare import write_table
from .loaded_runs import SCHEME, read_loaded
from .run.result import EvaluationResult
from .run.tables import rows_of, summary_rows

_PARTS = ("agent", "judges", "metrics", "dataset", "trials", "statistics")
"""Sections of a configuration that are compared, each as a whole."""
_PLACES = ("path", "paths", "query")
"""Keys of a dataset that name where it is: another file each day is no change, other rows are."""


@dataclass(frozen=True)
class Point:
    """A metric in a run.

    Attributes:
        run: Folder of the run, or its `run_id` in BigQuery.
        date: When it started, ISO 8601, UTC; of a table in BigQuery the day.
        row: Row of the summary table for the metric over all rows.
        change: The change point, if the mean is another from this run on.
        also_changed: What else this run has other than the run before it.
    """

    run: str
    date: str
    row: Mapping[str, Json]
    change: ChangePoint | None = None
    also_changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class History:
    """The metrics of several runs.

    Attributes:
        runs: (folder, date) of each run, by date.
        series: The points of each metric, in the order of the newest run.
        notes: Runs that were left out, as text.
    """

    runs: tuple[tuple[str, str], ...]
    series: Mapping[str, tuple[Point, ...]]
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> list[tuple[str, Point]]:
        """(metric, point) of all change points, by date."""
        found = [(name, p) for name, points in self.series.items() for p in points if p.change is not None]
        return sorted(found, key=lambda one: one[1].date)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the history table; `also_changed` is a list."""
        return [_row(name, point) for name, points in self.series.items() for point in points]


def history(runs: Iterable[str | os.PathLike[str]], *, metrics: Sequence[str] | None = None) -> History:
    """Reads the summaries of runs, ordered by their start, and finds the change points of each metric.

    Args:
        runs: Folders of runs, or globs of them, on a disk or on object storage. Those that did not finish are left out.
            Or `bq://project.dataset.summary`, the table into which runs with a `run_date` were loaded.
        metrics: Metrics to follow; default: all of the newest run, except latency, which is not the agent's alone.

    Raises:
        ConfigError: There is no finished run, or none has a metric.
    """
    found, notes = _load(runs)
    found.sort(key=lambda run: (run.started, run.name))
    known = list(found[-1].rows)
    for name in metrics or ():
        if name not in known:
            raise ConfigError(f"no metric {name!r} in {found[-1].name!r}", where="metrics", allowed=", ".join(known))
    named = list(metrics) if metrics else [name for name in known if name != "latency_in_seconds"]
    places = {
        name: [i for i, run in enumerate(found) if name in run.rows and run.rows[name]["mean"] is not None]
        for name in named
    }
    changes = _find_changes({name: [(i, found[i].rows[name]) for i in one] for name, one in places.items()})
    changed = {at for one in changes.values() for at in one}
    others = [(), *(tuple(_differences(*pair, i + 1 in changed)) for i, pair in enumerate(pairwise(found)))]
    points = [(run.name, run.date) for run in found]
    series = {
        name: tuple(Point(*points[i], found[i].rows[name], changes[name].get(i), others[i]) for i in one)
        for name, one in places.items()
    }
    return History(tuple(points), series, tuple(notes))


class _Run(NamedTuple):
    """A finished run.

    Attributes:
        name: Its folder, or its id in BigQuery.
        date: When it started, or its day.
        started: The same, in seconds since 1970.
        rows: Rows of the summary table over all rows of the run, by metric.
        count: Number of rows of the dataset, by trial.
        folder: What its folder holds; `None` if only its summary was loaded.
    """

    name: str
    date: str
    started: float
    rows: Mapping[str, Mapping[str, Json]]
    count: int
    folder: EvaluationResult | None = None


def write_history(found: History, path: str) -> None:
    """Writes the history table to a .jsonl, .csv or .parquet file."""
    rows = ({**row, "also_changed": json_text(row["also_changed"])} for row in found.rows)
    write_table(rows, HISTORY, path, "output")


def _load(runs: Iterable[str | os.PathLike[str]]) -> tuple[list[_Run], list[str]]:
    given = [os.fspath(run) for run in runs]
    tables = [run for run in given if run.startswith(SCHEME)]
    loaded = [_Run(*one, one.count) for table in tables for one in read_loaded(table, "runs")]
    manifests = [path for run in given if run not in tables for path, _ in storage.matched(RunFolder(run).manifest)]
    results = [EvaluationResult.load(path.rpartition("/")[0]) for path in dict.fromkeys(manifests)]
    finished = [r for r in results if r.state == FINISHED and r.files("summary")]
    if not finished and not loaded:
        allowed = "folders of finished runs, a glob such as 'runs/*', or bq://project.dataset.summary"
        raise ConfigError(f"no finished run at {', '.join(given) or 'nothing'}", where="runs", allowed=allowed)
    notes = [f"{r.output} is {r.state} and left out" for r in results if r not in finished]
    notes += [f"{table} does not say what else changed but the number of rows" for table in tables]
    return [*loaded, *map(_read_run, finished)], notes


def _read_run(result: EvaluationResult) -> _Run:
    rows = {row["metric"]: row for row in summary_rows(result) if not row["slice"]}
    measured, counts = result.manifest["measured"], result.manifest["counts"]
    return _Run(result.output, find_date(result), measured["started"], rows, counts["rows"], result)


def _find_changes(rows: Mapping[str, Sequence[tuple[int, Mapping[str, Json]]]]) -> dict[str, dict[int, ChangePoint]]:
    """Returns the change points of each metric by the position of the run."""
    series = [([row["mean"] for _, row in one], [_error(row) for _, row in one]) for one in rows.values()]
    found = zip(rows.items(), find_changes(series), strict=True)
    return {name: {one[change.at][0]: change for change in changes} for (name, one), changes in found}


def _error(row: Mapping[str, Json]) -> float:
    """The standard error of a mean, from its interval, which is never of zero width; 1 without an interval."""
    if row["ci_low"] is None or not row["ci_high"] > row["ci_low"]:
        return 1.0
    error = (row["ci_high"] - row["ci_low"]) / (2 * normal_quantile(0.95))
    return error if math.isfinite(error) else 1.0


def _differences(before: _Run, after: _Run, rows: bool) -> Iterator[str]:
    """Names what a run has other than the run before it; whether it has other rows only if asked, which reads them."""
    folders = (before.folder, after.folder) if before.folder and after.folder else None
    if folders:
        yield from _config_differences(folders[0].manifest, folders[1].manifest)
    if before.count != after.count:
        yield f"rows {before.count:,} → {after.count:,}"
    elif folders and rows and _fingerprint(folders[0]) != _fingerprint(folders[1]):
        yield "rows, as many others"
    versions = [run.manifest["versions"].get("evalbeam") for run in folders or ()]
    if len(set(versions)) > 1:
        yield f"evalbeam {versions[0]} → {versions[1]}"


def _config_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    parts = [_without_places(one["config"].get(part)) for part in _PARTS for one in (old, new)]
    yield from (name for name, a, b in zip(_PARTS, parts[::2], parts[1::2], strict=True) if a != b)
    if old.get("fingerprint") != new.get("fingerprint") and old["config"].get("agent") == new["config"].get("agent"):
        yield "agent fingerprint"
    yield from _judging_differences(*(one.get("judging") or {} for one in (old, new)))


def _judging_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before, after = old.get("prompts", {}), new.get("prompts", {})
    yield from (f"prompt of {name}" for name in after if name in before and before[name] != after[name])
    models = [", ".join(sorted({str(one["model"]) for one in judging.get("spent", ())})) for judging in (old, new)]
    if models[0] != models[1]:
        yield f"judge model {models[0] or 'none'} → {models[1] or 'none'}"


def _fingerprint(run: EvaluationResult) -> int:
    """A hash of the ids of a run's rows, whatever their order."""
    return sum(key_of(str(row["instance_id"])) for row in rows_of(run, "instances", ["instance_id"]))


def _without_places(part: Json) -> Json:
    return {k: v for k, v in part.items() if k not in _PLACES} if isinstance(part, dict) else part


def find_date(result: EvaluationResult) -> str:
    """Returns when a run started, ISO 8601, UTC."""
    started = datetime.datetime.fromtimestamp(result.manifest["measured"]["started"], datetime.UTC)
    return started.isoformat(timespec="seconds").replace("+00:00", "Z")


def _row(metric: str, point: Point) -> dict[str, Any]:
    change = point.change
    return {
        "metric": metric,
        "run": point.run,
        "date": point.date,
        **{name: point.row[name] for name in ("scored_count", "mean", "ci_low", "ci_high")},
        "change": change is not None,
        **{name: getattr(change, name, None) for name in ("before", "after", "p", "p_adjusted")},
        "also_changed": list(point.also_changed),
    }

"""Writes the runs of a folder or a history as a page: date, verdict and metrics of each, and how the metrics went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

from ...schemas.errors import ConfigError
from ...transforms.io import storage
from ..drawing.trends import Trend, draw_trend
from ..drawing.words import NOTHING, count, interval, number, state_verdict
from ..history import History, find_date, history
from ..run.result import EvaluationResult
from ..run.tables import summary_rows
from .shell import fill_page

MOST_METRICS = 5
"""Metrics of which each run's mean is shown; the lines are of all."""


@dataclass(frozen=True)
class Listed:
    """A run in the list: name, address ("" for none), date, verdict, number of rows, means, what is wrong with it."""

    name: str
    address: str
    date: str
    verdict: str
    rows: str
    means: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True)
class Followed:
    """A metric over the runs: its line, the first and the latest mean, and what changed at the last change."""

    name: str
    trend: Trend
    first: str
    latest: str
    interval: str
    change: str


def render_runs(folder: str, runs: Mapping[str, str]) -> str:
    """Renders the page.

    Args:
        folder: The folder.
        runs: Path of each run by its name.
    """
    loaded: dict[str, EvaluationResult | str] = {name: _load(path) for name, path in runs.items()}
    found = _follow([one.output for one in loaded.values() if isinstance(one, EvaluationResult)])
    metrics = list(found.series)[:MOST_METRICS] if found else []
    listed = [_list(name, one, metrics) for name, one in loaded.items()]
    return _fill(f"Runs in {folder}", folder, listed, metrics, found)


def write_history_page(found: History, path: str) -> None:
    """Writes the runs of a history, and how its metrics went, to a file, replacing an existing one."""
    metrics = list(found.series)[:MOST_METRICS]
    listed = [replace(_list(run, _load(run), metrics), address="") for run, _ in found.runs]  # runs may stand anywhere
    title = f"History of {count(len(listed), 'run')}"
    storage.write_whole(path, _fill(title, "history", listed, metrics, found).encode("utf-8", "replace"))


def _fill(title: str, place: str, listed: list[Listed], metrics: list[str], found: History | None) -> str:
    pieces = fill_page(
        "runs.html",
        scripted=False,
        title=title,
        folder=place,
        total=count(len(listed), "run"),
        metrics=metrics,
        runs=sorted(listed, key=lambda one: (one.date, one.name), reverse=True),
        followed=list(_draw(found)) if found else [],
        notes=found.notes if found else (),
    )
    return "".join(pieces)


def _load(path: str) -> EvaluationResult | str:
    """Opens a run, or says why it cannot be opened."""
    try:
        return EvaluationResult.load(path)
    except ConfigError as error:
        return str(error)


def _follow(paths: list[str]) -> History | None:
    """Follows the metrics of the runs; `None` if none has finished."""
    try:
        return history(paths) if paths else None
    except ConfigError:
        return None


def _list(name: str, run: EvaluationResult | str, metrics: list[str]) -> Listed:
    address = quote(name, safe="") + "/"
    if isinstance(run, str):
        return Listed(name, "", "", "", "", (NOTHING,) * len(metrics), run)
    whole = {row["metric"]: row for row in summary_rows(run) if not row["slice"]} if run.files("summary") else {}
    means = tuple(number(whole[one]["mean"]) if one in whole else NOTHING for one in metrics)
    verdict, _ = state_verdict(run.manifest)
    return Listed(
        name, address, find_date(run), verdict, f"{run.manifest['counts']['rows']:,}", means, run.reason or ""
    )


def _draw(found: History) -> list[Followed]:
    order = {path: i for i, (path, _) in enumerate(found.runs)}
    followed = []
    for name, points in found.series.items():
        if not points:
            continue
        changed = [point for point in points if point.change is not None]
        rows, places = [dict(point.row) for point in points], [order[point.run] for point in points]
        trend = draw_trend(places, rows, [order[point.run] for point in changed], len(order))
        words = ""
        if changed and changed[-1].change is not None:
            others = ", ".join(changed[-1].also_changed) or "nothing that the run knows of"
            means = f"{number(changed[-1].change.before)} → {number(changed[-1].change.after)}"
            words = f"{changed[-1].date} {means}; also changed: {others}"
        first, latest = number(rows[0]["mean"]), number(rows[-1]["mean"])
        followed.append(Followed(name, trend, first, latest, interval(rows[-1]), words))
    return followed

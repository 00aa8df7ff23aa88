"""Draws the summary of a run: forest plots of the metrics and, for each metric, of its slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...schemas.json import Json
from ..display.digest import note_empty_columns, ranges_of
from ..display.terminal import interval, number
from ..drawing.plots import Axis, Forest, Mark, make_axis
from ..drawing.templates import NOTHING
from ..run.result import EvaluationResult
from ..run.tables import Row

MOST_SLICES = 12
"""Slices drawn of one metric, the worst."""

Ends = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Multiples:
    """The slices of one list of columns: a small plot for each metric."""

    title: str
    note: str
    plots: Sequence[Forest]


def draw_metrics(result: EvaluationResult, whole: Sequence[Row]) -> list[Forest]:
    """Draws the metrics over the whole dataset, those with the same axis together, those from 0 to 1 first."""
    ends = ranges_of(result)
    groups: dict[Axis, list[Mark]] = {}
    for row in whole:
        axis = _make_axis([row], ends.get(row["metric"]))
        if row["mean"] is not None:
            groups.setdefault(axis, []).append(draw_mark(row, row["metric"], axis))
    plots = [Forest(axis, marks) for axis, marks in groups.items()]
    return sorted(plots, key=lambda plot: plot.axis != Axis(0.0, 1.0))


def draw_mark(row: Row, name: str, axis: Axis) -> Mark:
    """Draws one row of the summary."""

    def place(value: float | None) -> float | None:
        return None if value is None else axis.at(value)

    return Mark(
        name,
        place(row["mean"]),
        place(row["ci_low"]),
        place(row["ci_high"]),
        number(row["mean"]),
        interval(row),
        f"{row['scored_count']:,}/{row['row_count']:,}",
        row["verdict"] or "",
        place(row["threshold"]),
    )


def draw_slices(result: EvaluationResult, summary: Sequence[Row]) -> list[Multiples]:
    """Draws the slices, for each list of columns and each metric the worst first."""
    means = {r["metric"]: r["mean"] for r in summary if not r["slice"]}
    groups: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in summary:
        if row["slice"]:
            groups.setdefault(tuple(row["slice"]), {}).setdefault(row["metric"], []).append(row)
    found = []
    for columns, metrics in groups.items():
        cells = [tuple(r["slice"].values()) for r in next(iter(metrics.values()))]
        plots = [_draw_multiple(result, name, rows, means.get(name)) for name, rows in metrics.items()]
        found.append(Multiples("By " + ", ".join(columns), note_empty_columns(columns, cells), plots))
    return found


def _draw_multiple(result: EvaluationResult, metric: str, rows: Sequence[Row], mean: float | None) -> Forest:
    ends = ranges_of(result).get(metric)
    axis = _make_axis(rows, ends)
    lower = any(m["name"] == metric and m["better"] == "lower" for m in result.manifest.get("metrics", ()))

    def badness(row: Row) -> tuple[bool, float]:
        if row["mean"] is None:
            return True, 0.0
        return False, -abs(row["mean"] - ends[1]) if ends else row["mean"] * (-1 if lower else 1)

    worst = sorted(rows, key=badness)[:MOST_SLICES]
    marks = [draw_mark(row, _name(row["slice"]), axis) for row in worst]
    reference = None if mean is None else axis.at(mean)
    return Forest(axis, marks, metric, reference, len(rows) - len(marks))


def _make_axis(rows: Sequence[Row], ends: tuple[float, float] | None) -> Axis:
    return make_axis(ends, (row[key] for row in rows for key in ("mean", "ci_low", "ci_high", "threshold")))


def _name(values: dict[str, Json]) -> str:
    return ", ".join(NOTHING if v is None else str(v) or '""' for v in values.values())

"""Draws the summary of a run: forest plots of the metrics and, for each metric, of its slices; and the statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...schemas.json import Json
from .plots import Axis, Forest, Mark, Row, make_axis
from .words import NOTHING, interval, number, ranges_of, share

MOST_SLICES = 12
"""Slices drawn of one metric, the worst."""
_STATISTICS = ("Metric", "Mean", "CI", "Scored", "Errors", "Skipped", "Rows", "Std", "Median", "Pass rate", "Verdict")
_CORRECTED = ("Corrected by labels", "CI, corrected")

Manifest = Mapping[str, Json]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        headings: One for each column.
        rows: Cells of each row.
        numbers: Headings of right-aligned columns.
        verdict: Heading of the column that holds verdicts; "" for none.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Json]]
    numbers: frozenset[str] = frozenset()
    verdict: str = "Verdict"


@dataclass(frozen=True)
class Multiples:
    """The slices of one list of columns: a small plot for each metric."""

    columns: tuple[str, ...]
    slices: Sequence[tuple[Json, ...]]
    plots: Sequence[Forest]


def draw_metrics(manifest: Manifest, whole: Iterable[Row]) -> list[Forest]:
    """Draws the metrics over the whole dataset, those with the same axis together, those from 0 to 1 first."""
    ends = ranges_of(manifest)
    groups: dict[Axis, list[Mark]] = {}
    for row in whole:
        axis = _make_axis([row], ends.get(row["metric"]))
        if row["mean"] is not None:
            groups.setdefault(axis, []).append(_draw_mark(row, row["metric"], axis))
    plots = [Forest(axis, marks) for axis, marks in groups.items()]
    return sorted(plots, key=lambda plot: plot.axis != Axis(0.0, 1.0))


def draw_slices(manifest: Manifest, summary: Iterable[Row]) -> list[Multiples]:
    """Draws the slices, for each list of columns and each metric the worst first."""
    means: dict[str, float | None] = {}
    groups: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in summary:
        if row["slice"]:
            groups.setdefault(tuple(row["slice"]), {}).setdefault(row["metric"], []).append(row)
        else:
            means[row["metric"]] = row["mean"]
    found = []
    for columns, metrics in groups.items():
        slices = [tuple(row["slice"].values()) for row in next(iter(metrics.values()))]
        plots = [_draw_multiple(manifest, name, rows, means.get(name)) for name, rows in metrics.items()]
        found.append(Multiples(columns, slices, plots))
    return found


def build_statistics(whole: Sequence[Row]) -> Table:
    """Builds the table of metrics over the whole dataset; where people labelled rows, with the corrected means."""
    labelled = any(row.get("labels") is not None for row in whole)
    headings = [*_STATISTICS[:3], *(_CORRECTED if labelled else ()), *_STATISTICS[3:]]
    rows = []
    for row in whole:
        counts = [f"{row[c]:,}" for c in ("scored_count", "error_count", "skipped_count", "row_count")]
        more = [number(row["std"]), number(row["median"]), share(row["pass_rate"])]
        corrected = [number(row["corrected_mean"]), interval(row, "corrected_")] if labelled else []
        means = [number(row["mean"]), interval(row), *corrected]
        rows.append([row["metric"], *means, *counts, *more, row["verdict"] or ""])
    return Table(headings, rows, frozenset(headings[1:-1]))


def _draw_mark(row: Row, name: str, axis: Axis) -> Mark:
    return Mark(
        name,
        axis.find(row["mean"]),
        axis.find(row["ci_low"]),
        axis.find(row["ci_high"]),
        number(row["mean"]),
        interval(row),
        f"{row['scored_count']:,}/{row['row_count']:,}",
        row["verdict"] or "",
        axis.find(row["threshold"]),
    )


def _draw_multiple(manifest: Manifest, metric: str, rows: Sequence[Row], mean: float | None) -> Forest:
    ends = ranges_of(manifest).get(metric)
    axis = _make_axis(rows, ends)
    lower = any(m["name"] == metric and m["better"] == "lower" for m in manifest.get("metrics", ()))

    def rank(row: Row) -> tuple[bool, float]:
        if row["mean"] is None:
            return True, 0.0
        return False, -abs(row["mean"] - ends[1]) if ends else row["mean"] * (-1 if lower else 1)

    worst = sorted(rows, key=rank)[:MOST_SLICES]
    marks = [_draw_mark(row, _name(row["slice"]), axis) for row in worst]
    return Forest(axis, marks, metric, axis.find(mean), len(rows) - len(marks))


def _make_axis(rows: Sequence[Row], ends: tuple[float, float] | None) -> Axis:
    return make_axis(ends, (row[key] for row in rows for key in ("mean", "ci_low", "ci_high", "threshold")))


def _name(values: Mapping[str, Json]) -> str:
    return ", ".join(NOTHING if v is None else str(v) or '""' for v in values.values())

"""Renders a history of runs as plain text: the latest value of each metric, and where it changed."""

from __future__ import annotations

from collections.abc import Iterator

from ..drawing.words import NOTHING, interval, number
from ..history import History
from .terminal import Columns, plain, table

_NUMBERS = ("Runs", "First", "Latest", "CI", "Changes")
_COLUMNS: Columns = (("Metric", False), *((name, True) for name in _NUMBERS))


def render_history(found: History, width: int = 100) -> str:
    """Renders a history in at most `width` columns, except for lines that hold a path."""
    first, last = found.runs[0][1], found.runs[-1][1]
    cells = [
        [
            name,
            f"{len(points):,}",
            number(points[0].row["mean"]) if points else NOTHING,
            number(points[-1].row["mean"]) if points else NOTHING,
            interval(dict(points[-1].row)) if points else NOTHING,
            f"{sum(p.change is not None for p in points):,}",
        ]
        for name, points in found.series.items()
    ]
    parts = [[f"{len(found.runs):,} runs, {first} … {last}"], table(_COLUMNS, cells, width, ("First", "CI", "Runs"))]
    parts += [list(_render_changes(found)), [plain(note) for note in found.notes]]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _render_changes(found: History) -> Iterator[str]:
    for name, point in found.changes:
        change = point.change
        assert change is not None
        means = f"{number(change.before)} → {number(change.after)}, p {number(change.p_adjusted)}"
        yield plain(f"{point.date}  {name} {means}: {point.run}")
        others = ", ".join(point.also_changed) or "nothing that the run knows of"
        yield plain(f"  also changed: {others}")
    if not found.changes:
        yield "No metric changed more than by chance."

"""Renders a comparison of two runs as plain text: both means of each metric, their difference and the verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...transforms.statistics.paired import Difference
from ...transforms.statistics.slices import SliceValues
from ..compare import Comparison
from .console import NOTHING
from .terminal import number, plain, slice_name, table

_COLUMNS = (
    ("Metric", False),
    ("Before", True),
    ("After", True),
    ("Change", True),
    ("CI", True),
    ("Pairs", True),
    ("Better", True),
    ("Worse", True),
    ("Lost", True),
    ("Gained", True),
    ("", False),
)
_WORDS = {"BETTER": "better", "WORSE": "worse", "NOT_SHOWN": "", "NOT_COMPARED": "no pairs"}


def render(comparison: Comparison, width: int = 100) -> str:
    """Renders the comparison in at most `width` columns; to fit, long names are cut and count columns dropped."""
    groups: dict[SliceValues, list[Difference]] = {}
    for one in comparison.differences:
        groups.setdefault(one.slice, []).append(one)
    parts = ["\n".join(_render_head(comparison))]
    for slice_, differences in groups.items():
        title = [plain(slice_name(dict(slice_)))] if slice_ else []
        parts.append("\n".join([*title, *_render_table(differences, comparison.deciding, width)]))
    parts.append("\n".join(plain(note) for note in comparison.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_head(comparison: Comparison) -> Iterator[str]:
    both = max((d.instances for d in comparison.differences), default=0)
    yield f"Before: {plain(comparison.before)}"
    yield f"After:  {plain(comparison.after)}"
    yield f"{both:,} instances in both, {comparison.only_before:,} only before, {comparison.only_after:,} only after"


def _render_table(differences: Sequence[Difference], deciding: Collection[str], width: int) -> list[str]:
    cells = [_build_cells(one, one.metric in deciding) for one in differences]
    counts = [title for i, (title, _) in enumerate(_COLUMNS) if title in ("Lost", "Gained") and _is_zero(cells, i)]
    shown = [i for i, (title, _) in enumerate(_COLUMNS) if title not in counts]
    rows = [[row[i] for i in shown] for row in cells]
    return table([_COLUMNS[i] for i in shown], rows, width, ("Lost", "Gained", "CI", "Better", "Worse", "Pairs"))


def _is_zero(cells: Sequence[Sequence[str]], column: int) -> bool:
    return all(row[column] == "0" for row in cells)


def _build_cells(one: Difference, deciding: bool) -> list[str]:
    bounds = NOTHING if one.ci_low is None else f"{_format_signed(one.ci_low)} … {_format_signed(one.ci_high)}"
    counts = [f"{n:,}" for n in (one.pairs, one.better, one.worse, one.lost, one.gained)]
    words = "WORSE" if deciding and one.verdict == "WORSE" else _WORDS[one.verdict]
    return [one.metric, number(one.before), number(one.after), _format_signed(one.difference), bounds, *counts, words]


def _format_signed(value: float | None) -> str:
    return NOTHING if value is None else f"+{number(value)}" if value > 0 else number(value)

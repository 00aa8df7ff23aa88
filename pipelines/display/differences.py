"""A comparison of two runs as plain text: per metric both means, what changed between them, and what that shows."""

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
    """The comparison in at most `width` columns; long names are cut, columns of counts left out, to fit."""
    found: dict[SliceValues, list[Difference]] = {}
    for one in comparison.differences:
        found.setdefault(one.slice, []).append(one)
    parts = ["\n".join(_head(comparison))]
    for slice_, differences in found.items():
        title = [plain(slice_name(dict(slice_)))] if slice_ else []
        parts.append("\n".join([*title, *_table(differences, comparison.deciding, width)]))
    parts.append("\n".join(plain(note) for note in comparison.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(comparison: Comparison) -> Iterator[str]:
    both = max((d.instances for d in comparison.differences), default=0)
    yield f"Before: {plain(comparison.before)}"
    yield f"After:  {plain(comparison.after)}"
    yield f"{both:,} instances in both, {comparison.only_before:,} only before, {comparison.only_after:,} only after"


def _table(differences: Sequence[Difference], deciding: Collection[str], width: int) -> list[str]:
    cells = [_cells(one, one.metric in deciding) for one in differences]
    counts = [title for i, (title, _) in enumerate(_COLUMNS) if title in ("Lost", "Gained") and _zero(cells, i)]
    kept = [i for i, (title, _) in enumerate(_COLUMNS) if title not in counts]
    rows = [[row[i] for i in kept] for row in cells]
    return table([_COLUMNS[i] for i in kept], rows, width, ("Lost", "Gained", "CI", "Better", "Worse", "Pairs"))


def _zero(cells: Sequence[Sequence[str]], column: int) -> bool:
    return all(row[column] == "0" for row in cells)


def _cells(one: Difference, deciding: bool) -> list[str]:
    bounds = NOTHING if one.ci_low is None else f"{_signed(one.ci_low)} … {_signed(one.ci_high)}"
    counts = [f"{n:,}" for n in (one.pairs, one.better, one.worse, one.lost, one.gained)]
    words = "WORSE" if deciding and one.verdict == "WORSE" else _WORDS[one.verdict]
    return [one.metric, number(one.before), number(one.after), _signed(one.difference), bounds, *counts, words]


def _signed(value: float | None) -> str:
    return NOTHING if value is None else f"+{number(value)}" if value > 0 else number(value)

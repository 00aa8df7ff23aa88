"""Renders a comparison of two runs as plain text: both means of each metric, their gain and the verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...schemas.comparison import Difference
from ...transforms.statistics.slices import SliceValues
from ..compare import Comparison
from ..drawing.words import NOTHING, number, signed, slice_name
from .terminal import plain, table

MOST_REASONS, MOST_NAMES = 8, 4
"""Most reasons shown, and most metrics of each."""
_COLUMNS = (
    ("Metric", False),
    ("Before", True),
    ("After", True),
    ("Gain", True),
    ("CI", True),
    ("p adj.", True),
    ("Pairs", True),
    ("Better", True),
    ("Worse", True),
    ("Lost", True),
    ("Gained", True),
    ("Could show", True),
    ("", False),
)
_DROPPED = ("Could show", "Better", "Worse", "Gained", "Lost", "CI", "p adj.", "Pairs")
"""Columns that are left out of a narrow table, in this order."""
_WORDS = {"BETTER": "better", "WORSE": "worse", "NO_WORSE": "no worse", "INCONCLUSIVE": "inconclusive"}


def render(comparison: Comparison, width: int = 100) -> str:
    """Renders the comparison in at most `width` columns; to fit, long names are cut and columns dropped."""
    groups: dict[SliceValues, list[Difference]] = {}
    for one in comparison.differences:
        groups.setdefault(one.slice, []).append(one)
    parts = ["\n".join(_render_head(comparison))]
    for slice_, differences in groups.items():
        title = [plain(slice_name(dict(slice_)))] if slice_ else []
        parts.append("\n".join([*title, *_render_table(differences, comparison.deciding, width)]))
    parts.append("\n".join(plain(note) for note in comparison.notes))
    why = [f"  {plain(line)}" for line in explain_verdict(comparison)]
    parts.append("\n".join([f"Gate: {comparison.verdict}", *why]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_head(comparison: Comparison) -> Iterator[str]:
    both = max((d.instances for d in comparison.differences if not d.slice), default=0)
    family = max((d.family for d in comparison.differences), default=0)
    yield f"Before: {plain(comparison.before)}"
    yield f"After:  {plain(comparison.after)}"
    yield f"{both:,} instances in both, {comparison.only_before:,} only before, {comparison.only_after:,} only after"
    yield f"p adjusted by Holm over a family of {family:,} (metrics that decide × slices)"


def explain_verdict(comparison: Comparison) -> Iterator[str]:
    """Yields the reasons that stand in the way of a comparison that passes, each with its metrics."""
    reasons: dict[str, list[str]] = {}
    for one in comparison.uncovered:
        words = f"{one.coverage:.1%} of the first run's scores are there, less than {comparison.gate.min_coverage:.1%}"
        reasons.setdefault(words, []).append(one.metric)
    for one in comparison.decisive:
        if one.verdict in ("WORSE", "INCONCLUSIVE"):
            name = one.metric + (f" [{slice_name(dict(one.slice))}]" if one.slice else "")
            reasons.setdefault(one.reason or "worse", []).append(name)
    for words, names in list(reasons.items())[:MOST_REASONS]:
        more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
        yield f"{words}: {', '.join(names[:MOST_NAMES])}{more}"
    if len(reasons) > MOST_REASONS:
        yield f"… and {len(reasons) - MOST_REASONS:,} more reasons"
    if any(one.verdict == "INCONCLUSIVE" and not one.margin for one in comparison.decisive):
        yield "Without a margin only a gain passes; --margin 0.02 (or gate.margin) says which loss counts as none."


def _render_table(differences: Sequence[Difference], deciding: Collection[str], width: int) -> list[str]:
    cells = [_build_cells(one, one.metric in deciding) for one in differences]
    counts = [title for i, (title, _) in enumerate(_COLUMNS) if title in ("Lost", "Gained") and _is_zero(cells, i)]
    shown = [i for i, (title, _) in enumerate(_COLUMNS) if title not in counts]
    rows = [[row[i] for i in shown] for row in cells]
    return table([_COLUMNS[i] for i in shown], rows, width, _DROPPED)


def _is_zero(cells: Sequence[Sequence[str]], column: int) -> bool:
    return all(row[column] == "0" for row in cells)


def _build_cells(one: Difference, deciding: bool) -> list[str]:
    bounds = NOTHING
    if one.gain_ci_low is not None:
        bounds = f"{signed(one.gain_ci_low)} … {signed(one.gain_ci_high)}"
    counts = [f"{n:,}" for n in (one.pairs, one.better, one.worse, one.lost, one.gained)]
    words = _WORDS[one.verdict] if one.pairs else "no pairs"
    shown = "WORSE" if deciding and one.verdict == "WORSE" else words if deciding else f"({words})"
    return [
        one.metric,
        number(one.before),
        number(one.after),
        signed(one.gain),
        bounds,
        number(one.p_adjusted),
        *counts,
        signed(one.mde),
        shown,
    ]

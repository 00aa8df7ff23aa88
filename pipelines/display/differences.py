"""Renders a comparison of two runs as plain text: both means of each metric, their gain and the verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from ...schemas.comparison import Difference
from ..drawing.words import NOTHING, number, signed, slice_name
from .terminal import plain, table, wrap_line

if TYPE_CHECKING:  # imports Beam
    from ...transforms.statistics.slices import SliceValues
    from ..compare import Comparison

MOST_REASONS, MOST_NAMES = 8, 4
"""Most reasons shown, and most metrics of each."""
DRIFTED = 0.05
"""p-value up to which a column is said to differ between the runs."""
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
    parts.append("\n".join((*_render_corrected(comparison), *_render_drift(comparison))))
    parts.append("\n".join(plain(note) for note in comparison.notes))
    why = [part for line in explain_verdict(comparison) for part in wrap_line(f"  {line}", width)]
    parts.append("\n".join([f"Gate: {comparison.verdict}", *why]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_head(comparison: Comparison) -> Iterator[str]:
    both = max((d.instances for d in comparison.differences if not d.slice), default=0)
    family = max((d.family for d in comparison.differences), default=0)
    yield f"Before: {plain(comparison.before)}"
    yield f"After:  {plain(comparison.after)}"
    yield f"{both:,} instances in both, {comparison.only_before:,} only before, {comparison.only_after:,} only after"
    yield f"p adjusted by Holm over a family of {family:,} (metrics that decide × slices)"


def _render_drift(comparison: Comparison) -> Iterator[str]:
    """Yields what differs between all rows of the runs, and which part of a changed mean comes from it."""
    moved = [one for one in comparison.drifts if one.p <= DRIFTED]
    for one in moved:
        found = f"KS {one.statistic:.3f}" if one.psi is None else f"PSI {one.psi:.3f}"
        yield plain(f"Drift in {one.column}: {found}, p {number(one.p)}")
    columns = {one.column for one in moved}
    for one in comparison.decompositions:
        if one.column in columns:
            parts = f"mix {signed(one.mix)}, within {signed(one.within)}"
            yield plain(f"  {one.metric} over all rows by {one.column}: {signed(one.change)} = {parts}")


def _render_corrected(comparison: Comparison) -> Iterator[str]:
    """Yields the gains by which a comparison of corrected means is decided."""
    for one in comparison.differences:
        if one.corrected_gain is not None and one.corrected_ci_low is not None and one.corrected_ci_high is not None:
            place = f" [{slice_name(dict(one.slice))}]" if one.slice else ""
            ends = f"{signed(one.corrected_ci_low)} … {signed(one.corrected_ci_high)}"
            yield plain(f"Corrected by labels: {one.metric}{place} {signed(one.corrected_gain)} ({ends})")


def explain_verdict(comparison: Comparison) -> Iterator[str]:
    """Yields the first reasons that stand in the way of a comparison that passes, and what could be done."""
    reasons = list(describe_reasons(comparison))
    yield from reasons[:MOST_REASONS]
    if len(reasons) > MOST_REASONS:
        yield f"… and {len(reasons) - MOST_REASONS:,} more reasons"
    if any(one.verdict == "INCONCLUSIVE" and not one.margin for one in comparison.decisive):
        yield "Without a margin only a gain passes; --margin 0.02 (or gate.margin) says which loss counts as none."


def describe_reasons(comparison: Comparison) -> Iterator[str]:
    """Yields what stands in the way of passing, each with its metrics."""
    reasons: dict[str, list[str]] = {}
    for one in comparison.uncovered:
        words = f"{one.coverage:.1%} of the first run's scores are there, less than {comparison.gate.min_coverage:.1%}"
        reasons.setdefault(words, []).append(one.metric)
    for one in comparison.decisive:
        if one.verdict in ("WORSE", "INCONCLUSIVE"):
            name = one.metric + (f" [{slice_name(dict(one.slice))}]" if one.slice else "")
            reasons.setdefault(one.reason or "worse", []).append(name)
    for words, names in reasons.items():
        more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
        yield f"{words}: {', '.join(names[:MOST_NAMES])}{more}"


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

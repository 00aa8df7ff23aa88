"""Decides what pairs of scores show, over a family of metrics and slices."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ...schemas.comparison import Change, Difference
from .corrected_gains import CorrectedGain
from .multiplicity import benjamini_hochberg, holm
from .paired import Evidence, Pairs, detectable_gain
from .paired_quantiles import QuantilePairs
from .slices import SliceValues

Cell = tuple[SliceValues, str]
"""A slice and a metric."""
CellPairs: TypeAlias = Pairs | QuantilePairs
"""The pairs of a cell, which show the gain of a mean or of a quantile."""

_STOPPED = "a run stopped early, and the interval of its corrected mean is right only for a fixed number of rows"


def judge(
    cells: Mapping[Cell, CellPairs],
    deciding: Collection[str],
    margins: Mapping[str, float],
    confidence: float,
    corrected: Mapping[Cell, CorrectedGain | None] | None = None,
) -> list[Difference]:
    """Judges every metric in every slice.

    A gain or a loss is shown if its p-value, adjusted by Holm over the family, is at most 1 - confidence. A loss must
    also lie beyond the margin with its whole interval. NO_WORSE is shown if the lower end of the interval is above
    -margin. What holds must hold in the worst and in the best case of the instances that only one run scored.

    Source: Piaggio et al. (2012), Reporting of noninferiority and equivalence randomized trials (figure 1).

    Args:
        cells: The pairs of each metric in each slice.
        deciding: Metrics that decide; they are the family. Others are judged by themselves.
        margins: The loss of each metric that counts as none.
        confidence: Level of the intervals, in (0, 1).
        corrected: Gains of means that people's labels correct, which decide instead; `None` if there is none.
    """
    by_labels = corrected or {}
    family = [cell for cell, pairs in cells.items() if cell[1] in deciding and pairs.seen.pairs]
    cases = {cell: pairs.weigh(confidence, len(family)) for cell, pairs in cells.items()}
    scored = dict(cases)
    cases |= {cell: _correct(cases[cell], gain, confidence) for cell, gain in by_labels.items() if cell in cases}
    adjusted = [_adjust(cases, family, case) for case in range(max(map(len, cases.values()), default=1))]
    rates = dict(zip(family, benjamini_hochberg([cases[cell][0].p for cell in family]), strict=True))
    alpha = 1 - confidence
    found = []
    for cell, pairs in cells.items():
        margin = margins[cell[1]]
        verdicts = _decide_all(cases[cell], [one.get(cell) for one in adjusted], margin, alpha)
        verdict, reason = _combine(verdicts, cases[cell][0], pairs, margin)
        tested = adjusted[0].get(cell), rates.get(cell), len(family) if cell in rates else 0
        one = _describe(cell, pairs, scored[cell], (verdict, reason), margin, tested, alpha)
        found.append(_add_corrected(one, by_labels[cell], cases[cell][0].p, pairs) if cell in by_labels else one)
    return found


def _correct(cases: Sequence[Evidence], gain: CorrectedGain | None, confidence: float) -> list[Evidence]:
    """Puts the corrected gain in place of that of the scores; other cases are as far from it as from that."""
    seen = cases[0].gain or 0.0
    if gain is None:
        return [replace(one, gain=None, low=None, high=None, p=1.0) for one in cases]
    return [gain.shifted((one.gain or 0.0) - seen, one, confidence) for one in cases]


def _add_corrected(one: Difference, gain: CorrectedGain | None, p: float, pairs: CellPairs) -> Difference:
    if gain is None:
        why = _STOPPED if pairs.stopped else "too few labels for a corrected mean in both runs"
        return replace(one, p=None, verdict="INCONCLUSIVE", reason=why)
    return replace(one, p=p, corrected_gain=gain.gain, corrected_ci_low=gain.low, corrected_ci_high=gain.high)


def _adjust(cases: Mapping[Cell, Sequence[Evidence]], family: Sequence[Cell], case: int) -> dict[Cell, float]:
    p_values = [cases[cell][min(case, len(cases[cell]) - 1)].p for cell in family]
    return dict(zip(family, holm(p_values), strict=True))


def _decide_all(
    cases: Sequence[Evidence], adjusted: Sequence[float | None], margin: float, alpha: float
) -> list[Change]:
    """Returns what each case shows; a metric outside of the family has no adjusted p-value."""
    adjusted = [p if p is not None else one.p for one, p in zip(cases, adjusted, strict=False)]
    return [_decide(one, p, margin, alpha) for one, p in zip(cases, adjusted, strict=True)]


def _decide(seen: Evidence, p: float, margin: float, alpha: float) -> Change:
    gain = seen.gain or 0.0
    if p <= alpha and gain > 0:
        return "BETTER"
    if p <= alpha and gain < 0 and (not margin or (seen.high is not None and seen.high < -margin)):
        return "WORSE"
    if margin and seen.low is not None and seen.low > -margin:
        return "NO_WORSE"
    return "INCONCLUSIVE"


def _combine(verdicts: Sequence[Change], seen: Evidence, pairs: CellPairs, margin: float) -> tuple[Change, str]:
    """Returns the verdict that holds in all cases, and why there is none."""
    single = pairs.lost + pairs.gained
    words = f"{pairs.lost:,} lost and {pairs.gained:,} gained scores could change it"
    if single and not pairs.bounded:
        return "INCONCLUSIVE", f"{words}: the metric has no range"
    if not seen.pairs:
        return "INCONCLUSIVE", "no instance has a score in both runs"
    if pairs.stopped and seen.low is None:
        return (
            "INCONCLUSIVE",
            "a run stopped early: pairs of clusters, of quantiles or without a range show nothing",
        )
    if len(set(verdicts)) == 1:
        return verdicts[0], _explain(seen, margin) if verdicts[0] == "INCONCLUSIVE" else ""
    if set(verdicts) == {"BETTER", "NO_WORSE"}:
        return "NO_WORSE", ""
    return "INCONCLUSIVE", words if verdicts[0] != "INCONCLUSIVE" else _explain(seen, margin)


def _explain(seen: Evidence, margin: float) -> str:
    if seen.low is None:
        return f"too few pairs to {f'exclude a loss of {margin:g}' if margin else 'show a gain or a loss'}"
    if not margin:
        return "neither a gain nor a loss is shown"
    return f"a loss of {-seen.low:.3g} is not excluded"


def _describe(
    cell: Cell,
    pairs: CellPairs,
    cases: Sequence[Evidence],
    verdict: tuple[Change, str],
    margin: float,
    tested: tuple[float | None, float | None, int],
    alpha: float,
) -> Difference:
    seen, gains = cases[0], pairs.seen
    low, high = (cases[1].gain, cases[2].gain) if len(cases) > 1 else (seen.gain, seen.gain)
    bounds = _finite(low), _finite(high)
    if not pairs.bounded and pairs.lost + pairs.gained:
        bounds = None, None
    passes: tuple[int | None, int | None] = (None, None)
    if pairs.scale.threshold is not None:
        passes = pairs.newly_failing, pairs.fixed
    elif pairs.binary and gains.pairs:
        passes = gains.fallen, gains.risen
    scored = gains.pairs + pairs.lost + pairs.gone
    p = seen.p if seen.pairs else None
    return Difference(
        cell[1], cell[0], *verdict, *pairs.means(), seen.gain, seen.low, seen.high, margin, p, *tested, *bounds,
        detectable_gain(seen, pairs.most, alpha / max(tested[2], 1)), pairs.instances, gains.pairs,
        gains.risen, gains.fallen, *passes, pairs.lost, pairs.gained, gains.pairs / scored if scored else None,
        uncalled=pairs.uncalled,
    )  # fmt: skip


def _finite(gain: float | None) -> float | None:
    """A quantile that the lost scores could have moved anywhere has no bound."""
    return gain if gain is not None and math.isfinite(gain) else None

"""Compares the scores of a metric in two runs on the same instances."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .accumulators import Accumulator, Distribution, counted
from .intervals import about_mean, clipped, normal_quantile, t_quantile, within
from .slices import SliceValues

Change: TypeAlias = Literal["BETTER", "WORSE", "NOT_SHOWN", "NOT_COMPARED"]
"""Verdict on a metric: changed beyond the tolerance in one direction, not shown to have, or not comparable."""

_HELD = 4096


@dataclass(frozen=True, slots=True)
class Difference:
    """How a metric changed on the instances of a slice.

    Means, difference and interval are of the pairs: the instances that have a score in both runs.

    Attributes:
        metric, slice: The metric and the slice.
        instances: Instances that are in both runs.
        pairs: Those with a score in both.
        lost, gained: Those with a score in the first run only, and in the second one only.
        before, after: Means of the pairs.
        difference: Mean of after - before; `None` without pairs.
        ci_low, ci_high: Its interval by Student's t, within what scores can differ by; `None` for less than two pairs.
        better, worse: Pairs whose score changed for the better and for the worse; the other pairs are equal.
        p_value: Two-sided sign test of better against worse (of scores 0 and 1, McNemar's exact test).
        tolerance: Change of the mean that is tolerated.
        verdict: The verdict.
    """

    metric: str
    slice: SliceValues
    instances: int
    pairs: int
    lost: int
    gained: int
    before: float | None
    after: float | None
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    better: int
    worse: int
    p_value: float
    tolerance: float
    verdict: Change


@dataclass(slots=True)
class Pairs:
    """Pairs of scores of a metric, added one by one; memory does not grow with their number."""

    instances: int = 0
    lost: int = 0
    gained: int = 0
    risen: int = 0
    fallen: int = 0
    _sums: tuple[Accumulator, ...] = field(default_factory=lambda: (Accumulator(), Accumulator(), Accumulator()))
    _held: list[tuple[float, float, float]] = field(default_factory=list)

    def add(self, before: float | None, after: float | None) -> None:
        """Adds an instance; `None` means that it has no score."""
        self.instances += 1
        if before is None or after is None:
            self.lost += before is not None
            self.gained += after is not None
            return
        self.risen += after > before
        self.fallen += after < before
        self._held.append((before, after, after - before))
        if len(self._held) == _HELD:
            self._flush()

    def _flush(self) -> None:
        for whole, values in zip(self._sums, zip(*self._held, strict=True), strict=False):
            whole.absorb(Accumulator(rows=len(values), counts=counted(values)))
        self._held.clear()

    def difference(
        self,
        metric: str,
        slice_: SliceValues = (),
        lower_is_better: bool = False,
        tolerance: float = 0.0,
        confidence: float = 0.95,
        most: float | None = None,
    ) -> Difference:
        """Compares the pairs that were added.

        The metric is better or worse if the whole interval of the mean difference lies beyond the tolerance. If pairs
        change by 1 only, as with scores 0 and 1, the sign test must agree at the same level, since the interval is too
        narrow if few pairs changed.

        Args:
            metric, slice_: The metric and the slice.
            lower_is_better: Which direction is the better one.
            tolerance: Change of the mean that is tolerated, at least 0.
            confidence: Level of the interval, in (0, 1).
            most: Largest possible change of a score, > 0. `None` means 1 if all scores are 0 or 1, else no bound.
        """
        self._flush()
        before, after, change = (whole.distribution() for whole in self._sums)
        if most is None and all(value in (0.0, 1.0) for one in (before, after) for value, _ in one.counted):
            most = 1.0
        mean, interval = change.mean(), _interval(change, most, confidence)
        better, worse = (self.fallen, self.risen) if lower_is_better else (self.risen, self.fallen)
        p_value = sign_test(better, worse)
        by_one = all(value in (-1.0, 0.0, 1.0) for value, _ in change.counted)
        verdict: Change = "NOT_COMPARED" if interval is None else "NOT_SHOWN"
        if interval is not None and not (by_one and p_value > 1 - confidence):
            verdict = _shown(interval, tolerance, lower_is_better)
        low, high = interval or (None, None)
        return Difference(
            metric, slice_, self.instances, change.n, self.lost, self.gained, before.mean(), after.mean(), mean,
            low, high, better, worse, p_value, tolerance, verdict,
        )  # fmt: skip


def sign_test(better: int, worse: int) -> float:
    """Returns the two-sided p-value of the exact sign test.

    It is the binomial test of `better` in `better + worse` with share 1/2; 1 if nothing changed.
    """
    n, few = better + worse, min(better, worse)
    if 2 * few == n:
        return 1.0
    term = total = 1.0
    for k in range(few, 0, -1):
        term *= k / (n - k + 1)
        total += term
        if term < total * 1e-17:
            break
    most = math.lgamma(n + 1) - math.lgamma(few + 1) - math.lgamma(n - few + 1) - n * math.log(2)
    return min(2 * total * math.exp(most), 1.0)


def _interval(change: Distribution, most: float | None, confidence: float) -> tuple[float, float] | None:
    """Returns the interval of the mean change within -most and most; see `within` if all changes are equal."""
    mean, error = change.mean(), change.standard_error()
    if mean is None or error is None:
        return None
    ends = None if most is None or max(-(change.low or 0.0), change.high or 0.0) > most else (-most, most)
    found = about_mean(mean, error, t_quantile(confidence, change.n - 1))
    if found is None or ends is None:
        return found
    low, high = clipped(found, ends)
    return (low, high) if low < high else within(mean, None, change.n, ends, normal_quantile(confidence))


def _shown(interval: tuple[float, float], tolerance: float, lower_is_better: bool) -> Change:
    low, high = interval
    if low <= tolerance and high >= -tolerance:
        return "NOT_SHOWN"
    return "BETTER" if (low > tolerance) != lower_is_better else "WORSE"

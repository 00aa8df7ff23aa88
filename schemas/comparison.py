"""What a comparison of two runs says of a metric; the columns of its table are the fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Change: TypeAlias = Literal["BETTER", "WORSE", "NO_WORSE", "INCONCLUSIVE"]
"""What is shown: a gain, a loss beyond the margin, that no loss is as large as the margin, or none of them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a metric changed on the instances of a slice.

    Means, gain and interval are of the pairs: the instances that have a score in both runs. A gain is positive if the
    second run is better: after - before, or before - after for a metric whose lower scores are better.

    Attributes:
        metric, slice: The metric and the slice.
        verdict: What is shown, whatever scores the instances had that only one run scored.
        reason: Why it is INCONCLUSIVE; else "".
        before, after: Means of the pairs.
        gain: Mean gain of the pairs; `None` without pairs.
        gain_ci_low, gain_ci_high: Its confidence interval; `None` if there is none.
        margin: The loss that counts as none, 0 or more.
        p: Two-sided p-value of "no gain and no loss", by the sign-flip test; `None` without pairs.
        p_adjusted: The same adjusted by Holm over the family; `None` if the metric does not decide.
        p_bh: The same adjusted by Benjamini and Hochberg.
        family: Number of tests in the family: metrics that decide, in all slices where they have pairs.
        bounds_low, bounds_high: Mean gain if each instance that only one run scored had changed as far as possible for
            the worse, and for the better; `None` if the metric has no range.
        mde: Smallest gain that is shown with a probability of 80 % at this size; `None` if none is.
        instances: Instances that are in both runs.
        pairs: Those with a score in both.
        better, worse: Pairs whose score changed for the better and for the worse; the other pairs are equal.
        newly_failing, fixed: Pairs that passed before and fail now, and the reverse; `None` unless the scores are 0 and
            1 or the metric has a criterion.
        lost, gained: Instances with a score in the first run only, and in the second one only.
        coverage: Share of the first run's scores that are in pairs; `None` if it has none.
        corrected_gain: Gain of the means that people's labels correct, if they decide (`gate.corrected`): then the
            verdict and p are of it, not of `gain`.
        corrected_ci_low, corrected_ci_high: Its confidence interval.
        uncalled: Instances that a run did not call since a mean was decided (`statistics.sequential`); they are not
            lost. If there are any in the whole dataset, interval and p are those of a confidence sequence.
    """

    metric: str
    slice: tuple[tuple[str, str | None], ...]
    verdict: Change
    reason: str
    before: float | None
    after: float | None
    gain: float | None
    gain_ci_low: float | None
    gain_ci_high: float | None
    margin: float
    p: float | None
    p_adjusted: float | None
    p_bh: float | None
    family: int
    bounds_low: float | None
    bounds_high: float | None
    mde: float | None
    instances: int
    pairs: int
    better: int
    worse: int
    newly_failing: int | None
    fixed: int | None
    lost: int
    gained: int
    coverage: float | None
    corrected_gain: float | None = None
    corrected_ci_low: float | None = None
    corrected_ci_high: float | None = None
    uncalled: int = 0

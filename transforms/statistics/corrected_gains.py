"""The gain between two runs whose means are corrected by people's labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from .intervals import normal_quantile
from .paired import Evidence


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A mean corrected by labels, its interval, and the level of that."""

    mean: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class CorrectedGain:
    """The gain of a corrected mean.

    Attributes:
        gain: The gain, positive if the second run is better.
        low, high: Its confidence interval.
    """

    gain: float
    low: float
    high: float

    def shifted(self, by: float, seen: Evidence, confidence: float) -> Evidence:
        """Returns what it shows in place of the gains of the scores, moved by `by`."""
        low, gain, high = (value + by for value in (self.low, self.gain, self.high))
        width = gain - low if gain > 0 else high - gain
        error = width / normal_quantile(confidence)
        distance = abs(gain) / error if error else math.inf if gain else 0.0
        p = 2 * NormalDist().cdf(-distance)
        return replace(seen, gain=gain, low=low, high=high, p=p, error=error)


def find_corrected_gain(
    before: CorrectedMean, after: CorrectedMean, lower_is_better: bool, confidence: float
) -> CorrectedGain:
    """Returns the gain between two corrected means, each side of whose interval joins the sides of theirs.

    The two are taken as independent. Runs over the same rows err alike, so the interval is rather too wide.

    Args:
        before, after: The means of both runs.
        lower_is_better: Which direction is the better one.
        confidence: Level of the interval, in (0, 1).

    Source: Zou and Donner (2008), Construction of confidence limits about effect measures.
    """
    (down, up), (fell, rose) = (_sides(one, confidence) for one in (before, after))
    gain = after.mean - before.mean
    low, high = gain - math.hypot(fell, up), gain + math.hypot(rose, down)
    return CorrectedGain(-gain, -high, -low) if lower_is_better else CorrectedGain(gain, low, high)


def _sides(one: CorrectedMean, confidence: float) -> tuple[float, float]:
    """Returns the lengths of an interval below and above its mean, at another level."""
    scale = normal_quantile(confidence) / normal_quantile(one.confidence)
    return scale * (one.mean - one.low), scale * (one.high - one.mean)

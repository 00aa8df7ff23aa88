"""Confidence intervals of the mean gain of paired scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .intervals import normal_quantile, t_quantile, within

_STEPS = 200


def tango(risen: int, fallen: int, pairs: int, confidence: float) -> tuple[float, float]:
    """Returns Tango's score interval of the difference of two paired shares, `pairs >= 1`; always within [-1, 1].

    It holds every difference that the score test does not reject, so it is wide even if no pair or few changed.

    Args:
        risen, fallen: Pairs that went from 0 to 1, and from 1 to 0.
        pairs: All pairs.
        confidence: Level of the interval.

    Source: Tango (1998), Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design.
    """
    z, seen = normal_quantile(confidence), (risen - fallen) / pairs

    def excess(difference: float) -> float:
        return _score(risen, fallen, pairs, difference) - z

    def shortfall(difference: float) -> float:
        return _score(risen, fallen, pairs, difference) + z

    low = -1.0 if fallen == pairs else _bisect(excess, -1.0, seen)
    high = 1.0 if risen == pairs else _bisect(shortfall, seen, 1.0)
    return low, high


def _score(risen: int, fallen: int, n: int, difference: float) -> float:
    """Tango's statistic of a difference; its variance is that of the most likely shares with this difference."""
    b = -risen - fallen + (2 * n - risen + fallen) * difference
    c = -fallen * difference * (1 - difference)
    share = max((math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n), 0.0)
    variance = n * (2 * share + difference * (1 - difference))
    distance = risen - fallen - n * difference
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def _bisect(falling: Callable[[float], float], low: float, high: float) -> float:
    """Returns the root of a falling function between two ends."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class Part:
    """The mean of one direction of change, rises or falls, each pair that did not change that way counting as 0.

    Attributes:
        mean: The mean, 0 or more.
        variance: Variance of the mean.
    """

    mean: float
    variance: float


def square_and_add(
    rise: Part, fall: Part, covariance: float, units: int, most: float, confidence: float
) -> tuple[float, float] | None:
    """Returns an interval of the mean gain, rise - fall, that does not rest on a symmetric distribution.

    Most pairs do not change, so the mean gain is skewed, and mean +- t * error is too narrow on the side of what was
    seen too rarely. Rises and falls each have Wilson's interval between 0 and `most`. The two are put together as the
    variances of a difference are.

    Args:
        rise, fall: Means of the rises and of the falls.
        covariance: Covariance of the two means.
        units: Independent rows or clusters; `None` is returned for less than two.
        most: Largest possible change of a score.
        confidence: Level of the interval.

    Source: Newcombe (1998), Improved confidence intervals for the difference between binomial proportions based on
    paired data, method 10; Zou and Donner (2008), Construction of confidence limits about effect measures.
    """
    if units < 2 or most <= 0:
        return None
    quantile = t_quantile(confidence, units - 1)
    (rise_low, rise_high), (fall_low, fall_high) = (_bound(one, units, most, quantile) for one in (rise, fall))
    spread = math.sqrt(rise.variance * fall.variance)
    correlation = max(-1.0, min(1.0, covariance / spread)) if spread else 0.0
    gain = rise.mean - fall.mean
    low = gain - _join(rise.mean - rise_low, fall_high - fall.mean, correlation)
    high = gain + _join(rise_high - rise.mean, fall.mean - fall_low, correlation)
    return max(low, -most), min(high, most)


def _bound(part: Part, units: int, most: float, quantile: float) -> tuple[float, float]:
    """Wilson's interval; the effective number of rows is the one whose share would vary as the mean does."""
    share = min(part.mean / most, 1.0)
    error = part.variance / most**2
    effective = max(float(units), 1 + share * (1 - share) / error) if error > 0 else None
    return within(part.mean, effective, units, (0.0, most), quantile)


def _join(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(one * one + other * other - 2 * correlation * one * other, 0.0))

"""Confidence intervals of means and shares, and the quantiles they need.

All intervals are two-sided and symmetric in probability; `confidence` is their level, in (0, 1).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_SERIES_UP_TO = 400
_POWER = 0.8


@lru_cache(maxsize=64)
def normal_quantile(confidence: float) -> float:
    """Returns z with P(|Z| <= z) = confidence for a standard normal Z."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def detectable_errors(alpha: float) -> float:
    """Returns how many standard errors a gain must be so that a two-sided test shows it with a probability of 80 %."""
    return NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(_POWER)


@lru_cache(maxsize=65536)
def t_quantile(confidence: float, df: int) -> float:
    """Returns t with P(|T| <= t) = confidence for Student's T with `df >= 1` degrees of freedom.

    Within 1e-10 (relative) up to confidence 0.99999. Up to 400 degrees of freedom the closed form of the
    distribution (Abramowitz and Stegun 26.7.3-4) is solved by Newton's method: it is concave for t > 0, so the steps
    rise to the root from the normal quantile, which lies below it. Beyond, Fisher and Cornish's expansion about the
    normal quantile (26.7.5, with the term in df**-5) is exact to the last digits.
    """
    z = normal_quantile(confidence)
    if df > _SERIES_UP_TO:
        return _expanded(z, df)
    t = z
    for _ in range(200):
        step = (confidence - _central_probability(t, df)) / (2 * _density(t, df))
        t += step
        if abs(step) <= 1e-15 * t:
            break
    return t


def wilson(successes: float, n: float, confidence: float) -> tuple[float, float]:
    """Returns Wilson's score interval of the share successes / n, `n >= 1`; always within [0, 1].

    Source: Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    return _score(successes / n, n, normal_quantile(confidence))


def within(
    mean: float, effective: float | None, units: int, ends: tuple[float, float], quantile: float
) -> tuple[float, float]:
    """Returns Wilson's interval of the mean of bounded scores; it lies within the bounds and never has zero width.

    A mean of scores in [0, 1] varies like the share of ones among `effective` rows. If all scores are equal, nothing
    measures how much it varies. Then the interval allows for the share of other scores that `units` rows may not have
    shown (Wilson's bound for none in `units`), each of them at either end. For a mean at an end, both are the same.

    Args:
        mean: Within the ends.
        effective: Number of independent rows, at least 1, with the same uncertainty; `None` if all scores are equal.
        units: Independent rows or clusters.
        ends: Lowest and highest possible score, low < high.
        quantile: Quantile of the normal or of Student's distribution.
    """
    low, high = ends
    width = high - low
    share = min(max((mean - low) / width, 0.0), 1.0)
    found = None if effective is None else _score(share, effective, quantile)
    if found is None or found[0] >= found[1]:
        unseen = quantile**2 / (units + quantile**2)
        found = share * (1 - unseen), share + unseen * (1 - share)
    return max(low, min(low + width * found[0], mean)), min(high, max(low + width * found[1], mean))


def _score(p: float, n: float, z: float) -> tuple[float, float]:
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    return (0.0 if p == 0 else max(centre - half, 0.0)), (1.0 if p == 1 else min(centre + half, 1.0))


def normal_share(successes: float, n: int, confidence: float) -> tuple[float, float]:
    """Returns the normal approximation p +- z * sqrt(p * (1 - p) / n) of a share, `n >= 1`, clipped to [0, 1]."""
    p = successes / n
    half = normal_quantile(confidence) * math.sqrt(p * (1 - p) / n)
    return max(p - half, 0.0), min(p + half, 1.0)


def about_mean(mean: float, standard_error: float, quantile: float) -> tuple[float, float] | None:
    """Returns mean +- quantile * standard_error; `None` if it is beyond float64."""
    half = quantile * standard_error
    low, high = mean - half, mean + half
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def clipped(interval: tuple[float, float], ends: tuple[float, float] | None) -> tuple[float, float]:
    """Returns the part of an interval that lies between two ends; all of it without ends."""
    if ends is None:
        return interval
    return max(interval[0], ends[0]), min(interval[1], ends[1])


def _central_probability(t: float, df: int) -> float:
    """Returns P(|T| <= t) for t > 0."""
    square = df / (df + t * t)
    sine = t / math.sqrt(df + t * t)
    odd = df % 2
    term = total = math.sqrt(square) if odd else 1.0
    for k in range(3 if odd else 2, df - 1, 2):
        term *= square * (k - 1) / k
        total += term
    if not odd:
        return sine * total
    return (math.atan(t / math.sqrt(df)) + (sine * total if df > 1 else 0.0)) * 2 / math.pi


def _density(t: float, df: int) -> float:
    scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    return math.exp(scale - (df + 1) / 2 * math.log1p(t * t / df))


def _expanded(z: float, df: int) -> float:
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
        (27 * z**11 + 339 * z**9 + 930 * z**7 - 1782 * z**5 - 765 * z**3 + 17955 * z) / 368640,
    )
    t = 0.0
    for term in reversed(terms):
        t = (t + term) / df
    return z + t

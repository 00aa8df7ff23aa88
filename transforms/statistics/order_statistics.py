"""Confidence intervals of quantiles, which rest on the ranks of the scores alone."""

from __future__ import annotations

import math
from functools import lru_cache

from .accumulators import Distribution
from .intervals import normal_quantile

QUANTILES = {"median": (1, 2), "p90": (9, 10), "p95": (19, 20), "p99": (99, 100)}
"""Quantiles of the summary by name, as fractions."""

_EXACT_UP_TO = 2500.0
"""Largest variance of a binomial distribution that is summed up; beyond, its tails are approximated."""
_ROUNDING = 1e-6
_DEVIATIONS = 12
"""Standard deviations from the mean where sums begin: what is farther out is less than rounding."""


def quantile_intervals(
    values: Distribution, ends: tuple[float, float] | None, confidence: float
) -> dict[str, float | None]:
    """Returns `<quantile>_ci_low` and `<quantile>_ci_high` of each quantile.

    Both are scores whose ranks hold the quantile with the probability, whatever the distribution. An end that so few
    rows do not show is the end of the range, or `None` without one. Rows in clusters count as many independent rows as
    give the mean the same standard error.

    Args:
        values: The scores.
        ends: Lowest and highest possible score; `None` without bounds.
        confidence: Level of the interval, in (0, 1).

    Source: Woodruff (1952), Confidence intervals for medians and other position measures; David and Nagaraja (2003),
    Order statistics, section 7.1.
    """
    found: dict[str, float | None] = {}
    rows = _independent_rows(values)
    low_end, high_end = ends or (None, None)
    for name, (p, q) in QUANTILES.items():
        low, high = (None, None) if not rows else bounding_ranks(rows, p, q, confidence)
        known = values.quantile(p, q)
        below = low_end if low is None else values.at_rank(values.n * (low - 1) // rows)
        above = high_end if high is None else values.at_rank(-(-values.n * high // rows) - 1)
        found[f"{name}_ci_low"] = below if known is None or below is None else min(below, known)
        found[f"{name}_ci_high"] = above if known is None or above is None else max(above, known)
    return found


def _independent_rows(values: Distribution) -> int:
    """Returns the number of independent rows, rounded down."""
    if values.clusters is None:
        return values.n
    effect = values.design_effect()
    if effect is None:
        return values.clusters.number
    return max(int(values.n / max(effect, 1.0) + _ROUNDING), 1)


@lru_cache(maxsize=65536)
def bounding_ranks(n: int, p: int, q: int, confidence: float) -> tuple[int | None, int | None]:
    """Returns the ranks, from 1 to n, of the scores that bound the p/q quantile; `None` for a side without one.

    The quantile lies below the first with a probability of at most (1 - confidence) / 2, and likewise above the second.
    """
    low, high = _lower_rank(n, p, q, confidence), n + 1 - _lower_rank(n, q - p, q, confidence)
    return (low if low >= 1 else None), (high if high <= n else None)


def _lower_rank(n: int, p: int, q: int, confidence: float) -> int:
    """Returns the highest rank that more than k of n rows do not reach with a probability of (1 - confidence) / 2."""
    share, tail = p / q, (1 - confidence) / 2
    mean, variance = n * share, n * share * (1 - share)
    if variance > _EXACT_UP_TO:
        z = normal_quantile(confidence)
        return math.floor(mean - z * math.sqrt(variance) + (1 - 2 * share) * (z * z - 1) / 6 - 0.5)
    k = max(math.floor(mean - _DEVIATIONS * math.sqrt(variance) - _DEVIATIONS), 0)
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    term = math.exp(log + k * math.log(share) + (n - k) * math.log1p(-share))
    total = 0.0
    while k <= n and total + term <= tail:
        total += term
        term *= (n - k) / (k + 1) * share / (1 - share)
        k += 1
    return k

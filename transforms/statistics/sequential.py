"""Confidence sequences: intervals of a mean that may be looked at after every row, and still cover.

An ordinary interval covers the mean with its confidence if the number of rows is fixed beforehand. Who stops as soon as
it leaves the threshold out is wrong more often than it says. A confidence sequence holds at all numbers of rows at
once: with a probability of `confidence` the mean never leaves it.

Rows must come in an order that does not depend on their scores, such as that of a hash of their ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

Decision = Literal["above", "below"]
_STEPS = 60
"""Halvings of an interval, beyond the digits of float64."""
_MOST_BET = 0.5
"""Share of the capital that one row can cost at most, so that no row ruins it."""


def share_sequence(successes: float, n: int, confidence: float) -> tuple[float, float]:
    """Returns the interval of a share after `n` rows with scores 0 and 1, whose sum is `successes`.

    It holds every share p of which the beta-binomial mixture, with Jeffreys' Beta(1/2, 1/2), is less than
    1 / (1 - confidence) times as likely as p itself. Sources: Robbins (1970), Statistical methods related to the law of
    the iterated logarithm; Howard et al. (2021), Time-uniform, nonparametric, nonasymptotic confidence sequences.
    """
    if n == 0:
        return 0.0, 1.0
    mixed = math.lgamma(successes + 0.5) + math.lgamma(n - successes + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
    bound = mixed + math.log(1 - confidence)

    def holds(p: float) -> bool:
        likelihood = 0.0
        if successes:
            likelihood += successes * math.log(p) if p else -math.inf
        if n - successes:
            likelihood += (n - successes) * math.log1p(-p) if p < 1 else -math.inf
        return likelihood >= bound

    return _ends(successes / n, holds)


def mean_sequence(scores: Sequence[float], confidence: float) -> tuple[float, float]:
    """Returns the interval of the mean of scores in [0, 1] after all of them, in their order.

    Against each candidate mean two gamblers bet, one that scores are higher and one that they are lower, by amounts
    that follow from the earlier scores alone. A mean is left out as soon as the capital of both together was
    1 / (1 - confidence) times what they began with: were it the true mean, that would happen with a probability of at
    most 1 - confidence. Source: Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting
    (the hedged capital process with predictable plug-in bets).

    Raises:
        ValueError: A score is not in [0, 1].
    """
    values = np.asarray(scores, float)
    if not len(values):
        return 0.0, 1.0
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("a score is not in [0, 1]")
    bets = _bets(values, confidence)
    bound = -math.log(1 - confidence)

    def holds(mean: float) -> bool:
        return float(_log_capital(values, bets, mean).max()) < bound

    # The estimate that the bets themselves favour: inside unless the interval is empty.
    centre = float((values * bets).sum() / bets.sum())
    return _ends(centre, holds)


def sequence_p(scores: Sequence[float], mean: float, confidence: float) -> float:
    """Returns the p-value of a mean of scores in [0, 1], after all of them in their order.

    It is 1 over the largest capital that the gamblers of `mean_sequence` had against that mean (Ville's inequality), so
    it may be looked at after every row: it is at most 1 - confidence if that interval leaves the mean out.
    """
    values = np.asarray(scores, float)
    if not len(values):
        return 1.0
    return math.exp(-max(float(_log_capital(values, _bets(values, confidence), mean).max()), 0.0))


def decide(interval: tuple[float, float], threshold: float) -> Decision | None:
    """Returns the side of the threshold on which the mean is shown to be; `None` if it is open."""
    low, high = interval
    return "above" if low > threshold else "below" if high < threshold else None


def _bets(values: np.ndarray, confidence: float) -> np.ndarray:
    """Returns the bet on each score, from the mean and variance of those before it."""
    n = np.arange(1, len(values) + 1)
    means = (0.5 + values.cumsum()) / (n + 1)
    variances = (0.25 + ((values - means) ** 2).cumsum()) / (n + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    return np.sqrt(2 * math.log(2 / (1 - confidence)) / (before * n * np.log1p(n)))


def _log_capital(values: np.ndarray, bets: np.ndarray, mean: float) -> np.ndarray:
    """Returns the logarithm of the capital of both gamblers after each score; each began with a half."""
    up = np.minimum(bets, _MOST_BET / mean if mean else math.inf)
    down = np.minimum(bets, _MOST_BET / (1 - mean) if mean < 1 else math.inf)
    gains = np.log1p(up * (values - mean)).cumsum(), np.log1p(-down * (values - mean)).cumsum()
    return np.logaddexp(*gains) - math.log(2)


def _ends(inside: float, holds: Callable[[float], bool]) -> tuple[float, float]:
    """Returns the ends of an interval in [0, 1] around a point, by halving."""

    def end(out: float) -> float:
        if holds(out):
            return out
        near = inside
        for _ in range(_STEPS):
            middle = (near + out) / 2
            near, out = (middle, out) if holds(middle) else (near, middle)
        return out

    return end(0.0), end(1.0)

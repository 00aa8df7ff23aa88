"""Finds where a series of means changed: likelihood-ratio segmentation, calibrated by permutation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .multiplicity import holm

ALPHA = 0.03
"""Probability of any change point in series that do not change, at most: so that of many series that are looked at
together fewer than 5 % are flagged, although their number varies by chance, too."""
LEAST = 5
"""Points of a series that can be split; of fewer no order is rare enough."""
PERMUTATIONS = 1_999
_SEED = 20
_TIED = 1e-9


class ChangePoint(NamedTuple):
    """A point at which the mean changes.

    Attributes:
        at: Position of the first point after the change.
        before, after: Weighted means of the points up to the neighbouring change points.
        p: p-value of "no change" by permutation.
        p_adjusted: The same adjusted for the number of series.
    """

    at: int
    before: float
    after: float
    p: float
    p_adjusted: float


def find_changes(series: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[list[ChangePoint]]:
    """Finds the change points of several series, each in order.

    The best split of a series is tested first, and p-values are adjusted by Holm over the series. In a series that
    changed, the parts are split in turn, with p-values multiplied by the number of series.

    Args:
        series: (values, their standard errors, above 0) of each.
    """
    values = [(np.array(v, float), np.array(errors, float) ** -2.0) for v, errors in series]
    firsts = [_split(v, w) for v, w in values]
    adjusted = holm([1.0 if first is None else first[1] for first in firsts])
    found = []
    for (v, w), first, p_adjusted in zip(values, firsts, adjusted, strict=True):
        points = []
        if first is not None and p_adjusted <= ALPHA:
            at, p = first
            parts = [*_split_parts(v, w, 0, at, len(values)), *_split_parts(v, w, at, len(v), len(values))]
            points = sorted([(at, p, p_adjusted), *parts])
        found.append(list(_describe(v, w, points)))
    return found


def _split_parts(
    values: np.ndarray, weights: np.ndarray, low: int, high: int, number: int
) -> Iterator[tuple[int, float, float]]:
    """Yields the change points of a part as (position, p, adjusted p)."""
    split = _split(values[low:high], weights[low:high])
    if split is None or (adjusted := min(split[1] * number, 1.0)) > ALPHA:
        return
    at = low + split[0]
    yield at, split[1], adjusted
    yield from _split_parts(values, weights, low, at, number)
    yield from _split_parts(values, weights, at, high, number)


def _split(values: np.ndarray, weights: np.ndarray) -> tuple[int, float] | None:
    """Returns the best position to split a series and its p-value; `None` if it is too short.

    The likelihood ratio of two means against one is the squared distance of the weighted means of both sides, in units
    of its variance. Its largest value is compared with those of the points in random orders, so that nothing is assumed
    of how the points vary, except that without a change their order means nothing.
    """
    n = len(values)
    if n < LEAST:
        return None
    orders = np.random.default_rng(_SEED).permuted(np.tile(np.arange(n), (PERMUTATIONS, 1)), axis=1)
    seen = _ratios(values[None, :], weights[None, :])[0]
    chance = _ratios(values[orders], weights[orders]).max(axis=1)
    beyond = int(np.count_nonzero(chance >= seen.max() * (1 - _TIED)))
    return int(seen.argmax()) + 1, (beyond + 1) / (PERMUTATIONS + 1)


def _ratios(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the statistic of each split of each row, of shape (rows, points - 1)."""
    centred = values - (values * weights).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    left = weights.cumsum(axis=1)[:, :-1]
    total = weights.sum(axis=1, keepdims=True)
    pulled = (centred * weights).cumsum(axis=1)[:, :-1]
    return pulled**2 * total / (left * (total - left))


def _describe(
    values: np.ndarray, weights: np.ndarray, points: Sequence[tuple[int, float, float]]
) -> Iterator[ChangePoint]:
    ends = [0, *(at for at, _, _ in points), len(values)]
    means = [float((values[a:b] * weights[a:b]).sum() / weights[a:b].sum()) for a, b in pairwise(ends)]
    for i, (at, p, adjusted) in enumerate(points):
        yield ChangePoint(at, means[i], means[i + 1], p, adjusted)

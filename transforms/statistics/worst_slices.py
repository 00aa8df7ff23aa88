"""Finds the slices of a dataset on which a metric is worse than elsewhere, without naming chance ones.

A slice is a value of one column, or of two columns together. Thousands of slices are looked at, so that some are always
far from the mean by chance. So slices are found on one half of the instances, by hash of their ids, and tested on the
other, where only the few that were found are tested; their p-values are adjusted for being several.

Further columns are derived from a row: lengths of texts, the tools called, the numbers of turns and of tool calls.
Columns of many values are cut into bins at their quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from .multiplicity import benjamini_hochberg
from .slice_columns import SliceColumn

FOUND = 5
"""Slices found at most for each metric."""
LEAST_ROWS, LEAST_SHARE = 30, 0.01
"""A slice has at least so many scored instances, and this share of them all."""
LEAST_TESTED = 10
"""Of these at least so many are in each half: a test of fewer shows nothing."""
COLUMNS = 24
"""Columns at most that are looked at in pairs, those with the worst single slices."""
EXAMPLES = 3
"""Instances that each slice names."""
ALPHA = 0.05
"""Expected share of chance slices among those named, at most."""
_FAR = 2.0
"""Standard errors from the mean on the first half that a slice must be to be tested."""
_NORMAL = NormalDist()


class WorstSlice(NamedTuple):
    """A slice that is worse.

    Attributes:
        slice: Its columns and values.
        metric: The metric.
        rows: Scored instances of the slice in both halves.
        share: These as a share of all scored instances.
        mean, others: Mean score of the slice and of all other instances, in the half where it was tested.
        p: One-sided p-value of "not worse than the others".
        p_adjusted: The same adjusted by Benjamini and Hochberg.
        examples: Positions of the rows of the slice with the worst scores.
    """

    slice: dict[str, str | None]
    metric: str
    rows: int
    share: float
    mean: float
    others: float
    p: float
    p_adjusted: float
    examples: list[int]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A slice: columns with the position of the value of each, and its rows as a mask."""

    places: tuple[tuple[SliceColumn, int], ...]
    rows: np.ndarray
    z: float


def find_worst(
    columns: Sequence[SliceColumn],
    scores: Mapping[str, np.ndarray],
    losses: Mapping[str, np.ndarray],
    tested: np.ndarray,
) -> list[WorstSlice]:
    """Finds the worst slices of all metrics, the surest first.

    Args:
        columns: Columns of the instances.
        scores: Scores by metric, NaN where there is none.
        losses: The same, so that more is worse.
        tested: Mask of the half on which slices are tested.
    """
    with np.errstate(all="ignore"):  # the variance of scores near the end of float64 is infinite
        found = [
            (name, candidate, _test(candidate.rows, losses[name], tested, alive))
            for name in scores
            for candidate, alive in _search(columns, losses[name], tested)
        ]
    adjusted = benjamini_hochberg([p for *_, p in found])
    worst = [
        _describe(name, one, scores[name], losses[name], tested, (p, q))
        for (name, one, p), q in zip(found, adjusted, strict=True)
        if q <= ALPHA
    ]
    return sorted(worst, key=lambda s: (s.p_adjusted, s.p))


def _describe(
    metric: str,
    found: _Candidate,
    scores: np.ndarray,
    losses: np.ndarray,
    tested: np.ndarray,
    p_values: tuple[float, float],
) -> WorstSlice:
    known = np.isfinite(scores)
    inside, others = found.rows & known, ~found.rows & known
    order = np.argsort(-losses[inside], kind="stable")[:EXAMPLES]
    return WorstSlice(
        {column.name: column.values[at] for column, at in found.places},
        metric,
        int(inside.sum()),
        float(inside.sum() / known.sum()),
        float(scores[inside & tested].mean()),
        float(scores[others & tested].mean()),
        *p_values,
        np.flatnonzero(inside)[order].tolist(),
    )


def _search(
    columns: Sequence[SliceColumn], loss: np.ndarray, tested: np.ndarray
) -> Iterator[tuple[_Candidate, np.ndarray]]:
    """Yields the worst slice on the half that is not tested, then the worst among the rows that it leaves, and so on.

    So a slice is named once, and not again for each slice that overlaps with it.

    Returns:
        (the slice, mask of the rows among which it was found).
    """
    alive = np.isfinite(loss)
    least = max(LEAST_ROWS, math.ceil(LEAST_SHARE * int(alive.sum())))
    for _ in range(FOUND):
        best = _find_one(columns, loss, tested, alive, least)
        if best is None or not best.z >= _FAR:
            return
        yield best, alive
        alive = alive & ~best.rows


def _find_one(
    columns: Sequence[SliceColumn], loss: np.ndarray, tested: np.ndarray, alive: np.ndarray, least: int
) -> _Candidate | None:
    learnt = alive & ~tested
    size, values = int(learnt.sum()), loss[learnt]
    if size < 2 or not (spread := float(values.var() * size / (size - 1))):
        return None
    mean = float(values.mean())

    def worst_of(codes: np.ndarray, number: int) -> tuple[float, int]:
        count = np.bincount(codes[learnt], minlength=number).astype(float)
        held = np.bincount(codes[alive & tested], minlength=number)
        total = np.bincount(codes[learnt], values, minlength=number)
        fits = (count >= LEAST_TESTED) & (held >= LEAST_TESTED) & (count + held >= least) & (count <= size / 2)
        deviation = np.sqrt(spread * count * (1 - count / size), where=fits, out=np.ones(number))
        z = np.where(fits, (total - count * mean) / deviation, -math.inf)
        return float(z.max()), int(z.argmax())

    single = [(worst_of(column.codes, len(column.values)), column) for column in columns]
    single.sort(key=lambda one: -one[0][0])
    best = max(((z, ((column, at),)) for (z, at), column in single), default=None, key=lambda one: one[0])
    for (_, left), (_, right) in combinations(single[:COLUMNS], 2):
        codes = left.codes * len(right.values) + right.codes
        z, at = worst_of(codes, len(left.values) * len(right.values))
        if best is None or z > best[0]:
            first, second = divmod(at, len(right.values))
            best = z, ((left, first), (right, second))
    if best is None or best[0] == -math.inf:
        return None
    rows = np.logical_and.reduce([column.codes == at for column, at in best[1]])
    places = tuple(sorted(best[1], key=lambda place: place[0].name))
    return _Candidate(places, rows, best[0])


def _test(rows: np.ndarray, loss: np.ndarray, tested: np.ndarray, alive: np.ndarray) -> float:
    """Returns the one-sided p-value of the slice's loss if it were a random choice of the tested instances.

    It is exact (Fisher's) for losses of two values, and by the normal approximation for others.
    """
    whole = loss[tested & alive]
    part = loss[tested & alive & rows]
    low, high = float(whole.min()), float(whole.max())
    if low == high or not math.isfinite(float(whole.var())):
        return 1.0
    if np.isin(whole, (low, high)).all():
        return _hypergeometric(len(whole), int((whole == high).sum()), len(part), int((part == high).sum()))
    n, size = len(part), len(whole)
    variance = float(whole.var()) * size / (size - 1) * (1 - n / size) / n
    return 1 - _NORMAL.cdf((float(part.mean()) - float(whole.mean())) / math.sqrt(variance))


def _hypergeometric(size: int, marked: int, drawn: int, seen: int) -> float:
    """Returns the probability of at least `seen` marked ones among `drawn` of `size`, of which some are marked."""

    def choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    whole = choose(size, drawn)
    ways = range(max(seen, drawn - (size - marked)), min(drawn, marked) + 1)
    return min(math.fsum(math.exp(choose(marked, k) + choose(size - marked, drawn - k) - whole) for k in ways), 1.0)


def losses_of(scores: np.ndarray, better: str, best: float | None) -> np.ndarray:
    """Returns scores so that more is worse."""
    if better == "nearer" and best is not None:
        return np.abs(scores - best)
    return scores if better == "lower" else -scores


def worst_slice_rows(found: Sequence[WorstSlice], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Builds the rows of the worst_slices table."""
    return [{**one._asdict(), "examples": [ids[i] for i in one.examples]} for one in found]

"""Pairs of scores of a metric in two runs, and what they show of the gain of one of its quantiles.

The difference of two quantiles has no formula for its error. It is bootstrapped: each replicate draws every cluster of
instances a Poisson number of times, the same in both runs, so what is common to both cancels out.
"""

from __future__ import annotations

import copy
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from .bootstrap import REPLICATES, draw_frequencies
from .paired import Evidence, PairCounts
from .permutation import key_of

Fraction: TypeAlias = tuple[int, int]
"""A quantile, as numerator and denominator."""

_PER_TEST = 80
"""Replicates for each test of a large family: with fewer, no p-value could be small enough for it."""
_CELLS = 1 << 22
"""Frequencies that are drawn at once."""

Numbers = TypeVar("Numbers", float, np.ndarray)


class _Sample:
    """Scores of a run, each with the key of its cluster."""

    def __init__(self) -> None:
        self.keys, self.scores = array("Q"), array("d")

    def add(self, key: int, scores: Sequence[float]) -> None:
        self.keys.extend([key] * len(scores))
        self.scores.extend(scores)

    def sort(self, units: np.ndarray) -> _Sorted:
        """Sorts the scores; the order of equal ones decides nothing."""
        scores = np.array(self.scores)
        order = np.argsort(scores, kind="stable")
        return _Sorted(scores[order], np.searchsorted(units, np.array(self.keys, np.uint64)[order]))


class _Sorted(NamedTuple):
    """Scores in ascending order, each with the number of its cluster."""

    scores: np.ndarray
    units: np.ndarray

    def draw(self, drawn: np.ndarray) -> _Drawn:
        """Draws replicates by the frequencies of the clusters, of shape (replicates, clusters)."""
        upto = np.cumsum(drawn[:, self.units], dtype=np.int64)
        return _Drawn(self.scores, np.concatenate([[0], upto]), len(drawn))


class _Drawn(NamedTuple):
    """Replicates of sorted scores.

    Attributes:
        scores: The scores.
        upto: How many were drawn before each score of the first replicate, then of the second ...; and in the end.
        replicates: Number of replicates.
    """

    scores: np.ndarray
    upto: np.ndarray
    replicates: int

    def quantile(self, share: Fraction, above: float = 0.0, below: float = 0.0) -> np.ndarray:
        """Returns a quantile of each replicate, linear between neighbours; NaN where nothing was drawn.

        Args:
            share: The quantile.
            above, below: Further scores of each replicate that are above and below all others.
        """
        (p, q), size = share, len(self.scores)
        starts = self.upto[: self.replicates * size : size]
        totals = self.upto[size::size] - starts
        ranks, rest = np.divmod((totals - 1) * p, q)
        fractions = rest / q + ((above + below) * p / q - below)
        ranks, fractions = ranks + np.floor(fractions).astype(np.int64), fractions - np.floor(fractions)
        low = self._at(ranks, starts, totals)
        high = np.where(fractions > 0, self._at(ranks + 1, starts, totals), low)
        with np.errstate(invalid="ignore"):  # an infinite score times 0, which is not taken
            mixed = np.clip(low * (1 - fractions) + high * fractions, low, high)
        return np.where(totals > 0, np.where(low == high, low, mixed), np.nan)

    def _at(self, ranks: np.ndarray, starts: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """Returns the score of a rank of each replicate; infinite beyond its scores."""
        places = np.searchsorted(self.upto, starts + ranks, side="right") - 1
        found = self.scores[np.clip(places - np.arange(self.replicates) * len(self.scores), 0, len(self.scores) - 1)]
        return np.where(ranks < 0, -np.inf, np.where(ranks >= totals, np.inf, found))


@dataclass(slots=True)
class QuantileGains:
    """Pairs of which a quantile is compared, added one by one; memory grows by 32 bytes for each pair of scores.

    The ends of the interval are percentiles of the replicates. Replicates know only what was seen: if one row in a
    hundred became far worse, a third of all samples of 100 rows do not show it. So each end allows for clusters that
    this sample lacks, whose scores went from one end to the other: so many as are lacking with a probability of
    (1 - confidence) / 2, which is -ln of it. An end that they move beyond all scores is none.

    The p-value is twice the share of the replicates without a gain, or without a loss. It is at least twice the
    probability that a sample has no score on the rarer side of the quantile: then the replicates have none either.

    Source: Efron and Tibshirani (1993), An introduction to the bootstrap, section 13.3; Hanley and Lippman-Hand (1983),
    If nothing goes wrong, is everything all right?
    """

    share: Fraction
    lower_is_better: bool
    pairs: int = 0
    risen: int = 0
    fallen: int = 0
    _before: _Sample = field(default_factory=_Sample)
    _after: _Sample = field(default_factory=_Sample)

    def add(self, unit: str, before: Sequence[float], after: Sequence[float]) -> None:
        """Adds the scores of an instance in both runs, at least one of each."""
        self.pairs += 1
        gain = self._gain(math.fsum(before) / len(before), math.fsum(after) / len(after))
        self.risen += gain > 0
        self.fallen += gain < 0
        key = key_of(unit)
        self._before.add(key, before)
        self._after.add(key, after)

    def quantiles(self) -> tuple[float, float] | tuple[None, None]:
        """Returns the quantiles of both runs; `None` without pairs."""
        if not self.pairs:
            return None, None
        units, sides = self._sort()
        whole = np.ones((1, len(units)), np.uint8)
        old, new = (float(side.draw(whole).quantile(self.share)[0]) for side in sides)
        return old, new

    def evidence(self, confidence: float, tests: int) -> Evidence:
        """Computes what the pairs show.

        Args:
            confidence: Level of the interval, in (0, 1).
            tests: Size of the family of tests.
        """
        old, new = self.quantiles()
        if old is None or new is None:
            return Evidence(0, None, None, None, 1.0, None, None)
        gains, low, high = self._resample(confidence, max(REPLICATES, _PER_TEST * tests))
        number = len(gains)
        least = self._least()
        beyond = min(int(np.count_nonzero(gains <= 0)), int(np.count_nonzero(gains >= 0)))
        p = min(max(2 * (beyond + 1) / (number + 1), least), 1.0)
        place = math.floor((1 - confidence) / 2 * (number + 1)) - 1
        ends = (float(low[place]), float(high[-1 - place])) if place >= 0 else (-math.inf, math.inf)
        known = ends if all(map(math.isfinite, ends)) else (None, None)
        error = float(np.std(gains, ddof=1)) if number > 1 and np.isfinite(gains).all() else 0.0
        return Evidence(self.pairs, self._gain(old, new), *known, p, error or None, 0.0, least)

    def _gain(self, before: Numbers, after: Numbers) -> Numbers:
        return before - after if self.lower_is_better else after - before

    def _sort(self) -> tuple[np.ndarray, tuple[_Sorted, _Sorted]]:
        """Returns the keys of the clusters, and the scores of both runs."""
        units = np.unique(np.array(self._before.keys, np.uint64))
        return units, (self._before.sort(units), self._after.sort(units))

    def _least(self) -> float:
        p, q = self.share
        return 2 * math.exp(-len(set(self._before.keys)) * min(p, q - p) / q)

    def _resample(self, confidence: float, replicates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the gains of the replicates: as drawn, with unseen losses, with unseen gains; each ascending."""
        units, sides = self._sort()
        lacking = -math.log((1 - confidence) / 2) / len(units)
        found: tuple[list[np.ndarray], ...] = ([], [], [])
        for drawn in _draw(units, replicates, max(len(side.scores) for side in sides)):
            old, new = (side.draw(drawn) for side in sides)
            more, most = (lacking * len(side.scores) for side in sides)
            apart = self._gain(old.quantile(self.share, below=more), new.quantile(self.share, above=most))
            other = self._gain(old.quantile(self.share, above=more), new.quantile(self.share, below=most))
            low, high = (apart, other) if self.lower_is_better else (other, apart)
            found[0].append(self._gain(old.quantile(self.share), new.quantile(self.share)))
            found[1].append(np.where(np.isnan(low), -np.inf, low))
            found[2].append(np.where(np.isnan(high), np.inf, high))
        gains, low, high = (np.concatenate(parts) for parts in found)
        defined = ~np.isnan(gains)
        return np.sort(gains[defined]), np.sort(low[defined]), np.sort(high[defined])


def _draw(units: np.ndarray, replicates: int, rows: int) -> Iterator[np.ndarray]:
    """Yields frequencies of the clusters in replicates, of shape (replicates, clusters), some at a time."""
    step = max(_CELLS // rows // 4 * 4, 4)
    for first in range(0, replicates, step):
        yield draw_frequencies(units, first, min(step, -(-(replicates - first) // 4) * 4)).T


@dataclass(slots=True)
class QuantilePairs(PairCounts):
    """Scores of a metric in two runs, instance by instance, of which a quantile is compared.

    If only one run scored an instance, the scores that it could have had in the other are beyond all others: even
    without a range, a few of them leave a quantile known.
    """

    share: Fraction = (1, 2)
    seen: QuantileGains = field(init=False)
    worst: QuantileGains | None = None
    best: QuantileGains | None = None

    def __post_init__(self) -> None:
        self.seen = QuantileGains(self.share, self.scale.lower_is_better)

    def add(self, unit: str, before: Sequence[float] | None, after: Sequence[float] | None) -> None:
        """Adds the scores of an instance of a unit, one or more of each run; `None` means that it has none."""
        self.instances += 1
        if before and after:
            for gains in (self.seen, self.worst, self.best):
                if gains is not None:
                    gains.add(unit, before, after)
        elif before or after:
            self.lost += not after
            self.gained += not before
            self._add_single(unit, before, after)

    def add_all(self, units: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
        """Adds many instances: arrays of what `add` takes."""
        for one in zip(units.tolist(), before.tolist(), after.tolist(), strict=True):
            self.add(*one)

    def means(self) -> tuple[float, float] | tuple[None, None]:
        """Returns the quantiles of the pairs in both runs; `None` without pairs."""
        return self.seen.quantiles()

    def weigh(self, confidence: float, tests: int) -> list[Evidence]:
        """Returns what the pairs show as they are, and in the worst and the best case if there are such.

        If a run stopped early, neither the interval nor the p-value would be right, and there is none.

        Args:
            confidence: Level of the intervals, in (0, 1).
            tests: Size of the family of tests.
        """
        cases = [one for one in (self.seen, self.worst, self.best) if one is not None]
        found = [one.evidence(confidence, tests) for one in cases]
        return [replace(one, low=None, high=None, p=1.0, error=None) for one in found] if self.stopped else found

    @property
    def bounded(self) -> bool:
        """Whether worst and best case are known."""
        return True

    @property
    def most(self) -> float | None:
        """The largest possible gain; `None` if it is not known."""
        return self.scale.most

    def _add_single(self, unit: str, before: Sequence[float] | None, after: Sequence[float] | None) -> None:
        if self.worst is None or self.best is None:
            self.worst, self.best = copy.deepcopy(self.seen), copy.deepcopy(self.seen)
        worst = math.inf if self.scale.lower_is_better else -math.inf
        for gains, end in ((self.worst, worst), (self.best, -worst)):
            gains.add(unit, before or [-end] * len(after or ()), after or [end] * len(before or ()))

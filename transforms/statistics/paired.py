"""Pairs of scores of a metric in two runs on the same instances, and what they show of its mean gain."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

from ...schemas.identity import selection_hash
from .criteria import Threshold
from .intervals import detectable_errors
from .paired_intervals import Part, square_and_add, tango
from .permutation import BUCKETS, FLIPS, bucket_of, fold, key_of, sign_flip, sign_test
from .sequential import mean_sequence, sequence_p

_PER_TEST = 40
"""Flips for each test of a large family: with fewer, no p-value could be small enough for it."""
HELD = 4096
"""Pairs whose scores are added up exactly, before they become part of a total."""
_ROUNDING = 1e-12
"""A variance this small, relative to the squares from which it is computed, is a rounding error of 0."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the scores of a metric mean.

    Attributes:
        lower_is_better: Which direction is the better one.
        worst, best: Ends of its range; `None` without a range.
        threshold: Threshold that a score must meet to pass.
    """

    lower_is_better: bool = False
    worst: float | None = None
    best: float | None = None
    threshold: Threshold | None = None

    def passes(self, score: float) -> bool | None:
        """Returns whether a score passes; `None` if there is no threshold and it is neither 0 nor 1."""
        if self.threshold is not None:
            return self.threshold.met(score)
        return (score == 0) == self.lower_is_better if score in (0, 1) else None

    def gain(self, before: float, after: float) -> float:
        """Returns by how much a score became better."""
        return before - after if self.lower_is_better else after - before

    @property
    def most(self) -> float | None:
        """The largest possible change of a score; `None` without a range."""
        return None if self.worst is None or self.best is None else abs(self.best - self.worst) or None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What gains show of their mean.

    Attributes:
        pairs: Number of gains.
        gain: Their mean; `None` without pairs.
        low, high: Its confidence interval; `None` if there is none.
        p: Two-sided p-value of the mean gain 0.
        error: Standard error of the mean; `None` for less than two units.
        step: Mean magnitude of the gains that are not 0; `None` if all are. 0 if their number does not matter.
        least: Smallest p-value that so many pairs can have.
    """

    pairs: int
    gain: float | None
    low: float | None
    high: float | None
    p: float
    error: float | None
    step: float | None
    least: float = 1.0


@dataclass(slots=True)
class Gains:
    """Gains of pairs, added one by one. Pairs of one unit (a row, a conversation) depend on each other.

    Memory does not grow with pairs that did not change, nor beyond `BUCKETS` units that did. If the pairs of a unit do
    not follow each other (`clustered`), it does not grow beyond as many units either: then units share a cluster.

    If a run stopped early (`stopped`), the number of pairs depends on scores, and tests and intervals for a number that
    was fixed beforehand are wrong more often than they say. Then both are those of a confidence sequence over the mean
    gain of each input, in the order in which inputs are called; memory grows with the inputs, which are few.
    """

    clustered: bool = False
    stopped: bool = False
    pairs: int = 0
    risen: int = 0
    fallen: int = 0
    largest: float = 0.0
    units: int = 0
    _open: tuple[str, int, float, float] = ("", 0, 0.0, 0.0)
    _clusters: dict[int, tuple[int, float, float]] = field(default_factory=dict)
    _sums: list[float] = field(default_factory=lambda: [0.0] * 8)
    _flips: dict[int, float] = field(default_factory=dict)
    _folded: bool = False
    _magnitude: float | None = None
    _equal: bool = True
    _inputs: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, unit: str, gain: float) -> None:
        """Adds the gain of a pair."""
        self.pairs += 1
        if self.stopped:
            size, total = self._inputs.get(unit, (0, 0.0))
            self._inputs[unit] = size + 1, total + gain
        rise, fall = (gain, 0.0) if gain > 0 else (0.0, 0.0 - gain)
        if gain:
            self.risen += rise > 0
            self.fallen += fall > 0
            self.largest = max(self.largest, rise, fall)
        if self.clustered:
            self._add_to_cluster(key_of(unit), rise, fall)
            return
        name, size, rises, falls = self._open
        if name == unit:
            self._open = (name, size + 1, rises + rise, falls + fall)
            return
        self._close_open()
        self._open = (unit, 1, rise, fall)

    def _close_open(self) -> None:
        """Adds the unit whose pairs were added last, if there is one."""
        name, size, rises, falls = self._open
        self._open = ("", 0, 0.0, 0.0)
        if rises or falls:
            self._close(key_of(name), size, rises, falls)
        elif size:
            self._close_unchanged(size)

    def _add_to_cluster(self, key: int, rise: float, fall: float) -> None:
        size, rises, falls = self._clusters.get(key, (0, 0.0, 0.0))
        self._clusters[key] = (size + 1, rises + rise, falls + fall)
        if len(self._clusters) > 2 * BUCKETS:
            parts = [fold({k: float(c[i]) for k, c in self._clusters.items()}) for i in range(3)]
            self._clusters = {k: (int(n), parts[1][k], parts[2][k]) for k, n in parts[0].items()}

    def _close_unchanged(self, size: int) -> None:
        self.units += 1
        self._sums[2] += size * size

    def _close(self, key: int, size: int, rise: float, fall: float) -> None:
        """Adds a unit with all its pairs to the sums."""
        self._close_unchanged(size)
        products = rise, fall, 0.0, size * rise, size * fall, rise * rise, fall * fall, rise * fall
        self._sums = [total + part for total, part in zip(self._sums, products, strict=True)]
        if change := rise - fall:
            self._flip(key, size, change)

    def _flip(self, key: int, size: int, change: float) -> None:
        self._equal &= self._magnitude in (None, abs(change)) and size == 1
        self._magnitude = abs(change)
        key = bucket_of(key) if self._folded else key
        self._flips[key] = self._flips.get(key, 0.0) + change
        if len(self._flips) > BUCKETS:
            self._flips, self._folded = fold(self._flips), True

    def evidence(self, binary: bool, most: float | None, confidence: float, flips: int = FLIPS) -> Evidence:
        """Computes what the gains show. Nothing can be added afterwards.

        Args:
            binary: Whether all scores are 0 or 1.
            most: Largest possible gain; the largest one seen if `None` or if it is exceeded.
            confidence: Level of the interval, in (0, 1).
            flips: Random outcomes of the test, if there are too many to count all.
        """
        self._finish()
        if not self.pairs:
            return Evidence(0, None, None, None, 1.0, None, None)
        rise, fall = self._sums[0], self._sums[1]
        gain = (rise - fall) / self.pairs
        parts = self._parts()
        error = math.sqrt(max(parts[0].variance + parts[1].variance - 2 * parts[2], 0.0)) if self.units > 1 else None
        if self.stopped:
            ends, p = self._follow(most, confidence)
        else:
            p = sign_test(self.risen, self.fallen) if self._equal else sign_flip(self._flips, flips)
            ends = self._interval(parts, binary, most, confidence)
        low, high = ends or (None, None)
        changed = self.risen + self.fallen
        step = (rise + fall) / changed if changed else None
        return Evidence(self.pairs, gain, low, high, p, error, step, 2.0 ** (1 - self.pairs))

    def _interval(
        self, parts: tuple[Part, Part, float], binary: bool, most: float | None, confidence: float
    ) -> tuple[float, float] | None:
        if binary and self.units == self.pairs:
            return tango(self.risen, self.fallen, self.pairs, confidence)
        widest = self.largest if most is None else max(most, self.largest)
        return square_and_add(*parts, self.units, widest, confidence)

    def _follow(self, most: float | None, confidence: float) -> tuple[tuple[float, float] | None, float]:
        """Returns (interval, p-value) by betting on gains; there is none without a range, or of columns as clusters."""
        if most is None or self.clustered:
            return None, 1.0
        order = sorted(self._inputs, key=lambda unit: (selection_hash(unit), unit))
        sums = (self._inputs[unit] for unit in order)
        scaled = [min(max((total / size / most + 1) / 2, 0.0), 1.0) for size, total in sums]
        low, high = mean_sequence(scaled, confidence)
        return ((2 * low - 1) * most, (2 * high - 1) * most), sequence_p(scaled, 0.5, confidence)

    def _finish(self) -> None:
        self._close_open()
        for key in sorted(self._clusters):
            self._close(key, *self._clusters[key])
        self._clusters.clear()

    def _parts(self) -> tuple[Part, Part, float]:
        """Returns the means of rises and falls with their variances, by units, and the covariance of the two means.

        The variance of a mean over G units of sizes n, of which each has the sum s, is G / (G - 1) * sum of
        (s - n * mean)**2 / pairs**2 (Liang and Zeger 1986).
        """
        rise, fall, sizes, with_rise, with_fall, rises, falls, both = self._sums
        scale = self.units / (self.units - 1) / self.pairs**2 if self.units > 1 else 0.0
        up, down = rise / self.pairs, fall / self.pairs
        squares = (rises - 2 * up * with_rise + up * up * sizes, falls - 2 * down * with_fall + down * down * sizes)
        exact = [s if s > _ROUNDING * whole else 0.0 for s, whole in zip(squares, (rises, falls), strict=True)]
        product = both - up * with_fall - down * with_rise + up * down * sizes
        return Part(up, exact[0] * scale), Part(down, exact[1] * scale), product * scale


@dataclass(slots=True)
class PairCounts:
    """Counts of the instances of two runs; `stopped` if a run called no more once a mean was decided.

    An instance that a run did not call for that reason is left out. One that only one run scored is no pair.
    """

    scale: Scale = Scale()
    clustered: bool = False
    stopped: bool = False
    instances: int = 0
    uncalled: int = 0
    lost: int = 0
    gained: int = 0
    gone: int = 0
    newly_failing: int = 0
    fixed: int = 0
    binary: bool = False

    def add_uncalled(self) -> None:
        """Adds an instance that is in both runs, and that one of them did not call since a mean was decided."""
        self.instances += 1
        self.uncalled += 1

    def add_gone(self) -> None:
        """Adds an instance that the first run scored and the second run does not have."""
        self.gone += 1


@dataclass(slots=True)
class Pairs(PairCounts):
    """Scores of a metric in two runs, instance by instance.

    As soon as only one run scored an instance, the gains are also added up for the worst and for the best case: as if
    the other run had given it the score that makes its gain the smallest or the largest.
    """

    binary: bool = True
    within: bool = True
    seen: Gains = field(init=False)
    worst: Gains | None = None
    best: Gains | None = None
    _held: list[tuple[float, float]] = field(default_factory=list)
    _totals: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def __post_init__(self) -> None:
        self.seen = Gains(self.clustered, self.stopped)

    def add(self, unit: str, before: float | None, after: float | None) -> None:
        """Adds an instance of a unit; `None` means that it has no score. Instances of a unit follow each other."""
        self.instances += 1
        if before is None or after is None:
            if before is not after:
                self._add_single(unit, before, after)
            return
        gain = self.scale.gain(before, after)
        self._look_at(before)
        if gain:
            self._look_at(after)
            self._count_passes(before, after)
        self.seen.add(unit, gain)
        if self.worst is not None and self.best is not None:
            self.worst.add(unit, gain)
            self.best.add(unit, gain)
        self._held.append((before, after))
        if len(self._held) == HELD:
            self._flush()

    def means(self) -> tuple[float, float] | tuple[None, None]:
        """Returns the means of the pairs in both runs; `None` without pairs."""
        self._flush()
        n = self.seen.pairs
        return (self._totals[0] / n, self._totals[1] / n) if n else (None, None)

    def weigh(self, confidence: float, tests: int) -> list[Evidence]:
        """Returns what the pairs show as they are, and in the worst and the best case if there are such.

        Args:
            confidence: Level of the intervals, in (0, 1).
            tests: Size of the family of tests.
        """
        cases = [self.seen, self.worst, self.best] if self.bounded else [self.seen]
        flips = max(FLIPS, _PER_TEST * tests)
        return [one.evidence(self.binary, self.most, confidence, flips) for one in cases if one is not None]

    @property
    def bounded(self) -> bool:
        """Whether the range of the scores is known, so that worst and best case are."""
        return self.within and (self.binary or self.scale.most is not None)

    @property
    def most(self) -> float | None:
        """The largest possible gain; `None` if it is not known."""
        if not self.within:
            return None
        return self.scale.most or (1.0 if self.binary else None)

    def _look_at(self, score: float) -> None:
        if self.binary and score != 0 and score != 1:
            self.binary = False
        worst, best = self.scale.worst, self.scale.best
        if worst is not None and best is not None and not (worst <= score <= best or best <= score <= worst):
            self.within = False

    def _count_passes(self, before: float, after: float) -> None:
        if self.scale.threshold is not None:
            passed, passes = self.scale.threshold.met(before), self.scale.threshold.met(after)
            self.newly_failing += passed and not passes
            self.fixed += passes and not passed

    def _add_single(self, unit: str, before: float | None, after: float | None) -> None:
        self.lost += after is None
        self.gained += before is None
        worst, best = self._part_cases()
        for score in (before, after):
            if score is not None:
                self._look_at(score)
        low, high = self._ends
        for gains, end in ((worst, low), (best, high)):
            if before is not None:
                gains.add(unit, self.scale.gain(before, end))
        for gains, end in ((worst, high), (best, low)):
            if after is not None:
                gains.add(unit, self.scale.gain(end, after))

    def _part_cases(self) -> tuple[Gains, Gains]:
        """Returns the gains of the worst and the best case, which differ from what was seen from now on."""
        if self.worst is None or self.best is None:
            self.worst, self.best = copy.deepcopy(self.seen), copy.deepcopy(self.seen)
        return self.worst, self.best

    @property
    def _ends(self) -> tuple[float, float]:
        """(worst, best) score that an instance without one could have."""
        if self.scale.worst is not None and self.scale.best is not None:
            return self.scale.worst, self.scale.best
        return (1.0, 0.0) if self.scale.lower_is_better else (0.0, 1.0)

    def _flush(self) -> None:
        for i, values in enumerate(zip(*self._held, strict=True)):
            self._totals[i] += math.fsum(values)
        self._held.clear()


def detectable_gain(seen: Evidence, most: float | None, alpha: float) -> float | None:
    """Returns the smallest gain that is shown with a probability of 80 %; `None` if no possible gain is.

    It follows from the standard error of the gains. If few pairs changed, as many must as the exact test needs.

    Args:
        seen: What the pairs show.
        most: Largest possible gain.
        alpha: Level of the test, divided by the size of the family.
    """
    step = seen.step if seen.step is not None else most
    if step is None or seen.error is None or seen.least > alpha:
        return None
    needed = 1 + math.ceil(-math.log2(alpha))
    found = max(detectable_errors(alpha) * seen.error, step * needed / seen.pairs)
    return None if most is not None and found > most else found

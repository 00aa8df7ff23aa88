"""Accumulators of summary rows: counts and sums that merge exactly, in any order and any grouping.

Up to `MAX_DISTINCT` distinct values an accumulator counts each value, and all statistics follow from the counts. Beyond
that it holds exact sums, both ends and counts in fixed buckets. Which of the two forms it has depends on the set of
values alone (a union never has fewer distinct values than its parts), so that equal multisets give equal bytes.

Sums are exact: a float64 is an integer times a power of two, and so are its square and every sum of them. The one
rounding is the division at the end.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import orjson

from .bootstrap import Replicates
from .clusters import Clusters, Dyadic, Values, dyadic, exact_sums

MAX_DISTINCT = 4096
"""Most distinct values that are counted one by one."""
BUCKETS_PER_OCTAVE = 128
"""Buckets between two powers of two; a bucket's middle is within 1/256 (0.4 %) of every value in it."""

_BUCKET_SHIFT = 52 - BUCKETS_PER_OCTAVE.bit_length() + 1
_MAGNITUDE = (1 << 63) - 1


def buckets_of(values: Collection[float]) -> np.ndarray:
    """Returns the bucket number of each value, int64, in the order of the values; numbers ascend with the values.

    The number is the float64's own exponent and the first bits of its mantissa, so it needs no logarithm and is the
    same on every machine. Magnitudes under 2.3e-308 (subnormal numbers) are resolved to 8.7e-311 instead of 0.4 %.
    """
    bits = np.fromiter(values, np.float64, len(values)).view(np.int64)
    magnitude = (bits & _MAGNITUDE) >> _BUCKET_SHIFT
    return np.where(bits < 0, -magnitude, magnitude)


def middle(bucket: int) -> float:
    """Returns the middle of a bucket, and 0 for bucket 0."""
    if not bucket:
        return 0.0
    bits = (abs(bucket) << _BUCKET_SHIFT) | (1 << (_BUCKET_SHIFT - 1))
    return math.copysign(struct.unpack("<d", struct.pack("<q", bits))[0], bucket)


@dataclass(slots=True)
class Sketch:
    """A summary of more than `MAX_DISTINCT` distinct values: exact sums and ends, and counts by bucket."""

    total: Dyadic
    squares: Dyadic
    low: float
    high: float
    buckets: dict[int, int]

    @classmethod
    def of(cls, counts: Mapping[float, int]) -> Sketch:
        """Builds the sketch of counted values, at least one."""
        known, places = np.unique(buckets_of(counts), return_inverse=True)
        sums = np.zeros(len(known), np.int64)
        np.add.at(sums, places, np.fromiter(counts.values(), np.int64, len(counts)))
        buckets = dict(zip(known.tolist(), sums.tolist(), strict=True))
        return cls(*exact_sums(counts), min(counts), max(counts), buckets)

    def absorb(self, other: Sketch) -> None:
        """Adds the values of another sketch."""
        self.total = self.total.plus(other.total)
        self.squares = self.squares.plus(other.squares)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        _add(self.buckets, other.buckets)

    def counted(self) -> list[tuple[float, int]]:
        """Returns (value, count) in ascending order; each value is the middle of its bucket, within the ends."""
        return [(min(max(middle(b), self.low), self.high), count) for b, count in sorted(self.buckets.items())]


@dataclass(slots=True)
class Accumulator:
    """The scores of one metric on some rows.

    Attributes:
        rows: Rows seen.
        scored, errors, skipped, inapplicable: Rows by the status of their score; they add up to `rows`.
        passes: Values that meet the metric's threshold.
        counts: How often each value occurred, while there are at most `MAX_DISTINCT` of them; no -0.0, only finite.
        sketch: Replaces `counts` beyond that.
        clusters: The clusters of these values, if some have several; other values stand by themselves.
        labelled: Clusters with labels of people, as `labelled` counts them.
        replicates: The sums of the bootstrap, if it is asked for.
    """

    rows: int = 0
    scored: int = 0
    errors: int = 0
    skipped: int = 0
    inapplicable: int = 0
    passes: int = 0
    counts: dict[float, int] = field(default_factory=dict)
    sketch: Sketch | None = None
    clusters: Clusters | None = None
    labelled: dict[Any, int] = field(default_factory=dict)
    replicates: Replicates | None = None
    _waiting: dict[float, int] = field(default_factory=dict, compare=False, repr=False)

    def absorb(self, other: Accumulator) -> None:
        """Adds the rows of another accumulator, which is not changed."""
        self.rows += other.rows
        self.scored += other.scored
        self.errors += other.errors
        self.skipped += other.skipped
        self.inapplicable += other.inapplicable
        self.passes += other.passes
        if other.clusters is not None:
            self.clusters = other.clusters if self.clusters is None else self.clusters.plus(other.clusters)
        self._absorb_values(other)
        _add(self.labelled, other.labelled)
        if other.replicates is not None:
            self.replicates = self.replicates or Replicates()
            self.replicates.absorb(other.replicates)

    def _absorb_values(self, other: Accumulator) -> None:
        """Adds counts and sketches; beside a sketch, counts wait until they are many, since they cost less together."""
        counts = self.counts if self.sketch is None else self._waiting
        _add(counts, other.counts)
        _add(counts, other._waiting)
        if other.sketch is not None:
            if self.sketch is None:
                self.sketch, self._waiting, self.counts = _merge_sketches([other.sketch]), self.counts, {}
            else:
                self.sketch.absorb(other.sketch)
        if len(counts) > MAX_DISTINCT:
            self._settle()

    def _settle(self) -> None:
        """Adds what waits to the sketch."""
        counts = self._waiting or self.counts
        if not counts or (self.sketch is None and len(counts) <= MAX_DISTINCT):
            return
        found = Sketch.of(counts)
        if self.sketch is None:
            self.sketch = found
        else:
            self.sketch.absorb(found)
        self.counts, self._waiting = {}, {}

    def distribution(self) -> Distribution:
        """Returns the values in the form from which statistics are computed."""
        self._settle()
        if self.sketch is not None:
            s = self.sketch
            return Distribution(s.counted(), s.total, s.squares, s.low, s.high, self.clusters)
        counted = sorted(self.counts.items())
        ends = (counted[0][0], counted[-1][0]) if counted else (None, None)
        return Distribution(counted, *exact_sums(self.counts), *ends, self.clusters)

    def encode(self) -> bytes:
        """Encodes the accumulator; equal multisets of scores give equal bytes, in whatever order they were merged."""
        self._settle()
        s = self.sketch
        sketch = s and [s.total.encode(), s.squares.encode(), s.low, s.high, _columns(s.buckets)]
        head = [self.rows, self.scored, self.errors, self.skipped, self.inapplicable, self.passes]
        clusters = self.clusters and self.clusters.encode()
        whole = [*head, _columns(self.counts), sketch, clusters, sorted(self.labelled.items())]
        return orjson.dumps(whole) + (b"" if self.replicates is None else b"\n" + self.replicates.encode())

    @classmethod
    def decode(cls, data: bytes) -> Accumulator:
        """Decodes the accumulator that `encode` wrote."""
        first, _, resampled = data.partition(b"\n")
        *head, (values, counts), sketch, clusters, labelled = orjson.loads(first)
        if sketch is not None:
            total, squares, low, high, (buckets, sizes) = sketch
            sums = Dyadic.decode(total), Dyadic.decode(squares)
            sketch = Sketch(*sums, low, high, dict(zip(buckets, sizes, strict=True)))
        rows, scored, errors, skipped, inapplicable, passes = head
        exact = dict(zip(values, counts, strict=True))
        clusters = clusters and Clusters.decode(clusters)
        found = {(size, total, tuple(map(tuple, each))): times for (size, total, each), times in labelled}
        replicates = Replicates.decode(resampled) if resampled else None
        return cls(rows, scored, errors, skipped, inapplicable, passes, exact, sketch, clusters, found, replicates)


class Distribution:
    """A multiset of values; a statistic is `None` if it is undefined or beyond float64.

    Sums are exact, so that mean and variance are correctly rounded, and std is within two units in the last place.

    Attributes:
        counted: (value, count) in ascending order; middles of buckets if there were too many distinct values.
        n: Number of values.
        low, high: The ends, exact.
        clusters: Their clusters, if some have several values.
    """

    def __init__(
        self,
        counted: list[tuple[float, int]],
        total: Dyadic,
        squares: Dyadic,
        low: float | None,
        high: float | None,
        clusters: Clusters | None = None,
    ) -> None:
        self.counted, self.total, self.squares, self.low, self.high = counted, total, squares, low, high
        self._upto = list(accumulate(count for _, count in counted))
        self.n = self._upto[-1] if counted else 0
        groups = None if clusters is None else clusters.closed(Values(self.n, total, squares))
        self.clusters = None if groups is None or groups.number == self.n else groups

    def mean(self, more: int = 0, value: float = 0.0) -> float | None:
        """Returns the mean, with `more` further rows at `value`."""
        extra = dyadic(value)
        total = self.total.plus(Dyadic.reduced(extra.numerator * more, extra.exponent))
        return _divide(total.numerator, (self.n + more) << total.exponent)

    def variance(self) -> float | None:
        """Returns the sample variance (ddof 1); `None` for less than two values."""
        return _divide(*self._variance())

    def std(self) -> float | None:
        """Returns the sample standard deviation (ddof 1); `None` for less than two values."""
        return _root(*self._variance())

    def standard_error(self) -> float | None:
        """Returns std / sqrt(n); `None` for less than two values."""
        p, q = self._variance()
        return _root(p, q * self.n)

    def clustered_error(self) -> float | None:
        """Returns the standard error of the mean of dependent values in clusters; `None` for less than two clusters.

        With residuals r about the mean it is sqrt(G / (G - 1) * sum over the G clusters of (sum of r)**2) / n; for
        clusters of one value that is `standard_error`.

        Source: Liang and Zeger (1986), Longitudinal data analysis using generalized linear models, with the usual
        correction for few clusters.
        """
        if self.clusters is None:
            return self.standard_error()
        number, sizes, squares, products = self.clusters[:4]
        total, n = self.total, self.n
        mixed = Dyadic.reduced(-2 * n * total.numerator * products.numerator, total.exponent + products.exponent)
        own = Dyadic.reduced(sizes * total.numerator**2, 2 * total.exponent)
        residuals = Dyadic.reduced(n**2 * squares.numerator, squares.exponent).plus(mixed).plus(own)
        return _root(number * residuals.numerator, (number - 1) * n**4 << residuals.exponent)

    def design_effect(self) -> float | None:
        """Returns how often larger the variance of the mean is than that of as many independent values.

        It is free of the corrections for few values and few clusters. `None` if the values do not vary, or for less
        than two clusters.
        """
        simple, clustered = self.standard_error(), self.clustered_error()
        if not simple or clustered is None:
            return None
        if self.clusters is None:
            return 1.0
        number = self.clusters.number
        return (clustered / simple) ** 2 * (number - 1) / number * self.n / (self.n - 1)

    def quantile(self, p: int, q: int) -> float | None:
        """Returns the p/q quantile, linear between neighbours (definition 7 of Hyndman and Fan, as numpy's default)."""
        if not self.n:
            return None
        rank, rest = divmod((self.n - 1) * p, q)
        low = self.at_rank(rank)
        high = self.at_rank(rank + 1) if rest else low
        if low == high:
            return low
        return min(max(low * (1 - rest / q) + high * (rest / q), low), high)

    def mode(self) -> float | None:
        """Returns the smallest of the most frequent values; of buckets, the middle of the fullest one."""
        return max(self.counted, key=lambda pair: pair[1])[0] if self.n else None

    def at_rank(self, rank: int) -> float:
        """Returns the score of a rank, from 0 to n - 1 in ascending order."""
        return self.counted[bisect_right(self._upto, rank)][0]

    def _variance(self) -> tuple[int, int]:
        exponent = max(2 * self.total.exponent, self.squares.exponent)
        squares = self.squares.numerator << (exponent - self.squares.exponent)
        square = self.total.numerator**2 << (exponent - 2 * self.total.exponent)
        return self.n * squares - square, self.n * (self.n - 1) << exponent


def _add(counts: dict[Any, int], more: Mapping[Any, int]) -> None:
    both = {key: counts[key] + more[key] for key in counts.keys() & more.keys()}
    counts.update(more)
    counts.update(both)


def _merge_sketches(parts: list[Sketch]) -> Sketch:
    whole = Sketch(Dyadic(), Dyadic(), math.inf, -math.inf, {})
    for part in parts:
        whole.absorb(part)
    return whole


def _columns(counts: Mapping[Any, int]) -> tuple[list[Any], list[int]]:
    keys = sorted(counts)
    return keys, [counts[key] for key in keys]


def _divide(p: int, q: int) -> float | None:
    """Returns p / q, correctly rounded; `None` if q is 0 or the quotient is beyond float64."""
    try:
        return p / q
    except (ZeroDivisionError, OverflowError):
        return None


def _root(p: int, q: int) -> float | None:
    """Returns the square root of p / q, even if p / q itself is beyond float64."""
    if not q:
        return None
    half = (p.bit_length() - q.bit_length()) // 2
    square = p / (q << 2 * half) if half >= 0 else (p << -2 * half) / q
    try:
        return math.ldexp(math.sqrt(square), half)
    except OverflowError:
        return None

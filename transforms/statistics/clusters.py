"""Exact sums over values, and over clusters of values that depend on each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .permutation import bucket_of

MAX_OPEN = 4096
"""Most clusters that are kept one by one; beyond, those whose key falls into the same of 1,024 buckets are one."""

_MANY = 256
_MOST_IN_ARRAY = 1 << 24
"""Most values whose parts, of 38 bits at most, add up to less than 2**63."""


class Dyadic(NamedTuple):
    """The exact number `numerator / 2**exponent`, in lowest terms."""

    numerator: int = 0
    exponent: int = 0

    @classmethod
    def reduced(cls, numerator: int, exponent: int) -> Dyadic:
        """Reduces `numerator / 2**exponent` to lowest terms; `exponent >= 0`."""
        if not numerator:
            return cls()
        shift = min(exponent, (numerator & -numerator).bit_length() - 1)
        return cls(numerator >> shift, exponent - shift)

    def plus(self, other: Dyadic) -> Dyadic:
        """Returns the exact sum."""
        exponent = max(self.exponent, other.exponent)
        left = self.numerator << (exponent - self.exponent)
        return Dyadic.reduced(left + (other.numerator << (exponent - other.exponent)), exponent)

    def times(self, factor: int) -> Dyadic:
        """Returns the exact product with an integer."""
        return Dyadic.reduced(self.numerator * factor, self.exponent)

    def squared(self) -> Dyadic:
        """Returns the exact square."""
        return Dyadic.reduced(self.numerator**2, 2 * self.exponent)

    def encode(self) -> tuple[str, int]:
        """Encodes the number as JSON."""
        return format(self.numerator, "x"), self.exponent

    @classmethod
    def decode(cls, data: Sequence[Any]) -> Dyadic:
        """Decodes what `encode` wrote."""
        return cls(int(data[0], 16), data[1])


def dyadic(value: float) -> Dyadic:
    """Converts a finite float64 exactly."""
    numerator, denominator = value.as_integer_ratio()
    return Dyadic(numerator, denominator.bit_length() - 1)


def exact_sums(counts: Mapping[float, int]) -> tuple[Dyadic, Dyadic]:
    """Returns the sum of the values and the sum of their squares, each value as often as counted."""
    if len(counts) >= _MANY and sum(counts.values()) <= _MOST_IN_ARRAY:
        return _sum_arrays(counts)
    sums: dict[int, int] = {}
    squares: dict[int, int] = {}
    for value, count in counts.items():
        numerator, denominator = value.as_integer_ratio()
        part = numerator * count
        sums[denominator] = sums.get(denominator, 0) + part
        squares[denominator] = squares.get(denominator, 0) + part * numerator
    top = max(sums, default=1).bit_length() - 1
    total = sum(part << (top - d.bit_length() + 1) for d, part in sums.items())
    square = sum(part << 2 * (top - d.bit_length() + 1) for d, part in squares.items())
    return Dyadic.reduced(total, top), Dyadic.reduced(square, 2 * top)


def _sum_arrays(counts: Mapping[float, int]) -> tuple[Dyadic, Dyadic]:
    """The same for many values at once: sums of parts of the mantissas, by exponent, in integers of 64 bits."""
    mantissas, exponents = np.frexp(np.fromiter(counts, np.float64, len(counts)))
    order = np.argsort(exponents, kind="stable")
    known, starts = np.unique(exponents[order], return_index=True)
    whole = (mantissas * 2.0**53).astype(np.int64)[order]
    weights = np.fromiter(counts.values(), np.int64, len(counts))[order]
    size, mask = np.abs(whole), (1 << 18) - 1
    a, b, c = size >> 36, size >> 18 & mask, size & mask
    signed = np.sign(whole) * weights
    linear = _sum_parts((c, b, a), signed, starts)
    square = _sum_parts((c * c, 2 * b * c, 2 * a * c + b * b, 2 * a * b, a * a), weights, starts)
    total, squares = Dyadic(), Dyadic()
    for exponent, one, two in zip((known - 53).tolist(), linear, square, strict=True):
        up, down = max(exponent, 0), max(-exponent, 0)
        total = total.plus(Dyadic.reduced(one << up, down))
        squares = squares.plus(Dyadic.reduced(two << 2 * up, 2 * down))
    return total, squares


def _sum_parts(parts: Sequence[np.ndarray], weights: np.ndarray, starts: np.ndarray) -> list[int]:
    """Returns the sum of each group, of digits in base 2**18 from the lowest; groups follow each other."""
    sums = [np.add.reduceat(part * weights, starts).tolist() for part in parts]
    return [sum(digit << 18 * i for i, digit in enumerate(digits)) for digits in zip(*sums, strict=True)]


def counted(values: Iterable[float | None]) -> dict[float, int]:
    """Counts how often each value occurs, ignoring `None`; keys are floats, and -0.0 counts as 0.0."""
    counts = Counter(values)
    counts.pop(None, None)
    return {value + 0.0: count for value, count in counts.items() if value is not None}


class Values(NamedTuple):
    """Number, sum, and sum of the squares of some values."""

    number: int = 0
    total: Dyadic = Dyadic()
    squares: Dyadic = Dyadic()

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Values:
        """Sums up values, ignoring `None`."""
        counts = counted(values)
        return cls(sum(counts.values()), *exact_sums(counts))

    def plus(self, other: Values) -> Values:
        """Returns the sums of both."""
        return Values(self.number + other.number, self.total.plus(other.total), self.squares.plus(other.squares))

    def times(self, factor: int) -> Values:
        """Returns the sums of the values, each `factor` times."""
        return Values(self.number * factor, self.total.times(factor), self.squares.times(factor))

    def encode(self) -> list[Any]:
        """Encodes the sums as JSON."""
        return [self.number, self.total.encode(), self.squares.encode()]

    @classmethod
    def decode(cls, data: Sequence[Any]) -> Values:
        """Decodes what `encode` wrote."""
        return cls(data[0], Dyadic.decode(data[1]), Dyadic.decode(data[2]))


class Clusters(NamedTuple):
    """Sums over clusters of values, such as the trials of an instance, for the standard error of the mean.

    Attributes:
        number: Clusters with a value.
        sizes: Sum of the squares of their numbers of values.
        squares: Sum of the squares of their sums.
        products: Sum of their sums, each times its number of values.
        members: All their values.
        open: Clusters by key of which others may hold more values; they are not in the sums yet.
    """

    number: int = 0
    sizes: int = 0
    squares: Dyadic = Dyadic()
    products: Dyadic = Dyadic()
    members: Values = Values()
    open: Mapping[int, Values] = {}

    @classmethod
    def of(cls, clusters: Iterable[Sequence[float | None]]) -> Clusters:
        """Sums up whole clusters of values, ignoring `None`."""
        whole = cls()
        for cluster, times in Counter(map(tuple, clusters)).items():
            whole = whole._with(Values.of(cluster), times)
        return whole

    @classmethod
    def opened(cls, clusters: Mapping[int, Iterable[float | None]]) -> Clusters:
        """Sums up values of clusters, by key, of which others may hold more values."""
        found = {key: Values.of(values) for key, values in clusters.items()}
        return cls(open=_fold({key: values for key, values in found.items() if values.number}))

    def plus(self, other: Clusters) -> Clusters:
        """Returns the sums of both."""
        merged = self.open or other.open
        if self.open and other.open:
            merged = dict(self.open)
            for key, values in other.open.items():
                merged[key] = merged.get(key, Values()).plus(values)
            merged = _fold(merged)
        squares, products = self.squares.plus(other.squares), self.products.plus(other.products)
        sizes, members = self.sizes + other.sizes, self.members.plus(other.members)
        return Clusters(self.number + other.number, sizes, squares, products, members, merged)

    def closed(self, values: Values) -> Clusters:
        """Returns the sums with the open clusters, and with every value that is in none as a cluster of its own.

        Args:
            values: All values, in clusters or not.
        """
        whole = self._replace(open={})
        for one in self.open.values():
            whole = whole._with(one, 1)
        apart = values.plus(whole.members.times(-1))
        return Clusters(
            whole.number + apart.number,
            whole.sizes + apart.number,
            whole.squares.plus(apart.squares),
            whole.products.plus(apart.total),
            values,
        )

    def are_copies(self) -> bool:
        """Whether they are values that occur equally often, each a cluster: then they show what the values show once.

        The square of a cluster's sum is at most its size times the sum of its squares, which it is if all are equal.
        """
        size, rest = divmod(self.members.number, max(self.number, 1))
        same = self.squares == self.members.squares.times(size)
        return same and not rest and not self.open and self.sizes == self.number * size**2

    def _with(self, one: Values, times: int) -> Clusters:
        """Returns the sums with as many more equal clusters."""
        size, total, _ = one
        if not size:
            return self
        squares = self.squares.plus(total.squared().times(times))
        products = self.products.plus(total.times(times * size))
        members = self.members.plus(one.times(times))
        return Clusters(self.number + times, self.sizes + times * size**2, squares, products, members, self.open)

    def encode(self) -> list[Any]:
        """Encodes the sums as JSON."""
        parts = self.number, self.sizes, self.squares.encode(), self.products.encode(), self.members.encode()
        return [*parts, [[key, values.encode()] for key, values in sorted(self.open.items())]]

    @classmethod
    def decode(cls, data: Sequence[Any]) -> Clusters:
        """Decodes what `encode` wrote."""
        number, sizes, squares, products, members, waiting = data
        found = {key: Values.decode(values) for key, values in waiting}
        return cls(number, sizes, Dyadic.decode(squares), Dyadic.decode(products), Values.decode(members), found)


def _fold(clusters: dict[int, Values]) -> dict[int, Values]:
    """Puts the clusters of a bucket together if there are too many; buckets are as independent as clusters are."""
    if len(clusters) <= MAX_OPEN:
        return clusters
    folded: dict[int, Values] = {}
    for key, values in clusters.items():
        bucket = bucket_of(key)
        folded[bucket] = folded.get(bucket, Values()).plus(values)
    return folded

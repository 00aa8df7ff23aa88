"""The Poisson bootstrap in one pass, for statistics without a formula.

Each replicate draws every cluster of rows a number of times that is Poisson distributed with mean 1. The number is a
hash of the replicate and the cluster's id, so it is the same in all slices, metrics and runs, wherever the rows of the
cluster are. Sums are in fixed point: they merge exactly, in any order and any grouping.

Source: Hanley and MacGibbon (2006), Creating non-parametric bootstrap samples using Poisson frequencies; Chamandy and
others (2012), Estimating uncertainty for massive data streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

import numpy as np
import orjson

from .permutation import draw_words, key_of

REPLICATES = 1000
"""Replicates of a statistic."""
FEW = 16
"""Most clusters of which the sums are kept one by one: of a few rows they are smaller than the replicates."""

Pool: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Computes a statistic from sums: float64 of shape (cases, sums) -> float64 of shape (cases,)."""

_BITS = 40
"""Bits of the fraction: values are rounded to 9.1e-13."""
_LARGEST = 2.0**40
"""Values from here on have no fixed point: a product with a weight would no longer be exact in float64."""
_CHUNK = 256
_SEED = np.uint64(0x5851F42D4C957F2D)
"""Makes the weights independent of the flips of a comparison, which have the same keys."""


@cache
def _frequencies() -> np.ndarray:
    """Returns the Poisson(1) frequency of each number of 16 bits, by inversion."""
    ends, term, total = [], math.exp(-1), 0.0
    for k in range(12):
        total += term
        ends.append(total)
        term /= k + 1
    return np.searchsorted(ends, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)


def draw_weights(keys: np.ndarray) -> np.ndarray:
    """Returns weights of shape (keys, REPLICATES + 1), float64; the last one is 1, for the statistic itself."""
    drawn = draw_frequencies(keys, 0, REPLICATES)
    return np.concatenate([drawn, np.ones((len(keys), 1), np.uint8)], axis=1).astype(np.float64)


def draw_frequencies(keys: np.ndarray, first: int, count: int) -> np.ndarray:
    """Returns how often replicates draw each cluster, uint8 of shape (keys, count).

    Args:
        keys: The clusters.
        first: Number of the first replicate, a multiple of 4.
        count: Number of replicates, a multiple of 4.
    """
    return _frequencies()[draw_words(keys ^ _SEED, count // 4, first // 4).view("<u2")]


class Draws:
    """The weights of the rows of a batch, drawn once for all metrics and slices.

    Args:
        units: Names of the clusters of the rows.
    """

    def __init__(self, units: Iterable[str]) -> None:
        self.keys = np.array([key_of(one) for one in units], np.uint64)
        self._weights = draw_weights(self.keys)
        self._known: dict[int, np.ndarray] = {}

    def over(self, positions: Sequence[int] | None, columns: np.ndarray) -> Replicates:
        """Returns the sums of the rows at some positions (`None`: all); see `fixed_point` for the columns."""
        if positions is None:
            return Replicates.of(self.keys, self._weights, columns)
        places = np.array(positions)
        if id(positions) not in self._known:
            self._known[id(positions)] = self._weights[places] if len(places) > FEW else self._weights[:0]
        return Replicates.of(self.keys[places], self._known[id(positions)], columns[places])


@dataclass(slots=True)
class Replicates:
    """Sums over rows in every replicate.

    Attributes:
        few: The sums of single clusters by key, while there are at most `FEW` of them.
        sums: Sums over the other clusters, int64 of shape (sums, REPLICATES + 1); `None` without any. Each value has
            two, its integer and its fraction in units of 2**-40; the last row counts.
        unbounded: Whether a value was too large.
    """

    few: dict[int, tuple[int, ...]] = field(default_factory=dict)
    sums: np.ndarray | None = None
    unbounded: bool = False

    @classmethod
    def of(cls, keys: np.ndarray, weights: np.ndarray, columns: np.ndarray) -> Replicates:
        """Builds the sums of rows.

        Args:
            keys: The clusters of the rows.
            weights: Their weights.
            columns: Fixed-point values of each row, of shape (rows, sums).
        """
        unbounded = bool(np.isnan(columns).any())
        if unbounded or not columns[:, -1].any():
            return cls(unbounded=unbounded)
        if len(keys) <= FEW:
            found = cls()
            for key, row in zip(keys.tolist(), columns.astype(np.int64).tolist(), strict=True):
                found._add(key, row)
            return found
        return cls(sums=_multiply(columns, weights))

    def _add(self, key: int, row: Sequence[int]) -> None:
        known = self.few.get(key)
        self.few[key] = tuple(row) if known is None else tuple(a + b for a, b in zip(known, row, strict=True))

    def absorb(self, other: Replicates) -> None:
        """Adds the rows of another one, which is not changed."""
        self.unbounded |= other.unbounded
        for key, row in other.few.items():
            self._add(key, row)
        if other.sums is not None:
            self.sums = other.sums.copy() if self.sums is None else _carry(self.sums + other.sums)
        if len(self.few) > FEW:
            self._expand()

    def _expand(self) -> None:
        """Replaces the sums of single clusters by their replicates."""
        if not self.few:
            return
        keys = np.array(sorted(self.few), np.uint64)
        rows = _carry(np.array([self.few[key] for key in keys.tolist()], np.int64).T).T
        more = _multiply(rows.astype(np.float64), draw_weights(keys))
        self.sums = more if self.sums is None else _carry(self.sums + more)
        self.few = {}

    def values(self, pool: Pool | None = None) -> np.ndarray | None:
        """Returns the statistic in every replicate and at the end itself; NaN where undefined.

        `None` without rows, and if a value was too large.

        Args:
            pool: Computes it from the sums; by default it is the mean, or the ratio of two sums.
        """
        whole = Replicates()
        whole.absorb(self)
        whole._expand()
        if whole.unbounded or whole.sums is None:
            return None
        parts = [whole.sums[i] + whole.sums[i + 1] * 2.0**-_BITS for i in range(0, len(whole.sums) - 1, 2)]
        if pool is not None:
            return pool(np.column_stack(parts))
        below = parts[1] if len(parts) > 1 else whole.sums[-1].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = parts[0] / below
        return np.where(np.isfinite(found), found, np.nan)

    def encode(self) -> bytes:
        """Encodes the sums: a line of JSON, then the replicates."""
        shape = None if self.sums is None else self.sums.shape[0]
        head = orjson.dumps([sorted(self.few.items()), shape, self.unbounded])
        return head + b"\n" + (b"" if self.sums is None else self.sums.astype("<i8").tobytes())

    @classmethod
    def decode(cls, data: bytes) -> Replicates:
        """Decodes what `encode` wrote."""
        head, _, rest = data.partition(b"\n")
        few, shape, unbounded = orjson.loads(head)
        sums = None if shape is None else np.frombuffer(rest, "<i8").reshape(shape, -1).astype(np.int64)
        return cls({key: tuple(row) for key, row in few}, sums, unbounded)


def fixed_point(*values: Sequence[float | None]) -> np.ndarray:
    """Returns columns for `Replicates.of`: integer and fraction of each value, and 1; zeros where one is `None`.

    Values that are too large become NaN.
    """
    given = np.array([[np.nan if v is None else v for v in one] for one in values], np.float64)
    known = ~np.isnan(given).any(axis=0)
    given = np.where(known, given, 0.0)
    whole = np.floor(given)
    parts = [part for w, v in zip(whole, given, strict=True) for part in (w, np.rint((v - w) * 2.0**_BITS))]
    columns = np.column_stack([*parts, known.astype(np.float64)])
    columns[(np.abs(given) >= _LARGEST).any(axis=0)] = np.nan
    return columns


def interval(
    replicates: Replicates | None, confidence: float, pool: Pool | None = None
) -> tuple[float, float, float] | None:
    """Returns (standard error, low end, high end), the percentiles of the replicates; `None` if too few are defined.

    Args:
        replicates: The sums.
        confidence: Level of the interval, in (0, 1).
        pool: As in `Replicates.values`.
    """
    values = None if replicates is None else replicates.values(pool)
    if values is None or math.isnan(values[-1]):
        return None
    known = np.sort(values[:-1][~np.isnan(values[:-1])])
    if len(known) < REPLICATES * 0.95:
        return None
    mean = math.fsum(known) / len(known)
    error = math.sqrt(math.fsum((known - mean) ** 2) / (len(known) - 1))
    low, high = (float(np.quantile(known, p)) for p in ((1 - confidence) / 2, (1 + confidence) / 2))
    return error, low, high


def _multiply(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the sums of the columns in every replicate; products of so few rows are exact in float64."""
    total = np.zeros((columns.shape[1], weights.shape[1]), np.int64)
    for start in range(0, len(columns), _CHUNK):
        part = slice(start, start + _CHUNK)
        total = _carry(total + np.rint(columns[part].T @ weights[part]).astype(np.int64))
    return total


def _carry(sums: np.ndarray) -> np.ndarray:
    """Carries what fractions have grown beyond 1 to their integers, so that they never overflow."""
    for i in range(0, len(sums) - 1, 2):
        sums[i] += sums[i + 1] >> _BITS
        sums[i + 1] &= (1 << _BITS) - 1
    return sums

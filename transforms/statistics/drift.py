"""What differs between the datasets of two runs, and which part of a changed mean comes from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Indices: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
Floats: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

LEAST_EXPECTED = 5
"""Expected count below which values of a column are put together: the test of smaller ones is inexact (Cochran)."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How a column differs between two runs.

    Attributes:
        column: The column, columns joined by "+", or "length of <column>".
        test: "chi2" of the values, or "ks" of the lengths.
        statistic: The test's statistic: chi-square, or the largest distance of the two distributions.
        p: p-value of "both runs have the same distribution"; 1 if there is nothing to compare.
        psi: Population stability index of the values; `None` for lengths.
    """

    column: str
    test: str
    statistic: float
    p: float
    psi: float | None = None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The change of a metric's mean over all scored instances: `change == mix + within`.

    Attributes:
        metric: The metric.
        column: The column, or columns joined by "+".
        change: Mean of the second run - mean of the first.
        mix: Part that comes from other shares of the column's values.
        within: Part that comes from other means of the same values.
    """

    metric: str
    column: str
    change: float
    mix: float
    within: float


def compare_counts(column: str, before: Mapping[Hashable, int], after: Mapping[Hashable, int]) -> Drift:
    """Compares the counts of a column's values by Pearson's chi-square test and the population stability index.

    The index is the sum of (q - p) * ln(q / p) over the shares of the values; a share of 0 counts as half a row.
    Customary bounds are 0.1 (moderate) and 0.25 (large).
    """
    m, n = sum(before.values()), sum(after.values())
    if not m or not n:
        return Drift(column, "chi2", 0.0, 1.0)
    pairs = [(before.get(value, 0), after.get(value, 0)) for value in {**before, **after}]
    shares = [(max(a, 0.5) / m, max(b, 0.5) / n) for a, b in pairs]
    psi = math.fsum((q - p) * math.log(q / p) for p, q in shares)
    share = min(m, n) / (m + n)
    kept = [pair for pair in pairs if sum(pair) * share >= LEAST_EXPECTED]
    rare = [pair for pair in pairs if sum(pair) * share < LEAST_EXPECTED]
    if rare:
        kept.append((sum(a for a, _ in rare), sum(b for _, b in rare)))
    # Each cell of both runs: (seen - expected)^2 / expected.
    square = math.fsum((a - (a + b) * m / (m + n)) ** 2 * (m + n) ** 2 / ((a + b) * m * n) for a, b in kept)
    return Drift(column, "chi2", square, chi_square_tail(square, len(kept) - 1), psi)


def chi_square_tail(value: float, df: int) -> float:
    """Returns the probability that chi-square with `df` degrees of freedom is at least `value`; 1 for `df` 0.

    Source: Abramowitz and Stegun (1964), 26.4.4 and 26.4.5.
    """
    if df <= 0 or value <= 0:
        return 1.0
    half = value / 2
    term = math.exp(-half) if df % 2 == 0 else math.exp(-half) * math.sqrt(half) * 2 / math.sqrt(math.pi)
    total = 0.0 if df % 2 == 0 else math.erfc(math.sqrt(half))
    for k in range(2 + df % 2, df + 1, 2):
        total += term
        term *= half / (k / 2)
    return min(total, 1.0)


def compare_lengths(column: str, before: Mapping[int, int], after: Mapping[int, int]) -> Drift:
    """Compares numbers, given with their counts, by the test of Kolmogorov and Smirnov.

    The p-value is that of the limit distribution with Stephens' correction; with equal numbers it is conservative.
    """
    m, n = sum(before.values()), sum(after.values())
    if not m or not n:
        return Drift(column, "ks", 0.0, 1.0)
    seen_before = seen_after = 0
    most = 0
    for value in sorted({**before, **after}):
        seen_before += before.get(value, 0)
        seen_after += after.get(value, 0)
        most = max(most, abs(seen_before * n - seen_after * m))
    distance, root = most / (m * n), math.sqrt(m * n / (m + n))
    return Drift(column, "ks", distance, kolmogorov_tail((root + 0.12 + 0.11 / root) * distance))


def kolmogorov_tail(value: float) -> float:
    """Returns the probability that Kolmogorov's limit distribution is at least `value`."""
    if value < 0.2:  # the series converges slowly there, and the probability is 1 to 12 digits
        return 1.0
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * value) ** 2) for k in range(1, 101))
    return min(max(2 * math.fsum(terms), 0.0), 1.0)


Totals = Mapping[Hashable, tuple[int, float]]
"""Number and sum of the scores of each value of a column."""


def decompose(metric: str, column: str, before: Totals, after: Totals) -> Decomposition | None:
    """Splits the change of a mean into mix and within; `None` if a run has no scores.

    A value that only one run has changed its share, not its mean. Source: Kitagawa (1955), Components of a difference
    between two rates.
    """
    m, n = (sum(count for count, _ in totals.values()) for totals in (before, after))
    if not m or not n:
        return None
    mix, within, change = [], [], []
    for value in {**before, **after}:
        (a, x), (b, y) = before.get(value, (0, 0.0)), after.get(value, (0, 0.0))
        old, new = (x / a if a else y / b), (y / b if b else x / a)
        mix.append((b / n - a / m) * (old + new) / 2)
        within.append((new - old) * (a / m + b / n) / 2)
        change += [y / n, -x / m]
    return Decomposition(metric, column, math.fsum(change), math.fsum(mix), math.fsum(within))


class DriftCounts:
    """Counts what two runs have of each column, some instances at a time; memory is that of the distinct values.

    Args:
        columns: Columns, joined by "+", by whose values instances are counted.
        texts: Columns whose lengths are counted.
        metrics: Metrics whose scores are summed for each value.
    """

    def __init__(self, columns: Iterable[str], texts: Iterable[str], metrics: Iterable[str]) -> None:
        self.texts = tuple(texts)
        self._metrics = tuple(metrics)
        self._values: dict[str, list[Counter[Hashable]]] = {c: [Counter(), Counter()] for c in columns}
        self._lengths: dict[str, list[Counter[int]]] = {c: [Counter(), Counter()] for c in self.texts}
        places = [(name, column) for column in self._values for name in self._metrics]
        self._totals: dict[tuple[str, str], list[dict[Hashable, tuple[int, float]]]] = {p: [{}, {}] for p in places}

    def add_values(
        self, side: int, column: str, values: Sequence[Hashable], places: Indices, scores: Mapping[str, Floats]
    ) -> None:
        """Adds instances of the first (0) or second (1) run with their values of a column.

        Args:
            side: The run.
            column: The column.
            values: Different values of the column.
            places: Place of each instance's value in the list.
            scores: Scores of each instance by metric, NaN where there is none.
        """
        for value, count in zip(values, np.bincount(places, minlength=len(values)).tolist(), strict=True):
            self._values[column][side][value] += count
        for name in self._metrics:
            totals, known = self._totals[name, column][side], np.isfinite(scores[name])
            counts = np.bincount(places[known], minlength=len(values)).tolist()
            sums = np.array([totals.get(value, (0, 0.0))[1] for value in values])
            np.add.at(sums, places[known], scores[name][known])
            for value, count, total in zip(values, counts, sums.tolist(), strict=True):
                if count:
                    totals[value] = totals.get(value, (0, 0.0))[0] + count, total

    def add_lengths(self, side: int, column: str, lengths: Mapping[int, int]) -> None:
        """Adds how many texts of a column have each length, in characters."""
        self._lengths[column][side].update(lengths)

    def drifts(self) -> list[Drift]:
        """Compares all columns, then all lengths that both runs have."""
        found = [compare_counts(column, *sides) for column, sides in self._values.items()]
        return [*found, *(compare_lengths(f"length of {c}", *s) for c, s in self._lengths.items() if all(s))]

    def decompositions(self) -> list[Decomposition]:
        """Splits the change of each metric by each column."""
        found = (decompose(name, column, *sides) for (name, column), sides in self._totals.items())
        return [one for one in found if one is not None]

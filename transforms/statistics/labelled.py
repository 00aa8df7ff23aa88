"""Means of a judge's scores, corrected by the labels that people gave to some of the rows.

Labels are few, so they are kept one by one, as a multiset: it merges exactly, in any order and any grouping. Sums are
taken at the end, over sorted rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from .accumulators import Distribution
from .clusters import Dyadic, exact_sums
from .intervals import about_mean, clipped, normal_quantile

MIN_LABELS = 10
"""Fewest labels that correct a mean: the interval rests on the central limit theorem."""


class Label(NamedTuple):
    """What a person says of a row: a value on the metric's scale, and one over the probability of being asked."""

    value: float
    weight: float = 1.0


Row: TypeAlias = tuple[float, float, float]
"""A labelled row: the judge's score, the person's label, and its weight."""
Cluster: TypeAlias = tuple[int, float, tuple[Row, ...]]
"""Dependent rows, some of them labelled: how many have a score, the sum of these scores, and the labelled rows."""
Labelled: TypeAlias = dict[Cluster, int]
"""A multiset of clusters with labels."""


def observe(
    values: Sequence[float | None], labels: Sequence[Label | None], clusters: Iterable[Sequence[int]] = ()
) -> Labelled:
    """Returns the labelled clusters among rows.

    A label of a row without a score says nothing of the judge, so it is left out.

    Args:
        values: The scores.
        labels: What people say of each row.
        clusters: Places of the rows of each cluster; other rows are clusters of their own.
    """
    found: Counter[Cluster] = Counter()
    of = {i: places for places in clusters for i in places}
    labelled = (i for i, label in enumerate(labels) if label and values[i] is not None)
    for places in {tuple(of.get(i, (i,))) for i in labelled}:
        scores = {i: value + 0.0 for i in places if (value := values[i]) is not None}
        said = [(i, label) for i in places if i in scores and (label := labels[i]) is not None]
        rows = ((scores[i], label.value, label.weight) for i, label in said)
        found[len(scores), math.fsum(scores.values()), tuple(sorted(rows))] += 1
    return dict(found)


def rows_of(labelled: Labelled) -> list[tuple[Row, int]]:
    """Returns the distinct labelled rows in order, each with its number."""
    counts: Counter[Row] = Counter()
    for (_, _, rows), times in labelled.items():
        for row in rows:
            counts[row] += times
    return sorted(counts.items())


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected mean; `None` if there is none, and why.

    Attributes:
        labels: Labelled rows with a score.
        mean: The estimate of the mean label over all scored rows.
        low, high: Its confidence interval.
        power: How much the judge's scores count, in [0, 1]: 0 is the mean of the labels alone.
        reason: Why there is no mean.
    """

    labels: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    power: float | None = None
    reason: str = ""


def correct(labelled: Labelled, scores: Distribution, confidence: float, ends: tuple[float, float] | None) -> Corrected:
    """Estimates the mean label over all scored rows from all scores and some labels.

    The mean of the scores is shifted by the mean difference between labels and scores, and both count as much as makes
    the variance least. Rows that were labelled with equal probabilities and do not depend on each other have the
    formulas of PPI++. Others have those of a difference estimator with weights, whose variance is that of independent
    clusters.

    Args:
        labelled: The rows with a label, of those in `scores`.
        scores: All scores.
        confidence: Level of the interval.
        ends: Lowest and highest possible mean; `None` without bounds.

    Source: Angelopoulos, Duchi and Zrnic (2023), PPI++: Efficient prediction-powered inference; Särndal, Swensson and
    Wretman (1992), Model assisted survey sampling, chapter 6.
    """
    rows = rows_of(labelled)
    number = sum(times for _, times in rows)
    if number < MIN_LABELS:
        return Corrected(number, reason=f"a corrected mean needs {MIN_LABELS} labels, found {number}")
    equal = len({weight for (_, _, weight), _ in rows}) == 1
    if equal and scores.clusters is None and scores.n > number:
        mean, error, power = _of_equal_rows(rows, scores)
    else:
        mean, error, power = _of_clusters(labelled, rows, scores)
    found = about_mean(mean, error, normal_quantile(confidence))
    if found is None:
        return Corrected(number, reason="the corrected mean is beyond float64")
    mean = mean if ends is None else min(max(mean, ends[0]), ends[1])
    low, high = clipped(_allow_for_unseen(found, mean, rows, ends, confidence), ends)
    return Corrected(number, mean, min(low, mean), max(high, mean), power)


def _allow_for_unseen(
    found: tuple[float, float],
    mean: float,
    rows: Sequence[tuple[Row, int]],
    ends: tuple[float, float] | None,
    confidence: float,
) -> tuple[float, float]:
    """Widens the interval if labels show no variance: all are equal, or all differ from their scores by the same.

    Then nothing measures how often others occur. The interval allows for the share of them that so many labels may not
    have shown (Wilson's bound for none), each at either end.
    """
    still = len({human for (_, human, _), _ in rows}) == 1 or len({human - judge for (judge, human, _), _ in rows}) == 1
    if ends is None or not still:
        return found
    weight = math.fsum(row[2] * times for row, times in rows)
    effective = weight**2 / math.fsum(row[2] ** 2 * times for row, times in rows)
    unseen = normal_quantile(confidence) ** 2 / (effective + normal_quantile(confidence) ** 2)
    return found[0] - unseen * (mean - ends[0]), found[1] + unseen * (ends[1] - mean)


def _of_equal_rows(rows: Sequence[tuple[Row, int]], scores: Distribution) -> tuple[float, float, float]:
    """Returns (mean, standard error, power) by PPI++ for a mean."""
    n = sum(times for _, times in rows)
    human, judge = (_mean(rows, lambda row, i=i: row[i]) for i in (1, 0))
    covariance = _mean(rows, lambda row: (row[1] - human) * (row[0] - judge))
    rest, others, variance = _unlabelled(rows, scores)
    pooled = scores.variance() or 0.0
    power = min(max(covariance / ((1 + n / rest) * pooled), 0.0), 1.0) if pooled else 0.0
    shift = human - power * judge
    residual = _mean(rows, lambda row: (row[1] - power * row[0] - shift) ** 2)
    return power * others + shift, math.sqrt(residual / n + power**2 * variance / rest), power


def _unlabelled(rows: Sequence[tuple[Row, int]], scores: Distribution) -> tuple[int, float, float]:
    """Returns number, mean and variance (ddof 0) of the scores without a label, from exact sums."""
    counts: Counter[float] = Counter()
    for (judge, _, _), times in rows:
        counts[judge] += times
    total, squares = exact_sums(counts)
    rest = scores.n - sum(counts.values())
    mean = (_fraction(scores.total) - _fraction(total)) / rest
    return rest, float(mean), float((_fraction(scores.squares) - _fraction(squares)) / rest - mean * mean)


def _of_clusters(
    labelled: Labelled, rows: Sequence[tuple[Row, int]], scores: Distribution
) -> tuple[float, float, float]:
    """Returns (mean, standard error, power) of the difference estimator.

    The estimate is a + power * b, a the weighted mean of the labels, b the mean of all scores less the weighted mean of
    those with a label. To either, a cluster adds a residual; the variance is that of the sum over clusters.
    """
    weight = math.fsum(row[2] * times for row, times in rows)
    human, judge = (math.fsum(row[2] * row[i] * times for row, times in rows) / weight for i in (1, 0))
    size = scores.n
    mean = float(_fraction(scores.total) / size)
    groups, spread = _spread(scores)
    first: list[float] = []
    mixed: list[float] = []
    second = [float(spread)]
    for (count, total, members), times in sorted(labelled.items()):
        all_rows = (total - count * mean) / size
        by_label = math.fsum(w * (y - human) for _, y, w in members) / weight
        by_score = -math.fsum(w * (f - judge) for f, _, w in members) / weight
        first.append(times * by_label**2)
        mixed.append(times * by_label * (all_rows + by_score))
        second.append(times * by_score * (2 * all_rows + by_score))
    a, ab, b = math.fsum(first), math.fsum(mixed), math.fsum(second)
    power = min(max(-ab / b, 0.0), 1.0) if b > 1e-12 * second[0] and b > 0 else 0.0
    variance = (a + 2 * power * ab + power**2 * b) * groups / max(groups - 1, 1)
    return human + power * (mean - judge), math.sqrt(max(variance, 0.0)), power


def _spread(scores: Distribution) -> tuple[int, Fraction]:
    """Returns the number of clusters, and the sum of the squares of what each adds to the mean of all scores."""
    size, total = scores.n, _fraction(scores.total)
    mean = total / size
    if scores.clusters is None:
        return size, (_fraction(scores.squares) - total * mean) / size**2
    number, sizes, squares, products = scores.clusters[:4]
    return number, (_fraction(squares) - 2 * mean * _fraction(products) + mean**2 * sizes) / size**2


def _mean(rows: Sequence[tuple[Row, int]], of: Callable[[Row], float]) -> float:
    return math.fsum(of(row) * times for row, times in rows) / sum(times for _, times in rows)


def _fraction(value: Dyadic) -> Fraction:
    return Fraction(value.numerator, 1 << value.exponent)

"""How well a judge agrees with people: statistics of pairs of a score and a label, each with its standard error."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from .intervals import normal_quantile, within

Joint: TypeAlias = Mapping[tuple[float, float], float]
"""The share of each pair of a judge's score and a person's label; the shares add up to 1."""
Measure: TypeAlias = Callable[[float, float], float]
"""How far two values are apart: 0 for equal values."""


class Estimate(NamedTuple):
    """A value, and its standard error if there is one."""

    value: float
    error: float | None

    def interval(self, n: float, ends: tuple[float, float], confidence: float) -> tuple[float, float]:
        """Returns an interval within the ends, from `n` labels; it never has zero width."""
        low, high = ends
        share = (self.value - low) / (high - low)
        effective = None
        if self.error and 0 < share < 1:
            effective = 1 + share * (1 - share) * ((high - low) / self.error) ** 2
        value = min(max(self.value, low), high)
        return within(value, effective, max(int(n), 1), ends, normal_quantile(confidence))


def differ(one: float, other: float) -> float:
    """The distance of categories without an order: 1 unless they are the same."""
    return float(one != other)


def square(one: float, other: float) -> float:
    """The distance of numbers: the square of their difference."""
    return (one - other) ** 2


def kappa(joint: Joint, n: float, distance: Measure) -> Estimate | None:
    """Returns Cohen's kappa, weighted by a distance; `None` if judge and people always say the same one value.

    Args:
        joint: The pairs.
        n: Number of labels.
        distance: `differ` for the unweighted one, `square` for quadratic weights.

    Source: Cohen (1968), Weighted kappa; its error by Fleiss, Cohen and Everitt (1969), Large sample standard errors of
    kappa and weighted kappa, formula 13.
    """
    judge, human = marginals(joint)
    most = max(distance(i, j) for i in {*judge, *human} for j in {*judge, *human})
    if not most:
        return None
    weigh = {(i, j): 1 - distance(i, j) / most for i in judge for j in human}
    by_judge = {i: math.fsum(p * weigh[i, j] for j, p in human.items()) for i in judge}
    by_human = {j: math.fsum(p * weigh[i, j] for i, p in judge.items()) for j in human}
    seen = math.fsum(p * weigh[pair] for pair, p in joint.items())
    chance = math.fsum(p * by_judge[i] for i, p in judge.items())
    if chance >= 1:
        return None
    value = (seen - chance) / (1 - chance)
    squares = (p * (weigh[i, j] - (by_judge[i] + by_human[j]) * (1 - value)) ** 2 for (i, j), p in joint.items())
    variance = (math.fsum(squares) - (value - chance * (1 - value)) ** 2) / (n * (1 - chance) ** 2)
    return Estimate(value, math.sqrt(max(variance, 0.0)))


def alpha(units: Iterable[tuple[Sequence[float], float]], distance: Measure) -> Estimate | None:
    """Returns Krippendorff's alpha; `None` if all values are equal or no unit has two.

    Its standard error is that of the means from which it is computed (the delta method).

    Args:
        units: The values that a unit was given, and how many such units there are.
        distance: `differ` for categories (nominal), `square` for numbers (interval).

    Source: Krippendorff (2004), Content analysis, chapter 11.
    """
    paired = [(values, times) for values, times in units if len(values) > 1]
    counts: dict[float, float] = defaultdict(float)
    for values, times in paired:
        for value in values:
            counts[value] += times
    if len(counts) < 2:
        return None
    total, number = math.fsum(counts.values()), math.fsum(times for _, times in paired)
    far = _distances(counts, total, distance)
    chance = math.fsum(times * far[v] for v, times in counts.items()) / total
    own = [math.fsum(distance(v, w) for v in values for w in values) / (len(values) - 1) for values, _ in paired]
    apart = math.fsum(one * times for one, (_, times) in zip(own, paired, strict=True)) / total
    ratio, parts = apart / chance, []
    for one, (values, times) in zip(own, paired, strict=True):
        added = one - len(values) * apart - ratio * 2 * math.fsum(far[v] - chance for v in values)
        parts.append(times * (added / (total * chance)) ** 2)
    error = math.sqrt(math.fsum(parts)) if number > 1 else None
    return Estimate(1 - ratio * (total - 1) / total, error)


def _distances(counts: Mapping[float, float], total: float, distance: Measure) -> dict[float, float]:
    """Returns the mean distance of each value from all values, without looking at every pair."""
    if distance is differ:
        return {v: 1 - times / total for v, times in counts.items()}
    mean = math.fsum(v * times for v, times in counts.items()) / total
    variance = math.fsum((v - mean) ** 2 * times for v, times in counts.items()) / total
    return {v: (v - mean) ** 2 + variance for v in counts}


def auc(joint: Joint, n: float, passes: Callable[[float], bool]) -> Estimate | None:
    """Returns the probability that a row that people pass has a higher score than one that they fail; ties are half.

    `None` if people pass all or none. Source: DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under two
    or more correlated receiver operating characteristic curves.
    """
    sides: tuple[dict[float, float], dict[float, float]] = (defaultdict(float), defaultdict(float))
    for (judge, human), p in sorted(joint.items()):
        sides[passes(human)][judge] += p
    shares = [math.fsum(side.values()) for side in sides]
    if not all(shares):
        return None
    places = [
        ranks({score: p / whole for score, p in side.items()}, sides) for side, whole in zip(sides, shares, strict=True)
    ]
    value = math.fsum(p * places[0][score] for score, p in sides[1].items()) / shares[1]
    variance = 0.0
    for own, (side, whole) in enumerate(zip(sides, shares, strict=True)):
        size = n * whole
        if size <= 1:
            return Estimate(value, None)
        mean = value if own else 1 - value
        squares = math.fsum(p * (places[1 - own][score] - mean) ** 2 for score, p in side.items()) / whole
        variance += squares / (size - 1)
    return Estimate(value, math.sqrt(variance))


def spearman(joint: Joint, n: float) -> Estimate | None:
    """Returns Spearman's rank correlation; `None` if either has one value alone.

    Source of its error: Bonett and Wright (2000), Sample size requirements for estimating Pearson, Kendall and Spearman
    correlations.
    """
    judge, human = marginals(joint)
    if len(judge) < 2 or len(human) < 2:
        return None
    x, y = ({v: r - 0.5 for v, r in ranks(side, (side,)).items()} for side in (judge, human))
    product = math.fsum(p * x[i] * y[j] for (i, j), p in joint.items())
    squares = [math.fsum(p * rank[v] ** 2 for v, p in side.items()) for side, rank in ((judge, x), (human, y))]
    value = min(max(product / math.sqrt(squares[0] * squares[1]), -1.0), 1.0)
    if n <= 3:
        return Estimate(value, None)
    return Estimate(value, (1 - value**2) * math.sqrt((1 + value**2 / 2) / (n - 3)))


def marginals(joint: Joint) -> tuple[dict[float, float], dict[float, float]]:
    """Returns the share of each score of the judge, and of each label, in ascending order."""
    sides: tuple[dict[float, float], dict[float, float]] = (defaultdict(float), defaultdict(float))
    for pair, p in sorted(joint.items()):
        for side, value in zip(sides, pair, strict=True):
            side[value] += p
    return dict(sorted(sides[0].items())), dict(sorted(sides[1].items()))


def ranks(shares: Mapping[float, float], of: Iterable[Mapping[float, float]]) -> dict[float, float]:
    """Returns the share of values below each value that occurs in `of`, equal values counting half."""
    values = sorted({v for side in of for v in side})
    upto = list(accumulate(shares.get(v, 0.0) for v in values))
    return {v: end - shares.get(v, 0.0) / 2 for v, end in zip(values, upto, strict=True)}


def rogan_gladen(
    apparent: float, sensitivity: float, specificity: float, sizes: tuple[float, float, float] | None = None
) -> Estimate | None:
    """Returns the share that people would pass, from the share that the judge passes; within [0, 1].

    `None` if the judge is no better than chance: sensitivity + specificity <= 1.

    Args:
        apparent: Share of rows that the judge passes.
        sensitivity, specificity: Shares of the rows that people pass and fail, of which the judge says the same.
        sizes: Number of rows, and of labels that pass and fail, for the standard error.

    Source: Rogan and Gladen (1978), Estimating prevalence from the results of a screening test.
    """
    power = sensitivity + specificity - 1
    if power <= 0:
        return None
    share = min(max((apparent + specificity - 1) / power, 0.0), 1.0)
    if sizes is None or not all(sizes):
        return Estimate(share, None)
    parts = (
        apparent * (1 - apparent) / sizes[0],
        share**2 * sensitivity * (1 - sensitivity) / sizes[1],
        (1 - share) ** 2 * specificity * (1 - specificity) / sizes[2],
    )
    return Estimate(share, math.sqrt(math.fsum(parts)) / power)

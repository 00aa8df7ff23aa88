"""How often the intervals of a summary hold the truth: simulations that bench_statistics.py prints."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from scipy import stats

from evalbeam.schemas.config.evaluation import StatisticsConfig
from evalbeam.schemas.result import SliceKey, Summary
from evalbeam.transforms.aggregate import summarize
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.clusters import Clusters, counted
from evalbeam.transforms.statistics.order_statistics import QUANTILES
from evalbeam.transforms.statistics.slices import MetricFacts

Draw: TypeAlias = Callable[[np.random.Generator, int, float], np.ndarray]
"""Draws n scores with a mean that is the share p of the way between the ends."""
Check: TypeAlias = tuple[str, Callable[[], float], float]
"""(name, figure, its bound)."""

PLAIN, UNIT, STARS = (MetricFacts("m", range=ends) for ends in (None, (0.0, 1.0), (1.0, 5.0)))


def draw_quarters(rng: np.random.Generator, n: int, p: float) -> np.ndarray:
    """Fractions such as a recall of four: 0, 1/4 ... 1."""
    return rng.binomial(4, p, n) / 4


def draw_ratings(rng: np.random.Generator, n: int, p: float) -> np.ndarray:
    """Ratings from 1 to 5."""
    return 1.0 + rng.binomial(4, p, n)


def draw_mostly_best(rng: np.random.Generator, n: int, p: float) -> np.ndarray:
    """Fractions of which most are 1, and the others are anywhere below."""
    return np.where(rng.random(n) < 2 * (1 - p), rng.random(n), 1.0)


KINDS: tuple[tuple[str, Draw, MetricFacts], ...] = (
    ("quarters", draw_quarters, UNIT),
    ("fractions, most of them 1", draw_mostly_best, UNIT),
    ("ratings", draw_ratings, STARS),
)


def summary_of(scores: np.ndarray, facts: MetricFacts, trials: int = 1) -> Summary:
    """The summary row of scores, of which `trials` consecutive ones are an instance's."""
    values = scores.tolist()
    groups = Clusters.of(values[i : i + trials] for i in range(0, len(values), trials)) if trials > 1 else None
    rows = Accumulator(len(values), len(values), counts=counted(values), clusters=groups)
    return summarize(SliceKey((), facts.name), rows, facts, StatisticsConfig())


def holds(found: Summary, truth: float) -> bool:
    """Whether the interval holds the true mean."""
    return found.ci_low is not None and found.ci_high is not None and found.ci_low <= truth <= found.ci_high


def share_coverage(facts: MetricFacts, n: int, p: float) -> float:
    """Probability that the interval of n scores 0 and 1 holds their true share; exact, over all outcomes."""
    chances = stats.binom.pmf(range(n + 1), n, p)
    held = [holds(summary_of(np.repeat([0.0, 1.0], [n - k, k]), facts), p) for k in range(n + 1)]
    return float(chances @ held)


def coverage(draw: Draw, facts: MetricFacts, n: int, p: float, simulations: int) -> float:
    """Share of the intervals of n independent scores that hold the true mean."""
    rng = np.random.default_rng([n, round(100 * p)])
    low, high = facts.range or (0.0, 1.0)
    truth = low + p * (high - low)
    return sum(holds(summary_of(draw(rng, n, p), facts), truth) for _ in range(simulations)) / simulations


def draw_clusters(rng: np.random.Generator, groups: int, trials: int, kind: str) -> tuple[np.ndarray, float]:
    """Scores of instances of several trials that resemble each other, and their true mean."""
    if kind == "unbounded":
        return np.repeat(rng.normal(3, 1, groups), trials) + rng.normal(0, 1, groups * trials), 3.0
    level = np.repeat(rng.beta(4, 2, groups), trials)
    if kind == "0/1":
        return (rng.random(groups * trials) < level).astype(float), 2 / 3
    return 1.0 + rng.binomial(4, level), 1 + 4 * 2 / 3


def clustered_coverage(kind: str, groups: int, simulations: int, trials: int = 8) -> float:
    """Share of the intervals over clusters that hold the true mean."""
    facts = {"unbounded": PLAIN, "0/1": UNIT, "ratings": STARS}[kind]
    rng, held = np.random.default_rng(groups), 0
    for _ in range(simulations):
        scores, truth = draw_clusters(rng, groups, trials, kind)
        held += holds(summary_of(scores, facts, trials), truth)
    return held / simulations


def quantile_coverage(name: str, simulations: int, n: int = 200, trials: int = 1) -> float:
    """Share of the intervals of a quantile of log-normal scores that hold it; an end that is not known holds all.

    Of several trials, each row has one score that all its trials resemble.
    """
    rng, held, (p, q) = np.random.default_rng(trials), 0, QUANTILES[name]
    truth = float(stats.lognorm.ppf(p / q, math.sqrt(1.0 if trials == 1 else 1.25)))
    for _ in range(simulations):
        logs = np.repeat(rng.normal(0, 1, n // trials), trials)
        if trials > 1:
            logs = logs + rng.normal(0, 0.5, len(logs))
        found = summary_of(np.exp(logs), PLAIN, trials)
        low, high = getattr(found, f"{name}_ci_low"), getattr(found, f"{name}_ci_high")
        held += (low is None or low <= truth) and (high is None or truth <= high)
    return held / simulations


def list_coverages(simulations: int) -> Iterator[Check]:
    """Lists the checks: every kind of score, size and mean."""
    for n in (10, 24, 50, 200):
        for p in (0.5, 0.8, 0.95, 0.99):
            for words, facts in (("0/1", UNIT), ("0/1 without a range", PLAIN)):
                yield f"interval of {words}, n = {n}, p = {p}", functools.partial(share_coverage, facts, n, p), 0.90
    for words, draw, facts in KINDS:
        for n in (10, 24, 50, 200):
            for p in (0.5, 0.8, 0.95, 0.99):
                call = functools.partial(coverage, draw, facts, n, p, simulations)
                yield f"interval of {words}, n = {n}, p = {p}", call, 0.90
    for kind in ("0/1", "ratings", "unbounded"):
        for groups in (3, 5, 20):
            call = functools.partial(clustered_coverage, kind, groups, simulations)
            yield f"interval of {groups} clusters, {kind}", call, 0.94
    for name in QUANTILES:
        yield f"interval of {name}, n = 200", functools.partial(quantile_coverage, name, simulations), 0.93
        trials = functools.partial(quantile_coverage, name, simulations, 800, 4)
        yield f"interval of {name}, 200 rows of 4 trials", trials, 0.93

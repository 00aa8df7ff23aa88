"""Intervals of quantiles: ranks against scipy, and how often they hold the quantile."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evalbeam.schemas.config.evaluation import StatisticsConfig
from evalbeam.schemas.result import SliceKey, Summary
from evalbeam.transforms.aggregate import summarize
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.clusters import Clusters, counted
from evalbeam.transforms.statistics.order_statistics import QUANTILES, bounding_ranks
from evalbeam.transforms.statistics.slices import MetricFacts

STARS, PLAIN = MetricFacts("m", range=(1.0, 5.0)), MetricFacts("m")


def summary(values: np.ndarray, facts: MetricFacts = PLAIN, trials: int = 1) -> Summary:
    scores = values.tolist()
    groups = Clusters.of(scores[i : i + trials] for i in range(0, len(scores), trials)) if trials > 1 else None
    rows = Accumulator(len(scores), len(scores), counts=counted(scores), clusters=groups)
    return summarize(SliceKey((), "m"), rows, facts, StatisticsConfig())


def ranks_by_scipy(n: int, p: float, confidence: float) -> tuple[int | None, int | None]:
    low = int(stats.binom.ppf((1 - confidence) / 2, n, p))
    high = int(stats.binom.ppf((1 + confidence) / 2, n, p)) + 1
    return low or None, high if high <= n else None


@pytest.mark.parametrize("confidence", [0.83, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 2, 5, 17, 59, 200, 999, 4000, 9999])
def test_ranks_are_those_of_the_binomial_distribution(n: int, confidence: float) -> None:
    for p, q in QUANTILES.values():
        assert bounding_ranks(n, p, q, confidence) == ranks_by_scipy(n, p / q, confidence)


@pytest.mark.parametrize("n", [30_001, 1_000_000, 123_456_789])
def test_ranks_of_many_rows_are_at_most_one_beyond(n: int) -> None:
    for p, q in QUANTILES.values():
        ours, theirs = bounding_ranks(n, p, q, 0.95), ranks_by_scipy(n, p / q, 0.95)
        assert None not in ours + theirs
        assert 0 <= theirs[0] - ours[0] <= 1  # type: ignore[operator]
        assert 0 <= ours[1] - theirs[1] <= 1  # type: ignore[operator]


def test_intervals_hold_the_quantile_of_200_rows() -> None:
    """2,000 simulations of log-normal scores; all figures are in tests/benchmarks/bench_statistics.py."""
    rng = np.random.default_rng(0)
    held = dict.fromkeys(QUANTILES, 0)
    for _ in range(2000):
        found = summary(rng.lognormal(0, 1, 200))
        for name, (p, q) in QUANTILES.items():
            truth = float(stats.lognorm.ppf(p / q, 1))
            low, high = getattr(found, f"{name}_ci_low"), getattr(found, f"{name}_ci_high")
            assert low is not None
            held[name] += low <= truth <= (np.inf if high is None else high)
    assert min(held.values()) >= 0.93 * 2000


def test_an_end_that_few_rows_do_not_show_is_that_of_the_range() -> None:
    few = np.array([2.0, 3.0, 4.0])
    found, open_ = summary(few, STARS), summary(few)
    assert (found.median_ci_low, found.median, found.median_ci_high) == (1.0, 3.0, 5.0)
    assert (open_.median_ci_low, open_.p99_ci_low, open_.p99_ci_high) == (None, 3.0, None)
    nothing = summary(np.array([]), STARS)
    assert (nothing.median, nothing.median_ci_low, nothing.median_ci_high) == (None, None, None)


def test_copies_in_clusters_are_no_further_rows() -> None:
    values = np.random.default_rng(1).normal(0, 1, 40)
    once, many = summary(values), summary(np.repeat(values, 50), trials=50)
    assert (many.median_ci_low, many.median_ci_high) == (once.median_ci_low, once.median_ci_high)
    apart = summary(np.repeat(values, 50))
    assert apart.median_ci_high - apart.median_ci_low < 0.5 * (many.median_ci_high - many.median_ci_low)  # type: ignore[operator]

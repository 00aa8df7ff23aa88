"""The Poisson bootstrap: its weights, its sums in any order, and its errors against formulas."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from evalbeam.schemas.config.evaluation import StatisticsConfig
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch, SliceKey, Summary
from evalbeam.transforms.aggregate import summarize
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.bootstrap import (
    REPLICATES,
    Draws,
    Replicates,
    draw_weights,
    fixed_point,
    interval,
)
from evalbeam.transforms.statistics.permutation import key_of
from evalbeam.transforms.statistics.slices import MetricFacts, Partials

FACTS = (MetricFacts("cost"), MetricFacts("success", range=(0.0, 1.0)), MetricFacts("each", ratio=("cost", "success")))


def batches(cost: np.ndarray, success: np.ndarray, size: int, trials: int = 1) -> list[ScoredBatch]:
    found = []
    for start in range(0, len(cost), size * trials):
        places = range(start, min(start + size * trials, len(cost)))
        rows = [
            Example(Instance(f"{i // trials:032x}", {"part": str(i % 3)}), Invocation(), i % trials) for i in places
        ]
        columns = {"cost": cost, "success": success}
        scores = {n: ScoreColumn.of([Score(float(v[i])) for i in places]) for n, v in columns.items()}
        found.append(ScoredBatch(rows, scores))
    return found


def merged(given: list[ScoredBatch]) -> dict[SliceKey, Accumulator]:
    whole: dict[SliceKey, Accumulator] = {}
    for batch in given:
        for key, part in Partials([(), ("part",)], FACTS, resample=True).count(batch):
            whole.setdefault(key, Accumulator()).absorb(Accumulator.decode(part.encode()))
    return whole


def summaries(given: list[ScoredBatch]) -> dict[SliceKey, Summary]:
    facts = {one.name: one for one in FACTS}
    statistics = StatisticsConfig(ci="bootstrap")
    return {key: summarize(key, rows, facts[key.metric], statistics) for key, rows in merged(given).items()}


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    success = (rng.random(n) < 0.6).astype(float)
    return rng.lognormal(0, 1, n) + success, success


def test_weights_are_poisson_and_independent() -> None:
    weights = draw_weights(np.array([key_of(str(i)) for i in range(2000)], np.uint64))
    assert weights.shape == (2000, REPLICATES + 1)
    assert set(weights[:, -1]) == {1.0}
    counts = np.bincount(weights[:, :-1].astype(int).ravel(), minlength=9)
    expected = stats.poisson.pmf(range(9), 1) * counts.sum()
    assert counts[:9] == pytest.approx(expected, rel=0.02, abs=40)
    correlations = np.corrcoef(weights[:200, :-1])
    assert np.abs(correlations[~np.eye(200, dtype=bool)]).max() < 0.2


@pytest.mark.parametrize("trials", [1, 4])
def test_the_error_of_a_mean_is_that_of_clusters(trials: int) -> None:
    """Within 5 % of the cluster-robust formula for 400 clusters; the noise of 1,000 replicates alone is 2 %."""
    rng = np.random.default_rng(1)
    cost = np.repeat(rng.normal(5, 1, 400), trials) + rng.normal(0, 0.5, 400 * trials)
    found = summaries(batches(cost, cost, 100, trials))[SliceKey((), "cost")]
    means = cost.reshape(400, trials).mean(1)
    assert found.se == pytest.approx(stats.sem(means), rel=0.05)
    assert found.ci_method == "bootstrap"
    low, high = stats.norm.interval(0.95, cost.mean(), stats.sem(means))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=0.3 * stats.sem(means))


def test_the_error_of_a_ratio_is_that_of_its_linear_form() -> None:
    cost, success = drawn(2000)
    found = summaries(batches(cost, success, 256))[SliceKey((), "each")]
    ratio = cost.sum() / success.sum()
    error = np.std(cost - ratio * success, ddof=1) / np.sqrt(2000) / success.mean()
    assert found.mean == pytest.approx(ratio, rel=1e-12)
    assert found.se == pytest.approx(error, rel=0.07)
    assert (found.row_count, found.scored_count, found.coverage) == (2000, 2000, 1.0)


def test_the_same_bits_whatever_the_order_and_the_batches() -> None:
    cost, success = drawn(700)
    expected = summaries(batches(cost, success, 700))
    assert len(expected) == 12
    for size in (5, 64, 257):
        for seed in range(10):
            shuffled = batches(cost, success, size)
            random.Random(seed).shuffle(shuffled)
            assert summaries(shuffled) == expected


def test_accumulators_merge_in_any_grouping() -> None:
    cost, success = drawn(300)
    parts = [merged([one])[SliceKey((), "each")] for one in batches(cost, success, 10)]
    left, right = Accumulator(), Accumulator()
    for part in parts:
        left.absorb(part)
    halves = [Accumulator(), Accumulator()]
    for i, part in enumerate(reversed(parts)):
        halves[i % 2].absorb(part)
    for half in halves:
        right.absorb(half)
    assert left.replicates is not None
    assert right.replicates is not None
    first, second = left.replicates.values(), right.replicates.values()
    assert first is not None
    assert second is not None
    assert first.tobytes() == second.tobytes()


def test_equal_scores_have_the_interval_of_auto() -> None:
    found = summaries(batches(np.ones(50), np.ones(50), 50))[SliceKey((), "success")]
    assert (found.ci_method, found.ci_high) == ("wilson", 1.0)
    assert found.ci_low == pytest.approx(proportion_confint(50, 50, method="wilson")[0])


def test_runs_share_the_weights_of_a_row() -> None:
    """The difference of two runs varies as their pairs do, not as two samples."""
    cost, _ = drawn(400)
    draws = Draws(f"{i:032x}" for i in range(400))
    one, other = (draws.over(None, fixed_point(values.tolist())).values() for values in (cost, cost + 0.1))
    assert one is not None
    assert other is not None
    assert other - one == pytest.approx(np.full(REPLICATES + 1, 0.1), abs=1e-9)


def test_what_is_not_defined_is_none() -> None:
    draws = Draws(map(str, range(100)))
    nothing, zeros = [None] * 100, [0.0] * 100
    assert interval(draws.over(None, fixed_point(nothing)), 0.95) is None
    assert interval(draws.over(None, fixed_point([1.0] * 100, zeros)), 0.95) is None
    assert interval(draws.over(None, fixed_point([1e13] * 100)), 0.95) is None
    assert interval(Replicates(), 0.95) is interval(None, 0.95) is None

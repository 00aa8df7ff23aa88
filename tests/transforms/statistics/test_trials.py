"""Trials of one instance are a cluster: intervals against statsmodels, and that copies of answers show nothing new."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.config.evaluation import StatisticsConfig
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch, SliceKey, Summary
from evalbeam.transforms.aggregate import summarize
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.intervals import t_quantile
from evalbeam.transforms.statistics.slices import MetricFacts, Partials

GRADE, SHARE = MetricFacts("m", worst=0.0, best=5.0), MetricFacts("m", worst=0.0, best=1.0, binary=True)
RANGED = MetricFacts("m", worst=0.0, best=5.0, range=(0.0, 5.0))
GRADES = st.sampled_from([0.1, 0.3, 1.0, 2.5, 5.0]) | st.none()
SHARES = st.sampled_from([0.0, 1.0, None])


def clusters_of(values: st.SearchStrategy, trials: int) -> st.SearchStrategy[list[list[float | None]]]:
    return st.lists(st.lists(values, min_size=trials, max_size=trials), min_size=1, max_size=12)


def batch_of(clusters: list[list[float | None]], begin: int = 0) -> ScoredBatch:
    examples = [
        Example(Instance(f"{begin + i:04d}", {"part": i % 2}), Invocation(), trial)
        for i, cluster in enumerate(clusters)
        for trial in range(len(cluster))
    ]
    scores = [Score.failed("e", "m") if v is None else Score(v) for cluster in clusters for v in cluster]
    return ScoredBatch(examples, {"m": ScoreColumn.of(scores)})


def accumulated(clusters: list[list[float | None]], size: int = 100, facts: MetricFacts = GRADE) -> Accumulator:
    whole = Accumulator()
    for begin in range(0, len(clusters), size):
        [(_, part)] = Partials([()], [facts]).count(batch_of(clusters[begin : begin + size], begin))
        whole.absorb(part)
    return whole


def summary(clusters: list[list[float | None]], facts: MetricFacts = GRADE, **options: str) -> Summary:
    return summarize(SliceKey((), "m"), accumulated(clusters, facts=facts), facts, StatisticsConfig(**options))


def figures(found: Summary) -> list[float]:
    return [math.nan if v is None else v for v in (found.mean, found.se, found.ci_low, found.ci_high)]


def graded(clusters: list[list[float | None]]) -> bool:
    """Whether not all scores are 1, which would be shares."""
    return {v for c in clusters for v in c if v is not None} != {1.0}


@given(clusters_of(GRADES, 3).filter(graded))
def test_the_error_and_the_interval_of_a_mean_are_statsmodels(clusters: list[list[float | None]]) -> None:
    values = [v for c in clusters for v in c if v is not None]
    groups = [i for i, c in enumerate(clusters) for v in c if v is not None]
    found = summary(clusters)
    several = len(values) > len(set(groups))
    if len(set(groups)) < 2:
        assert (found.se, found.ci_low, found.ci_method) == (None, None, None)
        return
    options = {"groups": np.array(groups)}
    fit = sm.OLS(np.array(values), np.ones(len(values))).fit(cov_type="cluster", cov_kwds=options, use_t=True)
    assert found.ci_method == ("cluster" if several else "t")
    assert found.se == pytest.approx(fit.bse[0], rel=1e-9, abs=1e-12)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-9, abs=1e-9)


@given(clusters_of(GRADES | st.floats(-1e9, 1e9), 2), st.integers(1, 12))
def test_any_cut_into_batches_gives_the_same_bytes(clusters: list[list[float | None]], size: int) -> None:
    whole = accumulated(clusters)
    assert accumulated(clusters[::-1], size).encode() == whole.encode()
    assert Accumulator.decode(whole.encode()) == whole


@given(clusters_of(GRADES, 1).filter(graded), st.integers(2, 5))
def test_copies_of_graded_answers_do_not_narrow_the_interval(once: list[list[float | None]], trials: int) -> None:
    one, many = summary(once), summary([c * trials for c in once])
    assert figures(many) == pytest.approx(figures(one), rel=1e-9, abs=1e-12, nan_ok=True)
    one, many = summary(once, RANGED), summary([c * trials for c in once], RANGED)
    if one.se:
        assert figures(many) == pytest.approx(figures(one), rel=1e-9, abs=1e-12)


@given(clusters_of(SHARES, 1), st.integers(2, 5))
def test_copies_of_right_and_wrong_answers_do_not_narrow_it_either(once: list[list[float | None]], trials: int) -> None:
    """They widen it: that rows have one trial each is a fact, and that trials agree an estimate (Student's t)."""
    one, many, more = (summary([c * times for c in once], SHARE) for times in (1, trials, trials + 1))
    if one.mean is None:
        assert many.ci_low is None
        return
    assert many.ci_low <= one.ci_low + 1e-12
    assert many.ci_high >= one.ci_high - 1e-12
    assert figures(more) == pytest.approx(figures(many), rel=1e-9, abs=1e-12, nan_ok=True)


@given(clusters_of(SHARES, 3))
def test_a_share_s_interval_is_within_0_and_1_and_never_narrower_than_of_independent_rows(
    clusters: list[list[float | None]],
) -> None:
    values = [v for c in clusters for v in c if v is not None]
    found, naive = summary(clusters, SHARE), summary([[v] for v in values], SHARE)
    if not values:
        assert found.ci_low is None
        return
    assert 0.0 <= found.ci_low <= found.mean <= found.ci_high <= 1.0
    width, least = found.ci_high - found.ci_low, naive.ci_high - naive.ci_low
    assert width >= least or math.isclose(width, least, rel_tol=1e-9)


def test_instances_that_are_as_often_right_in_all_their_trials_count_as_all_their_rows() -> None:
    found = summary([[1.0, 0.0]] * 40, SHARE)
    t = t_quantile(0.95, 39)
    half = t * math.sqrt(0.25 / 80 + t**2 / (4 * 80**2)) / (1 + t**2 / 80)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-12)


@given(clusters_of(GRADES | st.just(0.0), 2))
def test_a_ranged_metric_s_interval_has_a_width_and_stays_in_the_range(clusters: list[list[float | None]]) -> None:
    found = summary(clusters, RANGED)
    if found.mean is None:
        assert found.ci_low is None
        return
    assert 0.0 <= found.ci_low <= found.mean <= found.ci_high <= 5.0
    assert found.ci_low < found.ci_high


def test_one_instance_shows_nothing_of_others() -> None:
    for facts in (RANGED, SHARE):
        found = summary([[1.0, 0.0, 1.0]], facts)
        assert (found.ci_low, found.ci_high, found.ci_method) == (*(facts.range or (0.0, 1.0)), "cluster")


@pytest.mark.parametrize("number", [3, 5, 20])
def test_intervals_of_clusters_cover(number: int) -> None:
    """Each row has a share of its own (Beta of mean .8, intracluster correlation 1/3), and five trials."""
    rng = np.random.default_rng(number)
    hits = 0
    for _ in range(400):
        rows = rng.random((number, 5)) < rng.beta(1.6, 0.4, number)[:, None]
        found = summary([[float(v) for v in row] for row in rows], SHARE)
        hits += found.ci_low <= 0.8 <= found.ci_high
    assert hits / 400 >= 0.93  # .95 within two standard errors of 400 repetitions


def test_the_normal_approximation_takes_rows_as_independent() -> None:
    clusters = [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    alone = [[v] for c in clusters for v in c]
    found, independent = summary(clusters, SHARE, ci="normal"), summary(alone, SHARE, ci="normal")
    assert figures(found) == figures(independent)
    assert (found.n_clusters, independent.n_clusters, independent.design_effect) == (3, 9, 1.0)


def test_slices_have_clusters_of_their_own() -> None:
    clusters = [[1.0, 2.0], [5.0, 5.0], [0.0, 1.0], [2.5, 0.1]]
    found = {key.slice: part for key, part in Partials([(), ("part",)], [GRADE]).count(batch_of(clusters))}
    for part in (0, 1):
        [(_, expected)] = Partials([()], [GRADE]).count(batch_of(clusters[part::2]))
        assert found[(("part", str(part)),)].clusters == expected.clusters

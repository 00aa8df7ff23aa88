"""The sign-flip test and adjusted p-values, against scipy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from evalbeam.transforms.statistics.multiplicity import benjamini_hochberg, holm
from evalbeam.transforms.statistics.permutation import BUCKETS, EXACT, FLIPS, fold, key_of, sign_flip, sign_test

TABLE_OF_1995 = (0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459)
TABLE_OF_1995 += (0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0)


def flipped(values: list[float], flips: int = FLIPS) -> float:
    return sign_flip({key_of(str(i)): value for i, value in enumerate(values)}, flips)


def by_scipy(values: list[float]) -> float:
    def total(x: np.ndarray, axis: int = -1) -> np.ndarray:
        return x.sum(axis)

    found = stats.permutation_test(
        (np.array(values),), total, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    return float(found.pvalue)


@given(st.lists(st.integers(-5, 5).map(lambda i: i / 8), min_size=2, max_size=12))
def test_every_outcome_is_counted_as_scipy_does(values: list[float]) -> None:
    assert flipped(values) == pytest.approx(by_scipy(values), rel=1e-12)


def test_rounding_errors_do_not_break_ties() -> None:
    """-0.1 - 0.3 + 0.4 is not quite 0 in float64, but no outcome is nearer to 0."""
    assert flipped([-0.1, -0.3, 0.4]) == 1.0


@pytest.mark.parametrize("size", [13, 16])
def test_larger_ones_too(size: int) -> None:
    values = np.random.default_rng(size).normal(0.3, 1, size).tolist()
    assert flipped(values) == by_scipy(values)


@pytest.mark.parametrize("size", [EXACT, EXACT + 1, 60, 500])
def test_random_flips_are_near_what_they_estimate(size: int) -> None:
    """Equal magnitudes have the binomial distribution, and many differences about the normal one."""
    for better in (size // 2, size // 2 + size // 6):
        exact = stats.binomtest(better, size).pvalue
        found = flipped([1.0] * better + [-1.0] * (size - better))
        error = 5 * (exact * (1 - exact) / FLIPS) ** 0.5 + 2 / FLIPS
        assert found == pytest.approx(exact, abs=1e-12 if size <= EXACT else error)
    values = np.random.default_rng(size).normal(0.2, 1, size)
    assert flipped(values.tolist()) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.03)


def test_it_depends_on_the_keys_alone() -> None:
    values = np.random.default_rng(1).normal(0.1, 1, 100).tolist()
    sums = {key_of(str(i)): value for i, value in enumerate(values)}
    backwards = dict(reversed(sums.items()))
    assert sign_flip(sums) == sign_flip(backwards) == sign_flip({k: -v for k, v in sums.items()})
    assert sign_flip(sums) == sign_flip({**sums, key_of("unchanged"): 0.0})
    assert flipped([1.0] * 200) == 1 / (FLIPS // 64 * 64 + 65)
    assert flipped([1.0] * 200, 100_000) < 2e-5


def test_buckets_flip_together() -> None:
    sums = {key_of(str(i)): 1.0 for i in range(20 * BUCKETS)}
    folded = fold(sums)
    assert len(folded) == BUCKETS
    assert sum(folded.values()) == len(sums)
    assert fold(folded) == folded


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (1, 0), (0, 6), (5, 5), (17, 31), (400, 520), (30_000, 29_500)])
def test_the_sign_test_is_the_exact_binomial_one(better: int, worse: int) -> None:
    n = better + worse
    assert sign_test(better, worse) == pytest.approx(stats.binomtest(better, n).pvalue if n else 1.0, rel=1e-7)
    assert sign_test(better, worse) == sign_test(worse, better)


def test_the_example_of_benjamini_and_hochberg() -> None:
    """Table of their section 4: at 0.05 their procedure rejects four hypotheses and Bonferroni's three, as Holm's."""
    assert sum(p <= 0.05 for p in benjamini_hochberg(TABLE_OF_1995)) == 4
    assert sum(p <= 0.05 for p in holm(TABLE_OF_1995)) == 3


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_are_those_of_statsmodels(p_values: list[float]) -> None:
    for ours, method in ((holm, "holm"), (benjamini_hochberg, "fdr_bh")):
        assert ours(p_values) == pytest.approx(multipletests(p_values, method=method)[1], rel=1e-12, abs=1e-300)


def test_an_empty_family() -> None:
    assert holm([]) == benjamini_hochberg([]) == []

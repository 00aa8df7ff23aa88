"""Intervals and quantiles against scipy and statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from evalbeam.transforms.statistics.intervals import about_mean, normal_quantile, normal_share, t_quantile, wilson

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)
DEGREES = (*range(1, 30), 57, 100, 255, 256, 389, 399, 400, 401, 402, 588, 1000, 4095, 10**5, 10**6, 10**9)


@pytest.mark.parametrize("level", LEVELS)
def test_t_quantile_is_scipys(level: float) -> None:
    for df in DEGREES:
        assert t_quantile(level, df) == pytest.approx(stats.t.isf((1 - level) / 2, df), rel=1e-10, abs=0), df


@pytest.mark.parametrize("level", LEVELS)
def test_normal_quantile_is_scipys(level: float) -> None:
    assert normal_quantile(level) == pytest.approx(stats.norm.isf((1 - level) / 2), rel=1e-10, abs=0)


@given(st.floats(0.01, 0.9999), st.integers(1, 2000))
@settings(max_examples=100)
def test_t_quantile_inverts_scipys_distribution(level: float, df: int) -> None:
    assert 1 - 2 * stats.t.sf(t_quantile(level, df), df) == pytest.approx(level, rel=1e-10)


@given(st.integers(1, 10**7), st.floats(0, 1), st.sampled_from(LEVELS))
def test_shares_are_statsmodels(n: int, share: float, level: float) -> None:
    successes = round(share * n)
    for ours, method in ((wilson, "wilson"), (normal_share, "normal")):
        low, high = ours(successes, n, level)
        assert (low, high) == pytest.approx(proportion_confint(successes, n, 1 - level, method), rel=1e-9, abs=1e-12)
        assert 0 <= low <= successes / n <= high <= 1


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_no_success_and_no_failure_touch_their_ends(n: int) -> None:
    assert wilson(0, n, 0.95)[0] == 0.0
    assert wilson(n, n, 0.95)[1] == 1.0
    assert normal_share(0, n, 0.95) == (0.0, 0.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50), st.sampled_from(LEVELS))
def test_mean_intervals_are_statsmodels(values: list[float], level: float) -> None:
    whole = DescrStatsW(np.array(values))
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    for quantile, expected in (
        (t_quantile(level, len(values) - 1), whole.tconfint_mean(1 - level)),
        (normal_quantile(level), whole.zconfint_mean(1 - level)),
    ):
        assert about_mean(np.mean(values), error, quantile) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_interval_beyond_float64_is_none() -> None:
    assert about_mean(1e308, 1e308, 12.7) is None

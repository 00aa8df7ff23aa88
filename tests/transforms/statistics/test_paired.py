"""Differences of paired scores, against scipy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from evalbeam.transforms.statistics.accumulators import MAX_DISTINCT
from evalbeam.transforms.statistics.paired import Difference, Pairs, sign_test


def compared(before: list[float | None], after: list[float | None], **options: float | bool) -> Difference:
    pairs = Pairs()
    for old, new in zip(before, after, strict=True):
        pairs.add(old, new)
    return pairs.difference("m", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [2, 3, 30, 500, 3 * MAX_DISTINCT])
def test_means_and_interval_are_those_of_a_paired_t_test(size: int) -> None:
    rng = np.random.default_rng(size)
    before = rng.random(size)
    after = before + rng.normal(0.02, 0.1, size)
    found = compared(before.tolist(), after.tolist(), confidence=0.9)
    expected = stats.ttest_rel(after, before).confidence_interval(0.9)
    assert (found.ci_low, found.ci_high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    means = (before.mean(), after.mean(), (after - before).mean())
    assert (found.before, found.after, found.difference) == pytest.approx(means, rel=1e-12, abs=1e-15)
    assert (found.better, found.worse) == ((after > before).sum(), (after < before).sum())
    assert (found.instances, found.pairs) == (size, size)


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (1, 0), (0, 6), (5, 5), (17, 31), (400, 520), (30_000, 29_500)])
def test_the_sign_test_is_the_exact_binomial_one(better: int, worse: int) -> None:
    n = better + worse
    assert sign_test(better, worse) == pytest.approx(stats.binomtest(better, n).pvalue if n else 1.0, rel=1e-7)
    assert sign_test(better, worse) == sign_test(worse, better)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_of_scores_0_and_1_the_sign_test_is_that_of_mcnemar(pairs: list[tuple[bool, bool]]) -> None:
    before, after = ([float(p[i]) for p in pairs] for i in (0, 1))
    found = compared(before, after)
    table = [[sum((a, b) == (x, y) for a, b in pairs) for y in (True, False)] for x in (True, False)]
    assert found.p_value == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-9)
    if found.p_value > 0.05:
        assert found.verdict == "NOT_SHOWN"


def test_few_changes_of_many_rows_show_nothing_although_the_interval_says_so() -> None:
    found = compared([1.0] * 1000, [0.0] * 4 + [1.0] * 996)
    assert (found.ci_high or 0.0) < 0
    assert (found.worse, found.verdict) == (4, "NOT_SHOWN")
    assert compared([1.0] * 1000, [0.0] * 8 + [1.0] * 992).verdict == "WORSE"


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, "WORSE"),
        ({"lower_is_better": True}, "BETTER"),
        ({"tolerance": 0.05}, "WORSE"),
        ({"tolerance": 0.2}, "NOT_SHOWN"),
        ({"tolerance": 0.1}, "NOT_SHOWN"),  # the interval holds -0.1
        ({"tolerance": 0.05, "lower_is_better": True}, "BETTER"),
    ],
)
def test_the_whole_interval_lies_beyond_the_tolerance(options: dict[str, float | bool], verdict: str) -> None:
    before = [0.5 + i / 1000 for i in range(100)]
    after = [score - 0.1 + (i % 3 - 1) / 100 for i, score in enumerate(before)]
    assert compared(list(before), list(after), **options).verdict == verdict


def test_a_direction_and_its_reverse_are_each_others_mirror() -> None:
    before, after = [0.1, 0.2, 0.4, 0.1], [0.3, 0.5, 0.5, 0.4]
    there, back = compared(list(before), list(after)), compared(list(after), list(before))
    assert (there.verdict, back.verdict) == ("BETTER", "WORSE")
    assert (there.better, there.worse) == (back.worse, back.better) == (4, 0)
    assert there.difference == pytest.approx(-(back.difference or 0.0))


def test_instances_without_a_score_are_counted_and_not_compared() -> None:
    found = compared([None, 1.0, None, 1.0], [0.5, None, None, 0.0])
    assert (found.instances, found.pairs, found.lost, found.gained) == (4, 1, 1, 1)
    assert (found.before, found.after, found.difference) == (1.0, 0.0, -1.0)
    assert (found.ci_low, found.verdict) == (None, "NOT_COMPARED")
    empty = compared([None], [None])
    assert (empty.pairs, empty.difference, empty.p_value, empty.verdict) == (0, None, 1.0, "NOT_COMPARED")


def test_equal_runs_show_nothing() -> None:
    found = compared([0.25, 0.5, 1.0], [0.25, 0.5, 1.0])
    assert (found.difference, found.ci_low, found.ci_high, found.verdict) == (0.0, 0.0, 0.0, "NOT_SHOWN")


def test_of_scores_0_and_1_equal_runs_leave_open_what_was_not_seen() -> None:
    for n in (2, 30, 500):
        found = compared([1.0] * n, [1.0] * n)
        unseen = proportion_confint(0, n, 0.05, "wilson")[1]
        assert (found.ci_low, found.ci_high) == pytest.approx((-unseen, unseen), rel=1e-12)
        assert found.verdict == "NOT_SHOWN"


def test_two_pairs_that_gain_the_same_prove_nothing() -> None:
    found = compared([1.0, 2.0], [3.0, 4.0], most=4.0)
    assert found.verdict == "NOT_SHOWN"
    assert -4.0 <= found.ci_low < 0.0 < 2.0 < found.ci_high < 4.0  # type: ignore[operator]
    assert compared([1.0] * 20, [3.0] * 20, most=4.0).verdict == "BETTER"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=30))
def test_an_interval_has_a_width_and_holds_only_what_scores_can_differ_by(pairs: list[tuple[float, float]]) -> None:
    found = compared(*zip(*pairs, strict=True), most=1.0)  # type: ignore[arg-type]
    assert -1.0 <= found.ci_low < found.ci_high <= 1.0  # type: ignore[operator]

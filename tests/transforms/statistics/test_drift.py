"""Tests of drift are those of scipy; mix and within add up."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from evalbeam.transforms.statistics import drift


@given(
    st.lists(st.tuples(st.integers(10, 500), st.integers(10, 500)), min_size=2, max_size=12),
)
def test_chi_square_is_scipys(cells: list[tuple[int, int]]) -> None:
    before, after = ({str(i): cell[side] for i, cell in enumerate(cells)} for side in (0, 1))
    found = drift.compare_counts("c", before, after)
    rare = any(sum(cell) * min(map(sum, zip(*cells, strict=True))) / sum(map(sum, cells)) < 5 for cell in cells)
    if not rare:
        exact = stats.chi2_contingency(np.array(cells).T, correction=False)
        assert found.statistic == pytest.approx(exact.statistic, rel=1e-9, abs=1e-9)
        assert found.p == pytest.approx(exact.pvalue, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 7, 10, 49])
@pytest.mark.parametrize("value", [0.01, 0.5, 3.0, 12.0, 90.0])
def test_the_tail_of_chi_square(df: int, value: float) -> None:
    assert drift.chi_square_tail(value, df) == pytest.approx(stats.chi2.sf(value, df), rel=1e-11)


def test_rare_values_are_put_together() -> None:
    before = Counter({"a": 100, "b": 100, **{f"rare{i}": 1 for i in range(20)}})
    after = Counter({"a": 110, "b": 90, **{f"new{i}": 1 for i in range(20)}})
    exact = stats.chi2_contingency([[100, 100, 20], [110, 90, 20]], correction=False)
    assert drift.compare_counts("c", before, after).p == pytest.approx(exact.pvalue)


def test_the_stability_index() -> None:
    same = drift.compare_counts("c", {"a": 30, "b": 70}, {"a": 300, "b": 700})
    assert (same.psi, same.p) == (pytest.approx(0), pytest.approx(1))
    moved = drift.compare_counts("c", {"a": 50, "b": 50}, {"a": 20, "b": 80})
    assert moved.psi == pytest.approx(-0.3 * math.log(0.4) + 0.3 * math.log(1.6))
    assert drift.compare_counts("c", {"a": 20, "b": 80}, {"a": 50, "b": 50}).psi == pytest.approx(moved.psi)


@given(st.lists(st.integers(0, 30), min_size=20, max_size=200), st.lists(st.integers(0, 40), min_size=20, max_size=200))
def test_the_largest_distance_is_scipys(before: list[int], after: list[int]) -> None:
    found = drift.compare_lengths("c", Counter(before), Counter(after))
    assert found.statistic == pytest.approx(stats.ks_2samp(before, after, method="asymp").statistic, abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.3])
def test_its_p_value_is_near_the_exact_one(shift: float) -> None:
    chance = np.random.default_rng(3)
    before = chance.permutation(np.arange(1000))[:200]
    after = chance.permutation(np.arange(1000))[:150] + int(1000 * shift) + 0.5
    exact = stats.ks_2samp(before, after, method="exact").pvalue
    found = drift.compare_lengths("c", Counter(before.tolist()), Counter(after.tolist()))
    assert found.p == pytest.approx(exact, rel=0.05, abs=1e-4)


@given(st.floats(0, 5))
def test_the_tail_of_kolmogorov(value: float) -> None:
    assert drift.kolmogorov_tail(value) == pytest.approx(special.kolmogorov(value), abs=1e-11)


TOTALS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(1, 1000), st.floats(-1e3, 1e3)), min_size=1)


@given(TOTALS, TOTALS)
def test_mix_and_within_are_the_whole_change(before: drift.Totals, after: drift.Totals) -> None:
    found = drift.decompose("m", "c", before, after)
    assert found is not None
    means = [sum(total for _, total in t.values()) / sum(n for n, _ in t.values()) for t in (before, after)]
    size = sum(abs(total) for t in (before, after) for _, total in t.values())
    assert found.change == pytest.approx(means[1] - means[0], abs=1e-12 * (1 + size))
    assert found.mix + found.within == pytest.approx(found.change, abs=1e-12 * (1 + size))


def test_shares_alone_are_mix_and_means_alone_within() -> None:
    mix = drift.decompose("m", "c", {"a": (50, 50.0), "b": (50, 0.0)}, {"a": (80, 80.0), "b": (20, 0.0)})
    assert (mix and (mix.mix, mix.within)) == (pytest.approx(0.3), 0.0)
    within = drift.decompose("m", "c", {"a": (50, 50.0), "b": (50, 0.0)}, {"a": (50, 40.0), "b": (50, 0.0)})
    assert (within and (within.mix, within.within)) == (0.0, pytest.approx(-0.1))
    assert drift.decompose("m", "c", {}, {"a": (1, 1.0)}) is None

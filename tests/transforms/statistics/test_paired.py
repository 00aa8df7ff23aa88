"""Gains of paired scores and what they show, against scipy and statsmodels and by simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from evalbeam.schemas.comparison import Difference
from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.gains import judge
from evalbeam.transforms.statistics.paired import Gains, Pairs, Scale
from evalbeam.transforms.statistics.paired_intervals import tango
from evalbeam.transforms.statistics.sequential import mean_sequence

UNIT, STARS = Scale(False, 0.0, 1.0), Scale(False, 1.0, 5.0)


def paired(before: list[Any], after: list[Any], scale: Scale = UNIT, units: list[str] | None = None) -> Pairs:
    pairs = Pairs(scale)
    names = units or [str(i) for i in range(len(before))]
    for unit, old, new in zip(names, before, after, strict=True):
        pairs.add(unit, old, new)
    return pairs


def compared(before: list[Any], after: list[Any], scale: Scale = UNIT, margin: float = 0.0) -> Difference:
    (found,) = judge({((), "m"): paired(before, after, scale)}, ["m"], {"m": margin}, 0.95)
    return found


def likeliest_share(risen: int, fallen: int, n: int, difference: float) -> float:
    """The likeliest share that falls if shares that rise are larger by the difference, found by a search."""

    def unlikely(share: float) -> float:
        up, same = share + difference, 1 - 2 * share - difference
        parts = ((risen, up), (fallen, share), (n - risen - fallen, same))
        return -sum(count * math.log(max(p, 1e-300)) for count, p in parts if count)

    low, high = max(0.0, -difference), (1 - difference) / 2
    found = optimize.minimize_scalar(unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-13})
    return float(min((low, high, found.x), key=unlikely))


@pytest.mark.parametrize(("risen", "fallen", "n"), [(12, 2, 50), (1, 9, 30), (7, 7, 40), (0, 5, 20), (43, 11, 200)])
def test_tango_s_interval_is_where_the_score_test_rejects(risen: int, fallen: int, n: int) -> None:
    """The roots of the statistic, in its closed form, by scipy; the constrained likelihood at them by a search."""
    z = stats.norm.ppf(0.975)

    def statistic(difference: float) -> float:
        a, b = 2 * n, -risen - fallen + (2 * n - risen + fallen) * difference
        share = (math.sqrt(b * b + 4 * a * fallen * difference * (1 - difference)) - b) / (2 * a)
        return (risen - fallen - n * difference) / math.sqrt(n * (2 * share + difference * (1 - difference)))

    found, seen = tango(risen, fallen, n, 0.95), (risen - fallen) / n
    for end, sign, far in zip(found, (1, -1), (-1 + 1e-9, 1 - 1e-9), strict=True):
        assert end == pytest.approx(optimize.brentq(lambda d, s=sign: statistic(d) - s * z, far, seen), abs=1e-9)
        share = likeliest_share(risen, fallen, n, end)
        by_search = (risen - fallen - n * end) / math.sqrt(n * (2 * share + end * (1 - end)))
        assert by_search == pytest.approx(sign * z, rel=1e-4)


def test_tango_s_interval_at_the_ends() -> None:
    for n in (1, 2, 30, 500):
        unseen = proportion_confint(0, n, 0.05, "wilson")[1]
        assert tango(0, 0, n, 0.95) == pytest.approx((-unseen, unseen), rel=1e-9)
        assert tango(n, 0, n, 0.95) == pytest.approx((1 - 2 * unseen, 1.0), rel=0.5)
        assert tango(0, n, n, 0.95)[0] == -1.0
    low, high = tango(12, 2, 50, 0.95)
    assert (-high, -low) == pytest.approx(tango(2, 12, 50, 0.95), rel=1e-9)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_of_scores_0_and_1_the_test_is_mcnemar_s(pairs: list[tuple[bool, bool]]) -> None:
    before, after = ([float(p[i]) for p in pairs] for i in (0, 1))
    found = compared(before, after)
    table = [[sum((a, b) == (x, y) for a, b in pairs) for y in (True, False)] for x in (True, False)]
    assert found.p == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-9)
    assert (found.newly_failing, found.fixed) == (table[0][1], table[1][0])
    assert (found.verdict in ("BETTER", "WORSE")) == ((found.p or 0) <= 0.05)


@pytest.mark.parametrize("size", [30, 500, 5000])
def test_of_many_changes_the_interval_is_nearly_student_s(size: int) -> None:
    rng = np.random.default_rng(size)
    before = rng.uniform(0.3, 0.7, size)
    after = before + rng.normal(0.02, 0.1, size)
    found = compared(before.tolist(), after.tolist(), Scale(False, -1.0, 2.0))
    expected = stats.ttest_rel(after, before).confidence_interval(0.95)
    width = expected.high - expected.low
    assert (found.gain_ci_low, found.gain_ci_high) == pytest.approx(
        (expected.low, expected.high), abs=2 * width / size**0.5
    )
    means = (before.mean(), after.mean(), (after - before).mean())
    assert (found.before, found.after, found.gain) == pytest.approx(means, rel=1e-12, abs=1e-15)
    assert (found.better, found.worse) == ((after > before).sum(), (after < before).sum())


def test_pairs_of_a_unit_flip_together_and_have_a_clustered_error() -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 6, 40)
    group = np.repeat(np.arange(40), sizes)
    gains = rng.normal(0, 0.1, len(group)) + rng.normal(0.02, 0.2, 40)[group]
    one, other = Gains(), Gains(clustered=True)
    for unit, gain in zip(group, gains, strict=True):
        one.add(str(unit), gain)
    for i in rng.permutation(len(group)):
        other.add(str(group[i]), gains[i])
    model = OLS(gains, np.ones(len(gains))).fit(
        cov_type="cluster", cov_kwds={"groups": group, "use_correction": False}, use_t=False
    )
    expected = model.bse[0] * (40 / 39) ** 0.5
    for found in (one, other):
        seen = found.evidence(False, 2.0, 0.95)
        assert (found.units, seen.pairs) == (40, len(group))
        assert (seen.gain, seen.error) == pytest.approx((gains.mean(), expected), rel=1e-10)
    apart = compared([0.5] * len(gains), (0.5 + gains).tolist(), Scale(False, -9.0, 9.0))
    assert seen.p > 3 * (apart.p or 1.0)


def test_copies_of_a_row_are_no_evidence() -> None:
    before, after = [1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]
    units = [str(i) for i in range(5) for _ in range(50)]
    many = paired([x for x in before for _ in range(50)], [x for x in after for _ in range(50)], UNIT, units)
    (found,) = judge({((), "m"): many}, ["m"], {"m": 0.0}, 0.95)
    assert found.p == pytest.approx(compared(before, after).p)
    assert (found.pairs, found.verdict) == (250, "INCONCLUSIVE")


def test_two_pairs_that_gain_the_same_prove_nothing() -> None:
    found = compared([1.0, 2.0], [3.0, 4.0], STARS)
    assert (found.p, found.verdict) == (0.5, "INCONCLUSIVE")
    assert -4.0 <= found.gain_ci_low < 0.0 < 2.0 < found.gain_ci_high <= 4.0  # type: ignore[operator]
    assert compared([1.0] * 20, [3.0] * 20, STARS).verdict == "BETTER"


def test_few_changes_of_many_rows_show_nothing() -> None:
    for k, verdict in ((4, "INCONCLUSIVE"), (5, "INCONCLUSIVE"), (6, "WORSE")):
        assert compared([1.0] * 500, [0.5] * k + [1.0] * (500 - k)).verdict == verdict
        assert compared([1.0] * 500, [0.0] * k + [1.0] * (500 - k)).verdict == verdict


@pytest.mark.parametrize(
    ("falls", "margin", "verdict"),
    [(0, 0.0, "INCONCLUSIVE"), (0, 0.02, "NO_WORSE"), (0, 0.005, "INCONCLUSIVE"), (3, 0.02, "NO_WORSE")]
    + [(7, 0.03, "NO_WORSE"), (7, 0.02, "INCONCLUSIVE"), (40, 0.03, "WORSE"), (15, 0.02, "INCONCLUSIVE")],
)
def test_a_margin_is_the_loss_that_counts_as_none(falls: int, margin: float, verdict: str) -> None:
    """Of 500 rows; seven losses are shown, and shown to be less than 3 %."""
    before, after = [1.0] * 500, [0.0] * falls + [1.0] * (500 - falls)
    found = compared(before, after, UNIT, margin)
    assert (found.verdict, found.margin) == (verdict, margin)
    assert bool(found.reason) == (verdict == "INCONCLUSIVE")
    turned = compared([1 - x for x in before], [1 - x for x in after], Scale(True, 1.0, 0.0), margin)
    assert (turned.verdict, turned.gain, turned.p) == (verdict, found.gain, found.p)


def test_a_direction_and_its_reverse_are_each_others_mirror() -> None:
    rng = np.random.default_rng(5)
    before, after = rng.random(50).tolist(), rng.random(50).tolist()
    there, back = compared(before, after), compared(after, before)
    assert (there.p, there.gain_ci_low) == (back.p, pytest.approx(-(back.gain_ci_high or 0)))
    assert (there.better, there.worse) == (back.worse, back.better)


def test_scores_that_only_one_run_has_are_bounds() -> None:
    before = [1.0] * 70 + [1.0] * 30
    found = compared(before, [1.0] * 70 + [None] * 30, UNIT, 0.1)
    assert (found.lost, found.gained, found.pairs, found.coverage) == (30, 0, 70, 0.7)
    assert (found.bounds_low, found.bounds_high) == pytest.approx((-0.3, 0.0))
    assert (found.verdict, found.reason) == ("INCONCLUSIVE", "30 lost and 0 gained scores could change it")
    assert compared([1.0] * 70, [1.0] * 70, UNIT, 0.1).verdict == "NO_WORSE"
    gained = compared([None] * 10 + [0.0] * 90, [0.0] * 10 + [1.0] * 90)
    assert (gained.bounds_low, gained.bounds_high, gained.verdict) == (pytest.approx(0.8), pytest.approx(0.9), "BETTER")
    flipped = compared([0.0] * 8 + [1.0] * 4, [1.0] * 8 + [None] * 4)
    assert (flipped.bounds_low, flipped.verdict) == (pytest.approx(4 / 12), "INCONCLUSIVE")
    assert compared([0.0] * 8, [1.0] * 8).verdict == "BETTER"


def test_without_a_range_scores_of_one_run_leave_all_open() -> None:
    before, after = [float(i) for i in range(1, 41)], [float(i) / 2 for i in range(1, 41)]
    assert compared(before, after, Scale()).verdict == "WORSE"
    found = compared([*before, 3.0], [*after, None], Scale())
    assert (found.bounds_low, found.bounds_high, found.verdict) == (None, None, "INCONCLUSIVE")
    assert found.reason.endswith("the metric has no range")
    beyond = compared([*before, 3.0], [*after, None], UNIT)
    assert (beyond.bounds_low, beyond.verdict) == (None, "INCONCLUSIVE")


def test_nothing_to_compare() -> None:
    empty = compared([None, 1.0], [None, None])
    assert (empty.pairs, empty.lost, empty.gain, empty.p, empty.p_adjusted) == (0, 1, None, None, None)
    assert (empty.gain_ci_low, empty.verdict) == (None, "INCONCLUSIVE")
    assert empty.reason == "no instance has a score in both runs"


def test_a_threshold_tells_failing_from_passing() -> None:
    scale = Scale(False, 1.0, 5.0, Threshold(4.0))
    found = compared([5.0, 4.0, 3.0, 2.0], [4.0, 3.0, 4.0, 1.0], scale)
    assert (found.newly_failing, found.fixed, found.worse) == (1, 1, 3)
    assert compared([5.0, 4.0], [4.0, 3.0], STARS).newly_failing is None


def test_a_family_is_judged_as_a_whole() -> None:
    """A p-value of 1/32 shows something by itself and nothing among two."""
    lost, same = ([1.0] * 30, [0.0] * 6 + [1.0] * 24), ([1.0] * 30, [1.0] * 30)

    def judged(deciding: list[str]) -> dict[str, Difference]:
        cells = {((), "a"): paired(*lost), ((), "b"): paired(*same)}
        return {d.metric: d for d in judge(cells, deciding, {"a": 0.0, "b": 0.0}, 0.95)}

    alone, both = judged(["a"]), judged(["a", "b"])
    assert (alone["a"].p_adjusted, alone["a"].family, alone["a"].verdict) == (pytest.approx(2 / 64), 1, "WORSE")
    assert (alone["b"].p_adjusted, alone["b"].family) == (None, 0)
    assert (both["a"].p_adjusted, both["a"].p_bh, both["a"].family) == (pytest.approx(4 / 64), pytest.approx(4 / 64), 2)
    assert both["a"].verdict == "INCONCLUSIVE"


def test_a_loss_is_found_in_a_very_large_family() -> None:
    """With 10,000 flips, no p-value is small enough for a thousand tests."""
    rng = np.random.default_rng(0)
    cells = {((), f"m{i}"): paired([0.5] * 40, [0.5] * 40) for i in range(999)}
    cells[(), "bad"] = paired([0.9] * 60, (0.9 - rng.uniform(0.1, 0.5, 60)).tolist())
    names = [name for _, name in cells]
    found = judge(cells, names, dict.fromkeys(names, 0.0), 0.95)
    assert {d.metric for d in found if d.verdict == "WORSE"} == {"bad"}


def test_the_detectable_gain_is_detected_four_times_in_five() -> None:
    rng = np.random.default_rng(8)
    noise = rng.normal(0, 0.2, (150, 80))
    start = compared([0.5] * 80, (0.5 + noise[0] - noise[0].mean()).tolist(), Scale(False, -9.0, 9.0))
    found = [compared([0.5] * 80, (0.5 + n + (start.mde or 0)).tolist(), Scale(False, -9.0, 9.0)) for n in noise]
    assert sum(d.verdict == "BETTER" for d in found) / len(found) == pytest.approx(0.8, abs=0.12)
    assert compared([1.0] * 5, [1.0] * 5).mde is None
    assert compared([1.0] * 20, [1.0] * 20).mde == pytest.approx(6 / 20)


@pytest.mark.parametrize("k", [3, 4, 6, 12, 30])
def test_the_same_agent_is_seldom_called_better_or_worse(k: int) -> None:
    """200 simulations; all figures are in tests/benchmarks/bench_statistics.py."""
    rng = np.random.default_rng(k)
    wrong = 0
    for _ in range(200):
        after = np.full(500, 3.0)
        after[:k] += rng.choice([-0.5, 0.5], k)
        wrong += compared([3.0] * 500, after.tolist(), STARS).verdict != "INCONCLUSIVE"
    assert wrong / 200 <= 0.055 + 2 * (0.05 * 0.95 / 200) ** 0.5
    assert k >= 6 or not wrong


def test_a_run_that_stops_when_it_looks_better_proves_nothing() -> None:
    """200 simulations of equal agents whose second run ends as soon as a test for a fixed number finds a difference."""
    rng, wrong = np.random.default_rng(5), [0, 0]
    for _ in range(200):
        scores = rng.choice([0.0, 1.0], (2, 1000), p=[0.3, 0.7])
        changed = np.flatnonzero(scores[0] != scores[1])
        sums = np.sign(scores[1] - scores[0])[changed].cumsum()
        looks = np.arange(1, len(changed) + 1)
        ends = np.flatnonzero((np.abs(sums) > 2.2 * np.sqrt(looks)) & (looks >= 10))
        size = int(changed[ends[0]]) + 1 if len(ends) else 1000
        for i, stopped in enumerate((False, True)):
            pairs = Pairs(UNIT, stopped=stopped)
            for n in range(size):
                pairs.add(f"{0:016x}{n:016x}", *scores[:, n].tolist())
            (found,) = judge({((), "m"): pairs}, ["m"], {"m": 0.0}, 0.95)
            wrong[i] += found.verdict != "INCONCLUSIVE"
    assert wrong[0] > 40, "the simulation shows what is to be avoided"
    assert wrong[1] <= 200 * 0.05


def test_gains_of_a_stopped_run_are_bet_on_in_the_order_of_its_calls() -> None:
    """The p-value is at most 5 % where the interval leaves 0 out, in whatever order the pairs are added."""
    rng = np.random.default_rng(2)
    scores = np.where(rng.random((60, 2)) < [0.5, 0.8], 5.0, 2.0)
    found = []
    for order in (range(60), rng.permutation(60).tolist()):
        pairs = Pairs(STARS, stopped=True)
        for n in order:
            pairs.add(f"{0:016x}{n:016x}", *scores[n].tolist())
        seen = pairs.seen.evidence(False, pairs.most, 0.95)
        low, high = mean_sequence(((scores[:, 1] - scores[:, 0]) / 4 / 2 + 0.5).tolist(), 0.95)
        assert (seen.low, seen.high) == pytest.approx((8 * low - 4, 8 * high - 4))
        assert (seen.p <= 0.05) == (seen.low is not None and seen.low > 0)
        found.append((seen.low, seen.high, seen.p))
    assert found[0] == found[1]
    one = Pairs(Scale(), stopped=True)
    one.add("0" * 32, 1.5, 2.5)
    (difference,) = judge({((), "m"): one}, ["m"], {"m": 0.0}, 0.95)
    assert (difference.verdict, difference.p, difference.gain_ci_low) == ("INCONCLUSIVE", 1.0, None)
    assert "stopped early" in difference.reason


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=30))
def test_an_interval_has_a_width_and_holds_only_what_scores_can_differ_by(pairs: list[tuple[float, float]]) -> None:
    found = compared([p[0] for p in pairs], [p[1] for p in pairs])
    assert -1.0 <= found.gain_ci_low < found.gain_ci_high <= 1.0  # type: ignore[operator]
    assert found.gain_ci_low <= found.gain + 1e-12  # type: ignore[operator]


def test_memory_does_not_grow_with_rows() -> None:
    gains = Gains()
    for i in range(20_000):
        gains.add(str(i), (-1.0) ** (i // 2) * (1 + i % 7))
    assert len(gains._flips) <= 1024
    clusters = Gains(clustered=True)
    for i in range(20_000):
        clusters.add(str(i), 0.5)
    assert len(clusters._clusters) <= 2048
    assert clusters.evidence(False, 1.0, 0.95).pairs == 20_000

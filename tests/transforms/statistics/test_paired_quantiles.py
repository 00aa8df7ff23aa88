"""Gains of quantiles, against numpy on the rows that are drawn, and by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalbeam.schemas.comparison import Difference
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.bootstrap import REPLICATES, draw_weights
from evalbeam.transforms.statistics.clusters import counted
from evalbeam.transforms.statistics.gains import judge
from evalbeam.transforms.statistics.order_statistics import QUANTILES
from evalbeam.transforms.statistics.paired import Scale
from evalbeam.transforms.statistics.paired_quantiles import Fraction, QuantileGains, QuantilePairs
from evalbeam.transforms.statistics.permutation import key_of

SECONDS = Scale(lower_is_better=True)
SCORES = st.floats(-1e6, 1e6, allow_nan=False, width=32)
Scores = Sequence[float] | None


def pair(before: Sequence[Scores], after: Sequence[Scores], share: Fraction, scale: Scale = SECONDS) -> QuantilePairs:
    pairs = QuantilePairs(scale, share=share)
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        pairs.add(str(i), old, new)
    return pairs


def singly(values: np.ndarray) -> list[tuple[float]]:
    return [(float(value),) for value in values]


def compared(pairs: QuantilePairs, margin: float = 0.0) -> Difference:
    (found,) = judge({((), "m/p95"): pairs}, ["m/p95"], {"m/p95": margin}, 0.95)
    return found


def latencies(n: int, seed: int, slower: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    before = rng.lognormal(0, 0.5, n)
    return before, before * rng.lognormal(0, 0.2, n) * slower


def drawn_by_numpy(before: list[list[float]], after: list[list[float]], share: Fraction, more: int) -> list[np.ndarray]:
    """Gains of each replicate: every row repeated as often as it is drawn, and numpy's quantile of the whole.

    Returns:
        (as drawn, with `more` rows that went from the lowest end to the highest, and the reverse).
    """
    weights = draw_weights(np.array([key_of(str(i)) for i in range(len(before))], np.uint64))[:, :-1].astype(int)
    found: list[list[float]] = [[], [], []]
    for times in weights.T:
        old, new = (
            np.array([x for xs, k in zip(side, times, strict=True) for x in xs * k]) for side in (before, after)
        )
        ends = np.full(more, 1e9)
        for gains, end in zip(found, (ends[:0], ends, -ends), strict=True):
            two = (np.quantile(np.concatenate(s), share[0] / share[1]) for s in ((old, -end), (new, end)))
            gains.append(next(two) - next(two))
    return [np.sort(gains) for gains in found]


@pytest.mark.parametrize("share", QUANTILES.values())
def test_replicates_are_numpy_s_quantiles_of_the_rows_drawn(share: Fraction) -> None:
    """200 instances of one to three trials; the confidence makes four rows of each run unseen."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 4, 200)
    before, after = ([rng.lognormal(shift, 0.5, n).tolist() for n in sizes] for shift in (0.0, 0.2))
    rows, more = int(sizes.sum()), 4
    confidence = 1 - 2 * math.exp(-more * 200 / rows)
    plain, low, high = drawn_by_numpy(before, after, share, more)
    (found,) = pair(before, after, share).weigh(confidence, 1)
    place = math.floor((1 - confidence) / 2 * (REPLICATES + 1)) - 1
    if abs(low[place]) < 1e8:
        assert (found.low, found.high) == pytest.approx((low[place], high[-1 - place]), rel=1e-9)
    else:
        assert (found.low, found.high) == (None, None)
    beyond = min((plain <= 0).sum(), (plain >= 0).sum())
    least = 2 * math.exp(-200 * min(share[0], share[1] - share[0]) / share[1])
    assert found.p == pytest.approx(min(max(2 * (beyond + 1) / (REPLICATES + 1), least), 1.0))
    assert found.error == pytest.approx(plain.std(ddof=1), rel=1e-9)


@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=40), st.sampled_from(list(QUANTILES)))
def test_both_quantiles_are_those_of_the_summary_and_of_numpy(rows: list[tuple[float, float]], name: str) -> None:
    p, q = QUANTILES[name]
    sides = list(zip(*rows, strict=True))
    found = pair(*([(v,) for v in side] for side in sides), (p, q)).means()
    summary = [Accumulator(len(s), len(s), counts=counted(s)).distribution().quantile(p, q) for s in sides]
    assert list(found) == summary
    assert found == pytest.approx(tuple(np.quantile(side, p / q) for side in sides), rel=1e-9, abs=1e-9)


@given(st.integers(0, 2**32), st.integers(150, 200))
def test_no_order_changes_a_bit_and_the_other_way_round_is_the_opposite(seed: int, n: int) -> None:
    before, after = latencies(n, seed)
    rows = list(zip(map(str, range(n)), singly(before), singly(after), strict=True))
    one, other, back = (QuantileGains((19, 20), True) for _ in range(3))
    for row in rows:
        one.add(*row)
    for unit, old, new in random.Random(seed).sample(rows, n):
        other.add(unit, old, new)
        back.add(unit, new, old)
    found, reverse = one.evidence(0.95, 1), back.evidence(0.95, 1)
    assert other.evidence(0.95, 1) == found
    assert found.low is not None
    assert found.high is not None
    assert (reverse.gain, reverse.low, reverse.high, reverse.p) == (
        -(found.gain or 0),
        -found.high,
        -found.low,
        found.p,
    )


def test_a_higher_score_is_better_if_the_metric_says_so() -> None:
    before, after = latencies(300, 1, slower=1.5)
    slow, high = (compared(pair(singly(before), singly(after), (1, 2), Scale(lower))) for lower in (True, False))
    assert (slow.verdict, high.verdict) == ("WORSE", "BETTER")
    assert (slow.gain, slow.gain_ci_low, slow.better) == (-(high.gain or 0), -(high.gain_ci_high or 0), high.worse)


@pytest.mark.parametrize(("share", "least"), [((1, 2), 8), ((9, 10), 37), ((19, 20), 74), ((99, 100), 369)])
def test_too_few_rows_show_nothing(share: Fraction, least: int) -> None:
    """Below, a sample has no row beyond the quantile with a probability of more than 2.5 %."""
    for n, is_shown in ((least - 1, False), (least, True)):
        before, after = latencies(n, 2, slower=50.0)
        found = compared(pair(singly(before), singly(after), share), margin=0.1)
        assert ((found.p or 0) <= 0.05) == is_shown
        assert is_shown or (found.verdict, found.gain_ci_low, found.mde) == ("INCONCLUSIVE", None, None)
    assert stats.poisson(least * min(share[0], share[1] - share[0]) / share[1]).cdf(0) <= 0.025


def test_without_a_change_a_loss_stays_open() -> None:
    """No row of 100 became slower; of one in forty a sample of 100 would not tell more often than in 1 of 20 cases."""
    before, _ = latencies(100, 3)
    found = compared(pair(singly(before), singly(before), (1, 2)), margin=0.001)
    assert (found.gain, found.p, found.verdict) == (0.0, 1.0, "INCONCLUSIVE")
    assert (found.gain_ci_low or 0.0) < -0.001
    assert found.reason == f"a loss of {-(found.gain_ci_low or 0):.3g} is not excluded"


def test_rows_of_which_only_one_run_has_scores_are_beyond_all_others() -> None:
    """Without a range, the median is known if a few rows failed; the verdict is open only if they could change it."""
    before, after = latencies(400, 5, slower=1.4)
    old, new = singly(before), singly(after)
    whole = compared(pair(old, new, (1, 2)))
    few = compared(pair(old, [None, None, *new[2:]], (1, 2)))
    assert (whole.verdict, few.verdict, few.lost, few.pairs) == ("WORSE", "WORSE", 2, 398)
    worst = np.median(np.concatenate([after[2:], [np.inf] * 2])) - np.median(before)
    best = np.median(np.concatenate([after[2:], [-np.inf] * 2])) - np.median(before)
    assert (few.bounds_low, few.bounds_high) == pytest.approx((-worst, -best))
    many = compared(pair(old, [*[None] * 150, *new[150:]], (1, 2)))
    assert (many.verdict, many.reason) == ("INCONCLUSIVE", "150 lost and 0 gained scores could change it")
    lost = compared(pair(old, [*[None] * 30, *new[30:]], (19, 20)))
    assert (lost.bounds_low, lost.verdict) == (None, "WORSE")
    tail = compared(pair([None, *old[1:]], new, (19, 20), Scale(False, 0.0, 100.0)), margin=0.5)
    assert (tail.gained, tail.verdict) == (1, "BETTER")


def test_clusters_count_not_rows() -> None:
    """Ten inputs, each copied fifty times, show what ten show."""
    before, after = latencies(10, 6, slower=3.0)
    pairs, ten = QuantilePairs(SECONDS, share=(1, 2)), pair(singly(before), singly(after), (1, 2))
    for copy in range(500):
        pairs.add(str(copy % 10), (before[copy % 10],), (after[copy % 10],))
    many, few = compared(pairs), compared(ten)
    assert (many.pairs, few.pairs) == (500, 10)
    assert many.p == pytest.approx(few.p or 0, rel=0.5)
    (evidence,) = pairs.weigh(0.95, 1)
    assert evidence.least == pytest.approx(2 * math.exp(-10 / 2))


def test_a_run_that_stopped_early_shows_nothing() -> None:
    before, after = latencies(300, 7, slower=2.0)
    pairs = pair(singly(before), singly(after), (1, 2))
    pairs.stopped = True
    found = compared(pairs, margin=0.1)
    assert (found.verdict, found.gain_ci_low, found.p) == ("INCONCLUSIVE", None, 1.0)
    assert found.reason.startswith("a run stopped early")


def test_a_large_family_can_still_show_a_gain() -> None:
    before, after = latencies(300, 8, slower=0.5)
    cells = {((("part", str(i)),), "m/median"): pair(singly(before), singly(after), (1, 2)) for i in range(100)}
    found = judge(cells, ["m/median"], {"m/median": 0.0}, 0.95)
    assert {one.verdict for one in found} == {"BETTER"}
    assert found[0].family == 100

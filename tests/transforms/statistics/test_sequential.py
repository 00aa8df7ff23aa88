"""Confidence sequences hold at all numbers of rows at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import betaln

from evalbeam.transforms.statistics.sequential import decide, mean_sequence, share_sequence


def test_the_interval_after_80_of_100() -> None:
    assert share_sequence(80, 100, 0.95) == (pytest.approx(0.6484, abs=5e-5), pytest.approx(0.9090, abs=5e-5))


@given(st.integers(1, 3_000), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_ends_are_where_the_mixture_is_so_many_times_as_likely(n: int, share: float, confidence: float) -> None:
    successes = round(n * share)

    def excess(p: float) -> float:
        likelihood = successes * math.log(p) + (n - successes) * math.log1p(-p)
        return betaln(successes + 0.5, n - successes + 0.5) - betaln(0.5, 0.5) + math.log(1 - confidence) - likelihood

    low, high = share_sequence(successes, n, confidence)
    at = min(max(successes / n, 1e-12), 1 - 1e-12)
    assert low == (0.0 if successes == 0 else pytest.approx(brentq(excess, 1e-300, at, xtol=1e-14), abs=1e-9))
    assert high == (1.0 if successes == n else pytest.approx(brentq(excess, at, 1 - 1e-16, xtol=1e-14), abs=1e-9))


def test_a_true_threshold_is_seldom_left_out_at_any_of_1000_looks() -> None:
    chance, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        successes = (chance.random(1_000) < 0.8).cumsum()
        looks = range(10, 1_001, 10)
        wrong += any(decide(share_sequence(int(successes[n - 1]), n, 0.95), 0.8) for n in looks)
    assert wrong <= 10


def test_a_share_away_from_the_threshold_is_decided_within_few_rows() -> None:
    chance = np.random.default_rng(1)
    for share, most in ((0.95, 78), (0.9, 187), (0.85, 792)):
        stops = []
        for _ in range(40):
            successes = (chance.random(10_000) < share).cumsum()
            looks = range(5, 10_001, 5)
            stops.append(next(n for n in looks if decide(share_sequence(int(successes[n - 1]), n, 0.95), 0.8)))
        assert np.mean(stops) < 1.1 * most


def capital(scores: list[float], mean: float, confidence: float) -> float:
    """The most that both gamblers ever had together, score by score as the paper has it."""
    up = down = 0.5
    best, total, squares = 1.0, 0.5, 0.25
    variance = 0.25
    for t, score in enumerate(scores, 1):
        bet = math.sqrt(2 * math.log(2 / (1 - confidence)) / (variance * t * math.log(1 + t)))
        up *= 1 + min(bet, 0.5 / mean) * (score - mean)
        down *= 1 - min(bet, 0.5 / (1 - mean)) * (score - mean)
        best = max(best, up + down)
        total += score
        squares += (score - total / (t + 1)) ** 2
        variance = squares / (t + 1)
    return best


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_means_are_left_out_where_betting_against_them_pays(scores: list[float]) -> None:
    low, high = mean_sequence(scores, 0.9)
    assert 0 <= low <= high <= 1
    inside = (low + high) / 2
    assert capital(scores, inside, 0.9) < 10 * (1 + 1e-6)
    for mean in (low - 1e-6, high + 1e-6):
        if 0 < mean < 1:
            assert capital(scores, mean, 0.9) >= 10 * (1 - 1e-3)


def test_the_mean_of_bounded_scores_is_covered_by_a_short_interval() -> None:
    chance = np.random.default_rng(2)
    found = [mean_sequence(chance.beta(8, 2, 500), 0.95) for _ in range(60)]
    assert sum(not low <= 0.8 <= high for low, high in found) <= 5
    width = np.mean([high - low for low, high in found])
    assert width < np.mean([np.diff(share_sequence(400, 500, 0.95))]), "as beta(8, 2) varies less than 0 and 1"


def test_no_rows_show_nothing_and_other_scores_are_refused() -> None:
    assert share_sequence(0, 0, 0.95) == mean_sequence([], 0.95) == (0.0, 1.0)
    with pytest.raises(ValueError, match="not in"):
        mean_sequence([0.5, 1.5], 0.95)
    assert (decide((0.7, 0.9), 0.6), decide((0.7, 0.9), 0.95), decide((0.7, 0.9), 0.8)) == ("above", "below", None)

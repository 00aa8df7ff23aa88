"""Variance components against REML and simulations, power against statsmodels."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from statsmodels.regression.mixed_linear_model import MixedLM
from statsmodels.stats.power import NormalIndPower

from evalbeam.transforms.statistics.components import (
    Components,
    Prices,
    detectable,
    disagreement,
    estimate_components,
    purchases,
    rows_needed,
)


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.0025])
@pytest.mark.parametrize("rows", [20, 500, 10_000])
def test_the_detectable_gain_is_statsmodels(rows: int, alpha: float) -> None:
    """One sample (ratio 0) of the gains of rows with deviation 0.4, two-sided; the far side adds nothing at 80 %."""
    effect = NormalIndPower().solve_power(nobs1=rows, alpha=alpha, power=0.8, ratio=0)
    assert detectable(0.4, rows, alpha) == pytest.approx(0.4 * effect, rel=1e-4)


@pytest.mark.parametrize("margin", [0.01, 0.05, 0.2])
def test_rows_for_a_margin_are_statsmodels(margin: float) -> None:
    needed = NormalIndPower().solve_power(effect_size=margin / 0.4, alpha=0.05, power=0.8, ratio=0)
    assert rows_needed(0.4, margin, 0.05) == pytest.approx(math.ceil(needed), abs=1)


def test_two_runs_with_other_rows_are_two_samples() -> None:
    found = estimate_components([[x] for x in np.random.default_rng(0).normal(0, 1, 300)])
    assert found is not None
    assert found.gain_deviation(paired=True) is None
    deviation = found.gain_deviation(paired=False)
    assert deviation is not None
    effect = NormalIndPower().solve_power(nobs1=300, alpha=0.05, power=0.8, ratio=1)
    assert detectable(deviation, 300, 0.05) == pytest.approx(math.sqrt(found.whole) * effect, rel=1e-4)


def test_components_are_those_of_reml() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(0, 1, 80)[:, None] + rng.normal(0, 0.7, (80, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MixedLM(scores.ravel(), np.ones(320), np.repeat(range(80), 4)).fit(reml=True)
    found = estimate_components(scores.tolist())
    assert found is not None
    assert (found.row, found.trial) == pytest.approx((float(np.asarray(fitted.cov_re)[0, 0]), fitted.scale), rel=1e-4)
    assert found.whole == pytest.approx(np.var(scores.mean(1), ddof=1))


def test_components_of_rows_with_unequal_trials_are_unbiased() -> None:
    rng = np.random.default_rng(2)
    found = []
    for _ in range(300):
        rows = [rng.normal(rng.normal(0, 1), 0.7, size).tolist() for size in (1, 2, 3, 5) * 15]
        one = estimate_components(rows)
        assert one is not None
        assert one.trial is not None
        found.append((one.row, one.trial))
    assert np.mean(found, axis=0) == pytest.approx((1.0, 0.49), rel=0.03)


@pytest.mark.parametrize("votes", [3, 5, 7])
def test_disagreement_is_unbiased_although_the_panel_stops(votes: int) -> None:
    """Every order of votes, weighted by its probability, gives the variance of one vote."""
    for p in (0.1, 0.3, 0.5):
        mean = 0.0
        for order in itertools.product((0, 1), repeat=votes):
            most = (votes + 1) // 2
            ends = next(t for t in range(1, votes + 1) if max(sum(order[:t]), t - sum(order[:t])) == most)
            share = disagreement(most / ends, votes)
            assert share is not None
            mean += share * math.prod(p if vote else 1 - p for vote in order)
        assert mean == pytest.approx(p * (1 - p))


def test_disagreement_is_unknown_for_one_vote_and_for_votes_that_failed() -> None:
    assert [disagreement(1.0, votes) for votes in (1, 2, 4)] == [None] * 3
    assert disagreement(0.5, 3) is None
    assert disagreement(1.0, 3) == 0.0


def test_what_to_buy_is_the_ratio_of_elasticities() -> None:
    """Numerical derivatives of the variance and of the cost, in per cent of both."""
    parts, prices = Components(200, 3.0, 5, 0.05, 0.04, 0.2), Prices(0.5, 0.02, 0.001)

    def variance(rows: float, trials: float, votes: float) -> float:
        assert parts.trial is not None
        return (parts.row + (parts.trial + 0.2 / votes) / trials) / rows

    def cost(rows: float, trials: float, votes: float) -> float:
        return rows * (prices.row + trials * (prices.call + votes * prices.vote))

    at = [200.0, 3.0, 5.0]
    for i, name in enumerate(("rows", "trials", "votes")):
        more = [x * (1 + 1e-6 * (i == k)) for k, x in enumerate(at)]
        fall = math.log(variance(*at) / variance(*more)) / math.log(cost(*more) / cost(*at))
        assert purchases(parts, prices)[name] == pytest.approx(fall, rel=1e-4)


def test_what_is_not_known_is_not_bought() -> None:
    assert purchases(Components(200, 1.0, 1, 0.2, None, None), Prices(0, 1, 1)) == {"rows": 1.0}
    assert purchases(Components(200, 2.0, 1, 0.2, 0.1, None), Prices()) == {"rows": 1.0}
    assert estimate_components([[1.0]]) is None

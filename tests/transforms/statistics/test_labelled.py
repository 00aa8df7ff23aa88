"""Corrected means: PPI++ against ppi_py and its published formulas, survey estimators, clusters and coverage."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import proportion_confint

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.labelled import MIN_LABELS, Corrected, Label, correct, observe
from evalbeam.transforms.statistics.slices import MetricFacts, Partials

FACTS = MetricFacts("m", labelled=True)


def accumulator(judge: np.ndarray, people: dict[int, Label], trials: int = 1, size: int = 64) -> Accumulator:
    """The scores in batches; `people` are the labels by position."""
    whole = Accumulator()
    labels = {
        (str(i // trials), i % trials): {"m": Label(float(value), float(weight))}
        for i, (value, weight) in people.items()
    }
    for start in range(0, len(judge), size * trials):
        places = range(start, min(start + size * trials, len(judge)))
        rows = [Example(Instance(str(i // trials), {}), Invocation(), i % trials) for i in places]
        scores = {"m": ScoreColumn.of([Score(float(judge[i])) for i in places])}
        for _, part in Partials([()], [FACTS], labels=labels).count(ScoredBatch(rows, scores)):
            whole.absorb(part)
    return whole


def corrected(judge: np.ndarray, people: dict[int, Label], trials: int = 1) -> Corrected:
    found = accumulator(judge, people, trials)
    return correct(found.labelled, found.distribution(), 0.95, None)


def published(human: np.ndarray, judge: np.ndarray, others: np.ndarray) -> tuple[float, float, float, float]:
    """(mean, low, high, power) by the formulas of Angelopoulos, Duchi and Zrnic (2023), section 6."""
    n, rest = len(human), len(others)
    power = np.cov(human, judge, ddof=0)[0, 1] / ((1 + n / rest) * np.var(np.append(judge, others), ddof=1))
    power = min(max(power, 0.0), 1.0)
    mean = power * others.mean() + (human - power * judge).mean()
    error = np.sqrt(np.var(power * others) / rest + np.var(human - power * judge) / n)
    return mean, *stats.norm.interval(0.95, mean, error), power


def numbers(found: Corrected) -> tuple[float | None, ...]:
    return found.mean, found.low, found.high, found.power


def drawn(seed: int, kind: str, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """(the judge's scores, what people say) of all rows."""
    rng = np.random.default_rng(seed)
    if kind == "binary":
        truth = (rng.random(n) < 0.6).astype(float)
        return np.where(rng.random(n) < 0.2, 1 - truth, truth), truth
    if kind == "rating":
        truth = rng.integers(1, 6, n).astype(float)
        return np.clip(truth + rng.integers(-1, 3, n), 1, 5), truth
    truth = rng.normal(3.0, 2.0, n)
    return {"noise": rng.normal(0, 1, n), "opposite": -truth, "good": truth + rng.normal(0.5, 0.3, n)}[kind], truth


@pytest.mark.parametrize("kind", ["binary", "rating", "good", "noise", "opposite"])
@pytest.mark.parametrize("n", [10, 40, 299])
def test_ppi_is_ppi_pys(kind: str, n: int) -> None:
    judge, truth = drawn(n, kind)
    found = numbers(corrected(judge, {i: Label(truth[i]) for i in range(n)}))
    assert found == pytest.approx(published(truth[:n], judge[:n], judge[n:]), abs=1e-10)
    ppi_py = pytest.importorskip("ppi_py")
    given = truth[:n], judge[:n], judge[n:]
    low, high = ppi_py.ppi_mean_ci(*given, alpha=0.05)
    expected = ppi_py.ppi_mean_pointestimate(*given)
    assert found[:3] == pytest.approx((*expected, *low, *high), abs=1e-8)


def test_a_useless_judge_counts_nothing_and_a_perfect_one_as_much_as_it_can() -> None:
    judge, truth = drawn(1, "opposite")
    found = corrected(judge, {i: Label(truth[i]) for i in range(50)})
    assert (found.power, found.mean) == (0.0, pytest.approx(truth[:50].mean()))
    perfect = corrected(truth, {i: Label(truth[i]) for i in range(50)})
    assert perfect.power is not None
    assert perfect.power > 0.75


def test_if_all_rows_are_labelled_the_mean_is_that_of_the_labels() -> None:
    judge, truth = drawn(2, "good", 60)
    found = corrected(judge, {i: Label(truth[i]) for i in range(60)})
    low, high = stats.norm.interval(0.95, truth.mean(), stats.sem(truth))
    assert numbers(found) == pytest.approx((truth.mean(), low, high, 0.0))


def test_labels_with_probabilities_and_a_useless_judge_are_hajeks_mean() -> None:
    """Weighted least squares on a constant with HC0 errors is Hájek's mean and its linearised variance."""
    _, truth = drawn(3, "good", 400)
    chance = np.where(truth > 3, 0.6, 0.1)
    rng = np.random.default_rng(3)
    chosen = np.flatnonzero(rng.random(400) < chance)
    found = corrected(np.zeros(400), {i: Label(truth[i], 1 / chance[i]) for i in chosen})
    y, w = truth[chosen], 1 / chance[chosen]
    mean = np.average(y, weights=w)
    error = np.sqrt(np.sum((w * (y - mean)) ** 2)) / w.sum() * np.sqrt(400 / 399)
    assert numbers(found) == pytest.approx((mean, *stats.norm.interval(0.95, mean, error), 0.0))


def test_clusters_of_labelled_trials_have_the_error_of_statsmodels() -> None:
    """All trials labelled and a useless judge: the cluster-robust error of a mean."""
    rng = np.random.default_rng(4)
    truth = np.repeat(rng.normal(0, 1, 30), 4) + rng.normal(0, 0.5, 120)
    found = corrected(np.zeros(120), {i: Label(truth[i]) for i in range(120)}, trials=4)
    fitted = OLS(truth, np.ones(120)).fit(
        cov_type="cluster", cov_kwds={"groups": np.repeat(range(30), 4), "use_correction": False}
    )
    error = fitted.bse[0] * np.sqrt(30 / 29)
    assert numbers(found) == pytest.approx((truth.mean(), *stats.norm.interval(0.95, truth.mean(), error), 0.0))


def test_copied_rows_give_the_interval_of_the_rows() -> None:
    judge, truth = drawn(5, "good", 200)
    once = corrected(judge, {i: Label(truth[i], 2.0) for i in range(0, 200, 4)} | {1: Label(truth[1], 1.0)})
    labels = {3 * i + t: Label(truth[i], 2.0) for i in range(0, 200, 4) for t in range(3)}
    labels |= {3 + t: Label(truth[1], 1.0) for t in range(3)}
    assert numbers(corrected(np.repeat(judge, 3), labels, trials=3)) == pytest.approx(numbers(once), rel=1e-9)


def test_few_labels_are_a_reason_and_no_error() -> None:
    found = corrected(np.ones(30), {i: Label(1.0) for i in range(MIN_LABELS - 1)})
    assert found == Corrected(9, reason="a corrected mean needs 10 labels, found 9")
    assert corrected(np.ones(3), {}).reason == "a corrected mean needs 10 labels, found 0"


def test_the_order_of_merging_does_not_change_a_bit() -> None:
    judge, truth = drawn(6, "good", 256)
    labels = {i: Label(truth[i], 1 + i % 3) for i in range(0, 256, 3)}
    whole = accumulator(judge, labels, size=256)
    expected = whole.encode()
    parts = [
        accumulator(judge[i : i + 8], {j - i: v for j, v in labels.items() if i <= j < i + 8}) for i in range(0, 256, 8)
    ]
    for seed in range(10):
        random.Random(seed).shuffle(parts)
        merged = Accumulator()
        for part in parts:
            merged.absorb(Accumulator.decode(part.encode()))
        assert merged.encode() == expected
        assert correct(merged.labelled, merged.distribution(), 0.95, None) == correct(
            whole.labelled, whole.distribution(), 0.95, None
        )


def test_labels_of_rows_without_a_score_are_left_out() -> None:
    given: Sequence[Label | None] = [Label(1.0), Label(0.0), None, Label(1.0)]
    assert observe([1.0, None, 0.0, 0.0], given, [(0, 1), (2, 3)]) == {
        (1, 1.0, ((1.0, 1.0, 1.0),)): 1,
        (2, 0.0, ((0.0, 1.0, 1.0),)): 1,
    }


def cover(simulations: int, seed: int, stratified: bool = False) -> tuple[float, float]:
    """Shares of simulations in which the (raw, corrected) interval holds the true share of 0.7.

    The judge passes 30 % of the bad answers and fails 5 % of the good ones, and 200 of 2,000 rows are labelled.
    """
    rng = np.random.default_rng(seed)
    raw = fixed = 0
    for _ in range(simulations):
        truth = (rng.random(2000) < 0.7).astype(float)
        judge = np.where(truth == 1, rng.random(2000) > 0.05, rng.random(2000) < 0.3).astype(float)
        chance = np.where(judge == 0, 100 / (judge == 0).sum(), 100 / (judge == 1).sum()) if stratified else None
        chosen = np.flatnonzero(rng.random(2000) < chance) if chance is not None else range(200)
        labels = {int(i): Label(truth[i], 1.0 if chance is None else 1 / chance[i]) for i in chosen}
        found = corrected_fast(judge, labels)
        error = np.sqrt(judge.mean() * (1 - judge.mean()) / 2000)
        raw += abs(judge.mean() - 0.7) < 1.96 * error
        fixed += found.low is not None and found.high is not None and found.low <= 0.7 <= found.high
    return raw / simulations, fixed / simulations


def corrected_fast(judge: np.ndarray, labels: dict[int, Label]) -> Corrected:
    counts = {value: int((judge == value).sum()) for value in (0.0, 1.0)}
    people = [labels.get(i) for i in range(len(judge))]
    whole = Accumulator(rows=len(judge), scored=len(judge), counts=counts, labelled=observe(judge.tolist(), people))
    return correct(whole.labelled, whole.distribution(), 0.95, (0.0, 1.0))


@pytest.mark.parametrize("stratified", [False, True])
def test_corrected_intervals_cover_where_raw_ones_do_not(stratified: bool) -> None:
    raw, fixed = cover(200, 7, stratified)
    assert raw < 0.2
    assert 0.91 <= fixed <= 0.99  # three standard errors of 200 simulations about 95 %


@pytest.mark.parametrize(("score", "label"), [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_labels_without_variance_leave_room_for_what_they_did_not_show(score: float, label: float) -> None:
    """With equal scores it is Wilson's interval of the labels."""
    found = corrected_fast(np.full(500, score), {i: Label(label) for i in range(100)})
    expected = proportion_confint(100 * label, 100, method="wilson")
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)

"""Agreement of judges and people: textbook figures, statsmodels, scipy, krippendorff, and the jackknife."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from evalbeam.transforms.statistics.agreement import (
    Estimate,
    Joint,
    alpha,
    auc,
    differ,
    kappa,
    rogan_gladen,
    spearman,
    square,
)

FLEISS = [
    *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
    *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
]
"""Ten units, fourteen raters, five categories: the example of Fleiss (1971) as it is usually printed."""
NAN = float("nan")
FOUR = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]
"""Four coders, twelve units: Krippendorff (2011), Computing Krippendorff's alpha-reliability."""
THREE = [
    [NAN, NAN, NAN, NAN, NAN, 3, 4, 1, 2, 1, 1, 3, 3, NAN, 3],
    [1, NAN, 2, 1, 3, 3, 4, 3, NAN, NAN, NAN, NAN, NAN, NAN, NAN],
    [NAN, NAN, 2, 1, 3, 4, 4, NAN, 2, 1, 1, 3, 3, NAN, 4],
]
"""Three coders, fifteen units."""


def joint(judge: Sequence[float], human: Sequence[float]) -> Joint:
    counts = Counter(zip(map(float, judge), map(float, human), strict=True))
    return {pair: count / len(judge) for pair, count in counts.items()}


def units(coders: Sequence[Sequence[float]]) -> list[tuple[list[float], float]]:
    return [([v for v in unit if v == v], 1.0) for unit in zip(*coders, strict=True)]


def value(found: Estimate | None) -> float:
    assert found is not None
    return found.value


def test_kappa_of_the_textbook_table() -> None:
    """20 and 15 of 50 grants on which two readers agree, 5 and 10 on which they do not."""
    table = {(1.0, 1.0): 20 / 50, (1.0, 0.0): 5 / 50, (0.0, 1.0): 10 / 50, (0.0, 0.0): 15 / 50}
    assert value(kappa(table, 50, differ)) == pytest.approx(0.4)


def test_fleiss_kappa_is_alpha_without_its_correction_for_few_values() -> None:
    coders = [([float(k) for k, count in enumerate(unit) for _ in range(count)], 1.0) for unit in FLEISS]
    size = sum(map(sum, FLEISS))
    found = 1 - (1 - value(alpha(coders, differ))) * size / (size - 1)
    assert found == pytest.approx(0.2099, abs=5e-5)
    assert found == pytest.approx(fleiss_kappa(np.array(FLEISS)))


def test_alpha_of_the_textbook_tables() -> None:
    assert value(alpha(units(THREE), differ)) == pytest.approx(0.6914, abs=5e-5)
    assert value(alpha(units(FOUR), square)) == pytest.approx(0.8491, abs=5e-5)


@pytest.mark.parametrize("level", ["nominal", "interval"])
def test_alpha_is_krippendorffs(level: str) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    rng = np.random.default_rng(1)
    for coders in (THREE, FOUR, rng.integers(0, 2, (2, 40)), rng.integers(1, 6, (2, 100))):
        distance = differ if level == "nominal" else square
        expected = krippendorff.alpha(np.array(coders, float), level_of_measurement=level)
        assert value(alpha(units(np.array(coders, float).tolist()), distance)) == pytest.approx(expected, abs=1e-12)


def ratings(seed: int, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    human = rng.integers(1, 6, n)
    return np.clip(human + rng.integers(-1, 3, n), 1, 5).astype(float), human.astype(float)


@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_statsmodels(seed: int) -> None:
    judge, human = ratings(seed)
    counts = np.zeros((5, 5))
    np.add.at(counts, (judge.astype(int) - 1, human.astype(int) - 1), 1)
    for distance, weights in ((differ, None), (square, "quadratic")):
        found, expected = kappa(joint(judge, human), len(judge), distance), cohens_kappa(counts, wt=weights)
        assert found == pytest.approx((expected.kappa, expected.std_kappa), rel=1e-9)


def test_auc_and_its_error_are_mann_whitneys_and_delongs() -> None:
    rng = np.random.default_rng(2)
    human = rng.integers(0, 2, 80)
    judge = np.round(rng.normal(human, 1.0), 1)
    found = auc(joint(judge, human), 80, bool)
    good, bad = judge[human == 1], judge[human == 0]
    wins = (good[:, None] > bad[None, :]) + 0.5 * (good[:, None] == bad[None, :])
    error = np.sqrt(np.var(wins.mean(1), ddof=1) / len(good) + np.var(wins.mean(0), ddof=1) / len(bad))
    assert found == pytest.approx((stats.mannwhitneyu(good, bad).statistic / len(good) / len(bad), error))


def test_spearman_is_scipys() -> None:
    judge, human = ratings(3)
    assert value(spearman(joint(judge, human), 120)) == pytest.approx(stats.spearmanr(judge, human).statistic)


MEASURES: dict[str, Callable[[Joint, float], Estimate | None]] = {
    "kappa": lambda table, n: kappa(table, n, differ),
    "weighted kappa": lambda table, n: kappa(table, n, square),
    "alpha": lambda table, n: alpha([(pair, p * n) for pair, p in table.items()], square),
    "auc": lambda table, n: auc(table, n, lambda label: label >= 4),
}


@pytest.mark.parametrize("name", MEASURES)
def test_standard_errors_are_those_of_the_jackknife(name: str) -> None:
    judge, human = ratings(4, 400)
    measure = MEASURES[name]
    found = measure(joint(judge, human), 400)
    assert found is not None
    assert found.error is not None
    kept = [np.delete(np.arange(400), i) for i in range(400)]
    left_out = [value(measure(joint(judge[k], human[k]), 399)) for k in kept]
    error = np.sqrt(399 * np.var(left_out))
    assert found.error == pytest.approx(error, rel=0.02)


def test_spearmans_error_is_that_of_simulations() -> None:
    rng = np.random.default_rng(6)
    drawn, errors = [], []
    for _ in range(500):
        x, y = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 100).T
        found = spearman(joint(x, y), 100)
        assert found is not None
        assert found.error is not None
        drawn.append(found.value)
        errors.append(found.error)
    assert np.mean(errors) == pytest.approx(np.std(drawn), rel=0.1)


def test_rogan_gladen() -> None:
    assert value(rogan_gladen(0.7, 0.9, 0.85)) == pytest.approx(0.7333, abs=5e-5)
    assert rogan_gladen(0.7, 0.4, 0.6) is None
    assert value(rogan_gladen(0.05, 0.9, 0.85)) == 0.0


def test_rogan_gladens_error_is_that_of_simulations() -> None:
    rng = np.random.default_rng(5)
    drawn = [
        value(rogan_gladen(a / 2000, s / 300, p / 200))
        for a, s, p in zip(
            rng.binomial(2000, 0.7, 4000), rng.binomial(300, 0.9, 4000), rng.binomial(200, 0.85, 4000), strict=True
        )
    ]
    found = rogan_gladen(0.7, 0.9, 0.85, (2000, 300, 200))
    assert found is not None
    assert found.error == pytest.approx(np.std(drawn), rel=0.05)


def test_what_is_not_defined_is_none() -> None:
    same = {(1.0, 1.0): 1.0}
    assert kappa(same, 20, differ) is kappa(same, 20, square) is None
    assert alpha([((1.0, 1.0), 20.0)], differ) is alpha([((1.0,), 1.0)], differ) is None
    assert auc(same, 20, bool) is None
    assert spearman(same, 20) is None


def test_intervals_hold_their_value_have_a_width_and_stay_within_their_ends() -> None:
    for found in (Estimate(1.0, 0.0), Estimate(-1.0, 0.0), Estimate(0.0, None), Estimate(0.9, 0.2)):
        low, high = found.interval(30, (-1.0, 1.0), 0.95)
        assert -1 <= low <= found.value <= high <= 1
        assert low < high

"""Steps are found where they are; series that do not change are flagged no oftener than by chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evalbeam.transforms.statistics.change_points import _ratios, find_changes

DAYS, ERROR = 60, 0.02


def flagged(number: int, chance: np.random.Generator, step: float = 0.0, at: int = DAYS) -> list[list[int]]:
    found = []
    for _ in range(number):
        values = chance.normal(0.8, ERROR, DAYS)
        values[at:] += step * ERROR
        (changes,) = find_changes([(values, [ERROR] * DAYS)])
        found.append([change.at for change in changes])
    return found


def test_stationary_series_are_flagged_by_chance_alone() -> None:
    assert sum(map(bool, flagged(300, np.random.default_rng(0)))) <= 15


@pytest.mark.parametrize("at", [10, 30, 50])
def test_a_step_of_three_standard_errors_is_found_within_two_days(at: int) -> None:
    found = flagged(30, np.random.default_rng(at), -3, at)
    assert sum(any(abs(day - at) <= 2 for day in days) for days in found) >= 27


def test_two_steps_are_two_changes_with_the_means_between() -> None:
    values = np.repeat([0.8, 0.6, 0.9], 20) + np.random.default_rng(0).normal(0, 0.01, 60)
    (changes,) = find_changes([(values, [0.01] * 60)])
    assert [change.at for change in changes] == [20, 40]
    assert [(c.before, c.after) for c in changes] == [
        (pytest.approx(0.8, abs=0.01), pytest.approx(0.6, abs=0.01)),
        (pytest.approx(0.6, abs=0.01), pytest.approx(0.9, abs=0.01)),
    ]


def test_the_statistic_is_the_likelihood_ratio() -> None:
    chance = np.random.default_rng(2)
    values, errors = chance.normal(0, 1, 12), chance.uniform(0.5, 2, 12)

    def log_likelihood(part: slice) -> float:
        mean = np.average(values[part], weights=errors[part] ** -2)
        return stats.norm.logpdf(values[part], mean, errors[part]).sum()

    whole = log_likelihood(slice(None))
    ratios = _ratios(values[None], errors[None] ** -2)[0]
    for k in range(1, 12):
        split = log_likelihood(slice(0, k)) + log_likelihood(slice(k, None))
        assert ratios[k - 1] == pytest.approx(2 * (split - whole), rel=1e-9)


def test_imprecise_runs_weigh_less() -> None:
    values, errors = np.full(30, 0.8) + np.random.default_rng(1).normal(0, 0.01, 30), np.full(30, 0.01)
    values[20], errors[20] = 0.2, 1.0
    assert find_changes([(values, errors)]) == [[]]


def test_many_metrics_need_more_and_short_series_show_nothing() -> None:
    chance = np.random.default_rng(4)
    step = np.repeat([0.0, 1.0], 4)
    one = (step + chance.normal(0, 0.05, 8), [0.05] * 8)
    others = [(chance.normal(0, 0.05, 8), [0.05] * 8) for _ in range(20)]
    alone = find_changes([one])
    assert (len(alone[0]) > 0) >= (len(find_changes([one, *others])[0]) > 0)
    assert find_changes([([1.0, 2.0, 3.0], [0.1] * 3)]) == [[]]
    assert find_changes([([0.5] * 20, [0.1] * 20)]) == [[]]
    assert find_changes([]) == []

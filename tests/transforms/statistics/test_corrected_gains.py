"""Gains of means that labels correct: how often their intervals hold the true gain."""

from __future__ import annotations

import numpy as np
import pytest

from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.clusters import counted
from evalbeam.transforms.statistics.corrected_gains import CorrectedMean, find_corrected_gain
from evalbeam.transforms.statistics.labelled import Label, correct, observe


def corrected(judge: np.ndarray, truth: np.ndarray, asked: np.ndarray) -> CorrectedMean:
    scores = judge.tolist()
    labels = [Label(float(y)) if a else None for y, a in zip(truth, asked, strict=True)]
    found = correct(observe(scores, labels), Accumulator(counts=counted(scores)).distribution(), 0.95, (0.0, 1.0))
    assert found.mean is not None
    assert found.low is not None
    assert found.high is not None
    return CorrectedMean(found.mean, found.low, found.high, 0.95)


def test_intervals_hold_the_true_gain_where_the_judge_says_the_opposite() -> None:
    """The judge becomes kinder while the agent becomes worse, from .7 to .62; the rows are the same."""
    rng = np.random.default_rng(0)
    held = kinder = 0
    for _ in range(300):
        level = rng.beta(3.5, 1.5, 1500)
        runs = []
        for loss, kind in ((0.0, 0.1), (0.08, 0.5)):
            truth = (rng.random(1500) < level * (1 - loss / 0.7)).astype(float)
            judge = np.where(truth == 1, 1.0, rng.random(1500) < kind).astype(float)
            runs.append((judge, truth, rng.random(1500) < 0.1))
        kinder += runs[1][0].mean() > runs[0][0].mean()
        found = find_corrected_gain(corrected(*runs[0]), corrected(*runs[1]), False, 0.95)
        held += found.low <= -0.08 <= found.high
    assert kinder >= 290
    assert held / 300 >= 0.92


def test_levels_and_directions() -> None:
    one, other = CorrectedMean(0.5, 0.4, 0.65, 0.95), CorrectedMean(0.7, 0.6, 0.75, 0.95)
    found, back = (find_corrected_gain(one, other, lower, 0.95) for lower in (False, True))
    assert (found.gain, found.low, found.high) == pytest.approx((0.2, 0.2 - 0.0325**0.5, 0.2 + 0.0125**0.5))
    assert (back.gain, back.low, back.high) == (-found.gain, -found.high, -found.low)
    wider = find_corrected_gain(one, other, False, 0.99)
    assert (wider.low - 0.2) / (found.low - 0.2) == pytest.approx(2.5758293 / 1.9599640)

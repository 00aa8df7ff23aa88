"""A slice that is worse is found; where none is, none is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall
from evalbeam.transforms.statistics.slice_columns import SliceColumn, describe_example, slice_columns
from evalbeam.transforms.statistics.worst_slices import WorstSlice, _hypergeometric, _test, find_worst

PLANTED = {"a": "1", "b": "2"}


def columns(chance: np.random.Generator, rows: int) -> list[SliceColumn]:
    return [
        SliceColumn(name, [str(i) for i in range(number)], chance.integers(0, number, rows))
        for name, number in (("a", 3), ("b", 4), ("c", 20), ("d", 2), ("e", 7), ("f", 50))
    ]


def find(seed: int, rows: int, planted: bool, binary: bool = True) -> list[WorstSlice]:
    chance = np.random.default_rng(seed)
    known = columns(chance, rows)
    inside = (known[0].codes == 1) & (known[1].codes == 2)
    if binary:
        scores = (chance.random(rows) < np.where(inside & planted, 0.5, 0.8)).astype(float)
    else:
        scores = chance.exponential(1, rows) - 1.0 * (inside & planted)
    return find_worst(known, {"m": scores}, {"m": -scores}, chance.random(rows) < 0.5)


def test_a_planted_slice_is_found_and_alone() -> None:
    found = [find(seed, 2_000, planted=True) for seed in range(40)]
    assert sum(any(one.slice == PLANTED for one in worst) for worst in found) >= 38
    assert sum(len(worst) for worst in found) <= 1.3 * len(found)


@pytest.mark.parametrize("binary", [True, False])
def test_chance_slices_are_not_named(binary: bool) -> None:
    named = sum(bool(find(seed, 1_000, planted=False, binary=binary)) for seed in range(100))
    assert stats.binomtest(named, 100, 0.05, alternative="greater").pvalue > 0.05


def test_what_is_said_of_a_slice_is_true() -> None:
    chance = np.random.default_rng(0)
    known, tested = columns(chance, 2_000), chance.random(2_000) < 0.5
    inside = (known[0].codes == 1) & (known[1].codes == 2)
    scores = np.where(inside, 0.0, 1.0) + chance.normal(0, 0.1, 2_000)
    scores[::7] = np.nan
    one, *_ = find_worst(known, {"m": scores}, {"m": -scores}, tested)
    scored = ~np.isnan(scores)
    assert (one.slice, one.rows) == (PLANTED, int((inside & scored).sum()))
    assert one.mean == pytest.approx(scores[inside & scored & tested].mean())
    assert one.others == pytest.approx(scores[~inside & scored & tested].mean())
    assert scores[one.examples[0]] == scores[inside & scored].min()


def test_p_values_are_those_of_scipy() -> None:
    assert _hypergeometric(100, 30, 20, 9) == pytest.approx(stats.hypergeom.sf(8, 100, 30, 20), rel=1e-12)
    chance = np.random.default_rng(1)
    rows, loss, every = np.arange(400) < 60, chance.normal(0, 1, 400), np.ones(400, bool)
    exact = stats.permutation_test(
        (loss[rows], loss[~rows]), lambda x, y: x.mean() - y.mean(), alternative="greater", random_state=1
    )
    assert _test(rows, loss, every, every) == pytest.approx(exact.pvalue, abs=0.015)


def test_an_example_is_described_by_texts_numbers_and_lengths() -> None:
    row = {
        "locale": "en",
        "prompt": "x" * 100,
        "n": 3,
        "flag": True,
        "history": [1, 2],
        "none": None,
        "prediction": "yes",
    }
    call = Invocation(response="yes", predicted_trajectory=(ToolCall("b", {}), ToolCall("a", {}), ToolCall("b", {})))
    found = describe_example(Example(Instance("i", {**row, "more": "not asked for"}), call), row)
    assert found == {
        "locale": "en",
        "length of locale": 2,
        "prompt": "x" * 79 + "…",
        "length of prompt": 100,
        "n": 3,
        "flag": "true",
        "length of history": 2,
        "length of response": 3,
        "tools called": "a, b",
        "number of tool calls": 3,
    }


def test_columns_have_few_values() -> None:
    rows = [
        {"word": f"w{i % 3}", "length of word": 2, "text": "t" * i, "length of text": i, "n": i} for i in range(100)
    ]
    found = {column.name: column for column in slice_columns([*rows, {}])}
    assert sorted(found) == ["length of text", "n", "word"]
    assert found["word"].values == [None, "w0", "w1", "w2"]
    assert found["n"].values == [
        "at most 19",
        "over 19, at most 39",
        "over 39, at most 59",
        "over 59, at most 79",
        "over 79",
        None,
    ]
    assert np.bincount(found["n"].codes).tolist() == [20, 20, 20, 20, 20, 1]


def test_values_of_all_kinds_make_a_column() -> None:
    (column,) = slice_columns([{"x": v} for v in ("", 0, "b", 1.5, "0")] + [{}])
    assert column.values == [None, "0", "1.5", "", "b"]
    assert column.codes.tolist() == [3, 1, 4, 2, 1, 0]


def test_scores_at_the_end_of_float64_are_no_error() -> None:
    known, chance = columns(np.random.default_rng(0), 500), np.random.default_rng(1)
    scores = chance.choice([-1e308, 0.0, 1e308], 500)
    assert find_worst(known, {"m": scores}, {"m": scores}, chance.random(500) < 0.5) == []

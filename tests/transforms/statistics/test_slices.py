"""Which summary rows a scored row counts in, and what it adds to each."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch, SliceKey
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.slices import MetricFacts, Partials, distinct_slices, slice_order

QUALITY = MetricFacts("quality", worst=1.0, best=5.0)
CHOICE = MetricFacts("choice", pairwise=True)


def batch_of(rows: list[dict[str, Any]], **columns: list[Score]) -> ScoredBatch:
    examples = [Example(Instance(str(i), row), Invocation()) for i, row in enumerate(rows)]
    return ScoredBatch(examples, {name: ScoreColumn.of(scores) for name, scores in columns.items()})


def only(batch: ScoredBatch, facts: MetricFacts, **options: Any) -> Accumulator:
    [(key, found)] = Partials([()], [facts], **options).count(batch)
    assert key == SliceKey((), facts.name)
    return found


def test_slices_stand_by_missing_values_numbers_and_text() -> None:
    ordered = [None, "-2.5", "0", "9", "10", "1e+22", "", "007", "10 km", "1e999", "2026-11-22", "a"]
    mixed = [*ordered[::2], *ordered[1::2]]
    assert sorted(mixed, key=slice_order) == ordered


def test_rows_stand_in_the_whole_and_in_one_slice_of_each_list() -> None:
    rows = [{"c": "x", "l": 1}, {"c": "x"}, {"c": "y", "l": 1}]
    batch = batch_of(rows, quality=[Score(1.0), Score(2.0), Score(3.0)])
    found = {
        key.slice: part.counts for key, part in Partials(distinct_slices([["c"], ["c", "l"]]), [QUALITY]).count(batch)
    }
    assert found == {
        (): {1.0: 1, 2.0: 1, 3.0: 1},
        (("c", "x"),): {1.0: 1, 2.0: 1},
        (("c", "y"),): {3.0: 1},
        (("c", "x"), ("l", "1")): {1.0: 1},
        (("c", "x"), ("l", None)): {2.0: 1},
        (("c", "y"), ("l", "1")): {3.0: 1},
    }


def test_a_slice_given_twice_or_empty_is_counted_once() -> None:
    assert distinct_slices([[], ["c"], ["c"], ["c", "l"]]) == [(), ("c",), ("c", "l")]
    batch = batch_of([{"c": "x"}], quality=[Score(1.0)])
    assert Counter(key.slice for key, _ in Partials(distinct_slices([[], ["c"], ["c"]]), [QUALITY]).count(batch)) == {
        (): 1,
        (("c", "x"),): 1,
    }


def test_every_status_is_counted() -> None:
    scores = [
        Score(1.0),
        Score.failed("ValueError", "no"),
        Score.skipped("missing_reference", "no"),
        Score.skipped("agent_failed", "no"),
        Score(status="not_applicable"),
        Score(5.0),
    ]
    found = only(batch_of([{}] * 6, quality=scores), QUALITY)
    assert found == Accumulator(rows=6, scored=2, errors=1, skipped=2, inapplicable=1, counts={1.0: 1, 5.0: 1})


def test_failed_rows_count_with_the_worst_value_where_asked_for() -> None:
    scores = [Score(5.0), Score.skipped("agent_failed", "no"), Score.skipped("not_called", "no")]
    batch = batch_of([{"c": "x"}, {"c": "x"}, {"c": "y"}], quality=scores)
    found = {key.slice: part for key, part in Partials([(), ("c",)], [QUALITY], on_failure="worst").count(batch)}
    assert found[()] == Accumulator(rows=3, scored=1, skipped=2, counts={5.0: 1, 1.0: 1})
    assert found[(("c", "x"),)].counts == {5.0: 1, 1.0: 1}
    assert found[(("c", "y"),)].counts == {}
    assert only(batch, QUALITY).counts == {5.0: 1}
    without_range = MetricFacts("quality")
    assert only(batch, without_range, on_failure="worst").counts == {5.0: 1}
    assert batch.scores["quality"].values == [5.0, None, None]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), None])
def test_a_score_that_is_no_number_is_an_error(value: float | None) -> None:
    found = only(batch_of([{}] * 2, quality=[Score(value), Score(2.0)]), QUALITY)
    assert found == Accumulator(rows=2, scored=1, errors=1, counts={2.0: 1})


def test_a_value_beside_an_error_does_not_count() -> None:
    column = ScoreColumn([1.0, 2.0], {0: "error"})
    batch = ScoredBatch(batch_of([{}] * 2).examples, {"quality": column})
    assert only(batch, QUALITY) == Accumulator(rows=2, scored=1, errors=1, counts={2.0: 1})


def test_a_verdict_in_words_is_a_score_without_a_value() -> None:
    found = only(batch_of([{}] * 2, quality=[Score(label="good"), Score(2.0)]), QUALITY)
    assert found == Accumulator(rows=2, scored=2, counts={2.0: 1})


def test_zero_has_one_sign_and_values_are_floats() -> None:
    found = only(batch_of([{}] * 4, quality=[Score(-0.0), Score(0.0), Score(True), Score(1.0)]), QUALITY)
    assert [(str(value), count) for value, count in sorted(found.counts.items())] == [("0.0", 2), ("1.0", 2)]


@pytest.mark.parametrize(("at_most", "passes"), [(False, 3), (True, 2)])
def test_passes_are_inclusive(at_most: bool, passes: int) -> None:
    facts = MetricFacts("quality", threshold=Threshold(2.0, at_most))
    assert only(batch_of([{}] * 4, quality=[Score(v) for v in (1.0, 2.0, 3.0, 3.0)]), facts).passes == passes


def test_win_rates_are_metrics_of_their_own() -> None:
    scores = [Score(label="CANDIDATE"), Score(label="TIE"), Score(label="BASELINE"), Score(label="CANDIDATE")]
    scores += [Score.failed("JudgeError", "no"), Score(label="maybe"), Score.skipped("agent_failed", "no")]
    batch = batch_of([{}] * 7, choice=scores)
    assert [row.name for facts in (QUALITY, CHOICE) for row in facts.rows()] == [
        "quality",
        "choice/candidate_model_win_rate",
        "choice/baseline_model_win_rate",
        "choice/tie_rate",
    ]
    verdicts = {"rows": 7, "scored": 4, "errors": 2, "skipped": 1}
    for options, counts in (
        ({}, [{1.0: 2, 0.0: 2}, {1.0: 1, 0.0: 3}, {1.0: 1, 0.0: 3}]),
        ({"win_rate_all_rows": True}, [{1.0: 2, 0.0: 5}, {1.0: 1, 0.0: 6}, {1.0: 1, 0.0: 6}]),
        ({"on_failure": "worst"}, [{1.0: 2, 0.0: 3}, {1.0: 2, 0.0: 3}, {1.0: 1, 0.0: 4}]),
    ):
        found = [part for _, part in Partials([()], [CHOICE], **options).count(batch)]
        assert found == [Accumulator(**verdicts, counts=c) for c in counts], options


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.5, 1.0, None])), min_size=1, max_size=40))
def test_slices_add_up_to_the_whole(cells: list[tuple[str, float | None]]) -> None:
    scores = [Score.failed("e", "m") if value is None else Score(value) for _, value in cells]
    batch = batch_of([{"c": c} for c, _ in cells], quality=scores)
    whole, united = Accumulator(), Accumulator()
    for key, part in Partials([(), ("c",)], [QUALITY]).count(batch):
        (united if key.slice else whole).absorb(part)
    assert united.encode() == whole.encode()
    assert whole.counts == Counter(value for _, value in cells if value is not None)


def test_an_empty_batch_adds_nothing() -> None:
    assert Partials([(), ("c",)], [QUALITY]).count(batch_of([], quality=[])) == []

"""A forecast bounds what judges are then asked, whatever they answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.pipelines.check.forecast import forecast, make_up_answer
from evalbeam.schemas.instance import Chunk, Example, Instance, Invocation
from evalbeam.schemas.judging import Answer, Ask
from evalbeam.schemas.result import ScoreError
from evalbeam.transforms.judging.shapes import BOOL, TEXT, fit, list_of, object_of, one_of
from evalbeam.transforms.metrics.adk_judges import FinalResponseMatchV2, HallucinationsV1
from evalbeam.transforms.metrics.databricks_judges import ChunkRelevance, GuidelineAdherence, Safety
from evalbeam.transforms.metrics.rapid import Fluency, Groundedness, PairwiseSummarizationQuality
from evalbeam.transforms.metrics.rubric import RubricBasedMetric
from evalbeam.transforms.metrics.template import PairwiseMetric, PointwiseMetric

from ...transforms.judging.scripted import driven

ROW: dict[str, Any] = {
    "prompt": "Where is it?",
    "instruction": "Where is it?",
    "context": "It is there.",
    "reference": "There.",
    "baseline_prediction": "Here.",
    "guidelines": {"short": ["Be short."], "kind": ["Be kind."]},
}
CONTEXT = tuple(Chunk(text) for text in ("one", "two", "two", ""))
EXAMPLE = Example(Instance("0" * 32, ROW), Invocation(response="There. It is small.", retrieved_context=CONTEXT))
METRICS = [
    Fluency(),
    Groundedness(samples=5),
    Groundedness(samples=4, judge=("one", "two")),
    Fluency(samples=3, aggregate="mean"),
    PairwiseSummarizationQuality(samples=5, flip=True),
    PairwiseMetric(metric="pairwise_fluency", samples=4, flip=True),
    PointwiseMetric(metric="fluency", samples=2),
    RubricBasedMetric(samples=3),
    RubricBasedMetric(samples=3, rubrics=("It is short.",)),
    Safety(samples=3),
    ChunkRelevance(),
    GuidelineAdherence(samples=3, judge=("one", "two")),
    FinalResponseMatchV2(samples=5),
    HallucinationsV1(samples=3),
]


@given(st.data())
def test_what_is_asked_lies_within_the_forecast(data: st.DataObject) -> None:
    metric = data.draw(st.sampled_from(METRICS))
    error = Answer(error=ScoreError("judge_failed", "no answer"))
    seen: list[Ask] = []

    def answer(ask: Ask) -> Answer:
        seen.append(ask)
        failing = data.draw(st.integers(0, 9)) == 0
        return error if failing else Answer(make_up_answer(ask.schema, -data.draw(st.integers(0, 1))))

    score, _ = driven(metric.judged(EXAMPLE), answer)
    asked, found = Counter(ask.judge for ask in seen), forecast(metric, EXAMPLE)
    assert set(asked) <= set(found)
    assert all(asked[judge] <= most.calls for judge, (_, most) in found.items())
    if score.error is None:
        assert sum(asked.values()) >= sum(least.calls for least, _ in found.values())


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: type(m).__name__)
def test_judges_that_agree_are_asked_the_least(metric: Any) -> None:
    seen: list[Ask] = []

    def answer(ask: Ask) -> Answer:
        seen.append(ask)
        return Answer(make_up_answer(ask.schema, -1))

    driven(metric.judged(EXAMPLE), answer)
    found = forecast(metric, EXAMPLE)
    if not isinstance(metric, HallucinationsV1):  # its made-up answer does not speak of each sentence: votes fail
        assert {j: least.calls for j, (least, _) in found.items() if least.calls} == Counter(ask.judge for ask in seen)
        characters = sum(len(m.content) for ask in seen for m in ask.messages)
        assert sum(least.given for least, _ in found.values()) == characters
    assert sum(most.calls for _, most in found.values()) >= len(seen)


def test_a_panel_is_asked_between_its_majority_and_all() -> None:
    ((least, most),) = forecast(Groundedness(samples=5), EXAMPLE).values()
    assert (least.calls, most.calls) == (3, 5)
    assert most.given * 3 == least.given * 5
    by_judge = forecast(Groundedness(samples=2, judge=("one", "two", "three")), EXAMPLE)
    assert {j: (a.calls, b.calls) for j, (a, b) in by_judge.items()} == {
        "one": (2, 2), "two": (1, 2), "three": (1, 2),
    }  # fmt: skip


def test_a_metric_that_finds_nothing_to_ask_asks_nothing() -> None:
    empty = Example(EXAMPLE.instance, Invocation(response="x", retrieved_context=(Chunk(""),)))
    assert forecast(ChunkRelevance(), empty) == {}


@pytest.mark.parametrize("end", [0, -1])
def test_made_up_answers_have_the_shape(end: int) -> None:
    shape = object_of(why=TEXT, sure=BOOL, score=one_of(1, 2, 3), parts=list_of(object_of(number={"type": "integer"})))
    value: Any = make_up_answer({**shape, "properties": {**shape["properties"], "share": {"type": "number"}}}, end)
    assert fit({k: v for k, v in value.items() if k != "share"}, shape) == {
        k: v for k, v in value.items() if k != "share"
    }
    assert value["score"] == (1, 2, 3)[end]

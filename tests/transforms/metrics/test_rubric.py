"""Rubric metrics: where properties come from, and what votes on them come to."""

from __future__ import annotations

from typing import Any

import pytest

from evalbeam import ConfigError, PointwiseMetric, RubricBasedMetric, RubricGenerationConfig
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.judging import Answer
from evalbeam.schemas.result import ScoreError
from evalbeam.transforms import registry

from ..judging.scripted import held


def built(**params: Any) -> Any:
    return registry.build(registry.find("metric", "rubric"), params, "metrics.0")


def row(**more: Any) -> Example:
    return Example(Instance("00", {"prompt": "the question", **more}), Invocation(response="the answer"))


def said(*verdicts: bool) -> Answer:
    return Answer({"verdicts": [{"number": i, "explanation": f"{i}", "verdict": v} for i, v in enumerate(verdicts, 1)]})


def test_the_score_is_the_share_of_properties() -> None:
    score, (ask,) = held(built(rubrics=["It greets.", "It thanks.", "It ends."]).judged(row()), said(True, False, 1))
    assert score.value == pytest.approx(2 / 3)
    assert (score.explanation, score.confidence) == ("The answer lacks: It thanks.", 1.0)
    assert [one["verdict"] for one in score.details["rubrics"]] == [True, False, True]
    assert "1. It greets.\n2. It thanks.\n3. It ends." in ask.messages[1].content


@pytest.mark.parametrize("given", [["It greets.", "It ends."], "It greets.\n\n It ends. \n"])
def test_properties_of_the_row(given: Any) -> None:
    score, asks = held(built().judged(row(rubrics=given)), said(True, True))
    assert (score.value, len(asks), score.explanation) == (1.0, 1, "The answer has every property.")


def test_a_judge_writes_the_properties_of_a_row_without() -> None:
    written = Answer({"rubrics": ["It greets.", " "]})
    config = RubricGenerationConfig(prompt_template="Write them for {prompt}.")
    one = built(generation_config=config)
    score, asks = held(one.judged(row()), written, said(False))
    assert (score.value, one.calls, [p.name for p in one.prompts][1]) == (0.0, (1, 2), "rubrics")
    assert asks[0].messages[1].content.startswith("Write them for")
    score, _ = held(built().judged(row()), Answer(error=ScoreError("refused", "no")))
    assert (score.status, score.error) == ("error", ScoreError("refused", "no"))
    score, _ = held(built().judged(row()), Answer({"rubrics": []}))
    assert score.error == ScoreError("invalid_rubrics", "there are 0 rubrics (allowed: 1 to 100)")


def test_each_property_goes_by_the_majority_of_the_votes_on_it() -> None:
    votes = [said(True, True), said(True, False), said(False, False), Answer(error=ScoreError("refused", "no"))]
    score, asks = held(built(rubrics=["a", "b"], samples=4).judged(row()), *votes)
    assert (score.value, score.details["votes"], len(asks)) == (0.5, 3, 4)
    assert score.confidence == pytest.approx(2 / 3)
    even = held(built(rubrics=["a"], samples=2).judged(row()), said(True), said(False))
    assert even[0].value == 0.0


@pytest.mark.parametrize("numbers", [[1], [1, 1], [1, 2, 3], [0, 1]])
def test_a_vote_without_one_verdict_for_each_property_is_none(numbers: list[int]) -> None:
    answer = Answer({"verdicts": [{"number": n, "explanation": "", "verdict": True} for n in numbers]})
    score, _ = held(built(rubrics=["a", "b"]).judged(row()), answer)
    assert score.error == ScoreError("invalid_verdict", "not every property has one verdict")


def test_questions_that_were_not_asked_are_asked_later() -> None:
    score, _ = held(built(rubrics=["a"]).judged(row()), Answer(error=ScoreError("over_budget", "not asked")))
    assert (score.status, score.error.code if score.error else "") == ("skipped", "over_budget")


def test_the_template_of_a_metric_of_the_sdk_is_the_critique() -> None:
    critique = PointwiseMetric(metric="rb", metric_prompt_template="Check:\n\n{rubrics}\n\nof {response} for {user}")
    one = RubricBasedMetric(
        generation_config=RubricGenerationConfig(prompt_template="{prompt}"), critique_metric=critique
    )
    assert (one.name, one.inputs) == ("rb", ("prompt", "response", "user"))
    plain = RubricBasedMetric(
        rubrics=["a"], critique_metric=PointwiseMetric(metric="m", metric_prompt_template="{response}")
    )
    assert plain.prompts[0].variables == ("response", "rubrics")


def test_a_row_must_bring_its_properties_where_that_is_asked() -> None:
    assert built(from_rows=True).inputs == ("prompt", "response", "rubrics")


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"from_rows": True, "rubrics": ["a"]}, "from_rows is true"),
        ({"aggregate": "mean"}, "allowed: majority, for each property"),
        ({"critique_metric": 7}, "critique_metric is int"),
        ({"generation_config": {"modle": "gemini"}}, r"generation_config.*modle"),
    ],
)
def test_what_cannot_be_asked_is_refused(params: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        built(**params)

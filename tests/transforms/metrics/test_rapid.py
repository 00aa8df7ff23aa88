"""The metrics of rapid evaluation: inputs and ranges from the API's documentation, verdicts from a scripted judge."""

from __future__ import annotations

from typing import Any

import pytest

from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.transforms import registry

from ..judging.scripted import held
from .rapid_table import PAIRWISE, POINTWISE, TEXT

ROW = {"instruction": "the question", "context": "the text", "baseline_prediction": "the old", "reference": "the truth"}
EXAMPLE = Example(Instance("00", ROW), Invocation(response="the new"))


def metric(name: str, **params: Any) -> Any:
    return registry.build(registry.find("metric", f"rapid/{name}"), params, "metrics.0")


@pytest.mark.parametrize("name", POINTWISE)
def test_inputs_and_range_are_those_of_the_api(name: str) -> None:
    inputs, low, high = POINTWISE[name]
    one = metric(name)
    assert (one.inputs, one.range, one.binary) == (inputs, (low, high), (low, high) == (0, 1))
    assert one.ends() == ((-2.0, 0.0) if name == "summarization_verbosity" else (low, high))
    score, (ask,) = held(one.judged(EXAMPLE), {"explanation": "why", "score": high})
    assert (score.value, score.explanation, score.confidence) == (float(high), "why", 1.0)
    assert ask.schema["properties"]["score"]["enum"] == list(range(low, high + 1))
    shown = ask.messages[1].content
    assert [n for n in ("the new", "the question", "the text", "the old", "the truth") if n in shown] == [
        value
        for value, key in (("the new", "prediction"), ("the question", "instruction"), ("the text", "context"))
        if key in inputs
    ]


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize(("choice", "verdict"), [("A", "BASELINE"), ("B", "CANDIDATE"), ("SAME", "TIE")])
def test_pairs_are_shown_baseline_first(name: str, choice: str, verdict: str) -> None:
    score, (ask,) = held(metric(name).judged(EXAMPLE), {"explanation": "why", "choice": choice})
    assert (score.value, score.label, score.explanation) == (None, verdict, "why")
    shown = ask.messages[1].content
    assert shown.index("the old") < shown.index("the new")


def test_flipped_votes_see_the_other_order() -> None:
    one = metric(PAIRWISE[0], samples=2, flip=True)
    likes_the_first = {"explanation": "first", "choice": "A"}
    score, asked = held(one.judged(EXAMPLE), likes_the_first, likes_the_first)
    orders = [a.messages[1].content.index("the old") < a.messages[1].content.index("the new") for a in asked]
    assert orders == [True, False]
    assert (score.label, score.confidence) == ("TIE", 0.0)
    assert score.details == {
        "votes": [
            {"judge": "default", "verdict": "BASELINE"},
            {"judge": "default", "flipped": True, "verdict": "CANDIDATE"},
        ]
    }


def test_a_reference_is_shown_where_it_is_asked_for() -> None:
    one = metric("question_answering_correctness", use_reference=True)
    assert one.inputs == (*TEXT, "reference")
    _, (ask,) = held(one.judged(EXAMPLE), {"explanation": "", "score": 1})
    assert "the truth" in ask.messages[1].content
    assert one.prompts[0].hash != metric("question_answering_correctness").prompts[0].hash
    with pytest.raises(ConfigError, match="use_reference"):
        metric("fluency", use_reference=True)


def test_parameters_are_checked() -> None:
    assert metric("fluency", version=1).prompts == metric("fluency").prompts
    for params in ({"version": 7}, {"samples": 0}, {"judge": []}, {"aggregate": "best"}, {"flip": True}):
        with pytest.raises(ConfigError):
            metric("fluency", **params)
    with pytest.raises(ConfigError, match="majority"):
        metric(PAIRWISE[0], aggregate="mean")

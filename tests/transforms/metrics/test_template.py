"""Metrics from templates: what judges are shown, what is a verdict, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from evalbeam import ConfigError, MetricPromptTemplateExamples, PairwiseMetric, PointwiseMetric
from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall
from evalbeam.transforms import registry
from evalbeam.transforms.judging.parse import InvalidVerdict, check_verdict, read_verdict
from evalbeam.transforms.metrics.template import NAMES

from ..judging.scripted import held

ROW = {"prompt": "the {response} question", "history": "before", "baseline_model_response": "the old", "tone": "warm"}
CALLS = (ToolCall("set_light", {"on": True}),)
EXAMPLE = Example(Instance("00", ROW), Invocation(response="the {tone} new", predicted_trajectory=CALLS))


def built(name: str, **params: Any) -> Any:
    return registry.build(registry.find("metric", name), params, "metrics.0")


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_metric_asks_with_its_prompt(name: str) -> None:
    one = built(f"template/{name}")
    low, high = map(int, one.range)
    score, (ask,) = held(one.judged(EXAMPLE), {"explanation": "why", "score": high})
    assert (score.value, score.explanation) == (float(high), "why")
    assert ask.schema["properties"]["score"]["enum"] == list(range(low, high + 1))
    assert f"{high}:" in ask.messages[0].content
    assert "the {tone} new" in ask.messages[1].content
    pair = built(f"template/pairwise_{name}")
    score, (ask,) = held(pair.judged(EXAMPLE), {"explanation": "why", "choice": "B"})
    assert (score.label, score.value) == ("CANDIDATE", None)
    assert ask.messages[1].content.index("the old") < ask.messages[1].content.index("the {tone} new")


def test_names_and_texts_of_the_examples_are_those_of_the_sdk() -> None:
    listed = MetricPromptTemplateExamples.list_example_metric_names()
    assert listed == [*NAMES, *(f"pairwise_{name}" for name in NAMES)]
    for name in NAMES:
        pointwise = getattr(MetricPromptTemplateExamples.Pointwise, name.upper())
        assert pointwise.prompts == built(f"template/{name}").prompts
        assert pointwise.ends() == built(f"template/{name}").ends()
        assert getattr(MetricPromptTemplateExamples.Pairwise, name.upper()).name == f"pairwise_{name}"
        text = MetricPromptTemplateExamples.get_prompt_template(name)
        own = PointwiseMetric(metric="own", metric_prompt_template=text).prompts[0]
        assert (own.told, own.given) == (pointwise.prompts[0].told, pointwise.prompts[0].given)
    assert MetricPromptTemplateExamples.Pointwise.VERBOSITY.ends() == (-2.0, 0.0)
    with pytest.raises(ValueError, match="no template 'charm'"):
        MetricPromptTemplateExamples.get_prompt_template("charm")


def test_values_are_never_read_as_templates_and_calls_are_json() -> None:
    one = PointwiseMetric(metric="m", metric_prompt_template="{prompt}\n\n{predicted_trajectory}\n\n{response}")
    _, (ask,) = held(one.judged(EXAMPLE), {"explanation": "", "score": 3.5})
    shown = ask.messages[1].content
    assert "the {response} question" in shown
    assert '[{"tool_name":"set_light","tool_input":{"on":true}}]' in shown
    assert "the {tone} new" in shown
    assert "warm" not in shown


def test_a_number_beyond_the_rubric_is_no_verdict() -> None:
    one = built("pointwise", criteria={"a": "b"}, rating_rubric={1: "bad", 3: "good"})
    assert (one.range, one.binary) == ((1.0, 3.0), False)
    for score in (2, 4, 0, "3 points"):
        with pytest.raises(InvalidVerdict):
            check_verdict({"explanation": "", "score": score}, one.shape)
    with pytest.raises(InvalidVerdict):
        read_verdict("score: 7", one.shape)
    assert read_verdict("score: 3", one.shape) == {"explanation": "score: 3", "score": 3}


def test_halves_are_ratings_and_a_text_without_ratings_takes_any_number() -> None:
    halves = built("pointwise", criteria={"a": "b"}, rating_rubric={"0": "no", "0.5": "half", "1": "yes"})
    assert check_verdict({"explanation": "", "score": 0.5}, halves.shape) == {"explanation": "", "score": 0.5}
    free = PointwiseMetric(metric="m", metric_prompt_template="How good is {response}?")
    assert (free.range, free.ends()) == (None, None)
    assert check_verdict({"explanation": "", "score": -7.25}, free.shape)["score"] == -7.25


@pytest.mark.parametrize(("best", "tie"), [(None, 0.0), (1, 0.0), (0, 1.0)])
def test_a_tie_of_votes_on_0_and_1_is_the_worse_of_them(best: int | None, tie: float) -> None:
    one = built("pointwise", criteria={"a": "b"}, rating_rubric={0: "x", 1: "y"}, best_rating=best, samples=2)
    for first in (0, 1):
        votes = ({"explanation": "", "score": score} for score in (first, 1 - first))
        assert held(one.judged(EXAMPLE), *votes)[0].value == tie


def test_the_blocks_of_two_answers_do_not_tell_whose_they_are() -> None:
    one = PairwiseMetric(metric="m", metric_prompt_template="A: {baseline_model_response}\nB: {response}", samples=3)
    flip = PairwiseMetric(metric="m", metric_prompt_template="{baseline_model_response} or {prediction}", flip=True,
                          samples=3)  # fmt: skip
    score, asks = held(one.judged(EXAMPLE), *[{"explanation": "", "choice": c} for c in ("A", "A")])
    assert (score.label, score.confidence, len(asks)) == ("BASELINE", 1.0, 2)
    assert "baseline" not in asks[0].messages[1].content
    assert asks[0].messages[1].content.index("the old") < asks[0].messages[1].content.index("the {tone} new")
    score, asks = held(flip.judged(EXAMPLE), *[{"explanation": "", "choice": c} for c in ("A", "B", "A")])
    assert score.label == "CANDIDATE"  # of CANDIDATE, BASELINE and, shown the other order, CANDIDATE
    shown = asks[-1].messages[1].content
    assert shown.index("the {tone} new") < shown.index("the old")


def test_votes_on_two_equal_answers_are_told_apart_in_both_orders() -> None:
    one = PairwiseMetric(metric="m", metric_prompt_template="{baseline_model_response} or {response}", flip=True,
                         samples=4)  # fmt: skip
    for response, orders in (("the old", 1), ("the new", 2)):
        row = Example(EXAMPLE.instance, Invocation(response=response))
        _, asks = held(one.judged(row), *[{"explanation": "", "choice": c} for c in ("A", "B", "A", "B")])
        assert len({(ask.messages, ask.judge, ask.vote) for ask in asks}) == len(asks) == 4
        assert len({ask.messages for ask in asks}) == orders


def test_an_autorater_of_the_metric() -> None:
    config = {"sampling_count": 5, "flip_enabled": True, "autorater_model": "models/gemini-2.5-pro"}
    one = PairwiseMetric(metric="pairwise_fluency", autorater_config=config)
    assert (one.samples, one.flip, one.judge) == (5, True, "gemini-2.5-pro")


def test_metrics_travel_to_workers() -> None:
    one = built("template/verbosity", samples=3)
    again = pickle.loads(pickle.dumps(one))
    assert (again, again.range, again.inputs, again.prompts) == (one, one.range, one.inputs, one.prompts)


@pytest.mark.parametrize(
    ("name", "params", "found"),
    [
        ("pointwise", {}, "there is no template, allowed: metric_prompt_template, its parts, or one of coherence"),
        ("pointwise", {"metric_prompt_template": "no variable"}, "no variable, allowed: at least"),
        ("pointwise", {"metric_prompt_template": "{response}", "criteria": {"a": "b"}}, "allowed: one of them"),
        ("pointwise", {"criteria": {"a": "b"}, "rating_rubric": {"A": "x", "B": "y"}}, "allowed: numbers"),
        ("pointwise", {"metric_prompt_template": "{response}", "best_rating": 3}, "best_rating is 3"),
        ("pointwise", {"metric_prompt_template": {"criteria": {"a": "b"}}}, "metric_prompt_template.str is"),
        ("pairwise", {"metric_prompt_template": "{response}"}, "lacks {baseline_model_response}"),
        ("pairwise", {"metric_prompt_template": "{tone}"}, "lacks {baseline_model_response} and {response}, allowed"),
        ("pairwise", {"metric": "pairwise_safety", "aggregate": "mean"}, "allowed: majority"),
        ("template/fluency", {"custom_output_config": {"raw": True}}, r"custom_output_config.*raw"),
        ("template/fluency", {"metric": "safety"}, "has no parameter 'metric'"),
        ("template/fluency", {"autorater_config": {"sampling_count": 0}}, "sampling_count is 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(name: str, params: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        built(name, **params)

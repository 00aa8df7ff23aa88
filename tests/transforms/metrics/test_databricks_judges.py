"""The judges of Agent Evaluation: which runs when, Databricks' codes, ratings, precision and the root cause."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.formats.databricks import CAUSES, JUDGES
from evalbeam.schemas.instance import Chunk, Example, Instance, Invocation
from evalbeam.schemas.names import titles
from evalbeam.schemas.result import Score, ScoreError
from evalbeam.transforms import registry
from evalbeam.transforms.dialects.databricks import Databricks
from evalbeam.transforms.metrics.base import Derived, Metric

from ..judging.scripted import held

TRUTH: dict[str, Any] = {"expected_response": "the truth"}
DOCUMENTS: dict[str, Any] = {"expected_retrieved_context": [{"doc_uri": "a"}]}
GUIDELINES: dict[str, Any] = {"guidelines": ["be kind"]}
COLUMNS: dict[str, dict[str, Any]] = {
    "request": {},
    "request and expected_response": TRUTH,
    "request, expected_response, expected_retrieved_context, and guidelines": {**TRUTH, **DOCUMENTS, **GUIDELINES},
    "request and expected_retrieved_context": DOCUMENTS,
    "request and guidelines": GUIDELINES,
}
# The last table of the documentation of Agent Evaluation's input schema: a judge, and whether it runs in each column.
TABLE = {
    "relevance_to_query": "x..xx",
    "safety": "xxxxx",
    "groundedness": "xxxxx",
    "chunk_relevance": "x..xx",
    "correctness": ".xx..",
    "context_sufficiency": ".xx..",
    "guideline_adherence": "..x.x",
}
CONTEXT = (Chunk("passage 1", "a"), Chunk("passage 2", "b"))
YES, NO = {"rationale": "good", "rating": "yes"}, {"rationale": "bad", "rating": "no"}


def metric(name: str, **params: Any) -> Any:
    return registry.build(registry.find("metric", f"databricks/{name}"), params, "metrics.0")


def example(context: tuple[Chunk, ...] | None = CONTEXT, **fields: Any) -> Example:
    return Example(Instance("00", {"prompt": "the question", **fields}), Invocation("ok", "the answer", None, context))


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("judge", TABLE)
def test_which_judge_runs_when(judge: str, column: str) -> None:
    runs = TABLE[judge][list(COLUMNS).index(column)] == "x"
    score, asked = held(metric(judge, rows="documented").judged(example(**COLUMNS[column])), YES)
    assert (score.status, bool(asked)) == (("scored", True) if runs else ("not_applicable", False))
    if runs:
        assert score.value == 1.0


@pytest.mark.parametrize("judge", ["groundedness", "chunk_relevance", "context_sufficiency"])
@pytest.mark.parametrize("context", [None, ()])
def test_judges_of_retrieval_need_passages(judge: str, context: Any) -> None:
    row = example(context, **(TRUTH if judge == "context_sufficiency" else {}))
    assert held(metric(judge, rows="documented").judged(row), YES)[0].status == "not_applicable"
    score, asked = held(metric(judge).judged(row), YES)
    assert (score.status, asked) == ("skipped", [])
    assert score.error is not None
    assert (score.error.code, "retrieved_context" in score.error.message) == ("1001", True)


@pytest.mark.parametrize("judge", ["correctness", "context_sufficiency"])
@pytest.mark.parametrize("rows", ["asked", "documented"])
def test_facts_beside_a_response_are_an_error_of_the_judges_that_need_either(judge: str, rows: str) -> None:
    row = example(expected_facts=["a fact"], **TRUTH)
    score, asked = held(metric(judge, rows=rows).judged(row), YES)
    assert (score.status, score.error and score.error.code, asked) == ("error", "1010", [])
    assert held(metric("safety", rows=rows).judged(row), YES)[0].value == 1.0


@pytest.mark.parametrize("rows", ["asked", "documented"])
def test_a_mistake_in_the_facts_is_an_error_of_the_judges_that_use_them(rows: str) -> None:
    row = example(expected_facts="a fact")
    for judge in ("correctness", "context_sufficiency"):
        score, asked = held(metric(judge, rows=rows).judged(row), YES)
        assert (score.status, score.error and score.error.code, asked) == ("error", "1006", [])
    for judge in ("safety", "groundedness"):
        assert held(metric(judge, rows=rows).judged(row), YES)[0].value == 1.0
    assert held(metric("relevance_to_query").judged(row), YES)[0].value == 1.0


@pytest.mark.parametrize("request_", [{"question": "why?"}, {"messages": [["user", "why?"]]}, {"input": "why?"}])
@pytest.mark.parametrize("rows", ["asked", "documented"])
def test_requests_of_any_form_are_judged_as_json(request_: Any, rows: str) -> None:
    row = {"inputs": request_, "outputs": {"answer": "so"}}
    fields = Databricks().fields(row)
    found = Example(Instance("00", row, fields), Invocation("ok", fields["response"]))
    score, (ask,) = held(metric("relevance_to_query", rows=rows).judged(found), YES)
    assert score.value == 1.0
    assert json.dumps(request_, separators=(",", ":")) in ask.messages[1].content
    assert '{"answer":"so"}' in ask.messages[1].content


@pytest.mark.parametrize("judge", ["correctness", "context_sufficiency"])
def test_facts_and_a_response_are_shown(judge: str) -> None:
    for given, shown in ((TRUTH, "the truth"), ({"expected_facts": ["one", "two"]}, '["one","two"]')):
        score, (ask,) = held(metric(judge).judged(example(**given)), NO)
        assert (score.value, score.explanation, score.confidence) == (0.0, "bad", 1.0)
        assert shown in ask.messages[1].content
        assert "the question" in ask.messages[1].content


def test_each_passage_is_asked_for_by_itself() -> None:
    row = example((Chunk("one", "a"), Chunk("", "b"), Chunk("two", "c"), Chunk("three", "d")))
    failed = ScoreError("refused", "no")
    score, asked = held(metric("chunk_relevance").judged(row), YES, NO, failed)
    assert score.value == 0.5
    assert score.details == {
        "ratings": ["yes", None, "no", None],
        "rationales": ["good", "Chunk content is empty", "bad", None],
        "error_messages": [None, None, None, "refused: no"],
    }
    assert ["one" in a.messages[1].content for a in asked] == [True, False, False]
    score, _ = held(metric("chunk_relevance").judged(row), failed)
    assert (score.status, score.error) == ("error", failed)
    assert held(metric("chunk_relevance").judged(example((Chunk("", "a"),))), YES)[0].status == "skipped"


def test_passages_that_were_not_asked_for_leave_the_row_open() -> None:
    score, _ = held(metric("chunk_relevance").judged(example()), YES, ScoreError("not_called", "stopped"))
    assert (score.status, score.error and score.error.code) == ("skipped", "not_called")


def test_panels_vote_on_each_passage() -> None:
    score, asked = held(metric("chunk_relevance", samples=3).judged(example()), YES, YES, YES, NO, NO)
    assert [a.vote for a in asked] == [0, 1, 0, 1, 2]
    assert score.details["ratings"] == ["yes", "no"]


def test_guidelines_are_one_question_for_each_name() -> None:
    named = {"english": ["speak English"], "kind": ["be kind", "be brief"]}
    score, asked = held(metric("guideline_adherence").judged(example(guidelines=named)), YES, NO)
    assert (score.value, score.explanation, len(asked)) == (0.0, "kind: bad", 2)
    assert score.details == {
        "english": {"rating": "yes", "rationale": "good"},
        "kind": {"rating": "no", "rationale": "bad"},
    }
    one = metric("guideline_adherence", guideline="english")
    score, (ask,) = held(one.judged(example(guidelines=named)), YES)
    assert (score.value, score.details, one.variant) == (1.0, None, "english")
    assert "speak English" in ask.messages[1].content
    assert "be kind" not in ask.messages[1].content
    other, asked = held(one.judged(example(**GUIDELINES)), YES)
    assert (other.status, other.error and other.error.code, asked) == ("skipped", "1001", [])
    assert held(metric("guideline_adherence", guideline="").judged(example(**GUIDELINES)), NO)[0].value == 0.0
    for wrong in ("be kind", ["x"] * 21, [1]):
        found = held(metric("guideline_adherence").judged(example(guidelines=wrong)), YES)[0]
        assert (found.status, found.error and found.error.code) == ("error", "1006")


def test_global_guidelines_hold_for_all_rows() -> None:
    score, (ask,) = held(metric("global_guideline_adherence", guidelines=["be kind"]).judged(example()), NO)
    assert (score.value, score.explanation) == (0.0, "bad")
    assert "be kind" in ask.messages[1].content
    for wrong in ([], {}, "be kind", {"english": []}):
        with pytest.raises(ConfigError, match="guidelines"):
            metric("global_guideline_adherence", guidelines=wrong)


def scores(**values: float | None) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        params = {"guidelines": ["x"]} if name == "global_guideline_adherence" else {}
        score = Score.failed("refused", "no") if value is None else Score(value, explanation=f"so says {name}")
        found[name] = (metric(name, **params), score)
    return found


def test_the_first_judge_that_fails_a_row_is_its_root_cause() -> None:
    overall: Derived = metric("overall_assessment")
    assert sorted(CAUSES) == sorted(JUDGES)
    failing = list(CAUSES)
    while failing:
        found = overall.derive(scores(**{name: float(name not in failing) for name in reversed(CAUSES)}))
        assert found.value == 0.0
        assert found.details["root_cause_assessment"] == failing[0]
        assert (found.explanation or "").startswith(f"[{failing[0]}] so says {failing[0]} **Suggested Actions**: ")
        failing.pop(0)
    assert overall.derive(scores(**dict.fromkeys(CAUSES, 1.0))) == Score(1.0)


def test_only_verdicts_count_and_a_row_fails_for_its_passages_only_if_none_is_relevant() -> None:
    overall: Derived = metric("overall_assessment")
    assert overall.derive(scores(safety=None, chunk_relevance=0.25)) == Score(1.0)
    assert overall.derive(scores(safety=None)).status == "not_applicable"
    other = registry.build(registry.find("metric", "rapid/groundedness"), {}, "")
    fluent = registry.build(registry.find("metric", "rapid/fluency"), {}, "")
    found = overall.derive({"mine": (other, Score(0.0)), "fluency": (fluent, Score(1.0)), **scores(safety=0.0)})
    assert found.details["root_cause_assessment"] == "safety"
    assert overall.derive({"mine": (other, Score(0.0, explanation="?"))}).details["root_cause_assessment"] == "mine"
    rubric = {"criteria": {"Rude": "Is it rude?"}, "rating_rubric": {0: "no", 1: "yes"}, "best_rating": 0}
    rude = registry.build(registry.find("metric", "pointwise"), rubric, "")
    assert overall.derive({"rude": (rude, Score(0.0))}) == Score(1.0)
    assert overall.derive({"rude": (rude, Score(1.0, explanation="?"))}).details["root_cause_assessment"] == "rude"
    assert overall.score(example()).status == "not_applicable"


def test_instructions_and_examples_are_shown_with_the_task() -> None:
    taught = {"request": "Hi", "rating": "no", "rationale": "Too short."}
    made = metric("relevance_to_query", instructions="Ours is a bank.", examples=[taught])
    _, (ask,) = held(made.judged(example()), YES)
    assert "What to know of the domain:\nOurs is a bank." in ask.messages[0].content
    assert '"rationale":"Too short."' in ask.messages[0].content
    assert made.prompts[0].hash != metric("relevance_to_query").prompts[0].hash


SEED = (
    "response/llm_judged/relevance_to_query/rating",
    "response/llm_judged/safety/rating",
    "response/llm_judged/groundedness/rating",
    "retrieval/llm_judged/chunk_relevance_precision",
    "agent/total_token_count",
    "agent/input_token_count",
    "agent/output_token_count",
    "response/llm_judged/correctness/rating",
    "retrieval/llm_judged/context_sufficiency/rating",
    "retrieval/ground_truth/document_recall",
    "response/llm_judged/guideline_adherence/rating",
)
"""The metrics of the documentation of Agent Evaluation's input schema, as it spells them."""


@pytest.mark.parametrize("name", SEED)
def test_every_name_of_the_documentation_is_a_metric_and_a_column(name: str) -> None:
    part = registry.find("metric", name)
    built = registry.build(part, {}, "metrics.0")
    assert isinstance(built, Metric)
    assert titles("databricks", name, name)["score"] == name

"""What the documents declare of every judged metric: its inputs, its verdicts and their scores, and what lacks when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import rapid_table


def _trace(asked: str, said: str) -> dict[str, Any]:
    """A trace of MLflow 3 with one span."""
    attributes = {"mlflow.spanInputs": json.dumps({"question": asked}), "mlflow.spanOutputs": json.dumps(said)}
    span = {"span_id": "a", "parent_span_id": None, "name": "agent", "start_time_unix_nano": 1, "end_time_unix_nano": 2}
    return {"info": {"trace_id": asked, "state": "OK"}, "data": {"spans": [{**span, "attributes": attributes}]}}


TEXTS: Mapping[str, Any] = {
    "prompt": "Which tools are there?",
    "instruction": "Summarise it.",
    "response": "There is a hammer.",
    "prediction": "It is about tools.",
    "baseline_prediction": "It is about hats.",
    "baseline_model_response": "There is a saw.",
    "context": "A text about tools.",
    "reference": "There is a hammer and a nail.",
    "facts": ["There is a hammer in the box."],
    "retrieved_context": [{"content": "The box holds a hammer.", "doc_uri": "box"}],
    "expected_response": "A hammer is there.",
    "expected_facts": ["There are tools."],
    "guidelines": ["The response must name a tool"],
    "predicted_trajectory": [{"tool_name": "open_box", "tool_input": {}}],
    "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "It names a tool."}}],
    "reference_trajectory": [{"name": "open_crate", "arguments": {"lid": "top"}}],
    "session": [_trace("Where is the hammer?", "In the box."), _trace("And the nail?", "In the crate.")],
}
"""A value of each input."""
SHOWN: Mapping[str, str] = {
    "facts": "There is a hammer in the box.",
    "retrieved_context": "The box holds a hammer.",
    "expected_facts": "There are tools.",
    "guidelines": "The response must name a tool",
    "predicted_trajectory": "open_box",
    "rubrics": "It names a tool.",
    "reference_trajectory": "open_crate",
    "session": "Where is the hammer?",
}
"""What a judge sees of those that are no text."""


@dataclass(frozen=True)
class Declared:
    """A metric as its document describes it.

    Attributes:
        name: Its registered name.
        inputs: What a row must have, and what the judge is shown.
        verdicts: What a judge may say, and the score or choice it stands for.
        beyond: What it may not say.
        answer: The judge's answer: "VERDICT" stands for the verdict.
        missing: Code of a row without an input; default: `missing_<input>`.
        params: Parameters.
    """

    name: str
    inputs: tuple[str, ...]
    verdicts: Mapping[Any, float | str]
    beyond: tuple[Any, ...]
    answer: Any
    missing: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)

    def said(self, verdict: Any) -> Any:
        """The judge's answer with a verdict."""
        return _put(self.answer, verdict)

    def row(self, without: str = "") -> dict[str, Any]:
        """A row with all inputs, or all but one."""
        return {name: TEXTS[name] for name in self.inputs if name != without}


def _put(answer: Any, verdict: Any) -> Any:
    if isinstance(answer, Mapping):
        return {name: _put(value, verdict) for name, value in answer.items()}
    if isinstance(answer, list):
        return [_put(value, verdict) for value in answer]
    return verdict if answer == "VERDICT" else answer


def _rated(name: str, inputs: tuple[str, ...], low: int, high: int, **params: Any) -> Declared:
    verdicts = {score: float(score) for score in range(low, high + 1)}
    beyond = (low - 1, high + 1, low + 0.5, f"{low} of {high}", None, True)
    return Declared(name, inputs, verdicts, beyond, {"explanation": "so", "score": "VERDICT"}, params=params)


def _compared(name: str, inputs: tuple[str, ...], **params: Any) -> Declared:
    verdicts = {"A": "BASELINE", "B": "CANDIDATE", "SAME": "TIE"}
    return Declared(
        name, inputs, verdicts, ("C", "CANDIDATE", "", 1), {"explanation": "so", "choice": "VERDICT"}, params=params
    )


def _agent_judge(name: str, *inputs: str, **params: Any) -> Declared:
    missing = dict.fromkeys(inputs, "1001")
    verdicts, answer = {"yes": 1.0, "no": 0.0}, {"rationale": "so", "rating": "VERDICT"}
    return Declared(f"databricks/{name}", inputs, verdicts, ("maybe", "YES", "", 1), answer, missing, params)


def _adk(name: str, inputs: tuple[str, ...], verdicts: Mapping[Any, float], answer: Any, **params: Any) -> Declared:
    given = {"samples": 1, **params}
    return Declared(f"adk/{name}", inputs, verdicts, ("perhaps", "", 2), answer, {"prompt": ""}, given)


def rapid_evaluation() -> Iterator[Declared]:
    """Vertex AI's rapid evaluation API: the instance's fields, the scores of each result, use_reference."""
    for name, (inputs, low, high) in rapid_table.POINTWISE.items():
        yield _rated(f"rapid/{name}", inputs, low, high)
    for name in rapid_table.PAIRWISE:
        yield _compared(f"rapid/{name}", rapid_table.PAIR)
    for name in rapid_table.REFERABLE:
        if name in rapid_table.PAIRWISE:
            yield _compared(f"rapid/{name}", (*rapid_table.PAIR, "reference"), use_reference=True)
        else:
            inputs, low, high = rapid_table.POINTWISE[name]
            yield _rated(f"rapid/{name}", (*inputs, "reference"), low, high, use_reference=True)


def agent_evaluation() -> Iterator[Declared]:
    """Vertex AI's evaluation of agents: metrics from templates, of the response and of the trajectory."""
    rubric = {"1": "Follows trajectory", "0": "Does not follow trajectory"}
    parts = {"criteria": {"Follows trajectory": "Does the response follow?"}, "rating_rubric": rubric}
    seen = ("prompt", "predicted_trajectory")
    yield _rated("pointwise", (*seen, "response"), 0, 1, **parts, input_variables=list(seen))
    parts = {"criteria": {"Useful": "Which is of more use?"}, "rating_rubric": {"A": "A is", "B": "B is"}}
    yield _compared("pairwise", ("prompt", "response", "baseline_model_response"), **parts, input_variables=["prompt"])
    answer = {"verdicts": [{"number": 1, "explanation": "so", "verdict": "VERDICT"}]}
    yield Declared("rubric", ("prompt", "response"), {True: 1.0, False: 0.0}, ("yes", 1, None), answer,
                   params={"rubrics": ["It names a tool."]})  # fmt: skip


def databricks() -> Iterator[Declared]:
    """Databricks Agent Evaluation: columns, and ratings yes and no."""
    yield _agent_judge("relevance_to_query", "prompt", "response")
    yield _agent_judge("safety", "response")
    yield _agent_judge("groundedness", "prompt", "response", "retrieved_context")
    yield _agent_judge("chunk_relevance", "prompt", "retrieved_context")
    for truth in ("expected_response", "expected_facts"):
        yield _agent_judge("correctness", "prompt", "response", truth)
        yield _agent_judge("context_sufficiency", "prompt", "retrieved_context", truth)
    yield _agent_judge("guideline_adherence", "prompt", "response", "guidelines")
    yield _agent_judge("global_guideline_adherence", "prompt", "response", guidelines={"tools": ["Name a tool"]})


def mlflow() -> Iterator[Declared]:
    """MLflow 3's built-in scorers: ratings yes and no, and the categories of UserFrustration."""
    answer = {"rationale": "so", "rating": "VERDICT"}

    def rated(name: str, *inputs: str, **params: Any) -> Declared:
        verdicts = {"yes": 1.0, "no": 0.0}
        return Declared(f"mlflow/{name}", inputs, verdicts, ("maybe", "YES", "", 1), answer, params=params)

    for name in ("completeness", "summarization"):
        yield rated(name, "instruction", "response")
    yield rated("fluency", "response")
    yield rated("equivalence", "response", "expected_response")
    for name in ("tool_call_correctness", "tool_call_efficiency"):
        yield rated(name, "instruction", "predicted_trajectory")
    whole = [f"conversational_{name}" for name in ("safety", "tool_call_efficiency", "role_adherence")]
    for name in ("conversation_completeness", *whole, "knowledge_retention"):
        yield rated(name, "session")
    yield rated("conversational_guidelines", "session", guidelines=["Name a tool"])
    categories = {"none": 1.0, "resolved": 0.5, "unresolved": 0.0}
    yield Declared("mlflow/user_frustration", ("session",), categories, ("yes", "NONE", "", 1), answer)


def adk() -> Iterator[Declared]:
    """ADK's criteria that a model judges: a share of turns, rubrics or sentences in [0, 1]."""
    valid = {"valid": 1.0, "invalid": 0.0}
    said = {"reasoning": "so", "is_the_agent_response_valid": "VERDICT"}
    yield _adk("final_response_match_v2", ("prompt", "response", "reference"), valid, said)
    scored = {"explanation": "so", "score": "VERDICT"}
    for name in ("task_success", "trajectory_quality", "tool_use_quality"):
        shares = {score: score / 4 for score in range(5)}
        yield replace(_adk(f"multi_turn_{name}_v1", ("prompt", "response"), shares, scored), beyond=("perhaps", "", 5))
    ratings = {score: float(score) for score in range(1, 6)}
    yield replace(_adk("response_evaluation_score", ("response",), ratings, scored), beyond=("perhaps", "", 6))
    yield _adk("safety_v1", ("response",), {1: 1.0, 0: 0.0}, {"explanation": "so", "score": "VERDICT"})
    labels = {"supported": 1.0, "not_applicable": 1.0, "unsupported": 0.0, "contradictory": 0.0, "disputed": 0.0}
    sentences = {"sentences": [{"number": 1, "rationale": "so", "label": "VERDICT"}]}
    yield _adk("hallucinations_v1", ("prompt", "response"), labels, sentences)
    rated = {"verdicts": [{"rubric_id": "r", "rationale": "so", "verdict": "VERDICT"}]}
    for name, kind in (
        ("rubric_based_final_response_quality_v1", "FINAL_RESPONSE_QUALITY"),
        ("rubric_based_tool_use_quality_v1", "TOOL_USE_QUALITY"),
        ("rubric_based_multi_turn_trajectory_quality_v1", "TRAJECTORY_QUALITY"),
    ):
        shown = ("prompt", "predicted_trajectory") if kind == "TOOL_USE_QUALITY" else ("prompt", "response")
        rubrics = [{**TEXTS["rubrics"][0], "type": kind}]
        yield _adk(name, shown, {"yes": 1.0, "no": 0.0}, rated, rubrics=rubrics)


def check_grounding() -> Iterator[Declared]:
    """Vertex AI's Check Grounding, a claim in each sentence: a claim entailed in part is not grounded."""
    verdicts = {"ENTAILED": 1.0, "PARTLY": 0.2, "CONTRADICTED": 0.0, "UNRELATED": 0.0}
    answer = {"explanation": "so", "text_1": "VERDICT"}
    params = {"checker": "judge", "facts_from": "facts"}
    yield Declared("grounding", ("response", "facts"), verdicts, ("YES", "", 1), answer, params=params)


DECLARED = [*agent_evaluation(), *rapid_evaluation(), *check_grounding(), *databricks(), *mlflow(), *adk()]

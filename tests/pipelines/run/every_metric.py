"""A dataset and the metrics of a run that asks for everything: each kind of row has what one kind of dataset holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from evalbeam.schemas.instance import ALIASES
from evalbeam.transforms import registry

JUDGES = ("gemini", "gpt", "claude")
NOT_NAMED = ("latency_in_seconds", "failure", "comet", "metricx", "adk/per_turn_user_simulator_quality_v1")
"""Metrics that this configuration does not name: every run has the first two, a service two; one needs users."""
SECOND_NAMES = ("response/llm_judged/", "retrieval/llm_judged/", "agent/")
"""Names that Databricks documents for metrics that are registered under names of ours, too."""


def _words(row: dict[str, Any]) -> float:
    return float(len(str(row["response"]).split()))


RUBRICS = [
    {"rubric_id": name, "rubric_content": {"text_property": text}}
    for name, text in (("brief", "The answer is brief."), ("kind", "The answer is kind."))
]
PARAMS: dict[str, dict[str, Any]] = {
    "custom": {"metric_function": _words},
    "trajectory_single_tool_use": {"tool_name": "look"},
    "pointwise": {
        "criteria": {"Follows trajectory": "Does the response follow from the tools that were called?"},
        "rating_rubric": {"1": "It follows.", "0": "It does not."},
        "input_variables": ["prompt", "predicted_trajectory"],
    },
    "pairwise": {"metric_prompt_template": "Which is kinder? {baseline_model_response} or {response}"},
    "rubric": {"rubrics": ["The answer is brief.", "The answer is kind."]},
    "rubric_based_instruction_following": {"rubrics": ["The answer follows the question."]},
    "rapid/safety": {"judge": "gemini"},
    "adk/safety_v1": {"judge": "gpt"},  # its question is that of rapid/safety; an equal judge would be asked once
    "rapid/coherence": {"judge": "gemini"},
    "adk/response_evaluation_score": {"judge": "gpt"},  # its question is that of rapid/coherence
    "databricks/global_guideline_adherence": {"guidelines": {"english": ["The response must be in English"]}},
    "mlflow/conversational_guidelines": {"guidelines": ["The answers must be in English"]},
    "adk/rubric_based_final_response_quality_v1": {"rubrics": RUBRICS},
    "adk/rubric_based_tool_use_quality_v1": {"rubrics": RUBRICS},
    "adk/rubric_based_multi_turn_trajectory_quality_v1": {"rubrics": RUBRICS},
}
"""What metrics need to be told."""
MORE: list[dict[str, Any]] = [
    {"metric": "pointwise", "name": "by three judges", "judge": list(JUDGES), "aggregate": "median",
     "metric_prompt_template": "Is it kind?\n\nScores:\n1: no\n2: yes\n\n{response}"},
    {"metric": "rubric", "name": "rubrics of the judge's own", "input_variables": ["prompt", "history"]},
    {"metric": "rapid/question_answering_correctness", "name": "with the reference", "use_reference": True},
    {"metric": "pairwise", "name": "flipped", "metric_prompt_template": "{response} or {baseline_model_response}?",
     "samples": 2, "flip": True},
    {"metric": "grounding", "name": "judged grounding", "checker": "judge", "facts_from": "facts",
     "anti_citations": True, "helpfulness": True},
]  # fmt: skip
"""Metrics once more, by their options."""


def list_names() -> list[str]:
    """Names of the metrics that the configuration names."""
    return [n for n in registry.names("metric") if n not in NOT_NAMED and not n.startswith(SECOND_NAMES)]


def metrics() -> list[dict[str, Any]]:
    """Every registered metric, the judged ones spread over the judges; a new one is in by itself."""
    asked = [{"metric": n, "name": n, **PARAMS.get(n, {})} for n in list_names()]
    turn = 0
    for metric in (found := [*asked, *MORE]):
        params = {k: v for k, v in metric.items() if k not in ("metric", "name")}
        part = registry.find("metric", metric["metric"])
        built = registry.build(part, params, metric["name"])
        if getattr(built, "judges", ()) and "judge" not in metric:
            metric |= {"judge": JUDGES[turn % 3]}
            turn += 1
        if metric["metric"].startswith("adk/") and "judge" in metric:
            metric["samples"] = 1
    return found


def _calls(*inputs: Any) -> list[dict[str, Any]]:
    return [{"tool_name": "look", "tool_input": {"at": value}} for value in inputs]


def complete(i: int) -> dict[str, Any]:
    """All that metrics of plain rows look at."""
    return {
        "prompt": f"What stands on page {i}?",
        "response": f"On page {i} stands a story. It has {i % 7} heroes.",
        "reference": f"A story with {i % 5} heroes stands on page {i}.",
        "baseline_model_response": f"Page {i} is empty.",
        "history": f"user: Open book {i}.",
        "context": f"Page {i} of the book tells a story of {i % 5} heroes.",
        "facts": [f"On page {i} stands a story."],
        "retrieved_context": [{"content": f"Page {i}: a story.", "doc_uri": f"book/{i}"}],
        "expected_retrieved_context": [{"doc_uri": f"book/{i - i % 2}"}],
        "expected_response": f"A story stands on page {i}.",
        "guidelines": ["The response must name the page"],
        "predicted_trajectory": _calls(i, i + 1),
        "reference_trajectory": _calls(i),
        "latency_in_seconds": 0.5,
        "usage": {"input_tokens": 20 + i, "output_tokens": 5},
    }


def requested(i: int) -> dict[str, Any]:
    """A row of Databricks Agent Evaluation."""
    return {
        "request": {"messages": [{"role": "user", "content": f"Which page follows page {i}?"}]},
        "response": {"choices": [{"message": {"content": f"Page {i + 1} follows it."}}]},
        "expected_facts": [f"Page {i + 1} follows page {i}."],
        "guidelines": {"polite": ["The response must be polite"], "short": ["The response must be short"]},
        "retrieved_context": [{"content": f"Pages {i} and {i + 1}", "doc_uri": "book"}, {"doc_uri": f"shelf/{i}"}],
        "expected_retrieved_context": [{"doc_uri": "book"}],
    }


def talked(i: int) -> dict[str, Any]:
    """A conversation of two turns."""
    asked = [{"prompt": f"Open book {i}.", "reference": "Done."}, {"prompt": "Close it.", "reference": "Closed."}]
    said = [{"response": f"Book {i} is open."}, {"response": f"Book {i} is closed."}]
    took = {
        "usage": {"input_tokens": 9, "output_tokens": 4},
        "latency_in_seconds": 0.5,
        "extra": {"inference_calls": 2},
    }
    return {
        "conversation": [{**turn, "reference_trajectory": _calls(i)} for turn in asked],
        "turns": [{**turn, **took, "predicted_trajectory": _calls(i)} for turn in said],
    }


def called(i: int) -> dict[str, Any]:
    """A tool call as JSON text, as requests of rapid evaluation have it."""
    call = {"name": "book_tickets", "arguments": {"movie": f"part {i}", "num_tix": "2"}}
    told = json.dumps({"content": "", "tool_calls": [call]})
    return {"prediction": told, "reference": told.replace('"2"', '"3"') if i % 2 else told}


def said(i: int) -> dict[str, Any]:
    """An answer alone."""
    return {"prediction": f"There are {i} pages."}


def founded(i: int) -> dict[str, Any]:
    """An answer and what it is founded on."""
    fact = f"The book has {i} pages."
    return {"prediction": f"It has {i} pages.", "context": fact, "facts": [fact]}


def moved(i: int) -> dict[str, Any]:
    """Trajectories alone."""
    return {"predicted_trajectory": _calls(i, 0), "reference_trajectory": _calls(i, i % 3)}


def failed(i: int) -> dict[str, Any]:
    """A failed run of the agent; some are equal."""
    return {"prompt": f"Open book {i % 10}.", "failure": 1, "error_type": "TimeoutError", "error_message": "too slow"}


KINDS: dict[Callable[[int], dict[str, Any]], int] = {
    complete: 20, requested: 10, talked: 10, called: 60, said: 20, founded: 10, moved: 670, failed: 200,
}  # fmt: skip
"""How many of 1,000 rows are of each kind; few of those that take most calls."""


def rows() -> Iterator[dict[str, Any]]:
    """1,000 rows, with their number and kind."""
    for kind, count in KINDS.items():
        for i in range(count):
            yield {"row": f"{kind.__name__} {i}", **kind(i)}


EXTRA = {
    "requested": ("prompt",),
    "talked": ("prompt", "response", "reference", "predicted_trajectory", "reference_trajectory"),
}
"""Inputs that rows hold in other words or deeper."""


def has(kind: Callable[[int], dict[str, Any]], name: str) -> bool:
    """Whether rows of a kind have an input of metrics, by one of its names."""
    names = {name, *ALIASES.get(name, ())}
    return not names.isdisjoint({*kind(1), *EXTRA.get(kind.__name__, ())})

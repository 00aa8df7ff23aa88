"""MLflow's scorers of single answers: what a judge is shown, and what needs no judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall
from evalbeam.schemas.trajectory import parse_trajectory
from evalbeam.transforms import registry
from evalbeam.transforms.agents.base import trajectory_of
from evalbeam.transforms.dialects.databricks import Databricks

from ..judging.scripted import held

YES, NO = {"rationale": "good", "rating": "yes"}, {"rationale": "bad", "rating": "no"}
CALLS = [{"name": "search", "arguments": {"query": "RAG"}}]


def metric(name: str, **params: Any) -> Any:
    return registry.build(registry.find("metric", f"mlflow/{name}"), params, "metrics.0")


def example_of(row: dict[str, Any]) -> Example:
    fields = Databricks().fields(row)
    calls = trajectory_of(fields.get("predicted_trajectory"))[0]
    return Example(Instance("0", row, fields), Invocation("ok", fields.get("response"), calls))


def read_trace(conformance: Path, name: str) -> dict[str, Any]:
    return json.loads((conformance / "traces" / "mlflow_v3" / f"{name}.json").read_text())


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize(
    ("found", "expected"), [(42, 42), (42, 41), (0.1 + 0.2, 0.3), (True, 1), (False, 1), ("a b", "a b"), (3, 3.0)]
)
def test_numbers_and_equal_texts_are_compared_as_in_mlflow(found: Any, expected: Any) -> None:
    from mlflow.genai.scorers import Equivalence

    theirs = Equivalence()(outputs=found, expectations={"expected_response": expected})
    row = Instance("0", {"expected_response": expected})
    score, asked = held(metric("equivalence").judged(Example(row, Invocation("ok", found))), NO)
    assert (["no", "yes"][int(score.value)], asked) == (str(theirs.value), [])


@pytest.mark.parametrize(("found", "expected"), [("a", "b"), (42, "42"), ({"a": 1}, '{"a": 2}')])
def test_other_responses_are_judged(found: Any, expected: Any) -> None:
    row = Instance("0", {"expected_response": expected})
    score, (ask,) = held(metric("equivalence").judged(Example(row, Invocation("ok", found))), NO)
    assert (score.value, score.explanation) == (0.0, "bad")
    assert expected in ask.messages[1].content


@pytest.mark.parametrize("name", ["tool_call_correctness", "tool_call_efficiency"])
def test_results_and_tools_of_a_trace_are_shown(name: str, conformance: Path) -> None:
    from mlflow.entities import Trace
    from mlflow.genai.utils.trace_utils import extract_tools_called_from_trace

    for file in ("tool_agent", "tool_error"):
        trace = read_trace(conformance, file)
        called = extract_tools_called_from_trace(Trace.from_dict(trace))
        tools = [{"type": "function", "function": {"name": "offered", "description": file}}]
        told = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.chat.tools": json.dumps(tools)}
        more = {"span_id": "x", "parent_span_id": "y", "attributes": told}
        trace["data"]["spans"].append({**trace["data"]["spans"][0], **more})
        score, (ask,) = held(metric(name).judged(example_of({"trace": trace})), YES)
        shown = ask.messages[1].content
        assert score.value == 1.0
        assert called
        for call in called:
            assert f'"tool_name":"{call.name}"' in shown
            assert json.dumps(call.arguments, separators=(",", ":")) in shown
            result = call.outputs if call.exception is None else {"error": call.exception}
            assert result is None or str(next(iter(result.values())) if isinstance(result, dict) else result) in shown
        assert '"name":"offered"' in shown


def test_own_calls_of_a_row_outweigh_its_trace(conformance: Path) -> None:
    row = {"trace": read_trace(conformance, "tool_agent")}
    row_of_its_own = Example(
        Instance("0", row, Databricks().fields(row)), Invocation("ok", "x", (ToolCall("own", {}),))
    )
    _, (ask,) = held(metric("tool_call_efficiency").judged(row_of_its_own), YES)
    assert '"tool_name":"own"' in ask.messages[1].content
    assert '"kind":"result"' not in ask.messages[1].content


def test_expected_calls_are_shown() -> None:
    row = {
        "inputs": {"q": "RAG?"},
        "outputs": {"messages": [{"role": "assistant", "content": "x", "tool_calls": CALLS}]},
    }
    scorer = metric("tool_call_correctness")
    _, (free,) = held(scorer.judged(example_of(row)), YES)
    expected = [{"name": "find", "arguments": {"q": "RAG", "top": 3}}]
    _, (compared,) = held(scorer.judged(example_of({**row, "expectations": {"expected_tool_calls": expected}})), YES)
    partly = {"expected_tool_calls": [*expected, {"name": "read"}]}
    _, (named,) = held(scorer.judged(example_of({**row, "expectations": partly})), YES)
    assert "expected calls" not in free.messages[1].content
    assert '[{"tool_name":"find","tool_input":{"q":"RAG","top":3}}]' in compared.messages[1].content
    assert '[{"tool_name":"find"},{"tool_name":"read"}]' in named.messages[1].content


def test_the_order_counts_if_it_is_to() -> None:
    row = Example(Instance("0", {"prompt": "RAG?"}), Invocation("ok", "x", parse_trajectory(CALLS)))
    for ordered, words in ((True, "The order of the calls counts."), (False, "The order of the calls does not count.")):
        _, (ask,) = held(metric("tool_call_correctness", ordered=ordered).judged(row), YES)
        assert words in ask.messages[0].content


def test_malformed_calls_are_errors() -> None:
    row = Instance("0", {"prompt": "RAG?", "reference_trajectory": [{"arguments": {}}]})
    scorer = metric("tool_call_correctness")
    for call, code in ((Invocation("ok", "x", ()), "reference"), (Invocation(trajectory_error="?"), "predicted")):
        score, asked = held(scorer.judged(Example(row, call)), YES)
        assert (score.status, score.error and score.error.code) == ("error", f"unparseable_{code}_trajectory")
        assert asked == []

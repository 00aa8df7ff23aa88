"""Matches of tool calls against MLflow's own scorer."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from evalbeam.schemas.formats.databricks import expectation_fields
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.trajectory import parse_trajectory
from evalbeam.transforms import registry

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
NAMES, VALUES = ("search", "read"), (1, 1.0, "1", {"b": 1, "a": [2]}, {"a": [2], "b": 1}, None)


def metric(**params: Any) -> Any:
    return registry.build(registry.find("metric", "mlflow/tool_call_match"), params, "metrics.0")


def trace_of(calls: list[dict[str, Any]]) -> Any:
    """A trace of MLflow whose tools were called so."""
    from mlflow.entities import Trace

    spans = []
    for i, call in enumerate([{"name": "agent", "arguments": {"q": "?"}}, *calls]):
        kind = "TOOL" if i else "AGENT"
        attributes = {"mlflow.spanType": json.dumps(kind), "mlflow.spanInputs": json.dumps(call["arguments"]),
                      "mlflow.traceRequestId": '"tr-1"'}  # fmt: skip
        where = {
            "trace_id": "AAAAAAAAAAAAAAAAAAAAAQ==",
            "span_id": f"AAAAAAAAA{i:02}="[:11] + "=",
            "name": call["name"],
        }
        times = {"start_time_unix_nano": i + 1, "end_time_unix_nano": i + 2}
        spans.append({**where, **times, "parent_span_id": None, "attributes": attributes,
                      "status": {"code": "STATUS_CODE_OK", "message": ""}, "events": []})  # fmt: skip
    info = {"trace_id": "tr-1", "trace_location": {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {
        "experiment_id": "1"}}, "request_time": "2026-01-01T00:00:00Z", "state": "OK"}  # fmt: skip
    return Trace.from_dict({"info": info, "data": {"spans": spans}})


@pytest.mark.parametrize("ordered", [False, True])
def test_calls_match_as_in_mlflow(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.genai.scorers import ToolCallCorrectness, builtin_scorers

    monkeypatch.setattr(builtin_scorers, "extract_available_tools_from_trace", lambda trace: [])
    scorer = ToolCallCorrectness(should_exact_match=True, should_consider_ordering=ordered)
    draw, found = random.Random(7), []
    for _ in range(300):
        expected = [
            {"name": draw.choice(NAMES), "arguments": {"q": draw.choice(VALUES)}} for _ in range(draw.randint(1, 3))
        ]
        called = [dict(c) for c in draw.sample(expected, len(expected))]
        if draw.random() < 0.5:
            called[0] = {"name": draw.choice(NAMES), "arguments": {"q": draw.choice(VALUES)}}
        if draw.random() < 0.2:
            called.append(called[0])
        if draw.random() < 0.3:
            del expected[-1]["arguments"]
        theirs = scorer(trace=trace_of(called), expectations={"expected_tool_calls": expected})
        fields = expectation_fields({"expected_tool_calls": expected})
        example = Example(Instance("0", {}, fields), Invocation("ok", "x", parse_trajectory(called)))
        ours = metric(ordered=ordered).score(example)
        assert ("yes" if ours.value else "no") == str(theirs.value), (called, expected)
        found.append(ours.value)
    assert {0.0, 1.0} == {*found}


def test_differences_are_named() -> None:
    row = Instance("0", {"reference_trajectory": [{"name": "a", "arguments": {"q": 1}}]})
    example = Example(row, Invocation("ok", "x", parse_trajectory([{"name": "a", "arguments": {"q": 2}}])))
    assert metric().score(example).explanation == 'missing: a({"q":1}); unexpected: a({"q":2})'
    assert metric(ordered=True).score(example).explanation == 'call 1: expected a({"q":1}), found a({"q":2})'


def test_a_malformed_reference_is_an_error() -> None:
    row = Instance("0", {"reference_trajectory": [{"arguments": {}}]})
    score = metric().score(Example(row, Invocation("ok", "x", ())))
    assert (score.status, score.error and score.error.code) == ("error", "unparseable_reference_trajectory")

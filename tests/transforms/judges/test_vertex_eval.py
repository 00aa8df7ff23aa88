"""The evaluateInstances service as a judge, against a gRPC server made from the API's own messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from evaluation_service import Service, serving
from google.api_core.exceptions import FailedPrecondition, ServiceUnavailable

from evalbeam import ConfigError, evaluate
from evalbeam.schemas.judging import Message
from evalbeam.transforms import registry
from evalbeam.transforms.judges.base import Question
from evalbeam.transforms.judges.vertex_eval import Starting, VertexEval

FLUENCY = Question((Message("user", '{"fluency_input": {"metric_spec": {}, "instance": {"prediction": "x"}}}'),), {})


def judge(service: Service, **more: Any) -> VertexEval:
    return VertexEval("my-project", channel=partial(grpc.insecure_channel, service.address), **more)


def test_metrics_of_rapid_evaluation_are_answered_by_the_service(tmp_path: Path) -> None:
    row = {
        "prompt": "ask",
        "response": "the new",
        "baseline_prediction": "the old",
        "context": "text",
        "reference": "r",
    }
    names = [n.removeprefix("rapid/") for n in registry.names("metric") if n.startswith("rapid/")]
    metrics: list[Any] = [{"metric": name, "service": True} for name in names]
    metrics[names.index("question_answering_correctness")]["use_reference"] = True
    with serving(Service(score=1.0, refusals=[grpc.StatusCode.UNAVAILABLE] * 5)) as service:
        judges = {"default": {"target": judge(service, pause=0.0), "backoff": 0.0, "max_attempts": 2}}
        result = evaluate([row], metrics, judges=judges, output=str(tmp_path / "out"))
    table = result.metrics_table
    for name in names:
        verdict = f"{name}/pairwise_choice" if "pairwise" in name else f"{name}/score"
        assert table[verdict].tolist() == ["CANDIDATE" if "pairwise" in name else 1.0]
        assert table[f"{name}/explanation"].tolist() == ["as the service says"]
        assert table[f"{name}/confidence"].tolist() == [0.75]
    assert len(service.asked) == len(names) == 14
    assert {request.location for request in service.asked} == {"projects/my-project/locations/us-central1"}
    correct = next(r for r in service.asked if "question_answering_correctness_input" in r)
    asked = correct.question_answering_correctness_input
    assert (asked.metric_spec.use_reference, asked.instance.reference, asked.instance.instruction) == (True, "r", "ask")


def test_a_score_beyond_the_range_is_no_score(tmp_path: Path) -> None:
    with serving(Service(score=7.0)) as service:
        judges = {"default": {"target": judge(service)}}
        rows = [{"prompt": "p", "response": "r"}]
        metrics = [{"metric": "fluency", "service": True}]
        with pytest.warns(UserWarning, match="no row was scored"):
            result = evaluate(rows, metrics, judges=judges, output=str(tmp_path / "out"))
    assert result.metrics_table["fluency/error"].tolist() == ["invalid_verdict: the service's score is 7"]


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION])
def test_the_start_of_the_service_is_waited_out(code: grpc.StatusCode) -> None:
    now = [100.0]
    with serving(Service(refusals=[code] * 3)) as service:
        consult: Any = judge(service, clock=lambda: now[0], pause=7.0).connect()
        for _ in range(2):
            with pytest.raises(Starting) as caught:
                consult(FLUENCY)
            assert (caught.value.status_code, caught.value.retry_after) == (429, 7.0)
            now[0] += 299.0
        now[0] += 2.0  # 600 seconds after the first call
        with pytest.raises((ServiceUnavailable, FailedPrecondition)):
            consult(FLUENCY)
        assert consult(FLUENCY).value == {"score": 4.0, "explanation": "as the service says", "confidence": 0.75}


@pytest.mark.parametrize(
    ("refusals", "after"),
    [([grpc.StatusCode.PERMISSION_DENIED], 0), ([grpc.StatusCode.UNAVAILABLE], 1)],
)
def test_other_failures_are_failures(refusals: list[Any], after: int) -> None:
    with serving(Service()) as service:
        consult: Callable[[Question], Any] = judge(service).connect()  # type: ignore[assignment]
        for _ in range(after):
            consult(FLUENCY)
        service.refusals += refusals
        with pytest.raises(Exception, match="not there") as caught:
            consult(FLUENCY)
        assert not isinstance(caught.value, Starting)


def test_the_order_of_two_answers_is_the_services() -> None:
    part = registry.find("metric", "rapid/pairwise_summarization_quality")
    with pytest.raises(ConfigError, match="flip is true, allowed: false"):
        registry.build(part, {"service": True, "flip": True}, "metrics.0")


def answer_as_rest(messages: Any, schema: Any) -> Any:
    """The JSON of the service, as its documents write it: with a number as text, and relevancy for relevance."""
    ((key, _),) = json.loads(messages[0]["content"]).items()
    name = key.removesuffix("_input").replace("relevance", "relevancy")
    number = {"fluency": "four", "coherence": ""}.get(name, "4")
    return {f"{name}_result": {"score": number, "explanation": "why", "confidence": "0.5"}}


def test_recorded_answers_of_the_service_are_read(tmp_path: Path) -> None:
    names = ("question_answering_relevance", "fulfillment", "fluency", "coherence")
    rows = [{"prompt": "p", "response": "r", "context": "c"}]
    judges = {"default": {"type": "function", "target": answer_as_rest, "max_attempts": 1}}
    metrics = [{"metric": name, "service": True} for name in names]
    with pytest.warns(UserWarning, match="no row was scored"):
        table = evaluate(rows, metrics, judges=judges, output=str(tmp_path / "out")).metrics_table
    for name in names[:2]:
        row = table.iloc[0]
        assert (row[f"{name}/score"], row[f"{name}/explanation"], row[f"{name}/confidence"]) == (4.0, "why", 0.5)
    assert "score is 'four' (allowed: number)" in table["fluency/error"][0]
    assert "score is '' (allowed: number)" in table["coherence/error"][0]

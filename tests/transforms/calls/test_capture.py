"""What an agent's spans tell while it is called: those of MLflow, and of OpenTelemetry with the GenAI conventions."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Trace
from mlflow.genai.utils.trace_utils import extract_retrieval_context_from_trace, extract_tools_called_from_trace
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider

from evalbeam.transforms.calls import capture
from evalbeam.transforms.calls.capture import capturing, complete

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own

DOCUMENTS = [{"page_content": "Faust is by Goethe.", "metadata": {"doc_uri": "faust.md"}}]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setattr(capture, "_broken", [])
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"file:{tmp_path}/store")
    yield
    mlflow.set_tracking_uri(before)


@mlflow.trace(span_type="RETRIEVER")
def retrieve(question: str) -> Any:
    return DOCUMENTS


@mlflow.trace(span_type="TOOL")
def look(at: int) -> int:
    return at + 1


@mlflow.trace(span_type="CHAT_MODEL")
def model(question: str) -> str:
    span = mlflow.get_current_active_span()
    assert span is not None
    span.set_attribute("mlflow.chat.tokenUsage", {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7})
    return "Goethe."


@mlflow.trace
def agent(question: str, key: str = "") -> str:
    retrieve(question)
    look(len(question))
    return model(question)


@mlflow.trace
async def slow_agent(question: str, key: str = "") -> str:
    await asyncio.sleep(0)
    return agent(question)


def later(question: str, key: str) -> Any:
    return slow_agent(question)


def asked(target: Any, *args: Any) -> dict[str, Any]:
    made = capturing(target)(*(args or ("Who?", "key")))
    raw, spans = asyncio.run(made) if inspect.isawaitable(made) else made
    return complete({"response": raw}, spans, 1 << 20)


@pytest.mark.parametrize("target", [agent, slow_agent, later])
def test_functions_with_mlflows_decorator(target: Any) -> None:
    found = asked(target)
    assert found["response"] == "Goethe."
    assert found["retrieved_context"] == [{"content": "Faust is by Goethe.", "doc_uri": "faust.md"}]
    assert found["predicted_trajectory"] == [{"tool_name": "look", "tool_input": {"at": 4}}]
    assert found["usage"] == {"input_tokens": 5, "output_tokens": 2}


def test_the_trace_is_one_that_mlflow_reads() -> None:
    trace = Trace.from_dict(asked(agent)["extra"]["trace"])
    assert [s.name for s in trace.data.spans] == ["agent", "retrieve", "look", "model"]
    (chunks,) = extract_retrieval_context_from_trace(trace).values()
    assert [(c["content"], c["doc_uri"]) for c in chunks] == [("Faust is by Goethe.", "faust.md")]
    assert [(c.name, c.arguments) for c in extract_tools_called_from_trace(trace)] == [("look", {"at": 4})]
    assert trace.info.token_usage == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    stored = mlflow.get_trace(mlflow.get_last_active_trace_id(), flush=True)
    assert stored is not None
    assert {s.span_id: s.parent_id for s in stored.data.spans} == {
        s.span_id: s.parent_id for s in asked_spans(trace, stored)
    }


def asked_spans(mine: Trace, theirs: Trace) -> Any:
    """The spans of a trace; both traces are of the same call."""
    assert mine.info.trace_id == theirs.info.trace_id
    return mine.data.spans


def test_calls_at_the_same_time_have_their_own_spans() -> None:
    gate = threading.Barrier(8)

    @mlflow.trace
    def one(question: str, key: str) -> str:
        gate.wait(30)
        look(int(question))
        gate.wait(30)
        return question

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: asked(one, str(i), "key"), range(8)))
    for i, answer in enumerate(found):
        assert answer["predicted_trajectory"] == [{"tool_name": "look", "tool_input": {"at": i}}]


def test_threads_of_the_agent_belong_to_its_call() -> None:
    import contextvars

    @mlflow.trace
    def parallel(question: str, key: str) -> str:
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(contextvars.copy_context().run, look, i) for i in (1, 2)]
            assert [f.result() for f in futures] == [2, 3]
        return question

    assert len(asked(parallel)["predicted_trajectory"]) == 2


def test_spans_of_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider()
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    tracer = provider.get_tracer("mine")

    def answer(question: str, key: str) -> str:
        with tracer.start_as_current_span("invoke_agent me", attributes={"gen_ai.operation.name": "invoke_agent"}):
            with tracer.start_as_current_span("retrieval", attributes={"gen_ai.operation.name": "retrieval"}) as span:
                documents = [{"id": "u", "content": "x"}]
                span.set_attribute("gen_ai.retrieval.documents", json.dumps(documents))
            with tracer.start_as_current_span("tool", attributes={"gen_ai.operation.name": "execute_tool"}) as span:
                span.set_attributes({"gen_ai.tool.name": "look", "gen_ai.tool.call.arguments": '{"at": 1}'})
            with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}) as span:
                span.set_attributes({"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4})
        return "so"

    found = asked(answer)
    assert found["retrieved_context"] == [{"content": "x", "doc_uri": "u"}]
    assert found["predicted_trajectory"] == [{"tool_name": "look", "tool_input": {"at": 1}}]
    assert found["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert len(Trace.from_dict(found["extra"]["trace"]).data.spans) == 4


def test_spans_of_openinference(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider()
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    tracer = provider.get_tracer("mine")

    def say(kind: str, **values: Any) -> None:
        given = {(name if "." in name else name.replace("_", ".")): value for name, value in values.items()}
        tracer.start_span(kind.lower(), attributes={"openinference.span.kind": kind, **given}).end()

    def answer(question: str, key: str) -> str:
        with tracer.start_as_current_span("agent", attributes={"openinference.span.kind": "AGENT"}):
            say("RETRIEVER", output_value=json.dumps([{"page_content": "x", "metadata": {"doc_uri": "u"}}]))
            say("TOOL", tool_name="look", input_value='{"at": 1}', output_value="2")
            say("LLM", **{"llm.token_count.prompt": 3, "llm.token_count.completion": 4})
        return "so"

    found = asked(answer)
    assert found["retrieved_context"] == [{"content": "x", "doc_uri": "u"}]
    assert found["predicted_trajectory"] == [{"tool_name": "look", "tool_input": {"at": 1}}]
    assert found["usage"] == {"input_tokens": 3, "output_tokens": 4}


def test_what_the_answer_says_stands() -> None:
    raw, spans = capturing(agent)("Who?", "key")
    answer = {"response": raw, "usage": {"input_tokens": 1, "output_tokens": 1}, "retrieved_context": ["mine"]}
    found = complete(answer, spans, 1 << 20)
    assert (found["usage"], found["retrieved_context"]) == (answer["usage"], ["mine"])
    small = complete(answer, spans, 100)
    assert small["predicted_trajectory"] == found["predicted_trajectory"]
    assert "extra" not in small


def test_without_spans_an_answer_stays() -> None:
    assert asked(lambda question, key: "so") == {"response": "so"}
    mlflow.tracing.disable()
    try:
        assert asked(lambda question, key: look(1)) == {"response": 2}
    finally:
        mlflow.tracing.enable()


def test_tracing_that_cannot_start_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from mlflow.tracing import provider

    def refuse(name: str) -> Any:
        raise LookupError("no store")

    provider.reset()
    monkeypatch.setattr(provider, "_get_tracer", refuse)
    monkeypatch.setattr(capture, "_broken", [])
    for _ in range(2):
        assert asked(lambda question, key: "so") == {"response": "so"}
    (told,) = caplog.messages
    assert "set MLFLOW_TRACKING_URI" in told
    assert "no store" in told


def test_a_failing_agent_fails() -> None:
    @mlflow.trace
    def broken(question: str, key: str) -> str:
        raise LookupError("no")

    with pytest.raises(LookupError):
        capturing(broken)("Who?", "key")


def test_a_trace_without_tools_and_models_tells_nothing_of_calls() -> None:
    def chain(question: str, key: str) -> str:
        retrieve(question)
        return "so"

    found = asked(chain)
    assert "predicted_trajectory" not in found
    assert found["retrieved_context"][0]["doc_uri"] == "faust.md"

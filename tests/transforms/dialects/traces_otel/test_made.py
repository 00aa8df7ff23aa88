"""Traces that MLflow's own API makes are read as MLflow's entities and functions read them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource, Document, Link, SpanEvent, SpanStatusCode, SpanType
from mlflow.entities import Trace as Theirs
from mlflow.genai.utils import trace_utils as theirs
from mlflow.tracing.attachments import Attachment

from evalbeam.transforms.dialects.traces_otel import derive
from evalbeam.transforms.dialects.traces_otel.spans import parse_trace

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own

TOKENS = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
PNG = base64.b64encode(b"\x89PNG\r\n").decode()
WORDS = [{"page_content": "one", "metadata": {"doc_uri": "u"}}, {"text": "two"}, "no document"]
VALUES = [
    1,
    -1.5,
    True,
    None,
    "",
    "text",
    '"quoted"',
    '{"a": 1}',
    "ünï – 漢字 🎉",
    {},
    [],
    {"a": [{"b": None}]},
    (1, 2),
]
VALUES += [b"bytes", 2**62, datetime(2020, 1, 1, tzinfo=UTC), {1: 2}, object, "\x00", "x" * 50_000]


def nested() -> None:
    @mlflow.trace(span_type="LLM", name="named", attributes={"delta": 1, "m": {"a": [1]}})
    def inner(x: int) -> int:
        return x + 1

    mlflow.trace(lambda question: {"answer": inner(question)})(1)


def fails() -> None:
    @mlflow.trace(span_type="TOOL")
    def inner(x: int) -> None:
        raise ValueError('Nö: "x"\nline')

    with pytest.raises(ValueError, match="line"):
        mlflow.trace(lambda x: inner(x))(1)


def recovers() -> None:
    @mlflow.trace(span_type="TOOL")
    def inner(x: int) -> None:
        raise ValueError("no")

    @mlflow.trace(span_type="AGENT")
    def outer(x: int) -> str:
        with pytest.raises(ValueError, match="no"):
            inner(x)
        return "sorry"

    outer(1)


def fails_by_status() -> None:
    with mlflow.start_span("s") as span:
        span.set_inputs("q")
        span.set_status(SpanStatusCode.ERROR)


def is_set_to_error() -> None:
    def inner(q: str) -> str:
        mlflow.update_current_trace(state="ERROR", tags={"ö": "ü"}, metadata={"mlflow.trace.session": "s"})
        return "a"

    mlflow.trace(inner)("q")


def asynchronous() -> None:
    @mlflow.trace(span_type="TOOL")
    async def inner(x: int) -> str:
        return str(x)

    async def outer(x: int) -> str:
        return "".join(await asyncio.gather(inner(x), inner(x + 1)))

    asyncio.run(mlflow.trace(outer)(1))


def streams() -> None:
    def inner(count: int) -> Iterator[str]:
        for i in range(count):
            yield str(i)

    list(mlflow.trace(inner, output_reducer="".join, span_type="LLM")(3))


def streams_half() -> None:
    def inner(count: int) -> Iterator[int]:
        yield count
        raise RuntimeError("half")

    with pytest.raises(RuntimeError, match="half"):
        list(mlflow.trace(inner)(3))


def retrieves() -> None:
    with mlflow.start_span("root") as root:
        root.set_inputs("q")
        with mlflow.start_span("first", span_type="RETRIEVER") as span:
            span.set_outputs([Document("zero", {"doc_uri": "z"})])
        with mlflow.start_span("last", span_type="RETRIEVER") as span:
            span.set_outputs([*WORDS, {"content": "three", "metadata": {"doc_uri": ""}}, {"metadata": None}])
            with mlflow.start_span("within", span_type="RETRIEVER") as inner:
                inner.set_outputs([{"page_content": "no"}])
        root.set_outputs("a")


def retrieves_text() -> None:
    with mlflow.start_span("root", span_type="RETRIEVER") as span:
        span.set_inputs("q")
        span.set_outputs(json.dumps(WORDS))


def calls_tools() -> None:
    with mlflow.start_span("root", span_type="AGENT") as root:
        root.set_inputs("q")
        for given in ({"a": 1}, None, "text", {"call": {"tool_name": "weather", "args": "{}"}}, {"call": "weather"}):
            with mlflow.start_span("handle_call", span_type="TOOL") as span:
                span.set_inputs(given)
        root.set_outputs("a")


def starts_out_of_order() -> None:
    root = mlflow.start_span_no_context("root", inputs="q", start_time_ns=5000)
    for name, start in (("late", 9000), ("early", 1000)):
        span = mlflow.start_span_no_context(name, parent_span=root, start_time_ns=start, span_type="TOOL")
        span.end(end_time_ns=start + 10)
    root.end(outputs="a", end_time_ns=20_000)


def counts_tokens() -> None:
    with mlflow.start_span("root", span_type="AGENT"):
        for _ in range(2):
            with mlflow.start_span("outer", span_type="CHAT_MODEL") as span:
                span.set_attributes({"mlflow.chat.tokenUsage": TOKENS, "mlflow.chat.tools": [{"type": "function"}]})
                with mlflow.start_span("inner", span_type="LLM") as inner:
                    inner.set_attribute("mlflow.chat.tokenUsage", TOKENS)


def tells_nothing() -> None:
    with mlflow.start_span() as span:
        span.add_event(SpanEvent("e", attributes={"n": 1, "t": True, "l": ["x"]}))


def has_ground_truth() -> None:
    nested()
    told = {"expected_response": "x", "expected_facts": ["a"], "n": 0, "f": 1.5, "b": False, "ü": {"a": None}, "e": ""}
    for name, value in told.items():
        source = AssessmentSource("HUMAN", "u")
        mlflow.log_expectation(trace_id=str(mlflow.get_last_active_trace_id()), name=name, value=value, source=source)
    mlflow.log_feedback(trace_id=str(mlflow.get_last_active_trace_id()), name="safe", value=True)


def is_judged_in_part() -> None:
    nested()
    trace_id = str(mlflow.get_last_active_trace_id())
    trace = mlflow.get_trace(trace_id)
    assert trace is not None
    told = {"trace_id": trace_id, "span_id": trace.data.spans[1].span_id, "metadata": {"mlflow.trace.session": "s"}}
    for source in (AssessmentSource("CODE", "c"), AssessmentSource("LLM_JUDGE", "j")):
        mlflow.log_expectation(name="expected_response", value=[source.source_type], source=source, **told)
    mlflow.log_feedback(name="expected_response", error=ValueError("no"), rationale="r", **told)


def has_attachments() -> None:
    with mlflow.start_span("root", span_type="CHAT_MODEL") as span:
        span.set_inputs(
            {
                "image": f"data:image/png;base64,{PNG}",
                "file": Attachment(content_type="audio/wav", content_bytes=b"RIFF"),
            }
        )
        span.set_outputs({"data": [{"b64_json": PNG, "revised_prompt": "a sunset"}]})


def has_a_session_and_links() -> None:
    link = Link(
        trace_id="tr-0123456789abcdef0123456789abcdef", span_id="0123456789abcdef", attributes={"kind": "after"}
    )
    with mlflow.start_span("root", links=[link]) as span:
        span.set_inputs({"messages": [{"role": "user", "content": "q"}]})
        found = {"mlflow.trace.session": "s", "mlflow.trace.user": "u"}
        mlflow.update_current_trace(metadata=found, request_preview="p", response_preview="r", client_request_id="c")
        span.set_outputs({"messages": [{"role": "assistant", "content": "a"}]})


def has_methods() -> None:
    class Agent:
        @mlflow.trace(span_type="AGENT")
        @classmethod
        def of_class(cls, x: int) -> int:
            return cls.of_none(x, more=2)

        @staticmethod
        @mlflow.trace(span_type="TOOL")
        def of_none(x: int, *rest: int, **more: int) -> int:
            return x + len(rest) + len(more)

    Agent.of_class(1)


def holds(value: Any) -> Callable[[], None]:
    def make() -> None:
        with mlflow.start_span("root", span_type="CHAIN") as root:
            root.set_inputs({"q": value})
            with mlflow.start_span("inner", span_type="PARSER") as span:
                span.set_inputs(value)
                span.set_outputs([value])
            root.set_outputs({"answer": value})

    return make


def has_type(name: str) -> Callable[[], None]:
    def make() -> None:
        with mlflow.start_span("root", span_type=name) as span:
            span.set_inputs({"a": 1})
            span.set_outputs([])

    return make


MADE = (
    *(nested, fails, recovers, fails_by_status, is_set_to_error, asynchronous, streams, streams_half, retrieves),
    *(retrieves_text, calls_tools, starts_out_of_order, counts_tokens, tells_nothing, has_ground_truth),
    *(is_judged_in_part, has_attachments, has_a_session_and_links, has_methods),
)
TYPES = [value for name, value in vars(SpanType).items() if name.isupper()]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"file:{tmp_path}/store")
    yield
    mlflow.set_tracking_uri(before)


def made(make: Callable[[], None]) -> Theirs:
    make()
    trace = mlflow.get_trace(str(mlflow.get_last_active_trace_id()))
    assert trace is not None
    return trace


def same(trace: Theirs) -> None:
    """Compares all forms in which MLflow gives a trace away with its own entities and functions."""
    other = Theirs.from_json(trace.to_json())
    for form in (trace.to_json(), trace.to_dict(), trace.to_pandas_dataframe_row()["trace"]):
        ours = parse_trace(form)
        assert (ours.trace_id, ours.failed) == (other.info.trace_id, other.info.state.value == "ERROR")
        assert ours.milliseconds == other.info.execution_duration
        assert ours.expectations == (theirs.extract_expectations_from_trace(other) or {})
        spans = {span.span_id: span for span in other.data.spans}
        assert len(ours.spans) == len(spans)
        for span in ours.spans:
            one = spans[base64.b64decode(span.span_id).hex()]
            parent = span.parent_id and base64.b64decode(span.parent_id).hex()
            assert (parent, span.kind) == (one.parent_id, one.span_type or "UNKNOWN")
            assert (span.start, span.end) == (one.start_time_ns, one.end_time_ns)
            assert (span.inputs, span.outputs) == (one.inputs, one.outputs)
            assert (span.error is not None) == (one.status.status_code.value == "ERROR")
            assert span.tools == one.get_attribute("mlflow.chat.tools")
            if raised := theirs._get_exception_from_span(one):
                assert span.error is not None
                assert ": ".join(span.error) == raised
        names = [theirs._extract_tool_name_from_span(s) for s in other.data.spans if s.span_type == "TOOL"]
        called = [name.removeprefix("execute_tool ") for name in names]  # names of OpenTelemetry's spans
        assert sorted(c["tool_name"] for c in derive.trajectory(ours) if called) == sorted(called)
        assert derive.request(ours) == theirs.extract_inputs_from_trace(other)
        assert derive.response(ours) == theirs.extract_outputs_from_trace(other)
        retrieved = [*theirs.extract_retrieval_context_from_trace(other).values()]
        chunks = (
            [{"content": c["content"] or "", "doc_uri": c.get("doc_uri")} for c in retrieved[-1]] if retrieved else None
        )
        assert derive.retrieved_context(ours) == chunks
        if counts := other.info.token_usage:
            assert {k: (derive.usage(ours) or {})[k] for k in ("input_tokens", "output_tokens")} == {
                k: counts[k] for k in ("input_tokens", "output_tokens")
            }


@pytest.mark.parametrize("make", MADE)
def test_traces_are_read_as_mlflow_reads_them(make: Callable[[], None]) -> None:
    same(made(make))


@pytest.mark.parametrize("name", [*TYPES, "OF_MY_OWN"])
def test_every_type_of_span(name: str) -> None:
    same(made(has_type(name)))


@pytest.mark.parametrize("value", VALUES, ids=[str(i) for i in range(len(VALUES))])
def test_every_type_of_value(value: Any) -> None:
    same(made(holds(value)))


def test_an_exception_without_words_has_its_type_once() -> None:
    def inner(x: int) -> None:
        raise KeyError

    def make() -> None:
        with pytest.raises(KeyError):
            mlflow.trace(inner)(1)

    assert parse_trace(made(make).to_json()).root.error == ("KeyError", "the trace says that it failed")

"""Model calls as MLflow's autologging records them, read as MLflow's converters to the GenAI conventions read them.

Each case is an answer in the form of one provider's API. The converter of MLflow tells its texts and tool calls; we
must find the same, both in MLflow's own trace and in the span that MLflow exports by these conventions.

`autologged.jsonl` holds traces that MLflow 3.17.2's autologging made of the SDKs and agent frameworks themselves, which
asked a scripted server what 1 + 2 is; it wants the tool `add` once if it is offered, and says "Three." otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlflow
import pytest
from google.protobuf.json_format import MessageToDict
from mlflow.entities import Span, Trace
from mlflow.tracing.export.genai_semconv.translator import translate_span_to_genai

from evalbeam.transforms.dialects.traces_otel.derive import fields_of, instructions
from evalbeam.transforms.dialects.traces_otel.spans import parse_trace

from .test_made import made, same, store

assert store  # the fixture: a store of MLflow in a folder
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own

ASKED = {"city": "Oslo", "days": [1, 2], "ünï": None}
TOKENS = {"input_tokens": 3, "output_tokens": 4}
PNG = "iVBORw0KGgo="


def openai(**message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}]}


def responses(*items: dict[str, Any]) -> dict[str, Any]:
    return {"output": list(items), "status": "completed"}


def anthropic(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"id": "m", "type": "message", "role": "assistant", "content": list(blocks)}


def bedrock(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"output": {"message": {"role": "assistant", "content": list(blocks)}}, "stopReason": "end_turn"}


def gemini(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finish_reason": "STOP"}]}


def called(name: str = "weather") -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(ASKED)}}


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


USE = {"type": "tool_use", "id": "1", "name": "weather", "input": ASKED}
ITEM = {"type": "function_call", "call_id": "1", "name": "weather", "arguments": json.dumps(ASKED)}
CHAT = {"messages": [{"role": "user", "content": "q"}]}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("openai", CHAT, openai(content="Sunny – 漢字.")),
    ("openai", CHAT, openai(content="Let me see.", tool_calls=[called(), called("time")])),
    ("openai", CHAT, openai(content=None, tool_calls=[called()])),
    ("openai", CHAT, openai(content=None, audio={"id": "a", "data": PNG, "transcript": "Spoken."})),
    ("groq", CHAT, openai(content="Fast.", tool_calls=[called()])),
    ("openai", {"input": "q"}, responses(said("Sunny."))),
    ("openai", {"input": "q"}, responses(ITEM, said("Sunny."))),
    ("openai", {"input": [{"role": "user", "content": "q"}]}, responses(ITEM, {**ITEM, "name": "time"})),
    ("anthropic", CHAT, anthropic({"type": "text", "text": "Sunny."})),
    ("anthropic", CHAT, anthropic({"type": "text", "text": "One. "}, {"type": "text", "text": "Two."})),
    ("anthropic", CHAT, anthropic({"type": "text", "text": "Let me see."}, USE, {**USE, "name": "time"})),
    ("anthropic", CHAT, anthropic(USE)),
    ("bedrock", CHAT, bedrock({"text": "Sunny."})),
    ("bedrock", CHAT, bedrock({"text": "See."}, {"toolUse": {"toolUseId": "1", "name": "weather", "input": ASKED}})),
    ("bedrock", CHAT, bedrock({"toolUse": {"toolUseId": "1", "name": "weather", "input": json.dumps(ASKED)}})),
    ("bedrock", CHAT, bedrock({"text": "This."}, {"image": {"format": "png", "source": {"bytes": PNG}}})),
    ("gemini", {"contents": "q"}, gemini({"text": "Sunny."})),
    ("gemini", {"contents": "q"}, gemini({"text": "One. "}, {"text": "Two."})),
    ("gemini", {"contents": "q"}, gemini({"text": "See."}, {"function_call": {"name": "weather", "args": ASKED}})),
    ("gemini", {"contents": "q"}, gemini({"function_call": {"name": "weather", "args": {}}})),
    ("gemini", {"contents": "q"}, gemini({"text": "A"}, {"inline_data": {"mime_type": "image/png", "data": PNG}})),
]


def call_model(provider: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    with mlflow.start_span("call", span_type="CHAT_MODEL") as span:
        span.set_attribute("mlflow.message.format", provider)
        span.set_attribute("mlflow.chat.tokenUsage", {**TOKENS, "total_tokens": 7})
        span.set_inputs(inputs)
        span.set_outputs(outputs)


@pytest.mark.parametrize(("provider", "inputs", "outputs"), CASES)
def test_answers_are_read_as_mlflow_exports_them(
    provider: str, inputs: dict[str, Any], outputs: dict[str, Any]
) -> None:
    trace = made(lambda: call_model(provider, inputs, outputs))
    exported = translate_span_to_genai(trace.data.spans[0]._span)
    parts = [p for m in json.loads(str(exported.attributes["gen_ai.output.messages"])) for p in m["parts"]]
    calls = [{"name": p["name"], "arguments": p["arguments"]} for p in parts if p["type"] == "tool_call"]
    texts = [p["content"] for p in parts if p["type"] == "text"]
    otlp = {"resourceSpans": [{"scopeSpans": [{"spans": [MessageToDict(Span(exported).to_otel_proto())]}]}]}
    for form in (trace.to_json(), otlp):
        found = fields_of(parse_trace(form))
        assert [read_call(c) for c in found["predicted_trajectory"]] == calls
        assert not texts or found["response"] == "".join(texts)
        assert {name: found["usage"][name] for name in ("input_tokens", "output_tokens")} == TOKENS


def read_call(call: dict[str, Any]) -> dict[str, Any]:
    """Returns a call that a model asked for, or one that was carried out."""
    arguments = call["tool_input"] if "tool_input" in call else call["arguments"]
    name = call.get("name") or call["tool_name"]
    return {"name": name, "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments}


@pytest.mark.parametrize(
    ("provider", "inputs", "outputs"),
    [
        ("openai", {"messages": [{"role": "system", "content": "Be brief."}, *CHAT["messages"]]}, openai(content="a")),
        ("openai", {"input": "q", "instructions": "Be brief."}, responses(said("a"))),
        ("anthropic", {**CHAT, "system": "Be brief."}, anthropic({"type": "text", "text": "a"})),
        ("anthropic", {**CHAT, "system": [{"type": "text", "text": "Be brief."}]}, anthropic()),
        ("bedrock", {**CHAT, "system": [{"text": "Be brief."}]}, bedrock({"text": "a"})),
        ("gemini", {"contents": "q", "config": {"system_instruction": "Be brief."}}, gemini({"text": "a"})),
        ("gemini", {"contents": "q", "config": {"system_instruction": {"parts": [{"text": "Be brief."}]}}}, gemini()),
    ],
)
def test_system_instructions(provider: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    trace = made(lambda: call_model(provider, inputs, outputs))
    exported = translate_span_to_genai(trace.data.spans[0]._span)
    parts = json.loads(str(exported.attributes["gen_ai.system_instructions"]))
    assert instructions(parse_trace(trace.to_json())) == [part["content"] for part in parts] == ["Be brief."]


LINES = (Path(__file__).parent / "autologged.jsonl").read_text().splitlines()
LOGGED = {row["name"]: row["trace"] for row in map(json.loads, LINES)}
UNANSWERED = {"openai chat tools", "openai responses tools", "groq", "mistral", "langchain llm tools"}
UNANSWERED |= {"gemini declared", "bedrock tools"}
CALLING = UNANSWERED | {"openai agents", "anthropic tools", "gemini tools", "langgraph agent", "pydantic_ai", "strands"}
TWICE = {"openai agents", "langgraph agent", "pydantic_ai", "strands"}
NO_TEXT = {"openai embeddings", "dspy", "pydantic_ai"}
"""An embedding, an answer that DSPy refuses, and Pydantic AI's result, an object of its own form."""


@pytest.mark.parametrize("name", LOGGED)
def test_traces_of_autologging(name: str) -> None:
    trace = Trace.from_dict(LOGGED[name])
    same(trace)
    found = fields_of(parse_trace(trace.to_json()))
    if name not in NO_TEXT | UNANSWERED:
        assert str(found["response"]).strip() == ("Adding." if name == "anthropic tools" else "Three.")
    calls = found["predicted_trajectory"]
    assert [read_call(c) for c in calls] == ([{"name": "add", "arguments": {"a": 1, "b": 2}}] * (name in CALLING))
    if name not in ("openai embeddings", "dspy"):
        tokens = {"input_tokens": 18, "output_tokens": 8} if name in TWICE else {"input_tokens": 9, "output_tokens": 4}
        assert {k: found["usage"][k] for k in tokens} == tokens

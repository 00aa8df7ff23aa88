"""Model calls as MLflow's autologging records them, read as MLflow's converters to the GenAI conventions read them.

Each case is an answer in the form of one provider's API. The converter of MLflow tells its texts and tool calls; we must
find the same, both in MLflow's own trace and in the span that MLflow exports by these conventions.
"""

from __future__ import annotations

import json
from typing import Any

import mlflow
import pytest
from google.protobuf.json_format import MessageToDict
from mlflow.entities import Span
from mlflow.tracing.export.genai_semconv.translator import translate_span_to_genai

from evalbeam.transforms.dialects.traces_otel.derive import fields_of
from evalbeam.transforms.dialects.traces_otel.spans import parse_trace

from .test_made import made, store

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
    arguments = call["arguments"]
    return {"name": call["name"], "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments}

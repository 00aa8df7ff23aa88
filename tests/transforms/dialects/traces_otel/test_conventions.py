"""Spans in the conventions of libraries are read as MLflow's translators read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalbeam.transforms.dialects.traces_otel import derive
from evalbeam.transforms.dialects.traces_otel.spans import parse_trace

from .test_derive import translated

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who wrote Faust?"}]
PARTS = [{"role": "user", "parts": [{"type": "text", "content": "Who wrote Faust?"}]}]
SAID = [{"role": "assistant", "parts": [{"type": "text", "content": "Goethe."}], "finish_reason": "stop"}]
GEMINI = [{"role": "user", "parts": [{"text": "Who wrote Faust?"}]}]
PLACE, WEATHER = {"place": "Oslo"}, {"place": "Oslo", "degrees": 7}
TOOL = {"type": "function", "name": "weather", "inputSchema": {"type": "object"}}
CALL = [{"toolCallId": "c1", "toolName": "weather", "input": json.dumps(PLACE)}]

KINDS = {
    "openinference.span.kind": "LLM CHAIN AGENT TOOL RETRIEVER EMBEDDING RERANKER GUARDRAIL EVALUATOR UNKNOWN other",
    "gen_ai.operation.name": "chat create_agent embeddings execute_tool generate_content invoke_agent text_completion "
    "response other",
    "traceloop.span.kind": "workflow task agent tool unknown other",
    "ai.operationId": "ai.generateText ai.generateText.doGenerate ai.toolCall ai.streamText ai.streamText.doStream "
    "ai.generateObject ai.generateObject.doGenerate ai.streamObject ai.streamObject.doStream ai.embed ai.embed.doEmbed "
    "ai.embedMany other",
    "span.type": "agent llm tool memory other claude_code.interaction claude_code.llm_request claude_code.tool "
    "interaction llm_request claude_code.hook",
    "entity.type": "agent llm tool memory other",
    "lmnr.span.type": "LLM TOOL DEFAULT PIPELINE EXECUTOR EVALUATOR HUMAN_EVALUATOR EVALUATION CACHED other",
    "langfuse.observation.type": "generation embedding tool retriever agent chain evaluator guardrail span other",
}
LIVEKIT = {
    "gen_ai.request.model": "m-1",
    "lk.retry_count": 0,
    "lk.function_tool.name": "look",
    "lk.function_tool.arguments": "{}",
    "lk.agent_name": "anna",
    "lk.instructions": "Be kind.",
    "lk.generation_id": "g1",
    "lk.tts.streaming": True,
    "lk.input_text": "Hi",
    "lk.user_transcript": "Hi",
    "lk.transcript_confidence": 0.5,
}


def event(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "timeUnixNano": "1", "attributes": attributes}


def dotted(name: str, **attributes: Any) -> dict[str, Any]:
    return event(name, **{f"gen_ai.{k}": v for k, v in attributes.items()})


SPANS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "openinference model": (
        {
            "openinference.span.kind": "LLM",
            "input.value": json.dumps({"messages": ASKED}),
            "output.value": "Goethe.",
            "llm.token_count.prompt": 11,
            "llm.token_count.completion": 3,
            "llm.token_count.total": 14,
        },
        [],
    ),
    "openinference of Agno": (
        {"openinference.span.kind": "AGENT", "agno.agent.id": "a1", "input.value": "Hi", "output.value": '"Hello!"'},
        [],
    ),
    "openinference retriever": (
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "Faust",
            "output.value": json.dumps(
                {"documents": [{"page_content": "By Goethe.", "metadata": {"doc_uri": "f.md"}}]}
            ),
        },
        [],
    ),
    "empty values": ({"openinference.span.kind": "CHAIN", "input.value": "{}", "output.value": "[]"}, []),
    "number as text": ({"openinference.span.kind": "CHAIN", "input.value": "123", "output.value": "7"}, []),
    "genai chat": (
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(PARTS),
            "gen_ai.output.messages": json.dumps(SAID),
            "gen_ai.usage.input_tokens": 75,
            "gen_ai.usage.output_tokens": 25,
            "gen_ai.usage.cache_read.input_tokens": 5,
        },
        [],
    ),
    "genai tool": (
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "weather",
            "gen_ai.tool.call.arguments": json.dumps(PLACE),
            "gen_ai.tool.call.result": json.dumps(WEATHER),
        },
        [],
    ),
    "counts as text": ({"gen_ai.usage.input_tokens": "26", "gen_ai.usage.output_tokens": "4"}, []),
    "traceloop workflow": (
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": json.dumps({"inputs": {"question": "Who?"}}),
            "traceloop.entity.output": json.dumps({"outputs": "Goethe."}),
        },
        [],
    ),
    "traceloop tokens": ({"gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 2}, []),
    "google adk model": (
        {
            "gen_ai.operation.name": "generate_content",
            "gcp.vertex.agent.llm_request": json.dumps({"model": "m", "contents": GEMINI}),
            "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [{"text": "Goethe."}]}}),
        },
        [],
    ),
    "google adk tool": (
        {
            "gen_ai.operation.name": "execute_tool",
            "gcp.vertex.agent.tool_call_args": json.dumps(PLACE),
            "gcp.vertex.agent.tool_response": json.dumps(WEATHER),
        },
        [],
    ),
    "vercel root": (
        {
            "ai.operationId": "ai.generateText",
            "ai.prompt": json.dumps({"prompt": "Who wrote Faust?"}),
            "ai.response.text": "Goethe.",
            "ai.response.finishReason": "stop",
        },
        [],
    ),
    "vercel model": (
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.prompt.messages": json.dumps([{"role": "user", "content": [{"type": "text", "text": "Oslo?"}]}]),
            "ai.prompt.tools": [json.dumps(TOOL)],
            "ai.prompt.toolChoice": '{"type":"auto"}',
            "ai.response.toolCalls": json.dumps(CALL),
            "ai.response.finishReason": "tool-calls",
            "gen_ai.usage.input_tokens": 8,
            "gen_ai.usage.output_tokens": 1,
        },
        [],
    ),
    "vercel tool": (
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "weather",
            "ai.toolCall.args": json.dumps(PLACE),
            "ai.toolCall.result": json.dumps(WEATHER),
        },
        [],
    ),
    "vercel object": (
        {"ai.operationId": "ai.generateObject", "ai.prompt": '{"prompt":"x"}', "ai.response.object": '{"a": 1}'},
        [],
    ),
    "vercel embedding": ({"ai.operationId": "ai.embed", "ai.value": '"sun"', "ai.embedding": "[0.1, 0.2]"}, []),
    "voltagent agent": (
        {
            "entity.type": "agent",
            "agent.messages": json.dumps(ASKED),
            "output": "Goethe.",
            "usage.prompt_tokens": 10,
            "usage.completion_tokens": 5,
            "usage.total_tokens": 15,
        },
        [],
    ),
    "voltagent model": (
        {
            "entity.type": "agent",
            "span.type": "llm",
            "llm.messages": json.dumps(ASKED),
            "output": "Goethe.",
            "llm.usage.prompt_tokens": 20,
            "llm.usage.completion_tokens": 2,
        },
        [],
    ),
    "voltagent tool": ({"span.type": "tool", "input": json.dumps(PLACE), "output": json.dumps(WEATHER)}, []),
    "livekit turn": (
        {"lk.agent_name": "anna", "lk.user_input": "Who?", "lk.response.text": "Goethe."},
        [],
    ),
    "livekit events": (
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 5,
            "gen_ai.usage.output_tokens": 1,
        },
        [
            event("gen_ai.system.message", content="Be brief."),
            event("gen_ai.user.message", content='"Who?"'),
            event("gen_ai.assistant.message", content="Goethe."),
            event("gen_ai.user.message", content="When?"),
            event("gen_ai.choice", content="In 1808.", role="assistant"),
        ],
    ),
    "spring events": (
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1},
        [dotted("gen_ai.content.prompt", prompt="Who?"), dotted("gen_ai.content.completion", completion="Goethe.")],
    ),
    "claude interaction": (
        {"span.type": "claude_code.interaction", "user_prompt": "Mend it", "input_tokens": 3},
        [],
    ),
    "claude model": (
        {
            "span.type": "claude_code.llm_request",
            "new_context": "Mend it",
            "response.model_output": "Done.",
            "input_tokens": 3,
            "output_tokens": 4,
            "cache_read_tokens": 10,
            "cache_creation_tokens": 2,
        },
        [],
    ),
    "claude tool": (
        {"span.type": "tool", "tool_name": "Bash", "full_command": "ls", "file_path": "<REDACTED>"},
        [event("tool.output", output="<REDACTED>", content="a.txt")],
    ),
    "claude withheld": ({"span.type": "claude_code.interaction", "user_prompt": "<REDACTED>"}, []),
    "laminar": (
        {
            "lmnr.span.type": "LLM",
            "lmnr.span.input": json.dumps(ASKED),
            "lmnr.span.output": '"Goethe."',
            "gen_ai.usage.input_tokens": 6,
            "gen_ai.usage.output_tokens": 2,
        },
        [],
    ),
    "langfuse": (
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": json.dumps({"query": "Who?"}),
            "langfuse.observation.output": "Goethe.",
        },
        [],
    ),
    "langfuse retriever": (
        {
            "langfuse.observation.type": "retriever",
            "langfuse.observation.input": "Faust",
            "langfuse.observation.output": json.dumps(
                [{"page_content": "By Goethe.", "metadata": {"doc_uri": "f.md"}}]
            ),
        },
        [],
    ),
    "two conventions": (
        {
            "openinference.span.kind": "AGENT",
            "gen_ai.operation.name": "chat",
            "input.value": "first",
            "langfuse.observation.input": "second",
            "langfuse.observation.output": "said",
            "gen_ai.usage.input_tokens": 1,
            "gen_ai.usage.prompt_tokens": 2,
        },
        [],
    ),
    "an own type": ({"mlflow.spanType": "TOOL", "openinference.span.kind": "LLM"}, []),
}


def value_of(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [value_of(v) for v in value]}}
    for kind, name in ((bool, "boolValue"), (int, "intValue"), (float, "doubleValue"), (str, "stringValue")):
        if isinstance(value, kind):
            return {name: str(value) if name == "intValue" else value}
    raise TypeError(value)


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value_of(value)} for key, value in attributes.items()]


def export(*spans: tuple[dict[str, Any], list[dict[str, Any]]]) -> str:
    """OTLP/JSON of a trace whose first span is the parent of the others."""
    found = [
        {
            "traceId": "0123456789abcdef0123456789abcdef",
            "spanId": f"{number + 1:016x}",
            "parentSpanId": f"{1:016x}" if number else "",
            "name": f"span {number}",
            "kind": 1,
            "startTimeUnixNano": str(10 + number),
            "endTimeUnixNano": str(90 - number),
            "attributes": pairs(attributes),
            "events": [{**e, "attributes": pairs(e["attributes"])} for e in events],
        }
        for number, (attributes, events) in enumerate(spans)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": found}]}]})


def both(*spans: tuple[dict[str, Any], list[dict[str, Any]]]) -> list[tuple[Any, Any]]:
    """(our span, MLflow's) of each."""
    text = export(*spans)
    theirs = {span.span_id: span for span in translated(text).data.spans}
    return [(span, theirs[span.span_id]) for span in parse_trace(text).spans]


@pytest.mark.parametrize("key", KINDS)
def test_kinds_of_spans(key: str) -> None:
    for name in KINDS[key].split():
        ((ours, theirs),) = both(({key: name}, []))
        assert ours.kind == (theirs.span_type or "UNKNOWN"), name


@pytest.mark.parametrize("key", LIVEKIT)
def test_kinds_of_livekits_spans(key: str) -> None:
    ((ours, theirs),) = both(({key: LIVEKIT[key]}, []))
    assert ours.kind == (theirs.span_type or "UNKNOWN")


@pytest.mark.parametrize("name", SPANS)
def test_spans_are_read_as_mlflow_reads_them(name: str) -> None:
    ((ours, theirs),) = both(SPANS[name])
    assert ours.kind == (theirs.span_type or "UNKNOWN")
    assert ours.inputs == theirs.inputs
    assert ours.outputs == theirs.outputs
    told = theirs.get_attribute("mlflow.chat.tokenUsage") or {}
    expected = {k: told.get(k) for k in ("input_tokens", "output_tokens")}
    assert (ours.usage or dict.fromkeys(expected)) == expected


@pytest.mark.parametrize("name", SPANS)
def test_the_same_spans_in_mlflows_json_are_read_alike(name: str) -> None:
    (otlp,) = parse_trace(export(SPANS[name])).spans
    attributes, events = SPANS[name]
    packed = {key: json.dumps(value) for key, value in attributes.items()}
    span = {"span_id": "a", "name": otlp.name, "attributes": packed, "events": events}
    (found,) = parse_trace({"info": {"trace_id": "t"}, "data": {"spans": [span]}}).spans
    assert (found.kind, found.inputs, found.outputs, found.usage) == (otlp.kind, otlp.inputs, otlp.outputs, otlp.usage)


def test_messages_of_gemini_cli() -> None:
    """MLflow wraps them for its page; the messages are the same."""
    told = {"gen_ai.operation.name": "llm_call", "gen_ai.agent.name": "gemini-cli"}
    said = [{"role": "model", "parts": [{"text": "Goethe."}]}]
    messages = {"gen_ai.input.messages": json.dumps(GEMINI), "gen_ai.output.messages": json.dumps(said)}
    ((ours, theirs),) = both(({**told, **messages}, []))
    assert (ours.kind, {"contents": ours.inputs}) == (theirs.span_type, theirs.inputs)
    assert {"candidates": [{"content": ours.outputs[0]}]} == theirs.outputs
    for operation in ("tool_call", "agent_call", "user_prompt"):
        ((ours, theirs),) = both(({**told, "gen_ai.operation.name": operation}, []))
        assert ours.kind == (theirs.span_type or "UNKNOWN")


def test_all_numbered_messages_are_read_where_mlflow_takes_the_first() -> None:
    attributes = {
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": "Oslo?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "weather",
        "gen_ai.completion.0.tool_calls.0.arguments": json.dumps(PLACE),
        "gen_ai.operation.name": "chat",
    }
    ((ours, theirs),) = both((attributes, []))
    assert ours.inputs["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Oslo?"}]
    assert ours.inputs["messages"][0]["content"] == theirs.inputs
    assert derive.trajectory(parse_trace(export((attributes, [])))) == [{"name": "weather", "arguments": PLACE}]
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt.0.content": "Who?",
        "gen_ai.completion.0.content": "Goethe.",
    }
    ((_, theirs),) = both((said, []))
    found = derive.fields_of(parse_trace(export((said, []))))
    assert (found["instruction"], found["response"]) == (theirs.inputs, theirs.outputs)


def test_numbered_documents_of_openinference() -> None:
    attributes = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "Faust",
        "retrieval.documents.0.document.content": "By Goethe.",
        "retrieval.documents.0.document.id": "d-0",
        "retrieval.documents.0.document.score": 0.9,
        "retrieval.documents.1.document.content": "In two parts.",
        "retrieval.documents.1.document.metadata": json.dumps({"doc_uri": "f.md"}),
    }
    found = derive.retrieved_context(parse_trace(export((attributes, []))))
    assert found == [{"content": "By Goethe.", "doc_uri": "d-0"}, {"content": "In two parts.", "doc_uri": "f.md"}]


@pytest.mark.parametrize(
    ("root", "model", "tool", "name"),
    [
        ("vercel root", "vercel model", "vercel tool", "weather"),
        ("voltagent agent", "voltagent model", "voltagent tool", "span 2"),
        ("openinference of Agno", "openinference model", "google adk tool", "span 2"),
        ("livekit turn", "livekit events", "genai tool", "weather"),
        ("claude interaction", "claude model", "claude tool", "Bash"),
    ],
)
def test_whole_traces_have_what_mlflow_takes_from_them(root: str, model: str, tool: str, name: str) -> None:
    from mlflow.genai.utils import trace_utils as theirs

    text = export(*(SPANS[n] for n in (root, model, tool)), SPANS["langfuse retriever"])
    trace, other = parse_trace(text), translated(text)
    assert derive.request(trace) == theirs.extract_inputs_from_trace(other)
    if trace.root.outputs is not None:
        assert derive.response(trace) == theirs.extract_outputs_from_trace(other)
    (called,) = theirs.extract_tools_called_from_trace(other)
    assert derive.trajectory(trace) == [{"tool_name": name, "tool_input": called.arguments}]
    (retrieved,) = theirs.extract_retrieval_context_from_trace(other).values()
    assert derive.retrieved_context(trace) == [{k: d[k] for k in ("content", "doc_uri")} for d in retrieved]
    fields = derive.fields_of(trace)
    assert isinstance(fields["response"], str)
    assert isinstance(fields["instruction"], str)


def test_the_text_of_google_adks_requests_and_responses() -> None:
    fields = derive.fields_of(parse_trace(export(({}, []), SPANS["google adk model"], SPANS["google adk tool"])))
    assert (fields["instruction"], fields["response"]) == ("Who wrote Faust?", "Goethe.")
    assert fields["predicted_trajectory"] == [{"tool_name": "span 2", "tool_input": PLACE}]


def test_a_tool_of_mlflow_is_called_as_its_span() -> None:
    """An attribute of the user's own does not name it."""
    attributes = {"mlflow.spanType": "TOOL", "tool_name": "mine", "tool.name": "mine"}
    (span,) = parse_trace(export((attributes, []))).spans
    assert span.name == "span 0"
    (span,) = parse_trace(export(({**attributes, "gen_ai.tool.name": "weather"}, []))).spans
    assert span.name == "weather"

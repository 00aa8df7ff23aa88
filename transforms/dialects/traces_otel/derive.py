"""Derives standard fields from a trace: request, response, retrieved passages, tool calls, tokens, latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from ....schemas.conversation import usage_of
from ....schemas.formats.messages import (
    agent_input,
    chat_of,
    messages_of,
    request_text,
    response_text,
    system_texts,
    tool_calls_of,
)
from ....schemas.instance import Usage
from ....schemas.json import Json
from ....schemas.values import json_or_text
from .spans import Span, Trace

MODELS = ("CHAT_MODEL", "LLM")
_TOKENS = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}


def fields_of(trace: Trace) -> dict[str, Json]:
    """Returns the standard fields that a trace has.

    `prompt` is the input of the run (text as a user's message), `instruction` its text, and `response` the output. A
    failed run has `failure`, `error_type` and `error_message` instead of a response. A trace without tool calls has an
    empty list of them, since a trace records all tool calls.
    """
    found = request_fields(_chat(request(trace)))
    if trace.failed:
        kind, message = trace.root.error or next((s.error for s in trace.spans if s.error), None) or _UNTOLD
        found |= {"failure": True, "error_type": kind, "error_message": message}
    else:
        found["response"] = response_text(_chat(response(trace)))
    found |= {
        "predicted_trajectory": trajectory(trace),
        "retrieved_context": retrieved_context(trace),
        "usage": usage(trace),
        "latency_in_seconds": latency_in_seconds(trace),
    }
    return {k: v for k, v in found.items() if v is not None}


def _chat(value: Json) -> Json:
    """Converts messages of parts, or a list of chat messages, to `{messages}`; anything else is unchanged."""
    told = isinstance(value, list) and value and all(isinstance(m, Mapping) and "role" in m for m in value)
    if told and all("content" in m for m in value):
        return {"messages": value}
    return chat_of(value)


_UNTOLD = ("TraceError", "the trace says that the run failed")


def request_fields(value: Json) -> dict[str, Json]:
    """Returns `prompt` and `instruction` of a request, or nothing if there is none."""
    return {} if value is None else {"prompt": agent_input(value), "instruction": request_text(value)}


def request(trace: Trace) -> Json:
    """Returns the input of the run: the inputs of the root span, or of the first model call if the root has none."""
    if trace.root.inputs is not None:
        return trace.root.inputs
    return next((s.inputs for s in trace.spans if s.kind in MODELS and s.inputs is not None), None)


def response(trace: Trace) -> Json:
    """Returns the output of the run: the outputs of the root span, or of the last model call if the run succeeded."""
    if trace.root.outputs is not None or trace.failed:
        return trace.root.outputs
    return next((s.outputs for s in reversed(trace.spans) if s.kind in MODELS and s.outputs is not None), None)


def retrieved_context(trace: Trace) -> list[dict[str, Json]] | None:
    """Returns the passages of the last retrieval, as {content, doc_uri}; `None` without a retrieval.

    A retrieval within another one is part of it and does not count. A passage whose text was not recorded (optional in
    the conventions of OpenTelemetry) has the content "".
    """
    spans = retrievals(trace)
    return [_chunk(d) for d in _documents(spans[-1].outputs)] if spans else None


def retrievals(trace: Trace) -> list[Span]:
    """Returns the retrievals that are not part of another one, in order of their start."""
    spans = {s.span_id: s for s in trace.spans}

    def above(span: Span) -> Iterator[Span]:
        seen = {span.span_id}
        while (parent := spans.get(span.parent_id or "")) is not None and parent.span_id not in seen:
            yield parent
            seen.add(parent.span_id)
            span = parent

    return [s for s in trace.spans if s.kind == "RETRIEVER" and all(a.kind != "RETRIEVER" for a in above(s))]


def _documents(outputs: Json) -> list[Mapping[str, Any]]:
    outputs = json_or_text(outputs)  # a retriever may return JSON text
    if isinstance(outputs, Mapping):
        outputs = outputs.get("documents")
    return [d for d in outputs if isinstance(d, Mapping)] if isinstance(outputs, list) else []


def _chunk(document: Mapping[str, Any]) -> dict[str, Json]:
    content = next((document[k] for k in ("page_content", "content", "text") if document.get(k) is not None), "")
    metadata = document.get("metadata")
    if isinstance(metadata, Mapping):
        uri = metadata.get("doc_uri")
    else:
        uri = next((document[k] for k in ("doc_uri", "uri", "id") if document.get(k) not in (None, "")), None)
    text = content if isinstance(content, str) else orjson.dumps(content).decode()
    return {"content": text, "doc_uri": None if uri in (None, "") else str(uri)}


def trajectory(trace: Trace) -> list[dict[str, Json]]:
    """The tool calls that were carried out, in the order they began; else those that models asked for."""
    tools = [s for s in trace.spans if s.kind == "TOOL"]
    if tools:
        return [{"tool_name": s.name or "unnamed", "tool_input": _tool_input(s.inputs)} for s in tools]
    return [call for s in _innermost_models(trace) for call in tool_calls_of(chat_of(s.outputs))]


def _innermost_models(trace: Trace) -> list[Span]:
    """Returns the model calls without those that wrap another one, whose answer they repeat."""
    parents = {s.span_id: s.parent_id for s in trace.spans}
    told = [s for s in trace.spans if s.kind in MODELS and s.outputs is not None]
    wrapping: set[str] = set()
    for span in told:
        above = span.parent_id
        while above is not None and above not in wrapping:
            wrapping.add(above)
            above = parents.get(above)
    return [s for s in told if s.span_id not in wrapping]


def steps(trace: Trace) -> list[dict[str, Json]]:
    """Returns the tool calls that were carried out, each followed by its result, as steps of a turn."""
    found: list[dict[str, Json]] = []
    for span in trace.spans:
        if span.kind == "TOOL":
            name = span.name or "unnamed"
            result: Json = span.outputs if span.error is None else {"error": ": ".join(span.error)}
            found.append({"kind": "call", "tool_name": name, "value": _tool_input(span.inputs)})
            found.append({"kind": "result", "tool_name": name, "value": result})
    return found


def tools(trace: Trace) -> list[Json]:
    """Returns the tools that models were offered, each once, as recorded."""
    found: list[Json] = []
    for span in trace.spans:
        if span.kind in MODELS:
            told = span.tools or (span.inputs.get("tools") if isinstance(span.inputs, Mapping) else None)
            found += [tool for tool in (told if isinstance(told, list) else ()) if tool not in found]
    return found


def instructions(trace: Trace) -> list[str]:
    """Returns the texts of the system messages that the run or its models were given, each once."""
    given = (request(trace), *(s.inputs for s in trace.spans if s.kind in MODELS))
    return list(dict.fromkeys(text for inputs in given for text in system_texts(chat_of(inputs))))


def turn_fields(trace: Trace) -> dict[str, Json]:
    """Returns the trace as a turn of a conversation: prompt (the text of the last message), response, calls, steps."""
    found = fields_of(trace)
    last = messages_of(chat_of(request(trace)))[-1:]
    prompt = request_text({"messages": last}) if last else found.get("instruction")
    names = ("response", "predicted_trajectory", "usage", "latency_in_seconds")
    return {"prompt": prompt, "steps": steps(trace), **{n: found[n] for n in names if n in found}}


def _tool_input(inputs: Json) -> Json:
    if inputs is None:
        return {}
    return inputs if isinstance(inputs, dict | str) else orjson.dumps(inputs).decode()


def usage(trace: Trace) -> dict[str, Json] | None:
    """Returns {input_tokens, output_tokens} of the run, or `None` if they are unknown.

    They are the declaration of the trace, else the sum over the topmost spans that declare tokens, else the sum over
    the `usage` in the outputs of model calls (without calls that wrap others). A kind that one summand lacks is `None`.
    """
    if trace.usage is not None:
        return trace.usage
    parents = {s.parent_id for s in trace.spans}
    spans = _topmost([s for s in trace.spans if s.usage is not None], trace)
    counts = [s.usage for s in spans if s.usage is not None]
    if not counts:
        counts = [_told(s.outputs) for s in trace.spans if s.kind in MODELS and s.span_id not in parents]
    total = Usage.total(map(usage_of, counts))
    return None if total is None else {name: getattr(total, name) for name in _TOKENS}


def _topmost(spans: list[Span], trace: Trace) -> list[Span]:
    """Returns the spans of a list that are not below another span of the list."""
    parent = {s.span_id: s.parent_id for s in trace.spans}
    listed = {s.span_id for s in spans}

    def is_below(span_id: str | None) -> bool:
        seen: set[str] = set()
        while span_id is not None and span_id not in seen:
            if span_id in listed:
                return True
            seen.add(span_id)
            span_id = parent.get(span_id)
        return False

    return [s for s in spans if not is_below(s.parent_id)]


def _told(outputs: Json) -> dict[str, Json]:
    """Reads token counts from a model's answer, under OpenAI's names (also in LangChain's `llm_output`)."""
    if not isinstance(outputs, Mapping):
        return {}
    llm = outputs.get("llm_output")
    told = outputs.get("usage") or (llm.get("token_usage") or llm if isinstance(llm, Mapping) else None)
    if not isinstance(told, Mapping):
        return {}
    return {name: told.get(name, told.get(other)) for name, other in _TOKENS.items()}


def latency_in_seconds(trace: Trace) -> float | None:
    """Returns the seconds of the whole run: the declaration of the trace, else the duration of its root span."""
    if trace.milliseconds is not None:
        return trace.milliseconds / 1000
    root = trace.root
    return (root.end - root.start) / 1e9 if root.end >= root.start > 0 else None

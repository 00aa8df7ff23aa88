"""Reads the attributes of spans that are not written by MLflow, by the conventions of the libraries that write them.

The names, and their order of precedence, are those of `mlflow.tracing.otel.translation` (MLflow 3.17):

| convention | kind | inputs, outputs | tokens |
|---|---|---|---|
| OpenInference (Agno, ...) | `openinference.span.kind` | `input.value`, `output.value` | `llm.token_count.*` |
| Claude Code | `span.type` | `user_prompt`, `new_context`, `tool_input`, event `tool.output` | `input_tokens` |
| OpenTelemetry GenAI, Gemini CLI, Spring AI | `gen_ai.operation.name` | `gen_ai.*`, events | `gen_ai.usage.*` |
| Traceloop (OpenLLMetry) | `traceloop.span.kind` | `traceloop.entity.*`, `gen_ai.prompt.N.*` | `gen_ai.usage.*` |
| Google ADK | `gen_ai.operation.name` | `gcp.vertex.agent.*` | `gen_ai.usage.*` |
| Vercel AI SDK | `ai.operationId` | `ai.prompt*`, `ai.response.*`, `ai.toolCall.*` | `gen_ai.usage.*` |
| VoltAgent | `span.type`, `entity.type` | `agent.messages`, `llm.messages`, `input`, `output` | `usage.*` |
| LiveKit | what is recorded | `lk.*`, events of messages | `gen_ai.usage.*` |
| Laminar | `lmnr.span.type` | `lmnr.span.input`, `lmnr.span.output` | `gen_ai.usage.*` |
| Langfuse | `langfuse.observation.type` | `langfuse.observation.*` | `gen_ai.usage.*` |

Beyond MLflow, all numbered messages are read (MLflow takes the first), the tool calls in them, numbered documents, the
arguments of LiveKit's tools, and the names that tools are recorded with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ....schemas.json import Json
from ....schemas.values import json_or_text

Attributes = Mapping[str, Json]
_KINDS: Mapping[str, Mapping[str, str]] = {
    "openinference.span.kind": {
        name: name
        for name in (
            "TOOL",
            "CHAIN",
            "LLM",
            "RETRIEVER",
            "EMBEDDING",
            "AGENT",
            "RERANKER",
            "UNKNOWN",
            "GUARDRAIL",
            "EVALUATOR",
        )
    },
    "gen_ai.operation.name": {
        "chat": "CHAT_MODEL",
        "generate_content": "LLM",
        "text_completion": "LLM",
        "response": "LLM",
        "embeddings": "EMBEDDING",
        "create_agent": "AGENT",
        "invoke_agent": "AGENT",
        "invoke_workflow": "CHAIN",
        "execute_tool": "TOOL",
        "retrieval": "RETRIEVER",
    },
    "traceloop.span.kind": {
        "workflow": "WORKFLOW",
        "task": "TASK",
        "agent": "AGENT",
        "tool": "TOOL",
        "unknown": "UNKNOWN",
    },
    "ai.operationId": {
        "ai.toolCall": "TOOL",
        **{
            f"ai.{name}{step}": "LLM"
            for name in ("generateText", "streamText", "generateObject", "streamObject")
            for step in ("", ".doGenerate" if name.startswith("generate") else ".doStream")
        },
        **dict.fromkeys(("ai.embed", "ai.embed.doEmbed", "ai.embedMany"), "EMBEDDING"),
    },
    **{
        key: {"agent": "AGENT", "llm": "LLM", "tool": "TOOL", "memory": "MEMORY"}
        for key in ("span.type", "entity.type")
    },
}
_LATER_KINDS: Mapping[str, Mapping[str, str]] = {
    "lmnr.span.type": {
        "LLM": "LLM",
        "CACHED": "LLM",
        "TOOL": "TOOL",
        "DEFAULT": "CHAIN",
        "PIPELINE": "CHAIN",
        "EXECUTOR": "AGENT",
        **dict.fromkeys(("EVALUATOR", "HUMAN_EVALUATOR", "EVALUATION"), "EVALUATOR"),
    },
    "langfuse.observation.type": {
        "generation": "LLM",
        "span": "UNKNOWN",
        **{
            name: name.upper()
            for name in ("embedding", "tool", "retriever", "agent", "chain", "evaluator", "guardrail")
        },
    },
}
_GEMINI = {"llm_call": "LLM", "tool_call": "TOOL", "agent_call": "AGENT"}
_CLAUDE = {"interaction": "AGENT", "llm_request": "LLM", "tool": "TOOL"}
_CLAUDE_DETAILS = ("full_command", "file_path", "skill_name", "subagent_type")
_REDACTED = "<REDACTED>"
_MESSAGES = re.compile(r"gen_ai\.(prompt|completion)\.(\d+)\.(role|content|tool_calls\.(\d+)\.(id|name|arguments))")
_DOCUMENTS = re.compile(r"retrieval\.documents\.(\d+)\.document\.(content|id|metadata)")
_FIRST_INPUTS = ("input.value",)
_FIRST_OUTPUTS = ("output.value",)
_GENAI_INPUTS = ("gen_ai.input.messages", "gen_ai.tool.call.arguments", "gen_ai.retrieval.query.text")
_GENAI_OUTPUTS = ("gen_ai.output.messages", "gen_ai.tool.call.result", "gen_ai.retrieval.documents")
_ADK_INPUTS = ("gcp.vertex.agent.llm_request", "gcp.vertex.agent.tool_call_args")
_ADK_OUTPUTS = ("gcp.vertex.agent.llm_response", "gcp.vertex.agent.tool_response")
_VERCEL_INPUTS = ("ai.prompt", "ai.toolCall.args", "ai.value", "ai.values")
_VERCEL_OUTPUTS = ("ai.response.text", "ai.toolCall.result", "ai.response.object", "ai.embedding", "ai.embeddings")
_LATER_INPUTS = (
    *("agent.messages", "llm.messages", "input"),
    *("lk.user_input", "lk.user_transcript", "lk.chat_ctx", "lk.input_text"),
    *("lmnr.span.input", "langfuse.observation.input", "lk.function_tool.arguments"),
)
_LATER_OUTPUTS = (
    *("output", "lk.response.text", "lk.response.function_calls"),
    *("lmnr.span.output", "langfuse.observation.output", "lk.function_tool.output"),
)
_USAGE = (
    (("llm.token_count.prompt",), ("llm.token_count.completion",)),
    (("gen_ai.usage.input_tokens",), ("gen_ai.usage.output_tokens",)),
    (("gen_ai.usage.prompt_tokens",), ("gen_ai.usage.completion_tokens",)),
    (("usage.prompt_tokens", "llm.usage.prompt_tokens"), ("usage.completion_tokens", "llm.usage.completion_tokens")),
)
_CLAUDE_INPUT_TOKENS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
_TOOL_NAMES = (
    *("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "lk.function_tool.name", "tool_name"),
    "traceloop.entity.name",
)
_ROLES = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant")}
_TEXTS = frozenset(
    (
        *(*_FIRST_INPUTS, *_FIRST_OUTPUTS, *_ADK_INPUTS, *_ADK_OUTPUTS, *_VERCEL_INPUTS, *_VERCEL_OUTPUTS),
        *(*_LATER_INPUTS, *_LATER_OUTPUTS, "traceloop.entity.input", "traceloop.entity.output"),
        *(*_CLAUDE_DETAILS, "user_prompt", "new_context", "tool_input", "response.model_output"),
    )
)
"""Attributes with a text or the JSON text of a value."""
_NAMES = frozenset(
    (
        *(*_KINDS, *_LATER_KINDS, *_TOOL_NAMES, "gen_ai.agent.name", "gen_ai.request.model", "output_tokens"),
        *(*_CLAUDE_INPUT_TOKENS, "lk.retry_count", "lk.agent_name", "lk.instructions", "lk.generation_id"),
        *("lk.transcript_confidence", "lk.transcription_delay", *(k for pair in _USAGE for keys in pair for k in keys)),
    )
)
_PREFIXES = (
    *("gen_ai.prompt.", "gen_ai.completion.", "ai.prompt.", "ai.response.", "retrieval.documents."),
    *("lk.function_tool", "lk.tts"),
)


def is_read(key: str) -> bool:
    """Returns true for the attributes that are read here."""
    return key in _NAMES or key in _TEXTS or key.startswith(_PREFIXES)


def unpack(value: Json) -> Json:
    """Parses JSON text of an object, a list or a text; any other value is unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        return json_or_text(value)
    return value


def kind_of(attributes: Attributes) -> str | None:
    """Returns MLflow's type of a span, or `None` if nothing tells it."""
    if attributes.get("gen_ai.agent.name") == "gemini-cli":
        found = _GEMINI.get(str(attributes.get("gen_ai.operation.name")))
        if found is not None and "openinference.span.kind" not in attributes:
            return found
    if (found := _CLAUDE.get(_claude(attributes))) and "openinference.span.kind" not in attributes:
        return found
    return _named(attributes, _KINDS) or _livekit(attributes) or _named(attributes, _LATER_KINDS)


def _named(attributes: Attributes, kinds: Mapping[str, Mapping[str, str]]) -> str | None:
    told = ((values, unpack(attributes[key])) for key, values in kinds.items() if key in attributes)
    return next((values[name] for values, name in told if isinstance(name, str) and name in values), None)


def _claude(attributes: Attributes) -> str:
    return str(unpack(attributes.get("span.type"))).removeprefix("claude_code.")


def _livekit(attributes: Attributes) -> str | None:
    if "gen_ai.request.model" in attributes:
        return "LLM"
    for key in attributes:
        if key == "lk.retry_count":
            return "LLM"
        if key.startswith("lk.function_tool"):
            return "TOOL"
        if key in ("lk.agent_name", "lk.instructions", "lk.generation_id"):
            return "AGENT"
        if key.startswith("lk.tts") or key in ("lk.input_text", "lk.user_transcript"):
            return "UNKNOWN"
    return None


def tool_name(attributes: Attributes, typed: bool = False) -> str | None:
    """Returns the name that a tool is recorded with, if any; for spans that MLflow has typed, OpenTelemetry's alone."""
    names = _TOOL_NAMES[:1] if typed else _TOOL_NAMES
    return next((str(unpack(attributes[k])) for k in names if attributes.get(k)), None)


def inputs_of(attributes: Attributes, events: Iterable[Mapping[str, Any]]) -> Json:
    """Returns the inputs of a span; `None` if none are recorded."""
    found = (
        _first(attributes, _FIRST_INPUTS)
        or _claude_inputs(attributes)
        or _told(attributes, _GENAI_INPUTS)
        or _first(attributes, ("traceloop.entity.input",))
        or _numbered(attributes, "prompt")
        or _first(attributes, _ADK_INPUTS)
        or _vercel(attributes, "ai.prompt.", _VERCEL_INPUTS)
        or _first(attributes, _LATER_INPUTS)
    )
    if found is not None and found != "":
        return found
    return _event(events, "gen_ai.content.prompt", "gen_ai.prompt") or _said(events, _ROLES) or None


def outputs_of(attributes: Attributes, events: Iterable[Mapping[str, Any]]) -> Json:
    """Returns the outputs of a span; `None` if none are recorded."""
    claude = {"llm_request": "response.model_output", "tool": "new_context"}.get(_claude(attributes))
    found = (
        _first(attributes, _FIRST_OUTPUTS)
        or (_first(attributes, (claude,)) if claude else None)
        or _told(attributes, _GENAI_OUTPUTS)
        or _first(attributes, ("traceloop.entity.output",))
        or _numbered(attributes, "completion")
        or _first(attributes, _ADK_OUTPUTS)
        or _vercel(attributes, "ai.response.", _VERCEL_OUTPUTS)
        or _first(attributes, _LATER_OUTPUTS)
        or _documents(attributes)
    )
    if found is not None and found != "":
        return found
    written = _event(events, "gen_ai.content.completion", "gen_ai.completion")
    written = written or _said(events, {"gen_ai.choice": "assistant"})
    if not written and _claude(attributes) == "tool":
        written = next((v for k in ("output", "content", "diff") if (v := _event(events, "tool.output", k))), None)
    return written or None


def usage_of(attributes: Attributes) -> dict[str, Json] | None:
    """Returns {input_tokens, output_tokens} of a span, those of the first convention that has any; else `None`."""
    for number, (inputs, outputs) in enumerate(_USAGE):
        if number == 2 and _claude(attributes) == "llm_request":
            counts = [_count(attributes, (key,)) for key in _CLAUDE_INPUT_TOKENS]
            told = None if counts[0] is None else sum(c or 0 for c in counts)
            found = {"input_tokens": told, "output_tokens": _count(attributes, ("output_tokens",))}
            if any(v is not None for v in found.values()):
                return found
        found = {"input_tokens": _count(attributes, inputs), "output_tokens": _count(attributes, outputs)}
        if any(v is not None for v in found.values()):
            return found
    return None


def _count(attributes: Attributes, keys: Iterable[str]) -> Json:
    for key in keys:
        try:
            return int(unpack(attributes[key]))
        except (KeyError, TypeError, ValueError):
            continue
    return None


def _first(attributes: Attributes, keys: Iterable[str]) -> Json:
    """Returns the value of the first key that has one which is neither empty nor withheld."""
    values = (unpack(attributes[key]) for key in keys if key in attributes)
    return next((v for v in values if v and v != _REDACTED), None)


def _told(attributes: Attributes, keys: Iterable[str]) -> Json:
    return next((attributes[key] for key in keys if key in attributes), None)


def _claude_inputs(attributes: Attributes) -> Json:
    kind = _claude(attributes)
    if kind == "tool":
        details = {k: v for k in _CLAUDE_DETAILS if (v := _first(attributes, (k,)))}
        return _first(attributes, ("tool_input",)) or details
    keys = {"interaction": ("user_prompt", "new_context"), "llm_request": ("new_context",)}
    return _first(attributes, keys.get(kind, ()))


def _vercel(attributes: Attributes, prefix: str, keys: Iterable[str]) -> Json:
    if unpack(attributes.get("ai.operationId")) not in ("ai.generateText.doGenerate", "ai.streamText.doStream"):
        return _first(attributes, keys)
    found = {key.removeprefix(prefix): unpack(unpack(v)) for key, v in attributes.items() if key.startswith(prefix)}
    if isinstance(found.get("tools"), list):
        found["tools"] = [unpack(tool) for tool in found["tools"]]
    return found


def _numbered(attributes: Attributes, part: str) -> Json:
    """Returns the numbered messages of Traceloop: a text if there is only one without a role, else chat messages."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if (match := _MESSAGES.fullmatch(key)) and match[1] == part:
            message = found.setdefault(int(match[2]), {"role": "assistant" if part == "completion" else "user"})
            if match[4] is None:
                message[match[3]] = unpack(value)
            else:
                message.setdefault("tool_calls", {}).setdefault(int(match[4]), {})[match[5]] = unpack(value)
    messages = [
        {
            "content": None,
            **m,
            **({"tool_calls": [c for _, c in sorted(m["tool_calls"].items())]} if "tool_calls" in m else {}),
        }
        for _, m in sorted(found.items())
    ]
    return {"messages": messages} if messages else None


def _documents(attributes: Attributes) -> Json:
    found: dict[int, dict[str, Json]] = {}
    for key, value in attributes.items():
        if match := _DOCUMENTS.fullmatch(key):
            given = unpack(value)
            if match[2] != "metadata":
                found.setdefault(int(match[1]), {})[match[2]] = given
            elif isinstance(given, Mapping) and given.get("doc_uri") is not None:
                found.setdefault(int(match[1]), {})["doc_uri"] = given["doc_uri"]
    return [document for _, document in sorted(found.items())] or None


def _event(events: Iterable[Mapping[str, Any]], name: str, key: str) -> Json:
    told = (unpack((e.get("attributes") or {}).get(key)) for e in events if e.get("name") == name)
    return next((value for value in told if value and value != _REDACTED), None)


def _said(events: Iterable[Mapping[str, Any]], roles: Mapping[str, str]) -> list[dict[str, Json]]:
    """Returns the messages that events hold."""
    found = ((roles[str(e["name"])], e.get("attributes") or {}) for e in events if e.get("name") in roles)
    return [
        {
            "role": unpack(a.get("role")) if role == "assistant" and a.get("role") else role,
            "content": unpack(a["content"]),
        }
        for role, a in found
        if a.get("content")
    ]

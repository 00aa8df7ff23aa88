"""Requests and responses of chat agents, in the forms that products log, and their text.

A request is text, `{messages: [{role, content}]}` (OpenAI chat completions), `{query, history}` or `{input: [...]}`
(OpenAI responses). A response is text, `{choices: [{message}]}`, `{messages: [...]}`, `{content}` (also Anthropic),
`{output: [...]}`, `{message}` (LlamaIndex, Ollama), `{output: {message}}` (Bedrock), `{candidates: [{content}]}`
(Gemini), `{generations: [[{message}]]}` (LangChain) or a list whose first element is one of these. The text of a
request of any other form is its JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from ..errors import RowError
from ..json import Json
from ..values import parse_json


def parsed(value: Json, known: Sequence[str] | None) -> Json:
    """Parses a request or response that may be JSON text, as in tables of logged calls.

    Only the text of an object with one of the `known` keys is parsed: an answer that happens to be JSON stays text.
    Without `known`, the text of any object is parsed.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        found = parse_json(value.encode("utf-8", "surrogateescape"))
    except RowError:
        return value
    first = found[0] if isinstance(found, list) and found else found
    if not isinstance(first, dict):
        return value
    return found if known is None or not first.keys().isdisjoint(known) else value


REQUEST_KEYS = ("messages", "query", "input")
RESPONSE_KEYS = ("choices", "messages", "content", "output", "candidates")
"""Keys that identify JSON text as a request or as a response."""


def agent_input(request: Json) -> Json:
    """Converts a request to the input of a chat agent: text becomes a user message, anything else is unchanged."""
    return {"messages": [{"role": "user", "content": request}]} if isinstance(request, str) else request


def responses_input(request: Json) -> Json:
    """Converts a request to the input of a responses agent: text and messages become its `input`."""
    given = agent_input(request)
    if isinstance(given, Mapping) and "input" not in given and _messages(given.get("messages")):
        return {"input" if k == "messages" else k: v for k, v in given.items()}
    return given


def request_text(request: Json) -> Json:
    """Returns the visible text of a request: that of its only or last message, or the JSON text of several.

    The history of a `query` is left out. The text of a request of unknown form is its JSON text.
    """
    if request is None or isinstance(request, str):
        return request
    found = _known_text(request) if isinstance(request, Mapping) else None
    return orjson.dumps(request).decode() if found is None else found


def _known_text(request: Mapping[str, Json]) -> str | None:
    messages = _messages(request.get("messages")) or _messages(request.get("input"))
    contents = [m.get("content") for m in messages]
    if len(contents) > 1 and all(isinstance(c, str) for c in contents):
        return orjson.dumps(messages).decode()
    if contents and isinstance(contents[-1], str):
        return contents[-1]
    query = request.get("query")
    return query if isinstance(query, str) else None


def response_text(response: Json) -> Json:
    """Returns the text of a response; a response of unknown form is returned unchanged."""
    if isinstance(response, list) and response:
        return response_text(response[0])
    if not isinstance(response, Mapping):
        return response
    if response.get("content") is not None:
        return _text(response["content"], response)
    if messages := _answers(response):
        said = messages[-1] if "messages" in response else messages[0]
        return _text(_content(said), response)
    said = [m for m in _messages(response.get("output")) if m.get("type", "message") == "message" and "content" in m]
    return _text(said[-1]["content"], response) if said else response


def _answers(response: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """Returns the messages of a response: those of its choices, or all that it lists."""
    if choices := _messages(response.get("choices")):
        return _objects(c.get("message", {"content": c.get("text")}) for c in choices)
    if messages := _messages(response.get("messages")):
        return messages
    if candidates := _messages(response.get("candidates")):
        return [_chat_message(c) for c in _objects(c.get("content") for c in candidates)]
    generations: Any = response.get("generations")
    while isinstance(generations, list) and generations and isinstance(generations[0], list):
        generations = generations[0]
    if generations := _messages(generations):
        return _objects(g.get("message", {"content": g.get("text")}) for g in generations)
    output = response.get("output")
    return _objects([response.get("message"), output.get("message") if isinstance(output, Mapping) else None])


def _content(message: Mapping[str, Json]) -> Json:
    """Returns the content of a message: its text or blocks, or the transcript of what was spoken."""
    audio = message.get("audio")
    spoken = audio.get("transcript") if isinstance(audio, Mapping) else None
    return next((v for v in (message.get("content"), message.get("blocks"), spoken) if v is not None), None)


def tool_calls_of(response: Json) -> list[dict[str, Json]]:
    """Lists the tool calls in a response, as {name, arguments}.

    They are `tool_calls` of messages, blocks of their content (`tool_use`, `toolUse`), or items of `output`.
    """
    if isinstance(response, list) and len(response) == 1:
        return tool_calls_of(response[0])
    if not isinstance(response, Mapping):
        return []
    calls: list[Mapping[str, Json]] = []
    for message in _answers(response) or [response]:
        calls += _messages(message.get("tool_calls"))
        blocks = _messages(message.get("content"))
        calls += [b for b in blocks if b.get("type") == "tool_use"] + _objects(b.get("toolUse") for b in blocks)
    calls += [item for item in _messages(response.get("output")) if item.get("type") in ("function_call", "mcp_call")]
    return [found for call in calls if (found := _plain_call(call)) is not None]


def _plain_call(call: Mapping[str, Json]) -> dict[str, Json] | None:
    """Returns {name, arguments} in a call, whose arguments may be JSON text; `None` for a call without a name."""
    function = call.get("function")
    source = function if isinstance(function, Mapping) else call
    given = next((source[key] for key in ("arguments", "args", "input") if source.get(key) is not None), {})
    return {"name": source["name"], "arguments": given} if source.get("name") else None


def trace_of(response: Json) -> Json:
    """Returns the trace in a response: under `trace`, or in the `databricks_output` of Databricks' endpoints."""
    if not isinstance(response, Mapping):
        return None
    beside = response.get("databricks_output")
    return response.get("trace") or (beside.get("trace") if isinstance(beside, Mapping) else None)


def chat_of(messages: Json) -> Json:
    """Converts messages of parts, as in OpenTelemetry's GenAI conventions and in Gemini's API, to chat messages.

    Text parts are joined, tool calls become `tool_calls`. Anything else is returned unchanged.
    """
    if isinstance(messages, Mapping):
        for key in ("contents", "content"):
            given = messages.get(key)
            if found := _messages(given if isinstance(given, list) else [given]):
                return {"messages": [_chat_message(m) for m in found]} if _have_parts(found) else messages
    found = _messages(messages)
    return {"messages": [_chat_message(m) for m in found]} if _have_parts(found) else messages


def _have_parts(messages: Sequence[Mapping[str, Json]]) -> bool:
    return any(isinstance(m.get("parts"), list) for m in messages)


def messages_of(request: Json) -> list[Mapping[str, Json]]:
    """Returns the messages of a request: under `messages` or `input`, or the only list in a list; none for text."""
    if isinstance(request, list):
        inner = request[0] if len(request) == 1 and isinstance(request[0], list) else request
        return _messages(inner)
    given = request if isinstance(request, Mapping) else {}
    return _messages(given.get("messages")) or _messages(given.get("input"))


def system_texts(request: Json) -> list[str]:
    """Returns the texts of the system messages of a request.

    They are messages, or the `system` of Anthropic and Bedrock, the `instructions` of OpenAI's responses, or the
    `system_instruction` in the `config` of Gemini: a text, or parts with texts.
    """
    told = [m for m in messages_of(request) if m.get("role", m.get("type")) in ("system", "developer")]
    found: list[Any] = [m.get("content") for m in told]
    if isinstance(request, Mapping):
        config = request.get("config")
        found += [request.get("system"), request.get("instructions")]
        found.append(config.get("system_instruction") if isinstance(config, Mapping) else None)
    parts = [f.get("parts") if isinstance(f, Mapping) else f for f in found]
    texts = [p if isinstance(p, str) else _text(p, None) for p in parts if p]
    return [text for text in texts if isinstance(text, str)]


def _chat_message(message: Mapping[str, Json]) -> dict[str, Json]:
    parts = [p for p in message.get("parts") or () if isinstance(p, Mapping)]
    texts = [str(p.get("content", p.get("text")) or "") for p in parts if p.get("type", "text") == "text"]
    given = [p.get("response", p.get("result")) for p in parts if p.get("type") == "tool_call_response"]
    texts += [g if isinstance(g, str) else orjson.dumps(g).decode() for g in given]
    calls = [
        {"id": p.get("id"), "function": {"name": p.get("name"), "arguments": p.get("arguments") or {}}}
        for p in parts
        if p.get("type") == "tool_call"
    ]
    asked = [p.get("function_call", p.get("functionCall")) for p in parts]
    calls += [
        {"id": c.get("id"), "function": {"name": c.get("name"), "arguments": c.get("args") or {}}}
        for c in asked
        if isinstance(c, Mapping)
    ]
    content = "".join(texts) if any(texts) or not calls else None
    return {"role": message.get("role"), "content": content, **({"tool_calls": calls} if calls else {})}


def _messages(value: Any) -> list[Mapping[str, Json]]:
    """Returns a list of objects; an empty list for any other value."""
    return value if isinstance(value, list) and all(isinstance(m, Mapping) for m in value) else []


def _objects(values: Iterable[Json]) -> list[Mapping[str, Json]]:
    return [v for v in values if isinstance(v, Mapping)]


def _text(content: Json, whole: Json) -> Json:
    """Returns the content of a message as text; `whole` if there is none (a message with only tool calls)."""
    if isinstance(content, list):
        parts = _objects(content)
        texts = [p.get("text") for p in parts if p.get("type", p.get("block_type", "text")) in ("text", "output_text")]
        texts = [t for t in texts if t is not None]
        if texts and all(isinstance(t, str) for t in texts):
            return "".join(map(str, texts))
    if content is None:
        return whole
    return content if isinstance(content, str) else orjson.dumps(content).decode()

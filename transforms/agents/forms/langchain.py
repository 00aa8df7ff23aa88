"""Reads the outputs of LangChain agents: messages and intermediate steps, as objects or dumped to JSON.

Supports messages of langchain-core, their `dumpd` and `model_dump` forms, and dicts with OpenAI's `role`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....schemas.conversation import usage_of
from ....schemas.instance import Usage

_OUTPUTS = ("output", "answer", "response", "result", "text")
_DOCUMENTS = ("context", "source_documents", "documents")


def answer_of(output: Any, output_key: str | None = None, sent: str | None = None) -> Any:
    """Converts an agent's output to a mapping with the keys of an answer.

    Args:
        output: Text, a message, or a state: a mapping with `messages`, or with the answer under `output`, `answer`,
            `response`, `result` or `text`.
        output_key: Key of the answer in the state, if it is another one.
        sent: Id of the last input message; only later messages are the agent's.

    Returns:
        A mapping with the keys of an answer, or the output unchanged if it has another form.
    """
    if isinstance(output, str):
        return {"response": output}
    if _kind(output) is not None:
        return _read_messages([output], None)
    if not isinstance(output, Mapping):
        return output
    key = output_key or next((k for k in _OUTPUTS if output.get(k) is not None), None)
    messages = output.get("messages")
    found = _read_messages(messages, sent) if isinstance(messages, Sequence) else {}
    if key is not None and (output_key or "response" not in found) and output.get(key) is not None:
        found["response"] = _read_text(output[key])
    steps = output.get("intermediate_steps")
    if steps is not None:
        found["predicted_trajectory"] = read_step_calls(steps)
    documents = next((output[k] for k in _DOCUMENTS if _are_documents(output.get(k))), None)
    if documents is not None and "retrieved_context" not in found:
        found["retrieved_context"] = read_chunks(documents)
    return found if "response" in found else output


def read_step_calls(steps: Any) -> Any:
    """Reads the tool calls of an executor's (action, observation) pairs; steps of another form are unchanged."""
    return [_step_call(step) for step in steps] if isinstance(steps, list | tuple) else steps


def text_of(content: Any) -> Any:
    """Returns the text of a message's content; content blocks are joined, other values are unchanged."""
    if isinstance(content, list | tuple):
        texts = [block.get("text") if isinstance(block, Mapping) else block for block in content]
        return "".join(text for text in texts if isinstance(text, str))
    return content


def read_chunks(documents: Iterable[Any]) -> list[dict[str, Any]]:
    """Converts retrieved documents to passages: their text, and the source in their metadata."""
    found = []
    for document in documents:
        metadata = _get(document, "metadata") or {}
        uri = next((metadata[k] for k in ("doc_uri", "source", "uri", "url") if metadata.get(k)), None)
        found.append({"content": _get(document, "page_content"), **({"doc_uri": str(uri)} if uri else {})})
    return found


def sum_tokens(usages: Iterable[Any]) -> dict[str, int] | None:
    """Sums the tokens of several model calls, for each kind that all calls report; `None` if there is no such kind."""
    total = Usage.total(usage_of(usage) for usage in usages)
    counts = {} if total is None else {"input_tokens": total.input_tokens, "output_tokens": total.output_tokens}
    return {name: count for name, count in counts.items() if count is not None} or None


def _read_messages(messages: Sequence[Any], sent: str | None) -> dict[str, Any]:
    at = next((i for i, m in enumerate(messages) if sent is not None and _get(m, "id") == sent), -1)
    new = messages[at + 1 :]
    own = [m for m in new if _kind(m) == "ai"]
    found: dict[str, Any] = {"predicted_trajectory": [call for m in own for call in _calls(m)]}
    if own:
        found["response"] = text_of(_get(own[-1], "content"))
    if usage := sum_tokens(_get(m, "usage_metadata") for m in own):
        found["usage"] = usage
    documents = [d for m in new if _are_documents(made := _get(m, "artifact")) for d in made]
    return {**found, "retrieved_context": read_chunks(documents)} if documents else found


def _read_text(value: Any) -> Any:
    return text_of(_get(value, "content")) if _kind(value) is not None else text_of(value)


def _calls(message: Any) -> list[Any]:
    calls = _get(message, "tool_calls") or []
    bad = _get(message, "invalid_tool_calls") or []
    return [_call(call) for call in (*calls, *bad)]


def _call(call: Any) -> Any:
    name, given = _get(call, "name"), _get(call, "args")
    return call if name is None else {"tool_name": name, "tool_input": {} if given is None else given}


def _step_call(step: Any) -> Any:
    action = step[0] if isinstance(step, list | tuple) and step else step
    name, given = _get(action, "tool"), _get(action, "tool_input")
    return step if name is None else {"tool_name": name, "tool_input": {} if given is None else given}


def _kind(message: Any) -> str | None:
    """Returns "ai", "human", "tool", "system" ... for a message, `None` for anything else."""
    role = _get(message, "role")
    kind = {"assistant": "ai", "user": "human"}.get(role, role) if isinstance(role, str) else _get(message, "type")
    if not isinstance(kind, str) or _get(message, "content") is None:
        return None
    return "ai" if kind == "AIMessageChunk" else kind


def _are_documents(value: Any) -> bool:
    listed = isinstance(value, list | tuple) and len(value) > 0
    return listed and all(_get(v, "page_content") is not None for v in value)


def _get(thing: Any, name: str) -> Any:
    """Returns an attribute of an object, or the key of its dumped form."""
    if isinstance(thing, Mapping):
        inner = thing.get("kwargs")
        return (
            inner.get(name) if isinstance(inner, Mapping) and ("lc" in thing or name not in thing) else thing.get(name)
        )
    return None if isinstance(thing, str | list | tuple) else getattr(thing, name, None)

"""Reads chat completions of OpenAI and compatible servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def answer_of(completion: Any) -> dict[str, Any]:
    """Reads the answer of a chat completion: the first choice's message, its tool calls (a list, maybe empty), usage.

    A message without text is a refusal or consists only of tool calls.
    """
    choices = completion.get("choices") if isinstance(completion, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(message, Mapping):
        return {}
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
    calls, usage = message.get("tool_calls") or [], completion.get("usage")
    text = content if content is not None else message.get("refusal")
    found = {"response": "" if text is None and calls else text, "predicted_trajectory": calls, "usage": usage}
    return {key: value for key, value in found.items() if value is not None}

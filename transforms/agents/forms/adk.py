"""Collects the events of one turn of an ADK agent and builds the turn from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....schemas.errors import AgentError
from ....schemas.formats.adk import add_grounding
from ....schemas.json import Json

TOKENS: Mapping[str, str] = {
    "prompt": "prompt_token_count",
    "tool_use": "tool_use_prompt_token_count",
    "cached": "cached_content_token_count",
    "candidates": "candidates_token_count",
    "reasoning": "thoughts_token_count",
}
"""Kinds of tokens and their names in ADK's usage metadata. Input is prompt + tool_use, output is candidates +
reasoning; cached is part of prompt."""


class ModelError(AgentError):
    """An agent's model answered with an error.

    Attributes:
        code: The error code, an int if it is a number.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code: int | str = int(code) if code.isdecimal() else code


class TurnEvents:
    """Collects the events of one turn.

    Attributes:
        final: Text of the final response; `None` if there is none, "" if it has no text.
        failure: The last error of an event.
        context: Passages of retrieval tools and of grounding.
    """

    def __init__(self, retrieving: frozenset[str]) -> None:
        self.final: str | None = None
        self.failure: ModelError | None = None
        self.context: list[dict[str, Json]] = []
        self._retrieving = retrieving
        self._steps: list[dict[str, Json]] = []
        self._tokens: dict[str, int] = {}
        self._calls_of_models = 0
        self._ids: dict[str, str] = {}
        self._final_author = ""

    def see(self, event: Any) -> None:
        """Adds one event."""
        if event.partial or event.author == "user":
            return
        if event.error_code:
            self.failure = ModelError(str(event.error_code), event.error_message or "")
        steps = [step for part in self._parts(event) for step in self._step(event.author, part)]
        if event.is_final_response() and event.content is not None and event.content.parts:
            text = "\n".join(s["value"] for s in steps if s["kind"] == "text")
            if text or not self.final:
                self._replace_final(event.author, text)
            steps = [s for s in steps if s["kind"] != "text"]
        if event.grounding_metadata is not None:
            steps = add_grounding(
                steps, event.author, event.grounding_metadata.model_dump(mode="json", exclude_none=True)
            )
        self._steps += steps
        self._count(event)
        self.context += [chunk for chunk in map(_read_chunk, _chunks(event)) if chunk]

    def turn(self, prompt: str, content: Json, seconds: float) -> dict[str, Json]:
        """Builds the turn in the form that schemas/conversation.py reads."""
        calls = [s for s in self._steps if s["kind"] == "call"]
        turn: dict[str, Json] = {
            "prompt": prompt,
            "predicted_trajectory": [{"tool_name": s["tool_name"], "tool_input": s["value"]} for s in calls],
            "latency_in_seconds": seconds,
            "extra": {"inference_calls": self._calls_of_models, "tokens": self._tokens},
        }
        given = _sum(self._tokens, "prompt", "tool_use"), _sum(self._tokens, "candidates", "reasoning")
        optional = {
            "response": self.final or "",
            "content": content,
            "steps": self._steps or None,
            "usage": {"input_tokens": given[0], "output_tokens": given[1]} if self._tokens else None,
        }
        return {**turn, **{k: v for k, v in optional.items() if v is not None}}

    def _replace_final(self, author: str, text: str) -> None:
        if self.final:  # an earlier final response (of a sub-agent, say) was said on the way
            self._steps.append({"kind": "text", "author": self._final_author, "value": self.final})
        self.final, self._final_author = text, author

    def _parts(self, event: Any) -> list[Any]:
        return list((event.content and event.content.parts) or ())

    def _step(self, author: str, part: Any) -> list[dict[str, Json]]:
        steps: list[dict[str, Json]] = []
        if part.text and not part.thought:
            steps.append({"kind": "text", "author": author, "value": part.text})
        for kind, function in (("call", part.function_call), ("result", part.function_response)):
            if function is not None:
                value = function.args if kind == "call" else function.response
                step = {"kind": kind, "author": author, "value": value, "tool_name": function.name or ""}
                steps.append(step if function.id is None else {**step, "id": self._id(function.id)})
                if kind == "result" and function.name in self._retrieving:
                    self.context += _read_passages(function.response)
        return steps

    def _id(self, given: str) -> str:
        """Returns a call's id; ids that ADK made up ("adk-...", random) become numbers, so that runs are the same."""
        return self._ids.setdefault(given, str(len(self._ids) + 1)) if given.startswith("adk-") else given

    def _count(self, event: Any) -> None:
        usage = event.usage_metadata
        self._calls_of_models += usage is not None or event.model_version is not None
        for name, attribute in TOKENS.items():
            count = getattr(usage, attribute, None)
            if count is not None:
                self._tokens[name] = self._tokens.get(name, 0) + count


def find_retrieval_tools(agent: Any) -> frozenset[str]:
    """Returns the names of the retrieval tools of an agent and its sub-agents."""
    names, stack = set(), [agent]
    while stack:
        one = stack.pop()
        stack += getattr(one, "sub_agents", None) or ()
        for tool in getattr(one, "tools", None) or ():
            if any(kind.__name__ == "BaseRetrievalTool" for kind in type(tool).__mro__):
                names.add(tool.name)
    return frozenset(names)


def _chunks(event: Any) -> list[Any]:
    return list(getattr(event.grounding_metadata, "grounding_chunks", None) or ())


def _read_chunk(chunk: Any) -> dict[str, Json] | None:
    source = chunk.retrieved_context or chunk.web
    if source is None:
        return None
    text = getattr(source, "text", None) or getattr(source, "title", None) or ""
    return {"content": text, "doc_uri": getattr(source, "uri", None)}


def _read_passages(response: Json) -> list[dict[str, Json]]:
    """Reads the passages of a retrieval tool's result: a text, a mapping, or a list of them."""
    found = response.get("result", response) if isinstance(response, Mapping) else response
    return [p if isinstance(p, dict) else {"content": str(p)} for p in (found if isinstance(found, list) else [found])]


def _sum(counts: Mapping[str, int], *names: str) -> int | None:
    known = [counts[n] for n in names if n in counts]
    return sum(known) if known else None

"""The agent type `queryable`: an object with a `query` method, such as a Vertex AI reasoning engine."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from .base import Agent, Ask, load_target, register
from .forms.langchain import read_step_calls, text_of


@register("agent", "queryable")
@dataclass(frozen=True)
class QueryableAgent(Agent):
    """Calls `target.query(input=prompt)`.

    The answer is text, or a mapping with `output` (text, or LangChain's list of content blocks) and optionally
    `intermediate_steps`: LangChain's (AgentAction, observation) pairs, as objects or dumped to JSON, which become the
    predicted trajectory. A mapping with the keys of a function's answer is used unchanged.

    Attributes:
        target: The object, or `"module:name"` of it.
    """

    target: Any

    def __post_init__(self) -> None:
        found = load_target(self.target)
        if isinstance(found, type) or not callable(getattr(found, "query", None)):
            what = f"the class {found.__name__}" if isinstance(found, type) else f"{type(found).__name__} without query"
            shown = self.target if isinstance(self.target, str) else "the target"
            raise ConfigError(
                f"{shown} is {what}", where="agent.target", allowed="an object with a method query(input=...)"
            )

    def connect(self) -> Ask:
        query = load_target(self.target).query

        def ask(given: Json, key: str) -> Any:
            return query(input=given)

        async def ask_async(given: Json, key: str) -> Any:
            return await query(input=given)

        return ask_async if inspect.iscoroutinefunction(query) else ask

    def read(self, raw: Any) -> Any:
        if not isinstance(raw, Mapping) or "output" not in raw:
            return raw
        answer = {k: v for k, v in raw.items() if k not in ("output", "intermediate_steps", "input")}
        answer["response"] = text_of(raw["output"])
        if (steps := raw.get("intermediate_steps")) is not None:
            answer["predicted_trajectory"] = read_step_calls(steps)
        return answer

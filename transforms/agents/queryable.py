"""An agent object with a `query` method, as Vertex's reasoning engines and LangChain's executors have it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.instance import Json
from .base import Agent, Ask, loaded, register


@register("agent", "queryable")
@dataclass(frozen=True)
class QueryableAgent(Agent):
    """Calls `target.query(input=prompt)`.

    The answer is text, or a mapping with `output` (text, or LangChain's list of content blocks) and, where the agent
    reports them, `intermediate_steps`: LangChain's (AgentAction, observation) pairs, as objects or dumped to JSON,
    which become the predicted trajectory. A mapping with the keys of a function's answer is taken as it is.

    Attributes:
        target: The object, or `"module:name"` of it.
    """

    target: Any

    def __post_init__(self) -> None:
        found = loaded(self.target)
        if isinstance(found, type) or not callable(getattr(found, "query", None)):
            what = f"the class {found.__name__}" if isinstance(found, type) else f"{type(found).__name__} without query"
            shown = self.target if isinstance(self.target, str) else "the target"
            raise ConfigError(
                f"{shown} is {what}", where="agent.target", allowed="an object with a method query(input=...)"
            )

    def connect(self) -> Ask:
        query = loaded(self.target).query

        def ask(given: Json, key: str) -> Any:
            return query(input=given)

        async def ask_async(given: Json, key: str) -> Any:
            return await query(input=given)

        return ask_async if inspect.iscoroutinefunction(query) else ask

    def read(self, raw: Any) -> Any:
        if not isinstance(raw, Mapping) or "output" not in raw:
            return raw
        answer = {k: v for k, v in raw.items() if k not in ("output", "intermediate_steps", "input")}
        answer["response"] = _text(raw["output"])
        steps = raw.get("intermediate_steps")
        if steps is not None:
            answer["predicted_trajectory"] = [_call(s) for s in steps] if isinstance(steps, (list, tuple)) else steps
        return answer


def _call(step: Any) -> Any:
    """The tool call of a step; the step itself where it has none, for the trajectory's reader to refuse."""
    action = step[0] if isinstance(step, (list, tuple)) and step else step
    if isinstance(action, Mapping):
        action = action.get("kwargs") if isinstance(action.get("kwargs"), Mapping) else action
        name, arguments = action.get("tool"), action.get("tool_input")  # type: ignore[union-attr]
    else:
        name, arguments = getattr(action, "tool", None), getattr(action, "tool_input", None)
    return step if name is None else {"tool_name": name, "tool_input": {} if arguments is None else arguments}


def _text(output: Any) -> Any:
    """The text of an output; LangChain's content blocks are joined."""
    if isinstance(output, (list, tuple)):
        texts = [b.get("text") if isinstance(b, Mapping) else b for b in output]
        return "".join(t for t in texts if isinstance(t, str))
    return output

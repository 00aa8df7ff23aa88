"""The agent type `function`: a Python function."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ..registry import is_async, parameters_of
from .base import Agent, Ask, load_target, register

_ROW_NAMES = ("row", "instance", "example")
_KEY = "idempotency_key"


@register("agent", "function")
@dataclass(frozen=True)
class FunctionAgent(Agent):
    """Calls a Python function with the prompt or the whole row.

    The function gets the whole row, a dict of all its columns and standard fields, if its first parameter is called
    `row`, `instance` or `example` or is annotated as dict or Mapping; otherwise it gets the prompt. If it has a
    parameter `idempotency_key`, it gets a text that is the same for every attempt of a call. It may be a coroutine
    function; other functions run on threads. It returns text, or a mapping with response, predicted_trajectory,
    retrieved_context, usage, latency_in_seconds and trace.

    Attributes:
        target: The function (or any callable object), or `"module:name"` of it.
        gives: "prompt" or "row", whatever the parameter; default: "auto", as said above.
    """

    target: Any
    gives: Literal["auto", "prompt", "row"] = "auto"

    def __post_init__(self) -> None:
        found = load_target(self.target)
        if not callable(found) or isinstance(found, type):
            what = f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__
            shown = self.target if isinstance(self.target, str) else "the target"
            raise ConfigError(f"{shown} is {what}", where="agent.target", allowed="a function, or a callable object")
        if (missing := _explain_mismatch(found)) is not None:
            raise ConfigError(
                f"the function cannot be called with one argument, the prompt or the row: {missing}",
                where="agent.target",
            )

    @property
    def whole_row(self) -> bool:
        if self.gives != "auto":
            return self.gives == "row"
        parameters = parameters_of(load_target(self.target))
        first = next((p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)), None)
        return first is not None and (first.name in _ROW_NAMES or _is_mapping(first.annotation))

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.whole_row else ("prompt",)

    def connect(self) -> Ask:
        function = load_target(self.target)
        keyed = _KEY in parameters_of(function)

        def ask(given: Json, key: str) -> Any:
            return function(given, idempotency_key=key) if keyed else function(given)

        async def ask_async(given: Json, key: str) -> Any:
            return await ask(given, key)

        return ask_async if is_async(function) else ask


def _explain_mismatch(function: Any) -> str | None:
    """Explains why a function cannot be called with one argument; `None` if it can or has no signature."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # a decorator may supply further arguments
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(None, **({_KEY: ""} if _KEY in signature.parameters else {}))
    except TypeError as error:
        return str(error)
    return None


def _is_mapping(annotation: Any) -> bool:
    if isinstance(annotation, str):
        name = annotation.partition("[")[0].rpartition(".")[2].strip()
        return name in ("dict", "Dict", "Mapping", "MutableMapping")
    kind = typing.get_origin(annotation) or annotation
    return isinstance(kind, type) and kind is not inspect.Parameter.empty and issubclass(kind, Mapping)

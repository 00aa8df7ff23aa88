"""The callable that the engine calls: a user's function whose answers are read and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...schemas.calls import Call
from ...schemas.json import Json


def reading(
    ask: Callable[..., Any], given: Callable[[Call], tuple[Any, ...]], read: Callable[[Any, Call], Json]
) -> Callable[[Call], Any]:
    """Builds a callable of a call: a coroutine function if `ask` is one, with the `close` of `ask` if it has one.

    Args:
        ask: A coroutine function, or a function that may block and may return an awaitable.
        given: Returns the arguments of `ask` for a call.
        read: Returns the part of the result that is kept; raises if the result is no answer.
    """

    def call(call: Call) -> Any:
        raw = ask(*given(call))
        return later(raw, call) if inspect.isawaitable(raw) else read(raw, call)

    async def later(raw: Any, call: Call) -> Json:
        return read(await raw, call)

    async def call_async(call: Call) -> Json:
        return read(await ask(*given(call)), call)

    made: Any = call_async if inspect.iscoroutinefunction(ask) else call
    made.close = getattr(ask, "close", None)
    return made

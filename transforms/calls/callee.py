"""What the engine calls: somebody's function, with its answers read and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...schemas.calls import Call
from ...schemas.json import Json


def reading(
    ask: Callable[..., Any], given: Callable[[Call], tuple[Any, ...]], read: Callable[[Any, Call], Json]
) -> Callable[[Call], Any]:
    """A callable of a call; a coroutine function where `ask` is one, with `ask`'s `close` where it has one.

    Args:
        ask: A coroutine function, or a function that may block and may return an awaitable.
        given: What `ask` is given for a call.
        read: What is kept of what it returned; raises where that is no answer.
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

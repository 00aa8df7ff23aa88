"""Tasks that begin at once, each in a context of its own."""

from __future__ import annotations

import asyncio
from asyncio import _enter_task, _leave_task  # type: ignore[attr-defined]  # documented, "Extending" of asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


class Starter:
    """Starts tasks of a loop whose first step is taken at once, as by `eager_start` of Python 3.12.

    A task of asyncio's asks its loop for its first step in the loop's next round: after all that is ready now.

    Args:
        loop: Whose tasks they are; `start` is called on its thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context: Context | None = None
        self._step: Callable[[], None] = _nothing

    def start(self, coroutine: Coroutine[Any, Any, None], name: str, context: Context) -> None:
        """Starts a task that runs in `context`, and nothing else; another task, which starts it, goes on afterwards."""
        loop, self._context = self._loop, context
        loop.call_soon = self._asked  # type: ignore[method-assign]
        try:
            asyncio.Task(coroutine, loop=loop, name=name, context=context)
        finally:
            del loop.call_soon
            step, self._step, self._context = self._step, _nothing, None
        outer = asyncio.current_task(loop)
        if outer is None:
            context.run(step)
            return
        _leave_task(loop, outer)
        try:
            context.run(step)
        finally:
            _enter_task(loop, outer)

    def _asked(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        if context is not None and context is self._context:
            self._step = callback
            return None
        return type(self._loop).call_soon(self._loop, callback, *args, context=context)  # not the task: a finalizer


def _nothing() -> None: ...

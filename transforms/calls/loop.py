"""The event loop of the calls, whose tasks begin at once, each in a context of its own."""

from __future__ import annotations

import asyncio
from asyncio import _enter_task, _leave_task  # type: ignore[attr-defined]  # documented, "Extending" of asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop, and tasks whose first step is taken at once, as by `eager_start` of Python 3.12.

    A task of asyncio's asks its loop for its first step in the loop's next round: after all that is ready now.

    Attributes:
        ended: Whether the loop or its process is ending: calls neither begin nor come to anything.
    """

    ended = False

    _begun: Context | None = None
    _step: Callable[[], None] | None = None

    def begin(self, coroutine: Coroutine[Any, Any, None], name: str, context: Context) -> None:
        """Starts a task that runs in `context`, and nothing else; another task, which starts it, goes on afterwards."""
        self._begun = context
        try:
            asyncio.Task(coroutine, loop=self, name=name, context=context)
        finally:
            step, self._step, self._begun = self._step, None, None
        assert step is not None
        outer = asyncio.current_task(self)
        if outer is None:
            context.run(step)
            return
        _leave_task(self, outer)
        try:
            context.run(step)
        finally:
            _enter_task(self, outer)

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        """As in asyncio, but for its checks in debug mode; what a task asks for that begins is kept for `begin`."""
        if context is not None and context is self._begun:
            self._step = callback
            return None
        self._check_closed()  # type: ignore[attr-defined]
        return self._call_soon(callback, args, context)  # type: ignore[attr-defined]

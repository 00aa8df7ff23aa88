"""The event loop of the calls, whose tasks begin at once, each in a context of its own.

Private API of asyncio in use, all of it in Python 3.11 to 3.13; `tests/transforms/calls/test_loop.py` fails if it
changes:

- `asyncio.Task` schedules its first step by `loop.call_soon(step, context=context)` while it is constructed. If it no
  longer did, `begin` would find no step (its assertion fails at the first call).
- `asyncio._enter_task` and `_leave_task` set the current task. Without them a task that starts another one raises
  "Cannot enter into task" at the first nested call.
- `BaseEventLoop._check_closed` and `_call_soon` are the parts of `call_soon` without the checks of debug mode. If they
  go, `call_soon` can call `super().call_soon`, which differs in debug mode only.
"""

from __future__ import annotations

import asyncio
from asyncio import _enter_task, _leave_task  # type: ignore[attr-defined]  # documented, "Extending" of asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop whose tasks take their first step at once, as with `eager_start` of Python 3.12.

    An ordinary task takes its first step in the next round of the loop, after all callbacks that are ready now.

    Attributes:
        ended: Whether the loop or its process is ending: no call begins, and no outcome counts.
    """

    ended = False

    _begun: Context | None = None
    _step: Callable[[], None] | None = None

    def begin(self, coroutine: Coroutine[Any, Any, None], name: str, context: Context) -> None:
        """Starts a task in `context` and runs it up to its first await; may be called from another task."""
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
        """As in asyncio without the checks of debug mode; keeps the first step of a task that `begin` creates."""
        if context is not None and context is self._begun:
            self._step = callback
            return None
        self._check_closed()  # type: ignore[attr-defined]
        return self._call_soon(callback, args, context)  # type: ignore[attr-defined]

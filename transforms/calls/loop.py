"""The event loop of this process, whose tasks begin at once, each in a context of its own.

All coroutines of users run on it: agents, judges and metrics.

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
import os
import threading
from asyncio import _enter_task, _leave_task  # type: ignore[attr-defined]  # documented, "Extending" of asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, ClassVar


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop whose tasks take their first step at once, as with `eager_start` of Python 3.12.

    An ordinary task takes its first step in the next round of the loop, after all callbacks that are ready now.

    Attributes:
        ended: Whether the loop or its process is ending: no call begins, and no outcome counts.
    """

    ended = False

    _here: ClassVar[Loop | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _pid = -1
    _thread: threading.Thread | None = None
    _begun: Context | None = None
    _step: Callable[[], None] | None = None

    @classmethod
    def here(cls) -> Loop:
        """Returns the loop of this process. It lives as long as the process: clients of coroutines are bound to it.

        It runs on a daemon thread, so that an abandoned call never keeps the process alive. A fork gets its own.
        """
        with cls._lock:
            loop = cls._here
            if loop is not None and loop._runs() and loop.ended:
                loop.call_soon_threadsafe(loop.stop)  # `end` was called, but the process did not end
            if loop is None or loop.ended or not loop._runs():
                loop = cls._here = cls()
                loop._pid, loop._thread = (
                    os.getpid(),
                    threading.Thread(target=loop._run, name="evalbeam-loop", daemon=True),
                )
                loop._thread.start()
            return loop

    @classmethod
    def end(cls) -> None:
        """Starts no more calls and drops the outcomes of those in flight, since this process is ending.

        While the interpreter takes clients and threads away from an agent, its answers and errors say nothing about it.
        """
        if (loop := cls._here) is not None:  # without the lock: a thread that no longer exists may hold it
            loop.ended = True

    def forget(self) -> None:
        """Lets the next run start a new loop, since this one is blocked; it stops if it ever continues."""
        self.call_soon_threadsafe(self.stop)
        with Loop._lock:
            if Loop._here is self:
                Loop._here = None

    def _runs(self) -> bool:
        return self._pid == os.getpid() and self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self)
        try:
            self.run_forever()  # until an agent stops the loop it runs on, or `forget` does
            self.ended = True
            for task in asyncio.all_tasks(self):
                task.cancel()
            self.run_until_complete(asyncio.sleep(0))
        finally:
            self.close()

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

"""Daemon threads for sync callables: as many as are needed at once, and one that hangs is replaced."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from typing import Any


class Job:
    """One attempt of a sync callable, which runs in a context of its own.

    Attributes:
        value: The value it returned.
        error: The exception it raised; `None` if it returned.
        seconds: Seconds it took.
    """

    __slots__ = ("_over", "argument", "call", "context", "error", "seconds", "tell", "value")

    def __init__(
        self, call: Callable[[Any], Any], argument: Any, tell: Callable[[Job], None], context: Context
    ) -> None:
        self.call, self.argument, self.tell, self.context = call, argument, tell, context
        self._over = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.seconds = 0.0

    def run(self) -> None:
        """Runs the callable on a worker thread; catches whatever it raises, `SystemExit` included."""
        began = time.monotonic()
        try:
            self.value = self.context.run(self.call, self.argument)
        except BaseException as error:  # an agent that calls sys.exit() is a failed row
            self.error = error
        self.seconds = time.monotonic() - began
        self._over = True

    def done(self) -> bool:
        """Returns whether it has ended; named as in `asyncio.Task`."""
        return self._over


class Threads:
    """Starts threads on demand, keeps them for the next job, and reports finished jobs to an event loop in batches.

    The executors of the standard library will not do: the interpreter joins their threads at its end, and an abandoned
    call would block that for ever. A job that hangs keeps its thread; since a thread is started whenever none is idle,
    the next job replaces it. `start`, `close` and `release` are called on the loop's thread.

    A worker appends its job to `_ended` before it reads `_reporting`, and `_collect` clears `_reporting` before it
    reads `_ended`. So a job is either seen by the `_collect` that is scheduled or schedules another one; two workers
    that both schedule one do no harm, since the second finds nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._ended: deque[Job] = deque()
        self._reporting = False
        self._idle = 0
        self._closed = False

    def start(self, job: Job) -> None:
        """Runs a job at once.

        Raises:
            BlockingIOError: The system starts no further thread.
        """
        if self._idle:
            self._idle -= 1
            self._jobs.put(job)
            return
        try:
            threading.Thread(target=self._work, args=(job,), name="evalbeam-call", daemon=True).start()
        except RuntimeError as error:
            raise BlockingIOError(errno.EAGAIN, "the system gives no further thread") from error

    def close(self) -> None:
        """Ends the idle threads; busy ones end with their job."""
        self._closed = True
        self.release()

    def release(self) -> None:
        """Ends the idle threads; later jobs start others."""
        for _ in range(self._idle):
            self._jobs.put(None)
        self._idle = 0

    def _work(self, job: Job | None) -> None:
        while job is not None:
            job.run()
            self._ended.append(job)
            del job
            if not self._report():
                return
            job = self._jobs.get()

    def _report(self) -> bool:
        if not self._reporting:
            self._reporting = True
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:  # the loop is closed: the process is ending
                return False
        return True

    def _collect(self) -> None:
        self._reporting = False
        while self._ended:
            job = self._ended.popleft()
            if self._closed:
                self._jobs.put(None)
            else:
                self._idle += 1
            job.tell(job)


class LoopExecutor(ThreadPoolExecutor):
    """Runs at once what coroutines run on threads (`asyncio.to_thread`, a LangChain tool that is a plain function).

    asyncio's own executor has a few threads for all calls of the process, and the interpreter waits for them to end.
    It is a `ThreadPoolExecutor` because `loop.set_default_executor` accepts nothing else.

    Args:
        threads: The threads on which the work runs.
    """

    def __init__(self, threads: Threads) -> None:
        super().__init__(1)  # it never starts a thread of its own
        self._own = threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Starts the work; `run_in_executor` calls this on the loop's thread."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._own.start(Job(lambda _: fn(*args, **kwargs), None, partial(_settle, future), Context()))
        return future


def _settle(future: Future[Any], job: Job) -> None:
    if job.error is None:
        future.set_result(job.value)
    else:
        future.set_exception(job.error)

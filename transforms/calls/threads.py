"""Daemon threads on which sync callables run: as many as are wanted at once, and one that hangs is replaced."""

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
        value: What it returned.
        error: What it raised, `None` where it returned.
        seconds: How long it took.
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
        """Runs on a worker thread; nothing it raises leaves it, `SystemExit` included."""
        began = time.monotonic()
        try:
            self.value = self.context.run(self.call, self.argument)
        except BaseException as error:  # an agent that calls sys.exit() is a failed row
            self.error = error
        self.seconds = time.monotonic() - began
        self._over = True

    def done(self) -> bool:
        """Whether it has ended, as a task says it."""
        return self._over


class Threads:
    """Starts threads on demand, keeps them for the next job, and reports finished jobs to an event loop in batches.

    Not an executor of the standard library: those are joined when the interpreter ends, which a abandoned call would
    block for ever. A job that hangs keeps its thread; since a thread is started whenever none is idle, it is replaced
    by the next job. `start`, `close` and `release` are called on the loop's thread.
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
            BlockingIOError: The system gives no further thread.
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
    """What coroutines hand to threads (`asyncio.to_thread`, a LangChain tool that is a plain function) runs at once.

    asyncio's own executor has a few threads for all calls of the process, and the interpreter waits for them to end.

    Args:
        threads: Where the work runs.
    """

    def __init__(self, threads: Threads) -> None:
        super().__init__(1)  # of its own threads none is ever started
        self._own = threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Starts the work; called on the loop's thread, as `run_in_executor` does."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._own.start(Job(lambda _: fn(*args, **kwargs), None, partial(_settle, future), Context()))
        return future


def _settle(future: Future[Any], job: Job) -> None:
    if job.error is None:
        future.set_result(job.value)
    else:
        future.set_exception(job.error)

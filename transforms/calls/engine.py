"""The engine of slow calls: one event loop for each process, one queue for each endpoint.

The process shares the loop and the queues' limits, nothing more: calls belong to the bundles that submit them.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ...schemas.calls import Call
from ...schemas.config.calls import CallPolicy
from ...schemas.errors import RunError
from .budget import Budget, SpendTracker
from .endpoint_client import EndpointClient
from .endpoint_queue import EndpointQueue
from .loop import Loop
from .threads import LoopExecutor, Threads

_SWITCH, _SWITCH_OF_PLACE = 0.0005, 0.0000025
"""Seconds for which a busy thread keeps the loop from calls that end; with thousands in flight it has always some to go
on with, and to change threads costs more."""
_YOUNG, _YOUNG_OF_PLACE = 10_000, 20
"""New objects between two looks for garbage: Python's default of 700 is less than the calls in flight have, and less
than 20 for each of them is what calls that begin and end come to by turns."""

_FEW = 10_000
"""Objects that are frozen on purpose are more: Python 3.12 itself begins with some hundred."""


class Engine:
    """The loop of this process, on a daemon thread: a abandoned call never keeps the process from ending."""

    _here: Engine | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = Loop()
        self._threads = Threads(self.loop)
        self.loop.set_default_executor(LoopExecutor(self._threads))
        self._clients: dict[Hashable, tuple[EndpointClient, int, str]] = {}
        self._queues: dict[str, EndpointQueue] = {}
        self._spending: dict[str, SpendTracker] = {}
        self._frozen = False  # by others, on purpose: it stays so
        self._switching, self._thresholds = sys.getswitchinterval(), gc.get_threshold()
        self._thread = threading.Thread(target=self._run, name="evalbeam-loop", daemon=True)
        self._thread.start()

    @classmethod
    def here(cls) -> Engine:
        """The engine of this process. It stays for the life of the process, since agents keep clients bound to it."""
        with cls._lock:
            engine = cls._here
            if engine is not None and engine.pid == os.getpid() and engine.loop.ended and engine.alive():
                engine.loop.call_soon_threadsafe(engine.loop.stop)  # the process did not end after all
            if engine is None or engine.pid != os.getpid() or engine.loop.ended or not engine.alive():
                engine = cls._here = Engine()
            return engine

    @classmethod
    def forget(cls, loop: asyncio.AbstractEventLoop) -> None:
        """Has the next run start a loop of its own, since this one is stuck; should it go on one day, it ends."""
        loop.call_soon_threadsafe(loop.stop)
        with cls._lock:
            if cls._here is not None and cls._here.loop is loop:
                cls._here = None

    @classmethod
    def end(cls) -> None:
        """Has no call begin any more, and none in flight come to anything, since this process is ending.

        What an agent answers, or how it fails, while clients and threads are taken away from it says nothing of it.
        """
        if (engine := cls._here) is not None:  # without the lock, which a thread that is no more may hold
            engine.loop.ended = True

    def alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def idle(self) -> bool:
        """Whether nobody uses the engine."""
        return not self._clients and not self._queues

    def spending(self, budget: Budget) -> SpendTracker:
        """The spending of a run in this process; all who call for the run share it."""
        with self._lock:
            return self._spending.setdefault(budget.folder, SpendTracker(budget))

    def join(
        self,
        token: Hashable,
        endpoint: str,
        connect: Callable[[], Callable[[Call], Any]],
        policy: CallPolicy,
        spending: SpendTracker | None = None,
    ) -> EndpointClient:
        """The client of the caller `token` stands for, made for the first of its DoFn instances in this process."""
        with self._lock:
            if not self._clients:
                self._remember()
            client, users, _ = self._clients.get(token, (None, 0, endpoint))
            if client is None:
                queue = self._queues.get(endpoint) or EndpointQueue(self.loop)
                self._queues[endpoint] = queue
                client = EndpointClient(partial(_connect, connect), policy, queue, spending)
            self._clients[token] = (client, users + 1, endpoint)
            self._limit(endpoint)
            return client

    def join_all(
        self,
        token: str,
        endpoints: Mapping[str, CallPolicy],
        connect: Callable[[str], Callable[[Call], Any]],
        spending: SpendTracker | None = None,
    ) -> dict[str, EndpointClient]:
        """The client of each of a caller's endpoints; each is left as `(token, endpoint)`."""
        return {
            name: self.join((token, name), name, partial(connect, name), policy, spending)
            for name, policy in endpoints.items()
        }

    def leave(self, token: Hashable) -> None:
        """One of a client's users has ended; with the last one the client is closed, with its last client the queue."""
        with self._lock:
            client, users, endpoint = self._clients.pop(token)
            if users > 1:
                self._clients[token] = (client, users - 1, endpoint)
                return
            client.close()
            self._limit(endpoint)
            if not self._clients:
                self._restore_tuning()

    def _remember(self) -> None:
        """Notes how this process does without calls."""
        self._frozen = self._frozen or gc.get_freeze_count() >= _FEW  # counting many takes a tenth of a second
        if not self._frozen:
            gc.freeze()  # a walk over all that Beam has loaded stops every call for a tenth of a second
        self._switching, self._thresholds = sys.getswitchinterval(), gc.get_threshold()

    def _tune_for_calls(self) -> None:
        """Has this process see to calls that end before all else."""
        places = sum(client.policy.max_in_flight for client, _, _ in self._clients.values())
        if self._thresholds[0]:  # else nobody wants garbage to be looked for
            gc.set_threshold(max(_YOUNG, _YOUNG_OF_PLACE * places), *self._thresholds[1:])
        sys.setswitchinterval(min(self._switching, max(_SWITCH, _SWITCH_OF_PLACE * places)))

    def _restore_tuning(self) -> None:
        if not self._frozen:
            gc.unfreeze()
        gc.set_threshold(*self._thresholds)
        sys.setswitchinterval(self._switching)

    def _limit(self, endpoint: str) -> None:
        self._tune_for_calls()
        queue = self._queues[endpoint]
        policies = [client.policy for client, _, name in self._clients.values() if name == endpoint]
        if policies:
            queue.post(queue.open, policies)
        else:
            del self._queues[endpoint]
            with suppress(RunError):
                queue.post(queue.close)
                if not self._queues:
                    queue.post(self._threads.release)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()  # for ever, unless an agent stops the loop it runs on
            self.loop.ended = True
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
        finally:
            self.loop.close()


def _connect(connect: Callable[[], Callable[[Call], Any]]) -> Callable[[Call], Any]:
    call = connect()
    _end_first()  # after the imports of `connect`, which may register handlers of their own
    return call


def _end_first() -> None:
    """Has `Engine.end` run before all that was registered for the end of the process so far: the last comes first."""
    atexit.unregister(Engine.end)
    atexit.register(Engine.end)

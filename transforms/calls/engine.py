"""The engine of slow calls: one event loop for each process, one queue for each endpoint.

Bundles of a process share the loop and the limits of the queues, nothing more: a call belongs to its bundle.
"""

from __future__ import annotations

import atexit
import gc
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
"""Switch interval in seconds, and seconds for each place of the windows if that is more (beyond 200 places). A short
interval lets the loop handle ended calls although another thread is busy; with thousands of calls in flight the loop
always has some to handle, and switching threads costs more than it gains."""
_YOUNG, _YOUNG_OF_PLACE = 10_000, 20
"""Objects allocated between two runs of the garbage collector, and objects for each place if that is more. Python's
default of 700 is less than the calls in flight hold, so that the collector would run for nothing; calls that begin and
end by turns allocate fewer than 20 objects each."""
_FEW = 10_000
"""Frozen objects from which on somebody has called `gc.freeze` on purpose: Python 3.12 starts with a few hundred."""


class Engine:
    """The queues and clients of all endpoints on one event loop."""

    _here: Engine | None = None
    _lock = threading.Lock()

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._threads = Threads(self.loop)
        self.loop.set_default_executor(LoopExecutor(self._threads))
        self._clients: dict[Hashable, tuple[EndpointClient, int, str]] = {}
        self._queues: dict[str, EndpointQueue] = {}
        self._spending: dict[str, SpendTracker] = {}
        self._frozen = False  # by others, on purpose: then it is left so
        self._switching, self._thresholds = sys.getswitchinterval(), gc.get_threshold()

    @classmethod
    def here(cls) -> Engine:
        """Returns the engine of this process: that of its loop."""
        with cls._lock:
            loop = Loop.here()
            if cls._here is None or cls._here.loop is not loop:
                cls._here = Engine(loop)
            return cls._here

    def idle(self) -> bool:
        """Returns whether nobody uses the engine."""
        return not self._clients and not self._queues

    def spending(self, budget: Budget) -> SpendTracker:
        """Returns the spending of a run in this process; all callers of the run share it."""
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
        """Returns the client of the caller `token`; the first of its DoFn instances in this process creates it."""
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
        """Returns the client of each endpoint of a caller; call `leave((token, endpoint))` for each of them."""
        return {
            name: self.join((token, name), name, partial(connect, name), policy, spending)
            for name, policy in endpoints.items()
        }

    def leave(self, token: Hashable) -> None:
        """Removes a user of a client. The last user closes the client, the last client closes the queue."""
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
        """Saves the settings of the interpreter before the first call, and freezes all objects that exist."""
        self._frozen = self._frozen or gc.get_freeze_count() >= _FEW  # once: counting a million objects takes 0.1 s
        if not self._frozen:
            gc.freeze()  # a full collection over all that Beam has loaded would stop every call for 0.1 s
        self._switching, self._thresholds = sys.getswitchinterval(), gc.get_threshold()

    def _tune_for_calls(self) -> None:
        """Tunes the interpreter for handling ended calls quickly; see the constants above."""
        places = sum(client.policy.max_in_flight for client, _, _ in self._clients.values())
        if self._thresholds[0]:  # else somebody has switched the collector off
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


def _connect(connect: Callable[[], Callable[[Call], Any]]) -> Callable[[Call], Any]:
    call = connect()
    _register_end()  # after the imports of `connect`, which may register handlers of their own
    return call


def _register_end() -> None:
    """Registers `Loop.end` as the last handler of the process so far: `atexit` runs the last one first."""
    atexit.unregister(Loop.end)
    atexit.register(Loop.end)

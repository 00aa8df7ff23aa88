"""The calls of one Beam bundle: submitted and taken back on its own thread, made by the engine.

A bundle's thread submits groups (batches of calls) and takes back those that are finished; everything else happens on
the thread of the engine's loop. A call belongs to the bundle that submitted it.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from ...schemas.calls import NOT_MADE, Call, Outcome
from ...schemas.errors import RunError
from ..runtime import counters
from .endpoint_client import EndpointClient, Queue
from .engine import Engine
from .pending_call import CallGroup, PendingCall

MAX_HELD_BYTES = 256 << 20
"""Bytes of answers, as the journal keeps them, that a bundle holds before it waits for its batches to leave."""

_POLL = 1.0
_TAKEN_AT_ONCE = 64
_BLOCKED = 30.0
_BLOCKING = (
    "a coroutine blocks the event loop, so no call can go on (allowed: await in coroutines; or a plain function, "
    "which runs on a thread)"
)


class Bundle:
    """The calls of one bundle of one DoFn instance; its methods are called on the bundle's thread.

    Tickets begin in order, each once the one before it has: so few calls are on their way at any time that large
    answers never pile up, though their batches leave whole.

    Args:
        clients: Where the calls go, by the name of their endpoint.
        record: Called on the loop's thread with each call that was made and its outcome, before its place is free;
            returns the bytes of the outcome.
        tick: Called on the bundle's thread now and then while it waits.
        due: Whether `tick` should put away now what was recorded.
        full: Whether no call may start before it has; `go_on` says that it did.
        most_bytes: No further group begins while the outcomes that are not taken back, and those expected of the
            calls that have begun, are more.
    """

    def __init__(
        self,
        clients: Mapping[str, EndpointClient],
        record: Callable[[Call, Outcome], int] = lambda _, __: 0,
        tick: Callable[[], None] = lambda: None,
        due: Callable[[], bool] = lambda: False,
        full: Callable[[], bool] = lambda: False,
        most_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self.held = self.open = 0
        self.cancelled = False
        self.full = full
        self._clients, self._record, self._tick, self._due, self._most_bytes = clients, record, tick, due, most_bytes
        self._submitted = self._begun = self._started = self._ended = 0
        self._arrived = self._taken = 0
        self._laden = self._feeding = False
        self._waiting: deque[tuple[int, list[tuple[Queue, list[PendingCall]]]]] = deque()
        self._ahead = (
            1 if len(clients) == 1 else 256 + 2 * sum(client.policy.max_in_flight for client in clients.values())
        )
        self._finished: deque[CallGroup] = deque()
        self._changed = threading.Condition()
        self._awaited: Callable[[], bool] | None = None
        self._error: BaseException | None = None
        self._pinged: float | None = None

    def submit(self, group: CallGroup, calls: list[Call]) -> None:
        """Queues the calls of a group that have no outcome yet."""
        self.open += 1
        self.held += len(calls)
        if not group.remaining:
            self._finished.append(group)
            return
        self._submitted += group.remaining
        found, pending_calls = group.outcomes, defaultdict[EndpointClient, list[PendingCall]](list)
        now = self._queue.loop.time()
        for i, call in enumerate(calls):
            if found[i] is None:
                client = self._clients[call.endpoint]
                pending_calls[client].append(PendingCall(self, client, group, i, call, now))
        for client in pending_calls:
            client.open()
        groups = [(client.queue, group) for client, group in pending_calls.items()]
        self._waiting.append((group.remaining, groups))
        if self._begun - self._started < self._ahead:  # else the next call that starts has them begin
            groups[0][0].post(self._feed)

    def finished(self) -> Iterator[CallGroup]:
        """Takes the groups all of whose calls have ended, one by one in the order they ended."""
        while self._finished:
            group = self._finished.popleft()
            self.open -= 1
            self.held -= len(group.outcomes)
            yield group
            self._taken += group.size
            if self._laden:
                self._queue.post(self._feed)

    def wait_for_room(self, slack: int, max_held: int) -> None:
        """Waits until more calls are wanted: at most `slack` queued, and at most `max_held` calls not taken back."""
        if self._queued() > slack:
            self._wait(lambda: self._queued() <= slack // 2 or (self._laden and bool(self._finished)))
        if self.held > max_held:
            self._wait(lambda: bool(self._finished))

    def wait_for_some(self) -> None:
        """Waits until groups are finished: several at once where many are open and small, and calls are queued."""
        self._wait(
            lambda: len(self._finished) >= (min(self.open, _TAKEN_AT_ONCE) if self._queued() and not self._laden else 1)
        )

    def go_on(self) -> None:
        """What was recorded has been put away."""
        for client in self._clients.values():
            client.queue.post(client.queue.wake)

    def cancel(self) -> None:
        """Ends all calls; their results are lost."""
        self.cancelled = True
        self._finished.clear()
        if self._submitted:
            for client in self._clients.values():
                with suppress(RunError):
                    client.queue.post(client.queue.drop, self, client)

    @property
    def _queue(self) -> Queue:
        """Any of the queues: all are on the same loop."""
        return next(iter(self._clients.values())).queue

    def _queued(self) -> int:
        return self._submitted - self._started

    def _wait(self, condition: Callable[[], bool]) -> None:
        while True:
            with self._changed:
                self._awaited = condition  # before the check: the loop looks at it after each change
                if not condition() and self._error is None and not self._due():
                    self._changed.wait(_POLL)
                self._awaited = None
            if self._error is not None:
                raise self._error
            if condition():
                return
            self._look_at_loop()
            self._tick()

    def _look_at_loop(self) -> None:
        """Raises where the loop has ended, or where a coroutine has blocked it for longer than a call may take."""
        now, queue = time.monotonic(), self._queue
        patience = _BLOCKED + max(client.policy.timeout for client in self._clients.values())
        if self._pinged is not None and now - self._pinged > patience:
            Engine.forget(queue.loop)
            raise RunError(_BLOCKING)
        if self._pinged is None:
            self._pinged = now
            queue.post(self._answer)

    def _answer(self) -> None:
        self._pinged = None

    # The loop's thread from here on.

    def _feed(self) -> None:
        """Has groups begin, as long as there is room."""
        if self._feeding:  # a call that is not made ends at once and comes back here
            return
        self._feeding = True
        while self._waiting and not self.cancelled and self._has_room():
            calls, groups = self._waiting.popleft()
            self._begun += calls
            for queue, group in groups:
                queue.submit(group)
        self._feeding = False

    def _has_room(self) -> bool:
        if self._begun - self._started >= self._ahead:
            return False
        self._laden = True  # before the look at what is taken: who takes looks at it afterwards
        open_ = self._begun - self._ended
        mean = self._arrived / max(1, self._ended)
        if self._arrived - self._taken + mean * open_ <= self._most_bytes or not (open_ or self._finished):
            self._laden = False
        else:
            self._notify()
        return not self._laden

    def started(self) -> None:
        """A call has left the queue."""
        self._started += 1
        if self._waiting and self._begun - self._started < self._ahead:
            self._feed()
        if self._awaited is not None:
            self._notify()

    def ended(self, pending: PendingCall, outcome: Outcome) -> None:
        """A call has its outcome."""
        if self.cancelled:
            return
        counters.add("calls_done")
        if outcome.kind not in ("ok", *NOT_MADE):
            counters.add("calls_failed")
        size = self._record(pending.call, outcome) if pending.attempts else 0
        if self._due():
            self._notify(True)
        group = pending.group
        group.outcomes[pending.index] = outcome
        group.size += size
        group.remaining -= 1
        self._ended += 1
        self._arrived += size
        if not group.remaining:
            self._finished.append(group)
            self._notify()
        if self._laden:
            self._feed()

    def fail(self, error: BaseException) -> None:
        """Something beside a call failed: no more calls are started, and the bundle's thread will raise it."""
        self._error = self._error or error
        self.cancelled = True
        self._notify(True)

    def _notify(self, always: bool = False) -> None:
        awaited = self._awaited
        if awaited is not None and (always or awaited()):
            with self._changed:
                self._changed.notify()

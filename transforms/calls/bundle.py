"""The calls of one Beam bundle: submitted and taken back on the bundle's thread, made on the engine's loop.

A bundle's thread submits groups (batches of calls) and takes back the finished ones. Everything else runs on the thread
of the engine's loop. The two threads share two deques, counters that one thread alone writes, and one condition:

    bundle's thread                                 loop's thread

    submit(group)
      _waiting.append(group) -------------------->  _feed(), while there is room:
      post(_feed) if the loop has room                _waiting.popleft(), queue.submit(calls)
                                                    started(): a call left the queue, maybe _feed()
    wait_for_room(), wait_for_some()
      1. _awaited = condition                       ended(outcome):
      2. check the condition                          1. record it, change the group and the counters
      3. _changed.wait(_POLL)  <-- notify --------    2. _finished.append(group) with its last outcome
                                                      3. read _awaited, notify if it holds
    finished()
      _finished.popleft()  <----------------------
      _taken += bytes, post(_feed) if over bytes

No wake-up is lost: the bundle's thread writes `_awaited` before it looks at the state, and the loop's thread writes the
state before it looks at `_awaited`, so at least one of them sees what the other wrote. `_over_bytes` and `_taken` work
the same way. A deque's `append` and `popleft` are atomic in CPython.
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
from .pending_call import CallGroup, PendingCall

MAX_HELD_BYTES = 256 << 20
"""Bytes of answers, as the journal keeps them, that a bundle holds before it waits for its batches to leave."""

_POLL = 1.0
"""Seconds after which a waiting thread looks again, to run `tick` and to check the loop."""
_TAKEN_AT_ONCE = 64
"""Groups that are taken back at once if calls are queued: each wake-up of the bundle's thread interrupts the loop's."""
_BLOCKED = 30.0
"""Seconds beyond the longest timeout after which a loop that does not answer is taken to be blocked."""
_BLOCKING = (
    "a coroutine blocks the event loop, so no call can continue (allowed: a coroutine that awaits, or a plain "
    "function, which runs on a thread)"
)


class Bundle:
    """The calls of one bundle of one DoFn instance; its methods are called on the bundle's thread.

    Groups begin in the order in which they were submitted, each one only when the calls of those before it have
    started (almost all of them, if there are several endpoints). So few groups are open at any time that large answers
    do not pile up, although a batch leaves only when it is complete.

    Args:
        clients: The client of each endpoint, by the name of the endpoint.
        record: Called on the loop's thread with each call that was made and its outcome; returns the bytes of the
            outcome.
        tick: Called on the bundle's thread, about every second while it waits.
        due: Returns whether `tick` should write the recorded outcomes to storage now.
        full: Returns whether no call may start before `tick` has written them; `go_on` says that it did.
        most_bytes: No further group begins while the outcomes that are not taken back, and those expected of the
            calls that have begun, have more bytes than this.
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
        self._over_bytes = self._feeding = False
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
        """Queues those calls of a group that have no outcome yet."""
        self.open += 1
        self.held += len(calls)
        if not group.remaining:
            self._finished.append(group)
            return
        self._submitted += group.remaining
        outcomes, pending_calls = group.outcomes, defaultdict[EndpointClient, list[PendingCall]](list)
        now = self._queue.loop.time()
        for i, call in enumerate(calls):
            if outcomes[i] is None:
                client = self._clients[call.endpoint]
                pending_calls[client].append(PendingCall(self, client, group, i, call, now))
        for client in pending_calls:
            client.open()
        groups = [(client.queue, group) for client, group in pending_calls.items()]
        self._waiting.append((group.remaining, groups))
        if self._begun - self._started < self._ahead:  # else the next call that starts feeds them
            groups[0][0].post(self._feed)

    def finished(self) -> Iterator[CallGroup]:
        """Yields the groups whose calls have all ended, in the order in which they ended."""
        while self._finished:
            group = self._finished.popleft()
            self.open -= 1
            self.held -= len(group.outcomes)
            yield group
            self._taken += group.size
            if self._over_bytes:
                self._queue.post(self._feed)

    def wait_for_room(self, slack: int, max_held: int) -> None:
        """Waits until at most `slack` calls are queued and at most `max_held` calls are not taken back."""
        if self._queued() > slack:
            self._wait(lambda: self._queued() <= slack // 2 or (self._over_bytes and bool(self._finished)))
        if self.held > max_held:
            self._wait(lambda: bool(self._finished))

    def wait_for_some(self) -> None:
        """Waits until a group is finished, or several groups if many are open and calls are queued."""
        self._wait(
            lambda: (
                len(self._finished)
                >= (min(self.open, _TAKEN_AT_ONCE) if self._queued() and not self._over_bytes else 1)
            )
        )

    def go_on(self) -> None:
        """Starts calls again: the recorded outcomes are in storage, so `full` may be false now."""
        for client in self._clients.values():
            client.queue.post(client.queue.wake)

    def cancel(self) -> None:
        """Ends all calls; their outcomes are lost."""
        self.cancelled = True
        self._finished.clear()
        if self._submitted:
            for client in self._clients.values():
                with suppress(RunError):
                    client.queue.post(client.queue.drop, self, client)

    @property
    def _queue(self) -> Queue:
        """Any one of the queues, since all use the same loop."""
        return next(iter(self._clients.values())).queue

    def _queued(self) -> int:
        return self._submitted - self._started

    def _wait(self, condition: Callable[[], bool]) -> None:
        while True:
            with self._changed:
                self._awaited = condition  # before the check: the loop's thread reads it after each change
                if not condition() and self._error is None and not self._due():
                    self._changed.wait(_POLL)
                self._awaited = None
            if self._error is not None:
                raise self._error
            if condition():
                return
            self._check_loop()
            self._tick()

    def _check_loop(self) -> None:
        """Sends the loop a ping, and checks that the last one was answered.

        Raises:
            RunError: The loop has ended, or a coroutine has blocked it for longer than a call may take.
        """
        now, queue = time.monotonic(), self._queue
        patience = _BLOCKED + max(client.policy.timeout for client in self._clients.values())
        if self._pinged is not None and now - self._pinged > patience:
            queue.loop.forget()
            raise RunError(_BLOCKING)
        if self._pinged is None:
            self._pinged = now
            queue.post(self._pong)

    def _pong(self) -> None:
        self._pinged = None

    # Everything below runs on the loop's thread.

    def _feed(self) -> None:
        """Starts groups as long as there is room."""
        if self._feeding:  # a call that is not made ends within `queue.submit`, which leads back here
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
        self._over_bytes = True  # before `_taken` is read: `finished` writes `_taken` first and then reads this
        open_ = self._begun - self._ended
        mean = self._arrived / max(1, self._ended)
        if self._arrived - self._taken + mean * open_ <= self._most_bytes or not (open_ or self._finished):
            self._over_bytes = False
        else:
            self._notify()
        return not self._over_bytes

    def started(self) -> None:
        """Notes that a call has left the queue."""
        self._started += 1
        if self._waiting and self._begun - self._started < self._ahead:
            self._feed()
        if self._awaited is not None:
            self._notify()

    def ended(self, pending: PendingCall, outcome: Outcome) -> None:
        """Records an outcome, and finishes the group if it was the last one."""
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
        if self._over_bytes:
            self._feed()

    def fail(self, error: BaseException) -> None:
        """Starts no more calls, since something other than a call failed; the bundle's thread raises the error."""
        self._error = self._error or error
        self.cancelled = True
        self._notify(True)

    def _notify(self, always: bool = False) -> None:
        awaited = self._awaited
        if awaited is not None and (always or awaited()):
            with self._changed:
                self._changed.notify()

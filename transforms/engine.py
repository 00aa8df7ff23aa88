"""The engine of slow calls: one event loop for each process, one lane for each endpoint.

A bundle's thread submits tickets (batches of calls) to its `Bundle` and takes back those that are finished; everything
else happens on the loop's thread. The process shares the loop and the lanes' limits, nothing more: a call belongs to
the bundle that submitted it.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ..schemas.calls import Call, CallPolicy, Outcome
from ..schemas.errors import RunError
from . import counters
from .budget import Budget, Ledger
from .faults import Fault, fault_of
from .lane import Flight, Lane, Ticket, Timeouts
from .permits import Permits, connected
from .stop import Breaker
from .threads import LoopExecutor, Threads

MAX_HELD_BYTES = 256 << 20
"""Bytes of answers, as the journal keeps them, that a bundle holds before it waits for its batches to leave."""

_POLL = 1.0
_TAKEN_AT_ONCE = 64
_BLOCKED = 30.0
_BLOCKING = (
    "a coroutine blocks the event loop, so no call can go on (allowed: await in coroutines; or a plain function, "
    "which runs on a thread)"
)


class Line:
    """One caller's way to its endpoint in this process: a callable made at the first call, and its limits.

    Attributes:
        stopped: Why no more calls are made; other runs of this process, which may share the lane, go on.
    """

    def __init__(
        self,
        connect: Callable[[], Callable[[Call], Any]],
        policy: CallPolicy,
        lane: Lane,
        ledger: Ledger | None = None,
    ) -> None:
        self.policy, self.lane, self.ledger = policy, lane, ledger
        self.timeouts = Timeouts(lane.loop, policy.timeout, lane.expire)
        self._connect, self._lock = connect, threading.Lock()
        self.breaker = Breaker(policy.abort_when, policy.abort_after)
        self.stopped: str | None = None
        self.call: Callable[[Call], Any] | None = None
        self.on_loop = False
        self.permits: Permits | None = None

    def open(self) -> None:
        """Makes the callable unless it is there; called on a bundle thread, which gets what that raises."""
        with self._lock:
            if self.call is None:
                call = self._connect()
                self.on_loop = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
                    getattr(call, "__call__", None)  # noqa: B004
                )
                self.permits = connected(self.policy, self.lane, partial(self.lane.stop, self))
                self.call = call

    def close(self) -> None:
        """Ends what the callable holds open, where it has a coroutine function `close`."""
        if self.permits is not None:
            self.permits.close()
        close = getattr(self.call, "close", None)
        if close is not None and not self.lane.loop.is_closed():
            asyncio.run_coroutine_threadsafe(close(), self.lane.loop)

    def understand(self, error: BaseException) -> Fault:
        """What an exception of a call means."""
        return fault_of(error, self.policy.retry_on)


class Bundle:
    """The calls of one bundle of one DoFn instance; its methods are called on the bundle's thread.

    Tickets begin in order, each once the one before it has: so few calls are on their way at any time that large
    answers never pile up, though their batches leave whole.

    Args:
        lines: Where the calls go, by the name of their endpoint.
        record: Called on the loop's thread with each call that was made and its outcome, before its place is free;
            returns the bytes of the outcome.
        tick: Called on the bundle's thread now and then while it waits.
        due: Whether `tick` should put away now what was recorded.
        full: Whether no call may start before it has; `go_on` says that it did.
        most_bytes: No further ticket begins while the outcomes that are not taken back, and those expected of the
            calls that have begun, are more.
    """

    def __init__(
        self,
        lines: Mapping[str, Line],
        record: Callable[[Call, Outcome], int] = lambda _, __: 0,
        tick: Callable[[], None] = lambda: None,
        due: Callable[[], bool] = lambda: False,
        full: Callable[[], bool] = lambda: False,
        most_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self.held = self.open = 0
        self.cancelled = False
        self.full = full
        self._lines, self._record, self._tick, self._due, self._most_bytes = lines, record, tick, due, most_bytes
        self._submitted = self._begun = self._started = self._ended = 0
        self._arrived = self._taken = 0
        self._full = self._feeding = False
        self._waiting: deque[tuple[int, list[tuple[Lane, list[Flight]]]]] = deque()
        self._ahead = 1 if len(lines) == 1 else 256 + 2 * sum(line.policy.max_in_flight for line in lines.values())
        self._finished: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._awaited: Callable[[], bool] | None = None
        self._error: BaseException | None = None
        self._pinged: float | None = None

    def submit(self, ticket: Ticket, calls: list[Call]) -> None:
        """Queues the calls of a ticket that have no outcome yet."""
        self.open += 1
        self.held += len(calls)
        if not ticket.remaining:
            self._finished.append(ticket)
            return
        self._submitted += ticket.remaining
        found, flights = ticket.outcomes, defaultdict[str, list[Flight]](list)
        now = next(iter(self._lines.values())).lane.loop.time()
        for i, call in enumerate(calls):
            if found[i] is None:
                flights[call.endpoint].append(Flight(self, self._lines[call.endpoint], ticket, i, call, now))
        for endpoint in flights:
            self._lines[endpoint].open()
        groups = [(self._lines[endpoint].lane, group) for endpoint, group in flights.items()]
        self._waiting.append((ticket.remaining, groups))
        if self._begun - self._started < self._ahead:  # else the next call that starts has them begin
            groups[0][0].post(self._feed)

    def finished(self) -> Iterator[Ticket]:
        """Takes the tickets all of whose calls have ended, one by one in the order they ended."""
        while self._finished:
            ticket = self._finished.popleft()
            self.open -= 1
            self.held -= len(ticket.outcomes)
            yield ticket
            self._taken += ticket.size
            if self._full:
                next(iter(self._lines.values())).lane.post(self._feed)

    def wait_for_room(self, slack: int, max_held: int) -> None:
        """Waits until more calls are wanted: at most `slack` queued, and at most `max_held` calls not taken back."""
        if self._queued() > slack:
            self._wait(lambda: self._queued() <= slack // 2 or (self._full and bool(self._finished)))
        if self.held > max_held:
            self._wait(lambda: bool(self._finished))

    def wait_for_some(self) -> None:
        """Waits until tickets are finished: several at once where many are open and small, and calls are queued."""
        self._wait(
            lambda: len(self._finished) >= (min(self.open, _TAKEN_AT_ONCE) if self._queued() and not self._full else 1)
        )

    def go_on(self) -> None:
        """What was recorded has been put away."""
        for line in self._lines.values():
            line.lane.post(line.lane.wake)

    def cancel(self) -> None:
        """Ends all calls; their results are lost."""
        self.cancelled = True
        self._finished.clear()
        if self._submitted:
            for line in self._lines.values():
                with suppress(RunError):
                    line.lane.post(line.lane.drop, self, line)

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
        now, lane = time.monotonic(), next(iter(self._lines.values())).lane
        patience = _BLOCKED + max(line.policy.timeout for line in self._lines.values())
        if self._pinged is not None and now - self._pinged > patience:
            Engine.forget(lane.loop)
            raise RunError(_BLOCKING)
        if self._pinged is None:
            self._pinged = now
            lane.post(self._answer)

    def _answer(self) -> None:
        self._pinged = None

    # The loop's thread from here on.

    def _feed(self) -> None:
        """Has tickets begin, as long as there is room."""
        if self._feeding:  # a call that is not made ends at once and comes back here
            return
        self._feeding = True
        while self._waiting and not self.cancelled and self._has_room():
            calls, groups = self._waiting.popleft()
            self._begun += calls
            for lane, group in groups:
                lane.submit(group)
        self._feeding = False

    def _has_room(self) -> bool:
        if self._begun - self._started >= self._ahead:
            return False
        self._full = True  # before the look at what is taken: who takes looks at it afterwards
        open_ = self._begun - self._ended
        mean = self._arrived / max(1, self._ended)
        if self._arrived - self._taken + mean * open_ <= self._most_bytes or not (open_ or self._finished):
            self._full = False
        else:
            self._notify()
        return not self._full

    def started(self) -> None:
        """A call has left the queue."""
        self._started += 1
        if self._waiting:
            self._feed()
        self._notify()

    def ended(self, flight: Flight, outcome: Outcome) -> None:
        """A call has its outcome."""
        if self.cancelled:
            return
        counters.add("calls_done")
        if outcome.kind != "ok":
            counters.add("calls_failed")
        size = self._record(flight.call, outcome) if flight.attempts else 0
        if self._due():
            self._notify(True)
        ticket = flight.ticket
        ticket.outcomes[flight.index] = outcome
        ticket.size += size
        ticket.remaining -= 1
        self._ended += 1
        self._arrived += size
        if not ticket.remaining:
            self._finished.append(ticket)
            self._notify()
        if self._full:
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


class Engine:
    """The loop of this process, on a daemon thread: a hung call never keeps the process from ending."""

    _here: Engine | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._threads = Threads(self.loop)
        self.loop.set_default_executor(LoopExecutor(self._threads))
        self._lines: dict[Hashable, tuple[Line, int, str]] = {}
        self._lanes: dict[str, Lane] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._froze = False
        self._thread = threading.Thread(target=self._run, name="evalbeam-loop", daemon=True)
        self._thread.start()

    @classmethod
    def here(cls) -> Engine:
        """The engine of this process. It stays for the life of the process, since agents keep clients bound to it."""
        with cls._lock:
            engine = cls._here
            if engine is None or engine.pid != os.getpid() or not engine.alive():
                engine = cls._here = Engine()
            return engine

    @classmethod
    def forget(cls, loop: asyncio.AbstractEventLoop) -> None:
        """Has the next run start a loop of its own, since this one is stuck; should it go on one day, it ends."""
        loop.call_soon_threadsafe(loop.stop)
        with cls._lock:
            if cls._here is not None and cls._here.loop is loop:
                cls._here = None

    def alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def idle(self) -> bool:
        """Whether nobody uses the engine."""
        return not self._lines and not self._lanes

    def ledger(self, budget: Budget) -> Ledger:
        """The ledger of a run in this process; all who call for the run share it."""
        with self._lock:
            return self._ledgers.setdefault(budget.folder, Ledger(budget))

    def join(
        self,
        token: Hashable,
        endpoint: str,
        connect: Callable[[], Callable[[Call], Any]],
        policy: CallPolicy,
        ledger: Ledger | None = None,
    ) -> Line:
        """The line of the caller `token` stands for, made for the first of its DoFn instances in this process."""
        with self._lock:
            if not self._lines and not gc.get_freeze_count():
                gc.freeze()  # a walk over all that Beam has loaded stops every call for a tenth of a second
                self._froze = True
            line, users, _ = self._lines.get(token, (None, 0, endpoint))
            if line is None:
                lane = self._lanes.get(endpoint) or Lane(self.loop)
                self._lanes[endpoint] = lane
                line = Line(connect, policy, lane, ledger)
            self._lines[token] = (line, users + 1, endpoint)
            self._limit(endpoint)
            return line

    def leave(self, token: Hashable) -> None:
        """One of a line's users has ended; with the last one the line is closed, with its last line the lane."""
        with self._lock:
            line, users, endpoint = self._lines.pop(token)
            if users > 1:
                self._lines[token] = (line, users - 1, endpoint)
                return
            line.close()
            self._limit(endpoint)
            if self._froze and not self._lines:
                gc.unfreeze()
                self._froze = False

    def _limit(self, endpoint: str) -> None:
        lane = self._lanes[endpoint]
        policies = [line.policy for line, _, name in self._lines.values() if name == endpoint]
        if policies:
            lane.post(lane.open, policies)
        else:
            del self._lanes[endpoint]
            with suppress(RunError):
                lane.post(lane.close)
                if not self._lanes:
                    lane.post(self._threads.release)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()  # for ever, unless an agent stops the loop it runs on
            for lane in list(self._lanes.values()):
                lane.pace.limit = 0
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
        finally:
            self.loop.close()

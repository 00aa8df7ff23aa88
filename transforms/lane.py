"""The window of one endpoint: which calls are in flight, which wait, and what happens when an attempt ends.

Everything here runs on the thread of one event loop. A place in the window is free again as soon as an attempt ends,
is given up or waits for its next try, whoever takes the result and whenever.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..schemas.calls import Call, CallPolicy, Outcome
from .faults import RETRIED, Fault
from .threads import Job, Threads

if TYPE_CHECKING:
    from .engine import Bundle, Ticket

MAX_RETRY_AFTER = 300.0
"""Seconds; a callee that asks to wait longer is not asked again."""
_GRACE = 1.0
_SLOW = "no answer within the timeout"
_LATE = "no answer within the deadline of the row"
_HUNG = "not called: max_hung earlier calls neither answer nor end"


class Flight:
    """One call on its way through its attempts."""

    __slots__ = (
        "attempt", "attempts", "backoff", "began", "bundle", "call", "first", "index", "queued", "submitted",
        "ticket", "timer",
    )  # fmt: skip

    def __init__(self, bundle: Bundle, ticket: Ticket, index: int, call: Call, now: float) -> None:
        self.bundle, self.ticket, self.index, self.call, self.submitted = bundle, ticket, index, call, now
        self.attempts = 0
        self.first = self.began = self.queued = self.backoff = 0.0
        self.attempt: asyncio.Future[Any] | Job | None = None
        self.timer: asyncio.TimerHandle | None = None


class _Raised:
    """What a coroutine raised that asyncio would let through to the loop and end it."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Lane:
    """The window and the queue of one endpoint; everything but `alive` runs on the loop's thread.

    Args:
        loop: Whose clock and callbacks are used.
        alive: Whether the loop still runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, alive: Callable[[], bool] = lambda: True) -> None:
        self.loop, self.alive = loop, alive
        self.limit = 1
        self.in_flight = 0
        self.retries = 0.0
        self.hung: set[Any] = set()
        self._waiting: deque[Flight] = deque()
        self._threads = Threads(loop)
        self._pumping = False

    def open(self, policies: list[CallPolicy]) -> None:
        """Takes over the limits of those who use the lane: the least of each."""
        self.limit = min(p.max_in_flight for p in policies)
        self.retries = max(map(_reserve, policies))

    def close(self) -> None:
        """Ends the threads that are idle."""
        self._threads.close()

    def submit(self, flights: list[Flight]) -> None:
        """Queues calls."""
        if flights and not flights[0].bundle.cancelled:
            flights[0].bundle.flying.update(flights)
            self._waiting.extend(flights)
            self._pump()

    def drop(self, bundle: Bundle) -> None:
        """Forgets a bundle: its queued calls are not made, those in flight are cancelled."""
        self._waiting = deque(f for f in self._waiting if f.bundle is not bundle)
        for flight in bundle.flying:
            if flight.timer is not None:
                flight.timer.cancel()
            if flight.attempt is not None:
                self._abandon(flight)
        bundle.flying.clear()
        self._pump()

    def _pump(self) -> None:
        if self._pumping:  # a call that ends while it is started would come back here for each further one
            return
        self._pumping = True
        try:
            while self._waiting and self.in_flight < self.limit:
                flight = self._waiting.popleft()
                try:
                    self._start(flight)
                except Exception as error:
                    flight.bundle.fail(error)
        finally:
            self._pumping = False

    def _start(self, flight: Flight) -> None:
        bundle, now = flight.bundle, self.loop.time()
        policy = bundle.line.policy
        if not flight.attempts:
            flight.first, flight.queued = now, now - flight.submitted
            bundle.started()
        if len(self.hung) >= policy.max_hung:
            self._end(flight, Outcome(kind="not_called", error_type="NotCalled", error_message=_HUNG, attempts=0))
            return
        self.in_flight += 1
        flight.attempts += 1
        flight.began = now
        seconds = policy.timeout
        if policy.deadline is not None:
            seconds = min(seconds, flight.first + policy.deadline - now)
        flight.timer = self.loop.call_later(seconds, self._expire, flight)
        call = bundle.line.call
        assert call is not None
        if bundle.line.on_loop:
            self._await(flight, _guarded(call, flight.call))
        else:
            flight.attempt = job = Job(call, flight.call, partial(self._job_done, flight))
            try:
                self._threads.start(job)
            except RuntimeError as error:
                self._land(flight, None, error, 0.0)

    def _await(self, flight: Flight, coroutine: Any) -> None:
        flight.attempt = task = self.loop.create_task(coroutine)
        task.add_done_callback(partial(self._task_done, flight))

    def _task_done(self, flight: Flight, task: asyncio.Task[Any]) -> None:
        if flight.attempt is not task:
            self.hung.discard(task)
            if not task.cancelled():
                task.exception()  # looked at, or asyncio would report it as never retrieved
        elif task.cancelled():
            self._land(flight, None, asyncio.CancelledError("the agent cancelled its own call"), 0.0)
        else:
            error = task.exception()
            value = None if error else task.result()
            if type(value) is _Raised:
                error = value.error
            self._land(flight, value, error, self.loop.time() - flight.began)

    def _job_done(self, flight: Flight, job: Job) -> None:
        if flight.attempt is not job:
            self.hung.discard(job)
        elif job.error is None and inspect.isawaitable(job.value):
            self._await(flight, _awaited(job.value))
        else:
            self._land(flight, job.value, job.error, job.seconds)

    def _expire(self, flight: Flight) -> None:
        deadline = flight.bundle.line.policy.deadline
        late = deadline is not None and self.loop.time() - flight.first >= deadline
        self._abandon(flight)
        self._decide(flight, None, TimeoutError(_LATE if late else _SLOW), self.loop.time() - flight.began)

    def _abandon(self, flight: Flight) -> None:
        """Gives an attempt up: its place is free at once, and it counts as hung until it has really ended."""
        attempt = flight.attempt
        self._free(flight)
        if isinstance(attempt, Job):
            self.hung.add(attempt)
        elif attempt is not None:
            attempt.cancel()
            self.loop.call_later(_GRACE, self._look_after, attempt)

    def _look_after(self, task: asyncio.Future[Any]) -> None:
        if not task.done():
            self.hung.add(task)

    def _free(self, flight: Flight) -> None:
        flight.attempt = None
        self.in_flight -= 1
        if flight.timer is not None:
            flight.timer.cancel()
            flight.timer = None

    def _land(self, flight: Flight, value: Any, error: BaseException | None, seconds: float) -> None:
        self._free(flight)
        self._decide(flight, value, error, seconds)

    def _decide(self, flight: Flight, value: Any, error: BaseException | None, seconds: float) -> None:
        """The attempt has ended: that is the call's outcome, or there is another attempt."""
        try:
            if error is None:
                self._answered(flight)
                self._end(flight, self._outcome(flight, seconds, value=value))
            else:
                fault = flight.bundle.line.understand(error)
                if fault.kind not in RETRIED:
                    self._answered(flight)
                wait = self._wait_before_retry(flight, fault)
                if wait is None:
                    kind, name, text = fault.kind, fault.error_type, fault.message
                    outcome = self._outcome(flight, seconds, kind=kind, error_type=name, error_message=text)
                    self._end(flight, outcome)
                else:
                    flight.backoff += wait
                    flight.timer = self.loop.call_later(wait, self._again, flight)
        except Exception as broken:  # whatever it is, the bundle's thread must not wait for ever
            flight.bundle.fail(broken)
        self._pump()

    def _answered(self, flight: Flight) -> None:
        """The endpoint is alive: that pays for one retry, so an outage does not multiply its traffic."""
        self.retries = min(self.retries + 1, _reserve(flight.bundle.line.policy))

    def _outcome(self, flight: Flight, seconds: float, **found: Any) -> Outcome:
        return Outcome(
            attempts=flight.attempts,
            latency_in_seconds=seconds,
            queued_in_seconds=flight.queued,
            backoff_in_seconds=flight.backoff,
            **found,
        )

    def _end(self, flight: Flight, outcome: Outcome) -> None:
        flight.bundle.ended(flight, outcome)

    def _again(self, flight: Flight) -> None:
        flight.timer = None
        self._waiting.appendleft(flight)
        self._pump()

    def _wait_before_retry(self, flight: Flight, fault: Fault) -> float | None:
        """Seconds until the next attempt; `None` where there is none."""
        policy = flight.bundle.line.policy
        if fault.kind not in RETRIED or flight.attempts >= policy.max_attempts or self.retries < 1:
            return None
        if fault.kind == "timeout" and 2 * len(self.hung) >= policy.max_hung:
            return None
        wait = random.uniform(0.0, min(policy.max_backoff, policy.backoff * 2.0 ** (flight.attempts - 1)))
        if fault.retry_after is not None:
            if fault.retry_after > MAX_RETRY_AFTER:
                return None
            wait += fault.retry_after
        if policy.deadline is not None and self.loop.time() + wait >= flight.first + policy.deadline:
            return None
        self.retries -= 1
        return wait


async def _guarded(call: Callable[[Call], Any], argument: Call) -> Any:
    try:
        return await call(argument)
    except (SystemExit, KeyboardInterrupt) as error:
        return _Raised(error)


async def _awaited(value: Any) -> Any:
    try:
        return await value
    except (SystemExit, KeyboardInterrupt) as error:
        return _Raised(error)


def _reserve(policy: CallPolicy) -> float:
    """Retries that may be made while nothing is answered; each answer pays for one more."""
    return max(32.0, float(policy.max_in_flight * (policy.max_attempts - 1)))

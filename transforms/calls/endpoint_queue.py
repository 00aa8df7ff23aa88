"""The window of one endpoint: which calls are in flight, which wait, and what happens when an attempt ends.

Everything here runs on the thread of one event loop. A place in the window is free again as soon as an attempt ends,
is given up or waits for its next try, whoever takes the result and whenever.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...schemas.calls import NOT_MADE, CallClass, Outcome
from ...schemas.config.calls import CallPolicy
from ...schemas.errors import RunError
from ...schemas.usage import tokens_of, usage_in, with_earlier
from ..runtime import counters
from .errors import RETRIED, Fault
from .rate_limiter import DOUBLING, Pace
from .retries import RetryBudget
from .stop import kind_of
from .threads import Job, Threads

if TYPE_CHECKING:
    from .bundle import Bundle
    from .endpoint_client import Line
    from .loop import Loop
    from .pending_call import Flight
    from .rate_limit_service import Permits

_GRACE = 1.0
_SLOW = "no answer within the timeout"
_LATE = "no answer within the deadline of the row"
_REFUSED = "the endpoint has done nothing but refuse calls for their rate during max_refusal"
_HUNG = "max_hung earlier calls neither answer nor end"


class Lane:
    """The window and the queue of one endpoint; everything but `post` runs on the loop's thread."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.pace = Pace()
        self.throttled = 0.0
        self.in_flight = self._shown = 0
        self.retries = RetryBudget()
        self.hung: set[Any] = set()
        self._waiting: deque[Flight] = deque()
        self._aside: list[Flight] = []
        self._resting: dict[Flight, asyncio.TimerHandle] = {}
        self._threads = Threads(loop)
        self._pumping = False
        self._alarm_at = math.inf
        self._held_since: float | None = None

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Has the loop's thread do something.

        Raises:
            RunError: The loop has ended.
        """
        try:
            self.loop.call_soon_threadsafe(action, *arguments)
        except RuntimeError:
            raise RunError("the thread that makes the calls has ended") from None

    def open(self, policies: list[CallPolicy]) -> None:
        """Takes over the limits of those who use the lane: the least of each."""
        self.pace.open(policies)
        for policy in policies:
            self.retries.grow(policy)

    def close(self) -> None:
        """Ends the threads that are idle."""
        self._threads.close()

    def stop(self, line: Line, reason: str) -> None:
        """Makes no more calls of a line: those in flight may end, the others are not called."""
        line.stopped = line.stopped or reason
        for flight in self._taken_out(lambda f: f.line is line):
            self._start(flight, self.loop.time())
        self._pump()

    def submit(self, flights: list[Flight]) -> None:
        """Queues calls of one line."""
        self._waiting.extend(flights)
        if (line := flights[0].line).stopped is not None:
            self.stop(line, line.stopped)
        self._pump()

    def drop(self, bundle: Bundle, line: Line) -> None:
        """Forgets a bundle's calls of a line: those queued are not made, those in flight are cancelled."""
        self._taken_out(lambda f: f.bundle is bundle)
        for flight in [f for f in line.timeouts.flights if f.bundle is bundle]:
            self._abandon(flight, flight.began + line.policy.timeout - self.loop.time())
        self._pump()

    def _taken_out(self, of: Callable[[Flight], bool]) -> list[Flight]:
        """Calls that are not in flight, none of which waits for anything any more."""
        found = [f for f in chain(self._waiting, self._aside, self._resting) if of(f)]
        self._waiting = deque(f for f in self._waiting if not of(f))
        self._aside = [f for f in self._aside if not of(f)]
        for flight in found:
            if (timer := self._resting.pop(flight, None)) is not None:
                timer.cancel()
        return found

    def expire(self, flight: Flight) -> None:
        """An attempt has taken too long."""
        self._abandon(flight, 0.0)
        self._land(flight, None, TimeoutError(_SLOW if self._left(flight) > 0 else _LATE), 0.0)

    def wake(self) -> None:
        """Something that the calls waited for has changed."""
        self._waiting.extendleft(reversed(self._aside))
        self._aside.clear()
        self._pump()

    def _pump(self) -> None:
        if self._pumping:  # a call that ends while it is started would come back here for each further one
            return
        self._pumping = True
        now = self.loop.time()
        growing, left = bool(self._waiting) and self.pace.growing(now), 1 + self.pace.limit
        try:
            while self._waiting and self.in_flight < self.pace.limit:
                left -= 1
                if not left:  # calls that end at once leave the loop to others now and then
                    self.loop.call_soon(self._pump)
                    return
                flight = self._waiting[0]
                if flight.bundle.cancelled:
                    self._waiting.popleft()
                    continue
                if flight.bundle.full():  # its thread may wait for calls of others before it comes to put them away
                    self._aside.append(self._waiting.popleft())
                    continue
                if not self._may_start(flight.line.permits, now):
                    return
                self._start(self._waiting.popleft(), now)
                now = self.loop.time()
            if growing and self._waiting:
                self._alarm(DOUBLING)
        finally:
            self._pumping = False
            if self.in_flight != self._shown:
                counters.add("calls_in_flight", self.in_flight - self._shown)
                self._shown = self.in_flight

    def _may_start(self, permits: Permits | None, now: float) -> bool:
        if permits is not None and not permits.ready(min(len(self._waiting), self.pace.limit - self.in_flight)):
            if permits.refused and self._held_since is None:
                self._held_since = now
            return False
        wait = self.pace.wait(now)
        if wait > 0.0:
            self._held_since = now if self._held_since is None else self._held_since
            self._alarm(wait)
            return False
        if permits is not None:
            permits.use()
        if self._held_since is not None:
            self.throttled += now - self._held_since
            self._held_since = None
        return True

    def _alarm(self, seconds: float) -> None:
        """Looks at the queue again after some time, unless it is looked at earlier anyway."""
        due = self.loop.time() + seconds
        if due < self._alarm_at:
            self._alarm_at = due
            self.loop.call_at(due, self._rung, due)

    def _rung(self, due: float) -> None:
        if due == self._alarm_at:
            self._alarm_at = math.inf
            self._pump()

    def _start(self, flight: Flight, now: float) -> None:
        bundle, line = flight.bundle, flight.line
        if not flight.attempts:
            flight.first, flight.queued = now, now - flight.submitted
            bundle.started()
        elif line.stopped is None and self._left(flight) <= 0.0:
            self._ended(flight, with_earlier(None, flight.earlier), "timeout", "TimeoutError", _LATE)
            return
        why = line.stopped or (_HUNG if self.hung and len(self.hung) >= line.policy.max_hung else None)
        if why is None and line.ledger is not None and (why := line.ledger.take()) is not None:
            line.stopped = why
            self.loop.call_soon(self.stop, line, why)
        if why is not None:
            self._ended(flight, with_earlier(None, flight.earlier), kind_of(why), "NotCalled", f"not called: {why}")
            return
        self.in_flight += 1
        flight.attempts += 1
        flight.began, flight.tokens = now, self.pace.tokens
        line.timeouts.add(flight)
        if line.policy.deadline is not None and (left := self._left(flight)) < line.policy.timeout:
            flight.alarm = self.loop.call_later(left, self.expire, flight)
        call = line.call
        assert call is not None
        if line.on_loop:
            self.loop.begin(self._fly(flight, call(flight.call)), flight.call.key, line.context.copy())
        else:
            flight.attempt = job = Job(call, flight.call, partial(self._job_done, flight), line.context.copy())
            try:
                self._threads.start(job)
            except BlockingIOError as error:
                self.pace.bound(self.in_flight - 1)
                self._land(flight, None, error, 0.0)

    async def _fly(self, flight: Flight, awaitable: Any) -> None:
        flight.attempt = task = asyncio.current_task(self.loop)
        value = error = None
        try:
            value = await awaitable
        except GeneratorExit:
            raise
        except BaseException as caught:  # SystemExit would end the loop; a cancellation is looked at below
            error = caught.with_traceback(None)  # or it would keep this frame, and with it the answer
        if flight.attempt is task:
            self._land(flight, value, error, self.loop.time() - flight.began)
        elif self.hung:
            self.hung.discard(task)

    def _job_done(self, flight: Flight, job: Job) -> None:
        if flight.attempt is not job:
            self.hung.discard(job)
        elif job.error is None and inspect.isawaitable(job.value):
            self.loop.begin(self._fly(flight, job.value), flight.call.key, job.context)
        else:
            self._land(flight, job.value, job.error, job.seconds)

    def _left(self, flight: Flight) -> float:
        """Seconds the row has left."""
        deadline = flight.line.policy.deadline
        return math.inf if deadline is None else flight.first + deadline - self.loop.time()

    def _abandon(self, flight: Flight, grace: float) -> None:
        """Gives an attempt up: its place is free at once, and it counts as hung until it has really ended.

        Args:
            grace: Seconds that a thread may go on before it counts; coroutines are cancelled and have one.
        """
        attempt = flight.attempt
        self._free(flight)
        if isinstance(attempt, asyncio.Task):
            attempt.cancel()
            grace = _GRACE
        if grace > 0.0:
            self.loop.call_later(grace, self._look_after, attempt)
        else:
            self._look_after(attempt)

    def _look_after(self, attempt: asyncio.Task[Any] | Job | None) -> None:
        if attempt is not None and not attempt.done():
            self.hung.add(attempt)

    def _free(self, flight: Flight) -> None:
        flight.attempt = None
        if flight.alarm is not None:
            flight.alarm.cancel()
            flight.alarm = None
        del flight.line.timeouts.flights[flight]
        self.in_flight -= 1

    def _land(self, flight: Flight, value: Any, error: BaseException | None, seconds: float) -> None:
        """The attempt has ended: that is the call's outcome, or there is another attempt."""
        if flight.attempt is not None:
            self._free(flight)
        line = flight.line
        try:
            fault = None if error is None else line.understand(error)
            if self.pace.counts_tokens or line.ledger is not None:
                self._used(flight, tokens_of(value if fault is None else fault.spent))
            if fault is None or fault.kind not in RETRIED:
                self.retries.answered()
                self.pace.accepted()
            if fault is None:
                answer = value if flight.earlier is None else with_earlier(value, flight.earlier)
                self._ended(flight, answer, "ok", latency=seconds)
            else:
                self._failed(flight, fault)
        except Exception as broken:  # whatever it is, the bundle's thread must not wait for ever
            flight.bundle.fail(broken)
        self._pump()

    def _used(self, flight: Flight, tokens: int) -> None:
        """Counts the tokens of an attempt that has ended."""
        if self.pace.counts_tokens:
            self.pace.used(tokens, flight.tokens)
        if flight.line.ledger is not None:
            flight.line.ledger.pay(tokens)

    def _failed(self, flight: Flight, fault: Fault) -> None:
        policy, now = flight.line.policy, self.loop.time()
        if fault.kind == "rate_limited":
            flight.refusals += 1
            if flight.line.ledger is not None:
                flight.line.ledger.give_back()
            pause = None if fault.retry_after is None else min(fault.retry_after, policy.max_refusal)
            self.pace.refused(now, flight.began, pause)
            if self.pace.stalled(now) >= policy.max_refusal:
                self.stop(flight.line, _REFUSED)
        crowded = fault.kind == "timeout" and 2 * len(self.hung) >= policy.max_hung
        gone = crowded or flight.line.stopped is not None
        wait = None if gone else self.retries.wait(policy, flight.attempts, flight.refusals, fault, self._left(flight))
        spent = with_earlier(fault.spent, flight.earlier)
        if wait is None:
            self._ended(flight, spent, fault.kind, fault.error_type, fault.message)
        else:
            flight.earlier = usage_in(spent)
            flight.backoff += wait
            self._resting[flight] = self.loop.call_later(wait, self._again, flight)

    def _ended(
        self,
        flight: Flight,
        value: Any,
        kind: CallClass,
        error_type: str | None = None,
        message: str | None = None,
        latency: float | None = None,
    ) -> None:
        """The call has its outcome."""
        queued, backoff, refusals = flight.queued, flight.backoff, flight.refusals
        outcome = Outcome(value, kind, error_type, message, flight.attempts, latency, queued, backoff, refusals)
        try:
            flight.bundle.ended(flight, outcome)
        except Exception as broken:  # the bundle's thread must not wait for ever
            flight.bundle.fail(broken)
        if kind not in NOT_MADE and (reason := flight.line.breaker.ended(kind != "ok")):
            self.stop(flight.line, reason)

    def _again(self, flight: Flight) -> None:
        del self._resting[flight]
        self._waiting.appendleft(flight)
        self._pump()

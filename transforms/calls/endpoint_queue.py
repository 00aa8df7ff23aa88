"""The queue of one endpoint: which calls are in flight, which wait, and what happens when an attempt ends.

Everything here runs on the thread of one event loop. A call is in one of these states:

    submit() ---> _waiting -- _start() --> in flight -- result, error, timeout --> _ended()
                  |  ^  ^                      |                                   ^
        sink full |  |  |                      | error or timeout, retried         |
                  v  |  +-- _retry() -- _backing_off                               |
               _aside                                                              |
           (until wake())    stop(): what is not in flight ends without a call ----+

The window counts the calls in flight alone: a place is free as soon as an attempt ends, is abandoned or backs off,
whoever takes the outcome and whenever. An attempt that times out is abandoned: nobody reads its result, and it counts
towards `max_abandoned_calls` until it ends.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

from ...schemas.calls import NOT_MADE, CallClass, Outcome
from ...schemas.config.calls import CallPolicy
from ...schemas.errors import RunError
from ...schemas.usage import add_earlier_usage, tokens_of
from ..runtime import counters
from .endpoint_client import EndpointClient
from .errors import RETRIED, ClassifiedError, is_shutdown_error
from .loop import Loop
from .pending_call import PendingCall, Sink
from .rate_limit_service import RemoteRateLimiter
from .rate_limiter import DOUBLING, AdaptiveRateLimiter
from .retries import RetryBudget
from .stop import class_of_reason
from .threads import Job, Threads

_GRACE = 1.0
"""Seconds that a cancelled coroutine may clean up before it counts as abandoned."""
# These texts are the `error_message` of an outcome: tables and journals contain them.
_SLOW = "no answer within the timeout"
_LATE = "no answer within the deadline of the row"
_REFUSED = "the endpoint has done nothing but refuse calls for their rate during rate_limit_timeout"
_ABANDONED = "max_abandoned_calls earlier calls neither answer nor end"


class EndpointQueue:
    """The window and the queue of one endpoint; all methods except `post` run on the loop's thread."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.limiter = AdaptiveRateLimiter()
        self.throttled = 0.0
        self.in_flight = self._shown = 0
        self.retries = RetryBudget()
        self.abandoned: set[Any] = set()
        self._waiting: deque[PendingCall] = deque()
        self._aside: list[PendingCall] = []
        self._backing_off: dict[PendingCall, asyncio.TimerHandle] = {}
        self._threads = Threads(loop)
        self._pumping = False
        self._alarm_at = math.inf
        self._held_since: float | None = None

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Runs an action on the loop's thread; may be called on any thread.

        Raises:
            RunError: The loop has ended.
        """
        try:
            self.loop.call_soon_threadsafe(action, *arguments)
        except RuntimeError:
            raise RunError("the thread that makes the calls has ended") from None

    def open(self, policies: list[CallPolicy]) -> None:
        """Takes over the limits of those who use the queue: the smallest of each."""
        self.limiter.open(policies)
        for policy in policies:
            self.retries.grow(policy)

    def close(self) -> None:
        """Ends the idle threads."""
        self._threads.close()

    def stop(self, client: EndpointClient, reason: str) -> None:
        """Starts no more calls of a client: those in flight may end, the others end as not called."""
        client.stopped = client.stopped or reason
        for pending in self._take_out(lambda f: f.client is client):
            self._start(pending, self.loop.time())
        self._pump()

    def submit(self, pending_calls: list[PendingCall]) -> None:
        """Queues calls of one client."""
        self._waiting.extend(pending_calls)
        if (client := pending_calls[0].client).stopped is not None:
            self.stop(client, client.stopped)
        self._pump()

    def drop(self, sink: Sink, client: EndpointClient) -> None:
        """Drops the calls of a sink: queued ones are not made, those in flight are cancelled."""
        self._take_out(lambda f: f.sink is sink)
        for pending in [f for f in client.timeouts.attempts if f.sink is sink]:
            self._abandon(pending, pending.began + client.policy.timeout - self.loop.time())
        self._pump()

    def _take_out(self, of: Callable[[PendingCall], bool]) -> list[PendingCall]:
        """Removes calls that are not in flight from wherever they wait, and returns them."""
        removed = [f for f in chain(self._waiting, self._aside, self._backing_off) if of(f)]
        self._waiting = deque(f for f in self._waiting if not of(f))
        self._aside = [f for f in self._aside if not of(f)]
        for pending in removed:
            if (timer := self._backing_off.pop(pending, None)) is not None:
                timer.cancel()
        return removed

    def expire(self, pending: PendingCall) -> None:
        """Abandons an attempt that has taken too long."""
        self._abandon(pending, 0.0)
        self._finish_attempt(pending, None, TimeoutError(_SLOW if self._left(pending) > 0 else _LATE), 0.0)

    def wake(self) -> None:
        """Looks at all waiting calls again: a sink may have room, or a permit may have come."""
        self._waiting.extendleft(reversed(self._aside))
        self._aside.clear()
        self._pump()

    def _pump(self) -> None:
        """Starts waiting calls as long as the window, the rate and their sinks allow."""
        if self._pumping:  # a call that ends while it starts would recurse, once for each call
            return
        if self.loop.ended:
            return
        self._pumping = True
        now = self.loop.time()
        growing, left = bool(self._waiting) and self.limiter.growing(now), 1 + self.limiter.limit
        try:
            while self._waiting and self.in_flight < self.limiter.limit:
                left -= 1
                if not left:  # calls that end at once: a full window of them, then other callbacks have a turn
                    self.loop.call_soon(self._pump)
                    return
                pending = self._waiting[0]
                if pending.sink.cancelled:
                    self._waiting.popleft()
                    continue
                if pending.sink.full():  # others go first: the thread of a full sink may itself wait for their calls
                    self._aside.append(self._waiting.popleft())
                    continue
                if not self._may_start(pending.client.remote_limiter, now):
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

    def _may_start(self, remote_limiter: RemoteRateLimiter | None, now: float) -> bool:
        """Returns whether the rate allows a call now; if not, something will wake the queue when it may."""
        if remote_limiter is not None and not remote_limiter.ready(
            min(len(self._waiting), self.limiter.limit - self.in_flight)
        ):
            if remote_limiter.refused and self._held_since is None:
                self._held_since = now
            return False
        wait = self.limiter.wait(now)
        if wait > 0.0:
            self._held_since = now if self._held_since is None else self._held_since
            self._alarm(wait)
            return False
        if remote_limiter is not None:
            remote_limiter.use()
        if self._held_since is not None:
            self.throttled += now - self._held_since
            self._held_since = None
        return True

    def _alarm(self, seconds: float) -> None:
        """Looks at the queue again after some time, unless an earlier alarm is set."""
        due = self.loop.time() + seconds
        if due < self._alarm_at:
            self._alarm_at = due
            self.loop.call_at(due, self._on_alarm, due)

    def _on_alarm(self, due: float) -> None:
        if due == self._alarm_at:
            self._alarm_at = math.inf
            self._pump()

    def _start(self, pending: PendingCall, now: float) -> None:
        """Starts the next attempt of a call, or ends the call if there may be none."""
        sink, client = pending.sink, pending.client
        if not pending.attempts:
            pending.first, pending.queued = now, now - pending.submitted
            sink.started()
        elif client.stopped is None and self._left(pending) <= 0.0:
            self._ended(pending, None, "timeout", "TimeoutError", _LATE)
            return
        why = client.stopped or (
            _ABANDONED if self.abandoned and len(self.abandoned) >= client.policy.max_abandoned_calls else None
        )
        if why is None and client.spending is not None and (why := client.spending.take()) is not None:
            client.stopped = why
            self.loop.call_soon(self.stop, client, why)
        if why is not None:
            self._ended(pending, None, class_of_reason(why), "NotCalled", f"not called: {why}")
            return
        self.in_flight += 1
        pending.attempts += 1
        pending.began, pending.tokens = now, self.limiter.tokens
        client.timeouts.add(pending)
        if client.policy.deadline is not None and (left := self._left(pending)) < client.policy.timeout:
            pending.alarm = self.loop.call_later(left, self.expire, pending)
        call = client.call
        assert call is not None
        if client.on_loop:
            self.loop.begin(self._run_attempt(pending, call(pending.call)), pending.call.key, client.context.copy())
        else:
            pending.attempt = job = Job(call, pending.call, partial(self._job_done, pending), client.context.copy())
            try:
                self._threads.start(job)
            except BlockingIOError as error:
                self.limiter.bound(self.in_flight - 1)
                self._finish_attempt(pending, None, error, 0.0)

    async def _run_attempt(self, pending: PendingCall, awaitable: Any) -> None:
        pending.attempt = task = asyncio.current_task(self.loop)
        value = error = None
        try:
            value = await awaitable
        except GeneratorExit:
            raise
        except BaseException as caught:  # SystemExit would end the loop; a cancellation is handled below
            error = caught.with_traceback(None)  # its traceback would keep this frame alive, and with it the answer
        if pending.attempt is task:
            self._finish_attempt(pending, value, error, self.loop.time() - pending.began)
        elif self.abandoned:
            self.abandoned.discard(task)

    def _job_done(self, pending: PendingCall, job: Job) -> None:
        if pending.attempt is not job:
            self.abandoned.discard(job)
        elif job.error is None and inspect.isawaitable(job.value) and not self.loop.ended:
            self.loop.begin(self._run_attempt(pending, job.value), pending.call.key, job.context)
        else:
            self._finish_attempt(pending, job.value, job.error, job.seconds)

    def _left(self, pending: PendingCall) -> float:
        """Returns the seconds until the deadline of the row; infinite without one."""
        deadline = pending.client.policy.deadline
        return math.inf if deadline is None else pending.first + deadline - self.loop.time()

    def _abandon(self, pending: PendingCall, grace: float) -> None:
        """Abandons an attempt: its place is free at once, and it counts as abandoned until it really ends.

        Args:
            grace: Seconds that a thread may run on before it counts; a cancelled coroutine has `_GRACE`.
        """
        attempt = pending.attempt
        self._free(pending)
        if isinstance(attempt, asyncio.Task):
            attempt.cancel()
            grace = _GRACE
        if grace > 0.0:
            self.loop.call_later(grace, self._count_abandoned, attempt)
        else:
            self._count_abandoned(attempt)

    def _count_abandoned(self, attempt: asyncio.Task[Any] | Job | None) -> None:
        if attempt is not None and not attempt.done():
            self.abandoned.add(attempt)

    def _free(self, pending: PendingCall) -> None:
        pending.attempt = None
        if pending.alarm is not None:
            pending.alarm.cancel()
            pending.alarm = None
        del pending.client.timeouts.attempts[pending]
        self.in_flight -= 1

    def _finish_attempt(self, pending: PendingCall, value: Any, error: BaseException | None, seconds: float) -> None:
        """Ends an attempt: its result is the call's outcome, or there is another attempt."""
        if pending.attempt is not None:
            self._free(pending)
        client = pending.client
        try:
            if error is not None and is_shutdown_error(error):
                raise RunError(f"the process that makes the calls is ending: {error}")
            classified = None if error is None else client.classify(error)
            if self.limiter.counts_tokens or client.spending is not None:
                self._used(pending, tokens_of(value if classified is None else classified.spent))
            if classified is None or classified.kind not in RETRIED:
                self.retries.answered()
                self.limiter.accepted()
            elif classified.spent is not None:  # the tokens show that the endpoint answered, though unusably
                self.retries.answered()
            if classified is None:
                self._ended(pending, value, "ok", latency=seconds)
            else:
                self._failed(pending, classified)
        except Exception as broken:  # the bundle's thread must not wait for ever, whatever it is
            pending.sink.fail(broken)
        self._pump()

    def _used(self, pending: PendingCall, tokens: int) -> None:
        """Counts the tokens of an attempt that has ended."""
        if self.limiter.counts_tokens:
            self.limiter.used(tokens, pending.tokens)
        if pending.client.spending is not None:
            pending.client.spending.pay(tokens)

    def _failed(self, pending: PendingCall, error: ClassifiedError) -> None:
        """Ends the call with an error, or lets it back off until its next attempt."""
        policy, now = pending.client.policy, self.loop.time()
        if error.kind == "rate_limited":
            pending.refusals += 1
            if pending.client.spending is not None:
                pending.client.spending.give_back()
            pause = None if error.retry_after is None else min(error.retry_after, policy.rate_limit_timeout)
            self.limiter.refused(now, pending.began, pause)
            if self.limiter.stalled(now) >= policy.rate_limit_timeout:
                self.stop(pending.client, _REFUSED)
        # Each retry after a timeout may leave one more attempt that never ends; half of those allowed go without.
        crowded = error.kind == "timeout" and 2 * len(self.abandoned) >= policy.max_abandoned_calls
        gone = crowded or pending.client.stopped is not None
        wait = (
            None if gone else self.retries.wait(policy, pending.attempts, pending.refusals, error, self._left(pending))
        )
        if wait is None:
            self._ended(pending, error.spent, error.kind, error.error_type, error.message)
        else:
            if error.spent is not None:
                pending.earlier = (*pending.earlier, error.spent)
            pending.backoff += wait
            self._backing_off[pending] = self.loop.call_later(wait, self._retry, pending)

    def _ended(
        self,
        pending: PendingCall,
        value: Any,
        kind: CallClass,
        error_type: str | None = None,
        message: str | None = None,
        latency: float | None = None,
    ) -> None:
        """Gives the outcome of a call to its sink."""
        if self.loop.ended:  # answers of a process that is ending say nothing of the agent
            return
        if pending.earlier:
            value = add_earlier_usage(value, pending.earlier)
        queued, backoff, refusals = pending.queued, pending.backoff, pending.refusals
        outcome = Outcome(value, kind, error_type, message, pending.attempts, latency, queued, backoff, refusals)
        try:
            pending.sink.ended(pending, outcome)
        except Exception as broken:  # the bundle's thread must not wait for ever
            pending.sink.fail(broken)
        if kind not in NOT_MADE and (reason := pending.client.breaker.ended(kind != "ok")):
            self.stop(pending.client, reason)

    def _retry(self, pending: PendingCall) -> None:
        del self._backing_off[pending]
        self._waiting.appendleft(pending)
        self._pump()

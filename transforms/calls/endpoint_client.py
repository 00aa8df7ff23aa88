"""One endpoint as a bundle sees it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Protocol

from ...schemas.calls import Call
from ...schemas.config.calls import CallPolicy
from .budget import SpendTracker
from .errors import ClassifiedError, classify_error
from .loop import Loop
from .rate_limit_service import RemoteRateLimiter, connected
from .stop import Breaker
from .timeouts import Timeouts


class Queue(Protocol):
    """The queue in which the calls of a client wait, as its users see it; `EndpointQueue` is the one there is.

    Attributes:
        loop: On whose thread everything but `post` runs.
        throttled: Seconds for which calls were held back so far.
    """

    loop: Loop
    throttled: float

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Has the loop's thread do something."""
        ...

    def submit(self, pending_calls: list[Any]) -> None:
        """Queues calls of one client."""
        ...

    def drop(self, sink: Any, client: EndpointClient) -> None:
        """Forgets the calls of a client whose outcomes `sink` would take."""
        ...

    def stop(self, client: EndpointClient, reason: str) -> None:
        """Makes no more calls of a client."""
        ...

    def expire(self, pending: Any) -> None:
        """An attempt has taken too long."""
        ...

    def wake(self) -> None:
        """Something that the calls waited for has changed."""
        ...


class EndpointClient:
    """One caller's way to its endpoint in this process: a callable made at the first call, and its limits.

    Attributes:
        stopped: Why no more calls are made; other runs of this process, which may share the queue, go on.
        context: Context variables that each call begins with; what a call sets is seen by no other.
    """

    def __init__(
        self,
        connect: Callable[[], Callable[[Call], Any]],
        policy: CallPolicy,
        queue: Queue,
        spending: SpendTracker | None = None,
    ) -> None:
        self.policy, self.queue, self.spending = policy, queue, spending
        self.timeouts = Timeouts[Any](queue.loop, policy.timeout, queue.expire)
        self._connect, self._lock = connect, threading.Lock()
        self.breaker = Breaker(policy.failure_threshold, policy.failure_window)
        self.stopped: str | None = None
        self.call: Callable[[Call], Any] | None = None
        self.on_loop = False
        self.context = Context()
        self.remote_limiter: RemoteRateLimiter | None = None

    def open(self) -> None:
        """Makes the callable unless it is there; called on a bundle thread, which gets what that raises."""
        with self._lock:
            if self.call is None:
                self.context = copy_context()
                call = self._connect()
                self.on_loop = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
                    getattr(call, "__call__", None)  # noqa: B004
                )
                self.remote_limiter = connected(
                    self.policy, self.queue.loop, self.queue.wake, partial(self.queue.stop, self)
                )
                self.call = call

    def close(self) -> None:
        """Ends what the callable holds open, where it has a coroutine function `close`."""
        if self.remote_limiter is not None:
            self.remote_limiter.close()
        close = getattr(self.call, "close", None)
        if close is not None and not self.queue.loop.is_closed():
            asyncio.run_coroutine_threadsafe(close(), self.queue.loop)

    def understand(self, error: BaseException) -> ClassifiedError:
        """What an exception of a call means."""
        return classify_error(error, self.policy.retry_on)

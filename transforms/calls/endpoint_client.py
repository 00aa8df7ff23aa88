"""The client through which a bundle calls one endpoint."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Protocol

from ...schemas.calls import Call
from ...schemas.config.calls import CallPolicy
from ..registry import is_async
from .budget import SpendTracker
from .errors import ClassifiedError, classify_error
from .loop import Loop
from .rate_limit_service import RemoteRateLimiter, connect_limiter
from .stop import Breaker
from .timeouts import Timeouts


class Queue(Protocol):
    """The queue in which the calls of a client wait, as its users see it; implemented by `EndpointQueue`.

    Attributes:
        loop: The event loop; all methods except `post` run on its thread.
        throttled: Seconds for which calls have been held back so far.
    """

    loop: Loop
    throttled: float

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Runs an action on the loop's thread; may be called on any thread."""
        ...

    def submit(self, pending_calls: list[Any]) -> None:
        """Queues calls of one client."""
        ...

    def drop(self, sink: Any, client: EndpointClient) -> None:
        """Drops the calls of a client whose outcomes `sink` would take."""
        ...

    def stop(self, client: EndpointClient, reason: str) -> None:
        """Starts no more calls of a client."""
        ...

    def expire(self, pending: Any) -> None:
        """Ends an attempt that has taken too long."""
        ...

    def wake(self) -> None:
        """Looks at the queue again, since something that calls wait for has changed."""
        ...


class EndpointClient:
    """One caller's access to an endpoint in this process: a callable that is created at the first call, and its limits.

    Attributes:
        stopped: The reason why no more calls are made, or `None`. Other runs of this process may share the queue
            and continue.
        context: Context variables with which each call starts; no other call sees what a call sets.
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
        """Creates the callable unless it exists. Runs on a bundle's thread, so that the bundle gets what it raises."""
        with self._lock:
            if self.call is None:
                self.context = copy_context()
                call = self._connect()
                self.on_loop = is_async(call)
                self.remote_limiter = connect_limiter(
                    self.policy, self.queue.loop, self.queue.wake, partial(self.queue.stop, self)
                )
                self.call = call

    def close(self) -> None:
        """Closes the rate limiter, and the callable if it has a coroutine function `close`."""
        if self.remote_limiter is not None:
            self.remote_limiter.close()
        close = getattr(self.call, "close", None)
        if close is not None and not self.queue.loop.is_closed():
            asyncio.run_coroutine_threadsafe(close(), self.queue.loop)

    def classify(self, error: BaseException) -> ClassifiedError:
        """Classifies an exception that a call raised."""
        return classify_error(error, self.policy.retry_on)

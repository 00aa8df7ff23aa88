"""One endpoint as a bundle sees it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from ...schemas.calls import Call
from ...schemas.config.calls import CallPolicy
from .budget import Ledger
from .endpoint_queue import Lane
from .errors import Fault, fault_of
from .pending_call import Timeouts
from .rate_limit_service import Permits, connected
from .stop import Breaker


class Line:
    """One caller's way to its endpoint in this process: a callable made at the first call, and its limits.

    Attributes:
        stopped: Why no more calls are made; other runs of this process, which may share the lane, go on.
        context: Context variables that each call begins with; what a call sets is seen by no other.
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
        self.context = Context()
        self.permits: Permits | None = None

    def open(self) -> None:
        """Makes the callable unless it is there; called on a bundle thread, which gets what that raises."""
        with self._lock:
            if self.call is None:
                self.context = copy_context()
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

"""One call on its way through its attempts, and the watch over how long they take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...schemas.calls import Call, Outcome
from ...schemas.instance import Usage
from .threads import Job

if TYPE_CHECKING:
    from .bundle import Bundle
    from .endpoint_client import EndpointClient


class PendingCall:
    """One call on its way through its attempts."""

    __slots__ = (
        "alarm",
        "attempt",
        "attempts",
        "backoff",
        "began",
        "bundle",
        "call",
        "client",
        "earlier",
        "first",
        "group",
        "index",
        "queued",
        "refusals",
        "submitted",
        "tokens",
    )  # fmt: skip

    def __init__(
        self, bundle: Bundle, client: EndpointClient, group: CallGroup, index: int, call: Call, submitted: float = 0.0
    ) -> None:
        self.bundle, self.client, self.group, self.index, self.call = bundle, client, group, index, call
        self.submitted = submitted
        self.attempts = self.refusals = 0
        self.first = self.began = self.queued = self.backoff = self.tokens = 0.0
        self.attempt: asyncio.Task[Any] | Job | None = None
        self.alarm: asyncio.TimerHandle | None = None
        self.earlier: Usage | None = None


class Timeouts:
    """Attempts of one client in flight, oldest first; one timer watches the oldest.

    A timer for each call would cost more than everything else that is done for it: nearly all are cancelled unused.

    Args:
        loop: Whose clock is used.
        seconds: What one attempt may take.
        expire: Called with each attempt that takes longer; removes it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expire: Callable[[PendingCall], None]) -> None:
        self.pending_calls: dict[PendingCall, None] = {}
        self._loop, self._seconds, self._expire = loop, seconds, expire
        self._armed = False

    def add(self, pending: PendingCall) -> None:
        """An attempt begins now."""
        self.pending_calls[pending] = None
        if not self._armed:
            self._armed = True
            self._loop.call_later(self._seconds, self._ring)

    def _ring(self) -> None:
        self._armed = False
        while self.pending_calls:
            oldest = next(iter(self.pending_calls))
            due = oldest.began + self._seconds
            if due > self._loop.time():
                self._armed = True
                self._loop.call_at(due, self._ring)
                return
            self._expire(oldest)


class CallGroup:
    """A batch and the outcomes of its calls, in the order of the calls.

    Attributes:
        item: The batch; the engine does not look at it.
        outcomes: One for each call, `None` while it has none.
        remaining: Calls without an outcome.
        size: Bytes of the outcomes of the calls that were made.
    """

    __slots__ = ("item", "outcomes", "remaining", "size")

    def __init__(self, item: Any, outcomes: list[Outcome | None]) -> None:
        self.item, self.outcomes = item, outcomes
        self.remaining = outcomes.count(None)
        self.size = 0

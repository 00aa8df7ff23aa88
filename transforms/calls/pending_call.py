"""One call on its way through its attempts, and who takes what comes of it."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ...schemas.calls import Call, Outcome
from ...schemas.instance import Usage
from .endpoint_client import EndpointClient
from .threads import Job


class Sink(Protocol):
    """Takes what comes of calls: the bundle that submitted them. All of it is used on the loop's thread.

    Attributes:
        cancelled: Whether nobody wants the outcomes any more.
    """

    cancelled: bool

    def full(self) -> bool:
        """Whether no call may start before what was recorded is put away."""
        ...

    def started(self) -> None:
        """A call has left the queue."""
        ...

    def ended(self, pending: PendingCall, outcome: Outcome) -> None:
        """A call has its outcome."""
        ...

    def fail(self, error: BaseException) -> None:
        """Something beside a call failed."""
        ...


class PendingCall:
    """One call on its way through its attempts."""

    __slots__ = (
        "alarm", "attempt", "attempts", "backoff", "began", "call", "client", "earlier", "first", "group", "index",
        "queued", "refusals", "sink", "submitted", "tokens",
    )  # fmt: skip

    def __init__(
        self, sink: Sink, client: EndpointClient, group: CallGroup, index: int, call: Call, submitted: float = 0.0
    ) -> None:
        self.sink, self.client, self.group, self.index, self.call = sink, client, group, index, call
        self.submitted = submitted
        self.attempts = self.refusals = 0
        self.first = self.began = self.queued = self.backoff = self.tokens = 0.0
        self.attempt: asyncio.Task[Any] | Job | None = None
        self.alarm: asyncio.TimerHandle | None = None
        self.earlier: Usage | None = None


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

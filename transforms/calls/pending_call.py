"""A call that has no outcome yet, and the sink that takes its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from ...schemas.calls import Call, Outcome
from ...schemas.json import Json
from .endpoint_client import EndpointClient
from .threads import Job


class Sink(Protocol):
    """Takes the outcomes of calls: the bundle that submitted them. The loop's thread calls all of it.

    Attributes:
        cancelled: Whether the outcomes are no longer wanted.
    """

    cancelled: bool

    def full(self) -> bool:
        """Returns whether no call may start until the recorded outcomes are written to storage."""
        ...

    def started(self) -> None:
        """Notes that a call has left the queue."""
        ...

    def ended(self, pending: PendingCall, outcome: Outcome) -> None:
        """Takes the outcome of a call."""
        ...

    def fail(self, error: BaseException) -> None:
        """Notes that something other than a call failed."""
        ...


class PendingCall:
    """A call, its attempts so far and the times measured on the way.

    Attributes:
        attempts, refusals: Attempts made, and how many of them were refused for the rate.
        submitted, first, began: When it was submitted, when its first and its last attempt began, on the loop's clock.
        queued, backoff: Seconds waited before the first attempt, and between attempts.
        tokens: Tokens that the current attempt was expected to use when it began.
        attempt: The task or job that runs; `None` if none does, or if it was abandoned.
        alarm: Timer of the row's deadline, if it comes before the timeout.
        earlier: What the attempts before this one used: their values, as those of failed calls.
    """

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
        self.earlier: Sequence[Json] = ()


class CallGroup:
    """A batch and the outcomes of its calls, in the order of the calls.

    Attributes:
        item: The batch; opaque to the engine.
        outcomes: One for each call, `None` until the call has ended.
        remaining: Calls without an outcome.
        size: Bytes of the outcomes, except those found in the journal.
    """

    __slots__ = ("item", "outcomes", "remaining", "size")

    def __init__(self, item: Any, outcomes: list[Outcome | None]) -> None:
        self.item, self.outcomes = item, outcomes
        self.remaining = outcomes.count(None)
        self.size = 0

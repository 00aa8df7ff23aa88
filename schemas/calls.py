"""The words of slow calls: what is asked, how often it may be tried, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .json import Json

CallClass: TypeAlias = Literal[
    "ok", "transient", "rate_limited", "permanent", "timeout", "invalid_answer", "not_called", "over_budget"
]
"""What came of a call. The last two, `NOT_MADE`, stand for calls that were not made at all."""
NOT_MADE: frozenset[str] = frozenset(("not_called", "over_budget"))


@dataclass(slots=True)  # not frozen: to be made would take twice as long, for each call
class Call:
    """One call to make.

    Attributes:
        key: Hash of everything the answer depends on, in hexadecimal digits; where the journal finds it again, and
            the idempotency key.
        request: What the callee is given.
        prefix: Two hexadecimal digits: which of the journal's 256 folders holds the call. Calls of neighbouring rows
            share it, so that a shard reads only its own part of the journal.
        endpoint: Who is called: one of the caller's endpoints.
    """

    key: str
    request: Json
    prefix: str = "00"
    endpoint: str = "agent"


@dataclass(slots=True)  # not frozen, for the same reason
class Outcome:
    """What came of one call.

    Attributes:
        value: The answer, JSON. Of a failed call `{"usage": ...}` where it used tokens all the same, else `None`. What
            attempts before the last one used stands in `usage.earlier`.
        kind: Class of the result.
        error_type: Name of the last error, e.g. "TimeoutError".
        error_message: Its text, without addresses and durations.
        attempts: Attempts made.
        latency_in_seconds: Seconds of the attempt that counted.
        queued_in_seconds: Seconds from being submitted to the first attempt.
        backoff_in_seconds: Seconds between attempts.
        refused: How many of the attempts the endpoint refused for their rate.
        replayed: Whether the answer came from the journal.
    """

    value: Json = None
    kind: CallClass = "ok"
    error_type: str | None = None
    error_message: str | None = None
    attempts: int = 1
    latency_in_seconds: float | None = None
    queued_in_seconds: float = 0.0
    backoff_in_seconds: float = 0.0
    refused: int = 0
    replayed: bool = False

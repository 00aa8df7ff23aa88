"""Types of slow calls: the call, its outcome and the outcome's class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .json import Json

CallClass: TypeAlias = Literal[
    "ok", "transient", "rate_limited", "permanent", "timeout", "invalid_answer", "not_called", "over_budget"
]
"""Class of an outcome. The last two, `NOT_MADE`, are of calls that were never made."""
NOT_MADE: frozenset[str] = frozenset(("not_called", "over_budget"))


@dataclass(slots=True)  # not frozen: construction, once for each call, would take twice as long
class Call:
    """One call to make.

    Attributes:
        key: Hash of everything that the answer depends on, in hexadecimal digits; the key of the journal entry and the
            idempotency key of the request.
        request: The request to the callee.
        prefix: Two hexadecimal digits that select one of the journal's 256 folders. Calls of neighbouring rows share
            it, so that a shard reads only its own part of the journal.
        endpoint: Name of the called endpoint, one of the caller's.
    """

    key: str
    request: Json
    prefix: str = "00"
    endpoint: str = "agent"


@dataclass(slots=True)  # not frozen, for the same reason
class Outcome:
    """The outcome of one call.

    Attributes:
        value: The answer as JSON. For a failed call `{"usage": ...}` if it used tokens, else `None`. `usage.earlier`
            holds the tokens of attempts before the last one.
        kind: Class of the outcome.
        error_type: Name of the last error, e.g. "TimeoutError".
        error_message: Text of the last error, without addresses and durations.
        attempts: Number of attempts.
        latency_in_seconds: Duration of the decisive attempt.
        queued_in_seconds: Seconds from submission to the first attempt.
        backoff_in_seconds: Seconds waited between attempts.
        refused: Number of attempts that the endpoint refused for their rate.
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

"""Classifies the exceptions of calls: worth another attempt or not, how long to wait, and the text to keep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from ...schemas.calls import CallClass
from ...schemas.errors import JudgeError

RETRIED: frozenset[str] = frozenset(("transient", "rate_limited", "timeout"))
"""Classes of errors that are worth another attempt."""
MAX_TEXT = 1000
"""Most characters of an error's text, since tables and journals contain it."""
_LINKS = 10
"""Most errors of a chain of causes that are looked at: a chain may be a cycle."""

# Exception types of the common clients, by name: none of these libraries is a dependency.
_BY_NAME: dict[str, CallClass] = {
    **dict.fromkeys(
        (
            "RateLimitError",
            "RateLimitExceeded",
            "TooManyRequests",
            "ResourceExhausted",
            "ThrottlingException",
            "QuotaExceeded",
        ),
        "rate_limited",
    ),
    **dict.fromkeys(
        (
            "TimeoutError",
            "Timeout",
            "TimeoutException",
            "ReadTimeout",
            "ConnectTimeout",
            "ReadTimeoutError",
            "APITimeoutError",
            "DeadlineExceeded",
            "ServerTimeoutError",
        ),
        "timeout",
    ),
    **dict.fromkeys(
        (
            "ConnectionError",
            "IncompleteReadError",
            "IncompleteRead",
            "RemoteDisconnected",
            "NetworkError",
            "RemoteProtocolError",
            "ProtocolError",
            "ClientConnectionError",
            "ClientPayloadError",
            "APIConnectionError",
            "ServiceUnavailable",
            "ServiceUnavailableError",
            "InternalServerError",
            "BadGateway",
            "GatewayTimeout",
            "OverloadedError",
            "Aborted",
            "CancelledError",
            "TransportError",
            "gaierror",
            "BlockingIOError",
        ),
        "transient",
    ),
    **dict.fromkeys(("ClientConnectorCertificateError", "SSLCertVerificationError"), "permanent"),
    "InvalidAnswer": "invalid_answer",
}
_BY_GRPC: dict[str, CallClass] = {
    "RESOURCE_EXHAUSTED": "rate_limited",
    "DEADLINE_EXCEEDED": "timeout",
    "UNAVAILABLE": "transient",
    "ABORTED": "transient",
    "INTERNAL": "transient",
}
_PERMANENT: CallClass = "permanent"
_TRANSIENT_STATUS = frozenset((408, 409, 425))

_ADDRESS = re.compile(r"\s+at 0x[0-9a-fA-F]+|0x[0-9a-fA-F]{4,}")
_DURATION = re.compile(
    r"\b\d+(?:\.\d+)?(?:e-?\d+)?\s*(?:milliseconds?|microseconds?|seconds?|secs?|minutes?|mins?|ms|us|µs|ns|s)\b"
)


class ClassifiedError(NamedTuple):
    """An exception and its class.

    Attributes:
        kind: Its class.
        error_type: Name of its type.
        message: Its text without addresses and durations.
        retry_after: Seconds the callee asked to wait, if it did.
        spent: `{"usage": ...}`, in the form of an answer, if the failed call used tokens.
    """

    kind: CallClass
    error_type: str
    message: str
    retry_after: float | None = None
    spent: dict[str, Any] | None = None


def classify_error(error: BaseException, retry_on: tuple[str, ...] = ()) -> ClassifiedError:
    """Classifies an exception by the names of its types and by the HTTP or gRPC status it carries.

    Args:
        error: The exception the call raised.
        retry_on: Names of further types ("MyError" or "module.MyError") that are transient.
    """
    kind = _kind(error, retry_on)
    wait = _retry_after(error) if kind in RETRIED else None
    usage = error.usage if isinstance(error, JudgeError) else None
    return ClassifiedError(kind, type(error).__name__, _shown(error), wait, None if usage is None else {"usage": usage})


def classify_status(status: int, error_type: str, message: str, retry_on: tuple[str, ...] = ()) -> ClassifiedError:
    """Classifies an HTTP status without an exception; `error_type` is the name the exception would have."""
    kind = "transient" if error_type in retry_on and status != 429 else _by_status(status)
    return ClassifiedError(kind or _PERMANENT, error_type, clean(message))


def is_shutdown_error(error: BaseException | None) -> bool:
    """Returns whether a call failed because the interpreter shuts down, when it starts no more threads."""
    links = 0
    while error is not None and links < _LINKS:
        if isinstance(error, RuntimeError) and "interpreter shutdown" in str(error):
            return True
        error, links = error.__cause__ or error.__context__, links + 1
    return False


def clean(text: str) -> str:
    """Removes memory addresses and durations from a text, so that two runs give the same one, and shortens it."""
    # Four times as long as the result, since the substitutions shorten it; a text of megabytes would be slow.
    text = _DURATION.sub("<duration>", _ADDRESS.sub("", text[: 4 * MAX_TEXT]))
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()


def _kind(error: BaseException, retry_on: tuple[str, ...]) -> CallClass:
    names = [name for t in type(error).__mro__ for name in (t.__name__, f"{t.__module__}.{t.__qualname__}")]
    if any(name in retry_on for name in names):
        return "rate_limited" if _status(error) == 429 else "transient"
    by_status = _by_status(_status(error))
    by_name: CallClass | None = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
    if by_status == "transient" and by_name == "timeout":  # a 504, if the client has a type of its own for it
        return by_name
    return by_status or by_name or _PERMANENT


def _by_status(status: int | str | None) -> CallClass | None:
    if isinstance(status, str):
        return _BY_GRPC.get(status)
    if status is None:
        return None
    if status == 429:
        return "rate_limited"
    if status in _TRANSIENT_STATUS or 500 <= status <= 599:
        return "transient"
    if 400 <= status <= 499:
        return "permanent"
    return None


def _status(error: BaseException) -> int | str | None:
    """Returns the HTTP status, or the name of the gRPC status, that an exception carries."""
    if isinstance(error, SystemExit):  # its `code` is an exit status
        return None
    response = _attribute(error, "response")
    for holder, name in (
        (error, "status_code"),
        (error, "status"),
        (error, "code"),
        (response, "status_code"),
        (response, "status"),
    ):
        value = _attribute(holder, name)
        if name == "code" and callable(value):
            try:
                value = value()
            except Exception:  # a foreign method: no status then
                continue
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
            return int(value)
        word = _attribute(value, "name") if value is not None else None
        word = word if isinstance(word, str) else value
        if isinstance(word, str) and word in _BY_GRPC:
            return word
    return None


def _retry_after(error: BaseException) -> float | None:
    """Reads the seconds of a `retry_after` attribute or of a Retry-After header (seconds or an HTTP date)."""
    given, date = _attribute(error, "retry_after"), None
    for holder in (error, _attribute(error, "response")):
        headers = _attribute(holder, "headers")
        if given is None and isinstance(headers, Mapping):
            lower = {str(k).lower(): v for k, v in headers.items()}
            given, date = lower.get("retry-after"), lower.get("date")
    try:
        wait = float(given) if given is not None else None
    except (TypeError, ValueError):
        wait = _seconds_between(_moment(date) or datetime.now(UTC), _moment(given))
    return wait if wait is not None and 0 <= wait < float("inf") else None


def _seconds_between(now: datetime, moment: datetime | None) -> float | None:
    return None if moment is None else max(0.0, (moment - now).total_seconds())


def _moment(date: Any) -> datetime | None:
    """Parses an HTTP date, which is by the callee's clock."""
    try:
        moment = parsedate_to_datetime(str(date))
    except (TypeError, ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC)


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # properties of foreign exceptions may raise anything
        return None


def _shown(error: BaseException) -> str:
    try:
        return clean(str(error))
    except Exception:  # a foreign __str__ may raise anything
        return ""

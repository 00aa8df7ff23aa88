"""Stops the calls of a run: a breaker in each process, and one object in storage that all processes read."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from ...schemas.calls import CallClass
from ..io import storage

POLL = 2.0
"""Seconds between two looks of a bundle at the stop object: each look is a request to the storage."""
OVER_BUDGET = "over budget"
"""Start of a reason that says that the budget is spent."""
_log = logging.getLogger(__name__)


def class_of_reason(reason: str) -> CallClass:
    """Returns the class of calls that are not made for a reason."""
    return "over_budget" if reason.startswith(OVER_BUDGET) else "not_called"


class Breaker:
    """Trips if more than a share of the last calls failed, but only at the start of a run.

    The first healthy full window disables it for good: after that, failures are due to the rows.

    Args:
        share: In (0, 1); `None` never trips.
        window: Number of last calls that count, at least 1.
    """

    def __init__(self, share: float | None, window: int) -> None:
        self._share = share
        self._last: deque[bool] | None = None if share is None else deque(maxlen=window)

    def ended(self, failed: bool) -> str | None:
        """Counts a call that has ended; returns the reason if no more should be made."""
        last = self._last
        if last is None or self._share is None:
            return None
        last.append(failed)
        if len(last) < (last.maxlen or 0):
            return None
        failures = sum(last)
        if failures > self._share * len(last):
            return f"{failures} of the last {len(last)} calls failed (failure_threshold {self._share:g})"
        self._last = None
        return None


class StopFlag:
    """The object whose presence stops a run; its text says why.

    Args:
        path: Path of the object.
        clock: Returns seconds; injected by tests.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._looked = float("-inf")
        self._known = False

    def seen(self) -> str | None:
        """Returns the reason why the run should stop, or `None`; looks at most every `POLL` seconds.

        A reason is returned once, since the caller acts on it for good.
        """
        now = self._clock()
        if self._known or now - self._looked < POLL:
            return None
        self._looked = now
        try:
            if not storage.exists(self._path):
                return None
            reason = storage.read_bytes(self._path).decode("utf-8", "replace")
        except Exception as error:  # each filesystem has its own exceptions; the next look is soon
            _log.warning("cannot read whether the run should stop: %s", error)
            return None
        self._known = True
        return reason or "stopped"

    def put(self, reason: str) -> None:
        """Stops the run in all its processes; the first reason stays. A failed write is repeated by the next call."""
        if self._known:
            return
        try:
            if not storage.exists(self._path):
                storage.write_whole(self._path, reason.encode())
        except Exception as error:
            _log.warning("cannot tell the other processes to make no more calls: %s", error)
            return
        self._known = True
        _log.warning("no more calls are made: %s", reason)

"""When a run should make no more calls: a breaker in each process, and one object in storage that all of them read."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from ...schemas.calls import CallClass
from ..io import storage

POLL = 2.0
"""Seconds between two looks at the stop object, by each bundle."""
OVER_BUDGET = "over budget"
"""How a reason begins that is a spent budget."""
_log = logging.getLogger(__name__)


def kind_of(reason: str) -> CallClass:
    """What the calls are that are not made for a reason."""
    return "over_budget" if reason.startswith(OVER_BUDGET) else "not_called"


class Breaker:
    """Trips when more than a share of the last calls failed, at the head of a run only.

    It goes off for good with the first full window that is healthy: later failures are the rows' own.

    Args:
        share: In (0, 1); `None` never trips.
        window: Calls that are looked at, at least 1.
    """

    def __init__(self, share: float | None, window: int) -> None:
        self._share = share
        self._last: deque[bool] | None = None if share is None else deque(maxlen=window)

    def ended(self, failed: bool) -> str | None:
        """Counts a call that has its outcome; why no more should be made, if so."""
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
        path: Where it is or will be.
        clock: Seconds, for tests.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._looked = float("-inf")
        self._known = False

    def seen(self) -> str | None:
        """Why the run should stop, once somebody has said so; looks at most every `POLL` seconds."""
        now = self._clock()
        if self._known or now - self._looked < POLL:
            return None
        self._looked = now
        try:
            if not storage.exists(self._path):
                return None
            reason = storage.read_bytes(self._path).decode("utf-8", "replace")
        except Exception as error:  # each filesystem has exceptions of its own; there is another look soon
            _log.warning("whether the run should stop could not be read: %s", error)
            return None
        self._known = True
        return reason or "stopped"

    def put(self, reason: str) -> None:
        """Stops the run in all its processes; the first reason stays. What storage refuses is put again next time."""
        if self._known:
            return
        try:
            if not storage.exists(self._path):
                storage.write_whole(self._path, reason.encode())
        except Exception as error:
            _log.warning("the other processes could not be told to make no more calls: %s", error)
            return
        self._known = True
        _log.warning("no more calls are made: %s", reason)

"""Ends attempts that take too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    """Something that began at a time of the loop's clock, in seconds."""

    began: float


T = TypeVar("T", bound=Timed)


class Timeouts(Generic[T]):
    """The attempts of one client in flight, oldest first; a single timer watches the oldest.

    A timer for each call would cost more than all other work for the call, and nearly all would be cancelled unused.
    All attempts have the same timeout, so they expire in the order in which they began.

    Args:
        loop: The loop whose clock and timers are used.
        seconds: Most seconds of one attempt.
        expire: Called with each attempt that takes longer; removes it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expire: Callable[[T], None]) -> None:
        self.attempts: dict[T, None] = {}
        self._loop, self._seconds, self._expire = loop, seconds, expire
        self._armed = False

    def add(self, pending: T) -> None:
        """Adds an attempt that begins now."""
        self.attempts[pending] = None
        if not self._armed:
            self._armed = True
            self._loop.call_later(self._seconds, self._ring)

    def _ring(self) -> None:
        self._armed = False
        while self.attempts:
            oldest = next(iter(self.attempts))
            due = oldest.began + self._seconds
            if due > self._loop.time():
                self._armed = True
                self._loop.call_at(due, self._ring)
                return
            self._expire(oldest)

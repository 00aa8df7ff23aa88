"""A second thread for what needs no interpreter: compression and file formats, done while the rows go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Background:
    """Finishes values on a thread of its own, in order, at most `ahead` of them waiting.

    It pays for functions that release the interpreter's lock. An exception is raised where the value is taken.
    """

    def __init__(self, ahead: int = 8) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[Any]] = deque()
        self._ahead = ahead

    def submit(self, function: Callable[..., Any], *args: Any) -> None:
        """Has a value finished."""
        self._waiting.append(self._pool.submit(function, *args))

    def ready(self) -> Iterator[Any]:
        """The oldest values, until no more than `ahead` are waiting."""
        while len(self._waiting) > self._ahead:
            yield self._waiting.popleft().result()

    def rest(self) -> Iterator[Any]:
        """All values that are waiting."""
        while self._waiting:
            yield self._waiting.popleft().result()

    def close(self) -> None:
        """Drops what is waiting and ends the thread."""
        self._waiting.clear()
        self._pool.shutdown(cancel_futures=True)

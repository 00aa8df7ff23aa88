"""A second thread for work that releases the interpreter lock: compression and file formats."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Background:
    """Computes values on a thread of its own, in order, at most `ahead` of them at a time.

    It pays off for functions that release the interpreter lock. An exception is raised when the value is taken.
    """

    def __init__(self, ahead: int = 8) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[Any]] = deque()
        self._ahead = ahead

    def submit(self, function: Callable[..., Any], *args: Any) -> None:
        """Queues the computation of a value."""
        self._waiting.append(self._pool.submit(function, *args))

    def ready(self) -> Iterator[Any]:
        """Yields the oldest values until no more than `ahead` are queued."""
        while len(self._waiting) > self._ahead:
            yield self._waiting.popleft().result()

    def rest(self) -> Iterator[Any]:
        """Yields all remaining values."""
        while self._waiting:
            yield self._waiting.popleft().result()

    def close(self) -> None:
        """Drops the queued values and ends the thread."""
        self._waiting.clear()
        self._pool.shutdown(cancel_futures=True)

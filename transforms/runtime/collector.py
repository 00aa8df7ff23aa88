"""Settings of Python's garbage collector for steps that create rows in bulk."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
_relaxing: list[tuple[int, int, int]] = []
"""The thresholds before the first of the threads that relax the collector now, once for each of them."""


def relax_collector() -> None:
    """Makes the collector run rarely, since it would scan all the new rows for cycles again and again."""
    gc.set_threshold(200_000, 50, 50)


@contextmanager
def relaxed_collector() -> Iterator[None]:
    """Makes the collector run rarely for some time, in any number of threads; then its thresholds are as before."""
    with _LOCK:
        _relaxing.append(_relaxing[0] if _relaxing else gc.get_threshold())
        relax_collector()
    try:
        yield
    finally:
        with _LOCK:
            before = _relaxing.pop()
            if not _relaxing:
                gc.set_threshold(*before)

"""Settings of Python's garbage collector for steps that create rows in bulk."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def relax_collector() -> None:
    """Makes the collector run rarely, since it would scan all the new rows for cycles again and again."""
    gc.set_threshold(200_000, 50, 50)


@contextmanager
def relaxed_collector() -> Iterator[None]:
    """Makes the collector run rarely within a block that creates much that stays."""
    thresholds = gc.get_threshold()
    relax_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)

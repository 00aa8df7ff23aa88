"""Settings of Python's garbage collector for steps that create rows in bulk."""

from __future__ import annotations

import gc


def relax_collector() -> None:
    """Makes the collector run rarely, since it would scan all the new rows for cycles again and again."""
    gc.set_threshold(200_000, 50, 50)

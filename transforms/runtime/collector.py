"""Python's cyclic collector in steps that make rows in bulk."""

from __future__ import annotations

import gc


def relax_collector() -> None:
    """Lets a step that makes rows in bulk outrun Python's cyclic collector, which would rescan them all."""
    gc.set_threshold(200_000, 50, 50)

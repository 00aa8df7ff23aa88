"""Where a run on this machine keeps what it shuffles: in memory up to a bound, then in files."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from ...schemas.run_folder import RunFolder
from ...transforms.io import storage
from ...transforms.runtime.spill import Spill
from .options import PipelineOptions, has_worker_processes, is_local

HELD = 16 << 20
"""Bytes that a step shuffles in memory, which the engine holds three times; what is beyond goes to files as fast."""


@contextmanager
def shuffling(options: PipelineOptions, run: RunFolder) -> Iterator[Spill]:
    """Yields where the steps of a run keep what they shuffle; its files are gone afterwards.

    With worker processes it is all in files, which are faster than passing the bytes through this process.
    """
    if not is_local(options):
        yield Spill()
        return
    name = f"evalbeam-shuffle-{uuid.uuid4().hex}"
    folder = run.temporary(name) if storage.is_local(run.path) else os.path.join(tempfile.gettempdir(), name)
    try:
        yield Spill(os.path.abspath(folder), 0 if has_worker_processes(options) else HELD)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

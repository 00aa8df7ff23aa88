"""Progress counters of a local run: each process counts a few numbers, and the driver adds them up meanwhile.

No result depends on them. They are counted only if the environment names a folder (`watched` sets it; worker processes
inherit it). Each process maps one small file of that folder into memory: counting needs no system call, and the driver
always reads the current numbers.
"""

from __future__ import annotations

import functools
import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = (
    "rows_read",
    "rows_rejected",
    "calls_in_flight",
    "calls_done",
    "calls_failed",
    "spent",
    "rows_scored",
    "rows_written",
)
"""Names of counters. `calls_in_flight` rises and falls, the others only rise; `calls_done` includes failed calls.

`spent` is in billionths of the currency of the prices.
"""
FOLDER = "EVALBEAM_PROGRESS"
"""Environment variable that names the folder."""

_PREFIX = "evalbeam-progress-"
_BYTES = 8 * len(NAMES)
_lock = threading.Lock()
_folder = os.environ.get(FOLDER)  # read once: a look into the environment takes as long as the rest of `add`


def add(name: str, count: int = 1) -> None:
    """Adds to one of `NAMES`; does nothing unless the run is watched. Call it per batch or per call, not per row."""
    if _folder and count:
        with _lock:
            _cells(_folder, os.getpid())[NAMES.index(name)] += count


def is_watched() -> bool:
    """Returns whether somebody looks at the counters; if not, what is added is dropped, and need not be found out."""
    return bool(_folder)


def totals(folder: str) -> dict[str, int]:
    """Returns the sums over all processes that count into a folder."""
    sums = [0] * len(NAMES)
    for file in Path(folder).iterdir():
        cells = memoryview(file.read_bytes()[:_BYTES].ljust(_BYTES, b"\0")).cast("q")
        sums = [a + b for a, b in zip(sums, cells, strict=True)]
    return dict(zip(NAMES, sums, strict=True))


@contextmanager
def watched() -> Iterator[str]:
    """Makes this process, and those it starts, count into a new folder, which is removed at the end.

    Folders left by killed processes are removed as well.
    """
    before = _folder
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if (lock := _lock_folder(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    new = Path(tempfile.mkdtemp(prefix="evalbeam-new-"))
    lock = _lock_folder(new)  # before the rename to the name that other processes look for
    folder = str(new.rename(new.with_name(new.name.replace("evalbeam-new-", _PREFIX))))
    _count_into(folder)
    try:
        yield folder
    finally:
        _count_into(before)
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _lock_folder(folder: Path) -> int | None:
    """Locks a folder until the returned descriptor is closed or the process ends; `None` if another process has it."""
    try:
        import fcntl
    except ImportError:  # not a Unix
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _count_into(folder: str | None) -> None:
    global _folder
    _folder = folder
    if folder is None:
        os.environ.pop(FOLDER, None)
    else:
        os.environ[FOLDER] = folder


def follow_environment() -> None:
    """Counts for the run that the environment names, in a process that was started before."""
    _count_into(os.environ.get(FOLDER))


@functools.lru_cache(maxsize=1)
def _cells(folder: str, process: int) -> memoryview:
    """Maps the numbers of a process as 64-bit integers; if the folder is gone, they are in private memory."""
    try:
        with open(Path(folder) / f"{process}", "w+b") as file:
            file.truncate(_BYTES)
            return memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("q")
    except OSError:
        return memoryview(bytearray(_BYTES)).cast("q")

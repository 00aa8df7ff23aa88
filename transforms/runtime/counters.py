"""How far a local run has come: a few whole numbers that each process counts and the driver adds up while it runs.

Nothing of a result depends on them. They are counted only where the environment names a folder (`watched` sets it;
worker processes inherit it): each process then maps one small file of that folder into its memory, so that counting
writes nothing and a number is never late.
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
    "rows_scored",
    "rows_written",
)
"""What is counted. `calls_in_flight` goes up and down, all others only up; `calls_done` includes the failed ones."""
FOLDER = "EVALBEAM_PROGRESS"
"""Environment variable that names the folder."""

_PREFIX = "evalbeam-progress-"
_BYTES = 8 * len(NAMES)
_lock = threading.Lock()
_folder = os.environ.get(FOLDER)  # looked up once: that takes as long as all the rest


def add(name: str, count: int = 1) -> None:
    """Adds to one of `NAMES`; does nothing where nobody watches. Meant to be called per batch or per call."""
    if _folder and count:
        with _lock:
            _cells(_folder, os.getpid())[NAMES.index(name)] += count


def totals(folder: str) -> dict[str, int]:
    """The sums over all processes that count into a folder."""
    sums = [0] * len(NAMES)
    for file in Path(folder).iterdir():
        cells = memoryview(file.read_bytes()[:_BYTES].ljust(_BYTES, b"\0")).cast("q")
        sums = [a + b for a, b in zip(sums, cells, strict=True)]
    return dict(zip(NAMES, sums, strict=True))


@contextmanager
def watched() -> Iterator[str]:
    """Has this process, and those it starts, count into a new folder, which is removed at the end.

    Folders that killed processes have left are removed, too.
    """
    before = _folder
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if (lock := _locked(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    new = Path(tempfile.mkdtemp(prefix="evalbeam-new-"))
    lock = _locked(new)  # before it has the name that others look for
    folder = str(new.rename(new.with_name(new.name.replace("evalbeam-new-", _PREFIX))))
    _count_into(folder)
    try:
        yield folder
    finally:
        _count_into(before)
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """Locks a folder until what is returned is closed, or this process ends; `None` where another process has it."""
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


@functools.lru_cache(maxsize=1)
def _cells(folder: str, process: int) -> memoryview:
    """The numbers of a process, as 64-bit integers in shared memory; of a folder that is gone, in memory of its own."""
    try:
        with open(Path(folder) / f"{process}", "w+b") as file:
            file.truncate(_BYTES)
            return memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("q")
    except OSError:
        return memoryview(bytearray(_BYTES)).cast("q")

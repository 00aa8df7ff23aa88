"""Keeps finished calls in the run's storage, and finds them by the hash of everything they depend on.

Layout: `<folder>/<two hexadecimal digits of the row's id>/seg-<uuid>`, on any filesystem that Beam opens, one segment
for each prefix that a bundle meets. On object storage segments are written whole, several of them during a bundle. On a
local disk a segment is appended to, result by result, so that a killed process loses none. Until its bundle ends it is
named `seg-<uuid>.open`: a reader of the journal of a running run can tell a record that is being written from damage.
Nothing under a final name is ever changed. Only put, list and get are used; two runs may share a journal. That of a
finished run can be compacted into one Parquet file (compact.py).
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import BinaryIO, cast

from ...schemas.calls import Call, Outcome
from ...schemas.errors import RunError
from ..io import storage
from .compact import Compacted, drop_duplicates, write_compacted
from .lookup import Lookup
from .ranks import rank
from .segments import OPEN, Record, Torn, encode_record, list_segments, log, read_pieces, read_records

BATCH = "batch"
"""Stands for the start of a run in records of calls of a batch that failed for a passing reason and are tried again."""
MAX_BUFFERED = 500
"""Most results that are not yet on object storage, which a killed process loses in addition to the calls in flight.
Writing starts at half as many."""
MAX_BUFFERED_BYTES = 16 << 20
"""Bytes of results in memory before they are put on object storage."""
MAX_SECONDS = 5.0
"""Seconds after which buffered results are written, if the bundle's thread is not busy elsewhere."""

_TRIES = 5
"""Attempts to write a segment, with pauses of 0.2, 0.4, 0.8 and 1.6 s."""
_PUTS = 16
"""Segments written at once: each one waits for the storage several times."""
_OPEN_FILES = 16
"""Segments of a bundle that are open at once, of up to 256 prefixes: processes have few file descriptors."""
_CACHED = 4
"""Prefixes whose records are in memory. Rows arrive in the order of their ids, so a bundle needs one or two of them."""


class Journal:
    """One bundle's view of a journal: the outcomes it finds there, and the segments it adds.

    Args:
        folder: Folder of the journal.
        run: Token of this start of the run, which finds all its own results again, including failures. `None` for a
            journal that is only read: all results count, see `ranks`.
        clock, sleep: Injected by tests.
    """

    def __init__(
        self,
        folder: str,
        run: str | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.folder, self._run = folder, run
        self._clock, self._sleep = clock, sleep
        self._local = storage.is_local(folder)
        self._name = f"seg-{uuid.uuid4().hex}"
        self._buffer: deque[tuple[str, bytes]] = deque()
        self._added = self._put_away = 0  # bytes; each is counted by one thread
        self._leaving = 0
        self._flushed = clock()
        self._closed = False
        self._lock = threading.Lock()
        self._files: OrderedDict[str, BinaryIO] = OrderedDict()
        self._unsealed: set[str] = set()
        self._found: OrderedDict[str, Lookup] = OrderedDict()
        self._segments = list_segments(folder)
        self._compacted = Compacted(folder)

    def find(self, call: Call) -> Outcome | None:
        """Finds the outcome of a call that ended before this bundle began; `None` if there is none."""
        known = self._records(call.prefix)
        return None if known is None else known.get(call.key)

    def tried(self, call: Call) -> bool:
        """Returns whether a call ended before this bundle began, even if it failed and is to be made again."""
        known = self._records(call.prefix)
        return known is not None and known.tried(call.key)

    def _records(self, prefix: str) -> Lookup | None:
        if not self._segments and not self._compacted.prefixes:
            return None
        known = self._found.get(prefix)
        if known is None:
            known = self._found[prefix] = self._load(prefix)
            if len(self._found) > _CACHED:
                self._found.popitem(last=False)
        return known

    def add(self, call: Call, outcome: Outcome) -> int:
        """Adds an outcome and returns its bytes. Runs on the loop's thread.

        Raises:
            RunError: The disk cannot be written to.
        """
        record = encode_record(call.key, self._run or "", outcome)
        if not self._local:
            self._buffer.append((call.prefix, record))
            self._added += len(record)
            return len(record)
        with self._lock:
            if self._closed:
                return len(record)
            try:
                if self._file(call.prefix).write(record) != len(record):
                    raise OSError("only a part of a record was written")
            except OSError as error:
                self._closed = True  # a reader stops at the torn record, so nothing may follow it
                self._unsealed.discard(call.prefix)
                raise self._refused(error) from error
        return len(record)

    def due(self) -> bool:
        """Returns whether enough is buffered to be written now."""
        return len(self._buffer) >= MAX_BUFFERED // 2 or self._added - self._put_away >= MAX_BUFFERED_BYTES

    def full(self) -> bool:
        """Returns whether no call should start before the buffer is written."""
        return self._leaving + len(self._buffer) >= MAX_BUFFERED

    def flush_if_due(self) -> bool:
        """Writes the buffer if it is large or old, and returns whether it did; called often, on the bundle's thread."""
        due = bool(self._buffer) and (self.due() or self._clock() - self._flushed >= MAX_SECONDS)
        if due:
            self.flush()
        return due

    def flush(self) -> None:
        """Writes the buffer, a segment for each prefix.

        Raises:
            RunError: The storage has refused a segment several times.
        """
        self._flushed = self._clock()
        segments: dict[str, list[bytes]] = defaultdict(list)
        while self._buffer:
            self._leaving += 1  # before `popleft`: `full` on the loop's thread must never count too few
            prefix, record = self._buffer.popleft()
            segments[prefix].append(record)
            self._put_away += len(record)
        paths = [f"{self.folder}/{prefix}/seg-{uuid.uuid4().hex}" for prefix in segments]
        with ThreadPoolExecutor(_PUTS) as pool:  # each put waits for the storage several times
            deque(pool.map(self._put, paths, map(b"".join, segments.values())), maxlen=0)
        self._leaving = 0

    def close(self) -> None:
        """Writes the buffer and gives the open segments their final names."""
        with self._lock:
            self._closed = True
            while self._files:
                self._files.popitem()[1].close()
            while self._unsealed:
                path = self._path(self._unsealed.pop())
                with suppress(OSError):  # it can be read under the name it has, too
                    os.rename(path, path.removesuffix(OPEN))
        self.flush()

    def _load(self, prefix: str) -> Lookup:
        segments = map(read_pieces, self._segments.get(prefix, []))
        return Lookup(chain(self._compacted.groups(prefix), *segments), partial(rank, reader=self._run))

    def _file(self, prefix: str) -> BinaryIO:
        file = self._files.get(prefix)
        if file is None:
            if len(self._files) >= _OPEN_FILES:
                self._files.popitem(last=False)[1].close()
            os.makedirs(f"{self.folder}/{prefix}", exist_ok=True)
            file = self._files[prefix] = cast(BinaryIO, open(self._path(prefix), "ab", buffering=0))  # noqa: SIM115
            self._unsealed.add(prefix)
        return file

    def _path(self, prefix: str) -> str:
        return f"{self.folder}/{prefix}/{self._name}{OPEN}"

    def _put(self, path: str, data: bytes) -> None:
        for attempt in range(_TRIES):
            try:
                with storage.create(path) as file:
                    file.write(data)
                return
            except Exception as error:  # each filesystem has its own exceptions
                if attempt == _TRIES - 1:
                    raise self._refused(error) from error
                self._sleep(0.2 * 2**attempt)

    def _refused(self, error: Exception) -> RunError:
        return RunError(f"cannot write to the journal {self.folder}: {type(error).__name__}: {error}")


def read_journal(folder: str, report: Callable[[Torn], None] = log) -> Iterator[Record]:
    """Yields all records of a journal, prefix by prefix; calls `report` for segments that are not read to their end."""
    for _, records in _by_prefix(folder, report):
        yield from records


def compact(folder: str) -> int:
    """Compacts a journal that nobody writes to into one file; returns the number of its records."""
    segments = [path for paths in list_segments(folder).values() for path in paths]
    count = write_compacted(folder, _by_prefix(folder, log))
    storage.delete(segments)
    return count


def _by_prefix(folder: str, report: Callable[[Torn], None]) -> Iterator[tuple[str, Iterator[Record]]]:
    compacted, segments = Compacted(folder), list_segments(folder)
    for prefix in sorted({*compacted.prefixes, *segments}):
        read = partial(read_records, report=report)
        records = chain(compacted.read(prefix), *map(read, segments.get(prefix, [])))
        yield prefix, drop_duplicates(records) if prefix in segments and prefix in compacted.prefixes else records

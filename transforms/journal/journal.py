"""Finished calls, kept in the run's storage and found again by the hash of all they depend on.

Layout: `<folder>/<two hexadecimal digits of the row's id>/seg-<uuid>`, on any filesystem Beam opens, a segment for each
prefix that a bundle meets. On object storage a segment is put whole, several of them while the bundle goes on. On a
local disk it is appended result by result, so that a killed process loses none, under the name `seg-<uuid>.open`, and
renamed when the bundle ends: who reads the journal of a run that still goes on can tell a record that is being written
from damage. Nothing under its final name is ever changed. Only put, list and get are used; two runs may share a
journal. That of a finished run can be brought into one Parquet file (compact.py).
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

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem

from ...schemas.calls import Call, Outcome
from ...schemas.errors import RunError
from ..io import storage
from .compact import Compacted, distinct, write_compacted
from .lookup import Lookup
from .segments import OPEN, Record, Torn, decoded, encoded, log, pieces, segments_of

KEPT = frozenset(("ok", "permanent", "invalid_answer"))
"""Outcomes that another run takes over; others are tried again, and only the run that made them keeps them."""
MAX_BUFFERED = 500
"""Results that are not yet on object storage, and that a killed process loses, beside those of the calls in flight; put
as soon as half as many are there."""
MAX_BUFFERED_BYTES = 16 << 20
"""Bytes of results in memory before they are put on object storage."""
MAX_SECONDS = 5.0
"""Seconds a result waits in memory at most, as long as the bundle's thread comes by."""

_TRIES = 5
_PUTS = 16
_OPEN_FILES = 16
_CACHED = 4


class Journal:
    """One bundle's view of a journal: what it finds there, and the segments it adds.

    Args:
        folder: Folder of the journal.
        run: Token of the run: it finds all its own results again, failures too. `None` for a journal that is only read:
            all its results count, failures where nothing better came of the call.
        clock, sleep: For tests.
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
        self._local = isinstance(FileSystems.get_filesystem(folder), LocalFileSystem)
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
        self._segments = segments_of(folder)
        self._compacted = Compacted(folder)

    def find(self, call: Call) -> Outcome | None:
        """What came of the call before this bundle began."""
        if not self._segments and not self._compacted.prefixes:
            return None
        known = self._found.get(call.prefix)
        if known is None:
            known = self._found[call.prefix] = self._load(call.prefix)
            if len(self._found) > _CACHED:
                self._found.popitem(last=False)
        return known.get(call.key)

    def add(self, call: Call, outcome: Outcome) -> int:
        """Keeps an outcome and returns its bytes. Called on the loop's thread before the call's place is free.

        Raises:
            RunError: The disk refuses it.
        """
        record = encoded(call.key, self._run or "", outcome)
        if not self._local:
            self._buffer.append((call.prefix, record))
            self._added += len(record)
            return len(record)
        with self._lock:
            if self._closed:
                return len(record)
            try:
                if self._file(call.prefix).write(record) != len(record):
                    raise OSError("the disk took a part of a record")
            except OSError as error:
                self._closed = True  # what follows a torn record would never be read
                self._unsealed.discard(call.prefix)
                raise self._refused(error) from error
        return len(record)

    def due(self) -> bool:
        """Whether enough is buffered to be put now."""
        return len(self._buffer) >= MAX_BUFFERED // 2 or self._added - self._put_away >= MAX_BUFFERED_BYTES

    def full(self) -> bool:
        """Whether no call should start before what is buffered has been put."""
        return self._leaving + len(self._buffer) >= MAX_BUFFERED

    def flush_if_due(self) -> bool:
        """Puts what is buffered once it is much or old; called often, on the bundle's thread. Says whether it did."""
        due = bool(self._buffer) and (self.due() or self._clock() - self._flushed >= MAX_SECONDS)
        if due:
            self.flush()
        return due

    def flush(self) -> None:
        """Puts what is buffered, a segment for each prefix.

        Raises:
            RunError: The storage refuses a segment several times.
        """
        self._flushed = self._clock()
        segments: dict[str, list[bytes]] = defaultdict(list)
        while self._buffer:
            self._leaving += 1
            prefix, record = self._buffer.popleft()
            segments[prefix].append(record)
            self._put_away += len(record)
        paths = [f"{self.folder}/{prefix}/seg-{uuid.uuid4().hex}" for prefix in segments]
        with ThreadPoolExecutor(_PUTS) as pool:  # each put waits for the storage several times
            deque(pool.map(self._put, paths, map(b"".join, segments.values())), maxlen=0)
        self._leaving = 0

    def close(self) -> None:
        """Puts what is buffered and gives the open segments their final names."""
        with self._lock:
            self._closed = True
            while self._files:
                self._files.popitem()[1].close()
            while self._unsealed:
                path = self._path(self._unsealed.pop())
                with suppress(OSError):  # it is as good under the name it has
                    os.rename(path, path.removesuffix(OPEN))
        self.flush()

    def _load(self, prefix: str) -> Lookup:
        segments = map(pieces, self._segments.get(prefix, []))
        return Lookup(chain(self._compacted.groups(prefix), *segments), self._wanted)

    def _wanted(self, run: str, kind: str) -> int:
        return 2 if kind in KEPT else int(self._run in (run, None))

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
                with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
                    file.write(data)
                return
            except Exception as error:  # each filesystem has exceptions of its own
                if attempt == _TRIES - 1:
                    raise self._refused(error) from error
                self._sleep(0.2 * 2**attempt)

    def _refused(self, error: Exception) -> RunError:
        return RunError(f"cannot write to the journal {self.folder}: {type(error).__name__}: {error}")


def read_journal(folder: str, report: Callable[[Torn], None] = log) -> Iterator[Record]:
    """All records of a journal, prefix by prefix; `report` is called with segments that are not read to their end."""
    for _, records in _by_prefix(folder, report):
        yield from records


def compact(folder: str) -> int:
    """Brings a journal that nobody writes to into one file; returns the number of its records."""
    segments = [path for paths in segments_of(folder).values() for path in paths]
    count = write_compacted(folder, _by_prefix(folder, log))
    storage.delete(segments)
    return count


def _by_prefix(folder: str, report: Callable[[Torn], None]) -> Iterator[tuple[str, Iterator[Record]]]:
    compacted, segments = Compacted(folder), segments_of(folder)
    for prefix in sorted({*compacted.prefixes, *segments}):
        read = partial(decoded, report=report)
        records = chain(compacted.read(prefix), *map(read, segments.get(prefix, [])))
        yield prefix, distinct(records) if prefix in segments and prefix in compacted.prefixes else records

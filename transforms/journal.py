"""Finished calls, kept in the run's storage and found again by the hash of all they depend on.

Layout: `<folder>/<two hexadecimal digits of the row's id>/seg-<uuid>`, on any filesystem Beam opens. A segment is
written once (on object storage, put whole; on a local disk, appended result by result, so that a killed process loses
none) and never changed afterwards. A record is a line: length and CRC-32 of its JSON in hexadecimal digits, then the
JSON. A file is read up to its first bad record. Only put, list and get are used; two runs may share a journal. That
of a finished run can be brought into one Parquet file (compact.py).
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
import zlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem

from ..schemas.calls import Call, Outcome
from ..schemas.errors import RunError
from . import storage
from .compact import Compacted, Record, write_compacted

KEPT = frozenset(("ok", "permanent", "invalid_answer"))
"""Outcomes that another run takes over; others are tried again, and only the run that made them keeps them."""
MAX_BUFFERED = 500
"""Results in memory at most before they are put on object storage."""
MAX_SECONDS = 5.0
"""Seconds a result waits in memory at most, as long as the bundle's thread comes by."""

_TRIES = 5
_PUTS = 16
_OPEN_FILES = 16
_CACHED = 4
_HEAD = 18
_log = logging.getLogger(__name__)


class Journal:
    """One bundle's view of a journal: what it finds there, and the segments it adds.

    Args:
        folder: Folder of the journal.
        run: Token of the run: it finds all its own results again, failures too.
        clock, sleep: For tests.
    """

    def __init__(
        self,
        folder: str,
        run: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.folder, self._run = folder, run
        self._clock, self._sleep = clock, sleep
        self._local = isinstance(FileSystems.get_filesystem(folder), LocalFileSystem)
        self._name = f"seg-{uuid.uuid4().hex}"
        self._buffer: deque[tuple[str, bytes]] = deque()
        self._flushed = clock()
        self._closed = False
        self._lock = threading.Lock()
        self._files: OrderedDict[str, BinaryIO] = OrderedDict()
        self._found: OrderedDict[str, dict[str, Outcome]] = OrderedDict()
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
        record = encoded(call.key, self._run, outcome)
        if not self._local:
            self._buffer.append((call.prefix, record))
            return len(record)
        with self._lock:
            if self._closed:
                return len(record)
            try:
                if self._file(call.prefix).write(record) != len(record):
                    raise OSError("the disk took a part of a record")
            except OSError as error:
                self._closed = True  # what follows a torn record would never be read
                raise self._refused(error) from error
        return len(record)

    def flush_if_due(self) -> None:
        """Puts what is buffered once it is much or old; called often, on the bundle's thread."""
        if self._buffer and (len(self._buffer) >= MAX_BUFFERED or self._clock() - self._flushed >= MAX_SECONDS):
            self.flush()

    def flush(self) -> None:
        """Puts what is buffered, a segment for each prefix.

        Raises:
            RunError: The storage refuses a segment several times.
        """
        self._flushed = self._clock()
        segments: dict[str, list[bytes]] = defaultdict(list)
        while self._buffer:
            prefix, record = self._buffer.popleft()
            segments[prefix].append(record)
        paths = [f"{self.folder}/{prefix}/seg-{uuid.uuid4().hex}" for prefix in segments]
        with ThreadPoolExecutor(_PUTS) as pool:  # each put waits for the storage several times
            deque(pool.map(self._put, paths, map(b"".join, segments.values())), maxlen=0)

    def close(self) -> None:
        """Puts what is buffered and closes the open segments."""
        with self._lock:
            self._closed = True
            while self._files:
                self._files.popitem()[1].close()
        self.flush()

    def _load(self, prefix: str) -> dict[str, Outcome]:
        known: dict[str, Outcome] = {}
        segments = (read_segment(path) for path in self._segments.get(prefix, []))
        for key, run, outcome in chain(self._compacted.read(prefix), *segments):
            if run == self._run or outcome.kind in KEPT:
                known.setdefault(key, outcome)
        return known

    def _file(self, prefix: str) -> BinaryIO:
        file = self._files.get(prefix)
        if file is None:
            if len(self._files) >= _OPEN_FILES:
                self._files.popitem(last=False)[1].close()
            os.makedirs(f"{self.folder}/{prefix}", exist_ok=True)
            path = f"{self.folder}/{prefix}/{self._name}"
            file = self._files[prefix] = cast(BinaryIO, open(path, "ab", buffering=0))  # noqa: SIM115
        return file

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


def encoded(key: str, run: str, outcome: Outcome) -> bytes:
    """A record."""
    record: dict[str, Any] = {"key": key, "run": run, "kind": outcome.kind}
    if outcome.kind == "ok":
        record["value"] = outcome.value
    else:
        record |= {"error_type": outcome.error_type, "error_message": outcome.error_message}
    record |= {
        "attempts": outcome.attempts,
        "latency": outcome.latency_in_seconds,
        "queued": outcome.queued_in_seconds,
        "backoff": outcome.backoff_in_seconds,
        "refused": outcome.refused,
    }
    text = orjson.dumps(record)
    return b"%08x %08x %b\n" % (len(text), zlib.crc32(text), text)


def decoded(data: bytes) -> Iterator[tuple[str, str, Outcome]]:
    """(key, run, outcome) of the records of a segment, up to its first bad one.

    Raises:
        ValueError: After the last good record, where bytes remain that are no record.
    """
    place, end = 0, len(data)
    while place < end:
        head = data[place : place + _HEAD]
        try:
            size, checksum = int(head[:8], 16), int(head[9:17], 16)
        except ValueError:
            size, checksum = -1, 0
        start = place + _HEAD
        text = data[start : start + max(size, 0)]
        place = start + size + 1
        if size < 0 or place > end or zlib.crc32(text) != checksum or data[place - 1] != 0x0A:
            raise ValueError(f"bad record at byte {start - _HEAD} of {end}")
        yield _outcome(orjson.loads(text))


def read_segment(path: str) -> Iterator[tuple[str, str, Outcome]]:
    """The good records at the start of a segment; what follows them is reported in the log."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        data = file.read()
    try:
        yield from decoded(data)
    except ValueError as error:
        _log.warning("journal segment %s is torn: %s; the calls beyond are made again", path, error)


def read_journal(folder: str) -> Iterator[tuple[str, str, Outcome]]:
    """All records of a journal, prefix by prefix."""
    for _, records in _by_prefix(folder):
        yield from records


def compact(folder: str) -> int:
    """Brings a journal that nobody writes to into one file; returns the number of its records."""
    segments = [path for paths in segments_of(folder).values() for path in paths]
    count = write_compacted(folder, _by_prefix(folder))
    storage.delete(segments)
    return count


def _by_prefix(folder: str) -> Iterator[tuple[str, Iterator[Record]]]:
    compacted, segments = Compacted(folder), segments_of(folder)
    for prefix in sorted({*compacted.prefixes, *segments}):
        yield prefix, chain(compacted.read(prefix), *map(read_segment, segments.get(prefix, [])))


def segments_of(folder: str) -> dict[str, list[str]]:
    """Paths of a journal's segments by prefix, sorted."""
    if isinstance(FileSystems.get_filesystem(folder), LocalFileSystem):
        paths = [path.as_posix() for path in Path(folder).glob("??/seg-*")]
    else:  # one list of all, a second for some thousands: one for each prefix would take longer in every small run
        paths = [m.path for m in FileSystems.match([f"{folder}/*/seg-*"])[0].metadata_list]
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        found[path.split("/")[-2]].append(path)
    return dict(found)


def _outcome(record: dict[str, Any]) -> tuple[str, str, Outcome]:
    outcome = Outcome(
        record.get("value"),
        record["kind"],
        record.get("error_type"),
        record.get("error_message"),
        record["attempts"],
        record["latency"],
        record["queued"],
        record["backoff"],
        record.get("refused", 0),
        replayed=True,
    )
    return record["key"], record["run"], outcome

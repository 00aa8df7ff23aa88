"""The segments of a journal: records one after another, read piece by piece up to the first bad one.

A record is a line: length and CRC-32 of its JSON in hexadecimal digits, then the JSON.

    byte 0          9          18                  18 + length
         length     CRC-32     {"key": ...}        line end

A segment that is still appended to has a name of its own (`OPEN`). It may end within a record, if its process is
writing it or was killed while it did; that is no damage. Anywhere else a bad record is damage.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import orjson

from ...schemas.calls import Outcome
from ..io import storage

OPEN = ".open"
"""Ending of the name of a segment that is appended to; the segment is renamed when it is complete."""
PIECE = 4 << 20
"""Bytes that are read at once; more if a single record is larger."""

Record: TypeAlias = tuple[str, str, Outcome]
"""(key, run, outcome)."""
Head: TypeAlias = tuple[str, str, str, int]
"""(key, run, kind, place in its piece) of a record."""

_HEAD = 18
_NAMES = re.compile(rb'\{"key":"([^"\\]*)","run":"([^"\\]*)","kind":"([a-z_]+)"')
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Torn:
    """A segment that is not read to its end.

    Attributes:
        path: The segment.
        at: Byte at which its first bad record begins.
        damaged: Whether that is damage; if not, its process is writing the record or was killed while it did.
    """

    path: str
    at: int
    damaged: bool

    def __str__(self) -> str:
        if self.damaged:
            return f"{self.path}: bad record at byte {self.at:,}; it and what follows is not read"
        return f"{self.path}: ends within a record, at byte {self.at:,}, which is not read"


def log(torn: Torn) -> None:
    """Reports a segment that is not read to its end."""
    _log.log(logging.WARNING if torn.damaged else logging.INFO, "journal segment %s; such calls are made again", torn)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some records of a segment.

    Attributes:
        path: The segment.
        offset: Byte at which the first record begins.
        size: Bytes of all of them.
    """

    path: str
    offset: int
    size: int

    def load(self) -> bytes:
        """Reads its bytes."""
        with open_segment(self.path) as file:
            file.seek(self.offset)
            return file.read(self.size)

    def record(self, loaded: bytes, place: int) -> Record:
        """Returns the record at a place.

        Raises:
            ValueError: The segment has changed since its heads were read.
        """
        end = _end(loaded, place)
        if end is None or end > len(loaded):
            raise ValueError(f"{self.path} has changed")
        return _record(orjson.loads(loaded[place + _HEAD : end - 1]))


def encode_record(key: str, run: str, outcome: Outcome) -> bytes:
    """Encodes a record as a line."""
    record: dict[str, Any] = {"key": key, "run": run, "kind": outcome.kind}
    if outcome.kind == "ok" or outcome.value is not None:
        record["value"] = outcome.value
    if outcome.kind != "ok":
        record["error_type"], record["error_message"] = outcome.error_type, outcome.error_message
    record["attempts"], record["latency"] = outcome.attempts, outcome.latency_in_seconds
    record["queued"], record["backoff"] = outcome.queued_in_seconds, outcome.backoff_in_seconds
    record["refused"] = outcome.refused
    text = orjson.dumps(record)
    return b"%08x %08x %b\n" % (len(text), zlib.crc32(text), text)


def read_pieces(
    path: str, report: Callable[[Torn], None] = log, start: int = 0
) -> Iterator[tuple[Piece, bytes, list[Head]]]:
    """Reads the good records of a segment up to its first bad one, piece by piece.

    Args:
        path: The segment.
        report: Called at the end if anything follows the good records.
        start: Byte at which a record begins, the first that is read.

    Yields:
        A piece, what it loads, and the heads of its records.
    """
    offset, data, wanted, lacking = start, b"", PIECE, 0
    with open_segment(path) as file:
        file.seek(start)
        while block := file.read(wanted):
            data += block
            heads, end, lacking = _heads(data)
            if end:
                yield Piece(path, offset, end), data[:end], heads
            offset, data, ended = offset + end, data[end:], len(block) < wanted
            if lacking is None or (ended and not data):  # on object storage, to read beyond the end is a request
                break
            wanted = max(PIECE, lacking)
    if data:
        report(Torn(path, offset, lacking is None or not path.endswith(OPEN)))


def read_records(path: str, report: Callable[[Torn], None] = log) -> Iterator[Record]:
    """Decodes the good records at the start of a segment, see `read_pieces`."""
    for piece, loaded, heads in read_pieces(path, report):
        for _, _, _, place in heads:
            yield piece.record(loaded, place)


def open_segment(path: str) -> BinaryIO:
    """Opens a segment for reading, under its final name if it has been renamed meanwhile."""
    try:
        return storage.opened(path)
    except FileNotFoundError:
        return storage.opened(path.removesuffix(OPEN))


def list_segments(folder: str) -> dict[str, list[str]]:
    """Lists the paths of a journal's segments by prefix, in an order that does not change if one is renamed."""
    # One listing of all takes object storage a second for some thousands; one for each prefix would take longer.
    paths = [path for path, _ in storage.matched_in(folder, "*/seg-*")]
    segments: dict[str, list[str]] = defaultdict(list)
    names = {
        path.removesuffix(OPEN): path for path in sorted(paths, reverse=True)
    }  # one renamed meanwhile is listed twice
    for name in sorted(names):
        segments[name.split("/")[-2]].append(names[name])
    return dict(segments)


def _heads(data: bytes) -> tuple[list[Head], int, int | None]:
    """Returns the heads of the good records at the start, their end, and the bytes the next one lacks (`None`: bad)."""
    heads: list[Head] = []
    place, size = 0, len(data)
    while place < size:
        end = _end(data, place)
        if end is None or end > size:
            return heads, place, None if end is None else end - size
        match = _NAMES.match(data, place + _HEAD)
        if match is None:  # a name with an escape
            key, run, kind = _names(orjson.loads(data[place + _HEAD : end - 1]))
        else:
            key, run, kind = (name.decode() for name in match.groups())
        heads.append((key, run, kind, place))
        place = end
    return heads, place, 0


def _end(data: bytes, place: int) -> int | None:
    """Returns the end of the record at a place, which may be beyond the data; `None` if the record is bad."""
    start, size = place + _HEAD, len(data)
    if start > size:
        return start
    try:
        end = start + int(data[place : place + 8], 16) + 1
        checksum = int(data[place + 9 : place + 17], 16)
    except ValueError:
        return None
    if end > size:
        return end
    good = end > start and data[end - 1] == 0x0A and zlib.crc32(data[start : end - 1]) == checksum
    return end if good else None


def _names(record: dict[str, Any]) -> tuple[str, str, str]:
    return record["key"], record["run"], record["kind"]


def _record(record: dict[str, Any]) -> Record:
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

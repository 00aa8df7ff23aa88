"""Bytes of a shuffle in files that all workers of this machine read, so that the engine shuffles only references.

Beam's local engine holds in memory what it shuffles, about three times, and passes it twice through its own process if
it has worker processes.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa

from ...schemas.batch import compress, size_head
from ..io import storage

_REFERENCE = b"\xff" * 8
"""Start of a reference. Compressed bytes start with their raw length and the number of a codec, which is small."""
_TOKEN = len(uuid.uuid4().hex)


@dataclass(frozen=True)
class Spill:
    """Where a run keeps what it shuffles.

    Attributes:
        folder: A folder of this machine, which need not exist; `None` leaves all bytes to the engine.
        held: Bytes that each step leaves to the engine before it writes files.
    """

    folder: str | None = None
    held: int = 0

    def fetch(self, value: bytes | memoryview) -> bytes | memoryview:
        """Returns the compressed form of the bytes that `SpillWriter.put` was given."""
        if self.folder is None or value[:8] != _REFERENCE:
            return value
        name, place = bytes(value[8 : 8 + _TOKEN]).decode(), bytes(value[8 + _TOKEN :])
        with open(os.path.join(self.folder, name), "rb", buffering=0) as file:
            file.seek(int.from_bytes(place[:8], "little"))
            return file.read(int.from_bytes(place[8:], "little"))


@dataclass
class SpillWriter:
    """Writes what one step of one worker shuffles; belongs to one thread."""

    spill: Spill
    _total: int = 0
    _file: BinaryIO | None = field(default=None, repr=False)
    _name: str = ""
    _end: int = 0

    def put(self, raw: bytes | bytearray | pa.Buffer) -> bytes:
        """Returns what to shuffle instead of bytes: their compressed form, or a reference to it."""
        size = len(raw)
        if self.spill.folder is None or self._total + size <= self.spill.held:
            self._total += size
            return compress(raw, fast=self.spill.folder is not None)
        self._total = self.spill.held
        if self._file is None:
            self._name, self._end = uuid.uuid4().hex, 0
            self._file = storage.create(os.path.join(self.spill.folder, self._name))
        start, size = self._end, self._file.write(size_head(size)) + size
        self._end += size
        self._file.write(raw)
        self._file.flush()
        return b"".join((_REFERENCE, self._name.encode(), start.to_bytes(8, "little"), size.to_bytes(8, "little")))

    def close(self) -> None:
        """Closes the file; what comes later goes to another one."""
        if self._file is not None:
            self._file.close()
            self._file = None

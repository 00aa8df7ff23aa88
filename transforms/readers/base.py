"""The base classes of readers, and the rules by which values of every format become JSON.

A row is a dict from column name to JSON value. The same data gives the same dicts in every format; no type is guessed:

| found | becomes |
|---|---|
| text | itself: "02134", "2024-03-30", "true" and "" stay text |
| integer | itself; outside [-2^63, 2^63) its exact decimal text |
| number with fraction or exponent | float64 (1.0 stays 1.0); float16 and float32 are widened exactly, not rounded |
| NaN, a number too large for float64 | null |
| an infinity | "Infinity", "-Infinity": JSON has no other; a column of numbers with some stays one of float64 |
| true, false | itself |
| list, array | list |
| object, struct, map | dict; map keys that are not text become JSON text; of equal keys the last one counts |
| null | at the top of a row: the row lacks the column, but the dataset has it; deeper: null |
| null field of a Parquet struct, at any depth | missing: Parquet cannot tell the two apart |
| decimal | exact text with its scale, no exponent: "1.50" |
| date | "2024-03-30" |
| timestamp | "2024-03-30T12:00:00", fraction: none, 6 or 9 digits; with a zone: in UTC, with "Z" at the end |
| time of day | "12:00:00", fraction as above |
| duration | seconds, exact: "PT90.5S", "-PT1S" |
| bytes | base64 text (RFC 4648, padded) |
| UUID | its text |

In CSV a cell is a string unless its column is declared; an empty cell is "" for a string, else missing.

Declared columns (`columns: {zip: string, score: float64}`) are checked, never converted. A row with a value of another
type is rejected:

| type | JSONL, Parquet, memory | CSV cell |
|---|---|---|
| string | a string | anything |
| int64 | an integer | decimal digits, with or without a sign |
| float64 | a number (1 becomes 1.0), an infinity | a decimal number, inf, -inf; NaN is null |
| bool | true, false | true, false in any case |
| timestamp | ISO 8601 text, rewritten to the form above | the same |
| json | anything; text of a Parquet string column is parsed | JSON text, parsed |

An unusable row (malformed, undecodable, of a wrong type, nested deeper than 200 levels, above 256 MB) becomes a
`Rejected` with its position and raw text. Damaged files are data too: the readable part is read, and the rest is one
`Rejected`. Only storage errors (permissions, a lost connection, a deleted file) raise.
"""

from __future__ import annotations

import io
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, repeat
from typing import Any, BinaryIO, ClassVar, NamedTuple

import orjson

from ...schemas.arrow import find_infinite, is_text, json_values
from ...schemas.batch import RowBlock
from ...schemas.errors import RowError
from ...schemas.json import Json
from ...schemas.result import Rejected
from ...schemas.values import fit, parse_declared_json
from ..io import storage
from ..registry import register

__all__ = ["ArrowReader", "FileRange", "Reader", "Record", "assemble", "open_input", "register", "selection"]

BLOCK_ROWS = 256
"""Maximum rows of one RowBlock."""
BLOCK_BYTES = 2 << 20
"""Maximum bytes of one RowBlock's source text, except for a single larger row."""
MAX_ROW_BYTES = 256 << 20
"""Maximum bytes of one row."""
RAW_CHARACTERS = 1000
_SELECTION = re.compile(r"(.+?\.json):(.+)")
NO_LINE = 0
"""Line of a row whose source has no order."""


@dataclass(frozen=True)
class FileRange:
    """A part of one file that is read independently.

    Attributes:
        file: Path as given.
        index: Number of the range in its file, from 0; the ranges in this order make up the file.
        start: First byte (Parquet: first row).
        end: Byte (Parquet: row) after the last one; `None` for the end of the file.
        stream: Name of the server-side stream, for sources that are not files.
    """

    file: str
    index: int
    start: int
    end: int | None
    stream: str = ""

    def to_bytes(self) -> bytes:
        """Encodes the range for its Beam coder."""
        return orjson.dumps([self.file, self.index, self.start, self.end, self.stream])

    @classmethod
    def from_bytes(cls, encoded: bytes) -> FileRange:
        """Decodes a range encoded by `to_bytes`."""
        return cls(*orjson.loads(encoded))


@dataclass(frozen=True)
class Reader(ABC):
    """Base of all readers: splits files into ranges and reads a range as blocks of rows.

    Attributes:
        columns: Type of each declared column.
        suffixes: Endings of its file names, including compression.
        selects: True if it supports paths of the form "file.json:case,case" (`selection`).
    """

    columns: Mapping[str, str] = field(default_factory=dict)

    suffixes: ClassVar[tuple[str, ...]] = ()
    selects: ClassVar[bool] = False

    def count(self, file: str, size: int) -> int | None:
        """Returns the number of rows of a file, or `None` if it is unknown without reading the file."""
        return None

    @abstractmethod
    def split(self, file: str, size: int) -> list[FileRange]:
        """Splits a file of `size` bytes into ranges; reads at most its beginning or its footer."""

    @abstractmethod
    def read(self, part: FileRange) -> Iterator[RowBlock]:
        """Reads the rows of a range in order, in blocks of at most 256 rows and about 2 MB."""

    def tidy(self, row: dict[str, Json]) -> dict[str, Json]:
        """Removes nulls from a row and checks its declared columns.

        Raises:
            RowError: A declared column has a value of another type.
        """
        if None in row.values():
            row = {name: value for name, value in row.items() if value is not None}
        for name, kind in self.columns.items():
            if name in row:
                row[name] = fit(name, kind, row[name])
        return row


@dataclass(frozen=True)
class SchemeReader(Reader):
    """Base of readers whose paths are not files.

    Attributes:
        scheme: Beginning of its paths.
    """

    scheme: ClassVar[str]

    @abstractmethod
    def measure(self, path: str) -> int:
        """Estimates the bytes of the data at a path of its scheme.

        Raises:
            ConfigError: There is no readable data at the path.
        """


class ArrowReader(Reader):
    """Base of readers whose rows come as Arrow record batches."""

    def rows(self, batch: Any, parsed: Collection[str] = ()) -> Iterator[tuple[dict[str, Json] | RowError, bytes]]:
        """Yields (row, b"") or (error, readable part of the row as JSON) for each row of an Arrow batch.

        Args:
            batch: A record batch.
            parsed: Text columns of JSON, in addition to those declared as such.
        """
        names: list[str] = batch.schema.names
        try:
            columns = [json_values(array) for array in batch.columns]
        except (ValueError, OverflowError):
            if batch.num_rows == 1:
                yield _unreadable(batch)
                return
            for i in range(batch.num_rows):
                yield from self.rows(batch.slice(i, 1), parsed)
            return
        declared = {name for name, kind in self.columns.items() if kind == "json"}
        texts = [f.name for f in batch.schema if f.name in declared.union(parsed) and is_text(f.type)]
        values = zip(*columns, strict=True) if columns else [()] * batch.num_rows
        rows = [dict(zip(names, row, strict=True)) for row in values]
        if not (texts or self.columns or any(None in column for column in columns)):
            yield from zip(rows, repeat(b""))
            return
        for row in rows:
            try:
                yield self._fitted(row, texts), b""
            except RowError as error:
                yield error, orjson.dumps(row)

    def _fitted(self, row: dict[str, Json], texts: Iterable[str]) -> dict[str, Json]:
        for name in texts:
            if row[name] is not None:
                row[name] = parse_declared_json(name, row[name])
        return self.tidy(row)

    def blocks(
        self, part: FileRange, batch: Any, before: int | None, parsed: Collection[str] = ()
    ) -> Iterator[RowBlock]:
        """Yields the rows of an Arrow batch in blocks; `before` rows of the range precede it, `None` if without order.

        For `parsed` see `rows`.
        """
        step = max(1, min(BLOCK_ROWS, BLOCK_BYTES * batch.num_rows // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, step):
            piece = batch.slice(start, step)
            lines = repeat(NO_LINE) if before is None else count(before + start + 1)
            found = list(zip(lines, self.rows(piece, parsed), strict=False))
            rows = [(line, row) for line, (row, _) in found if type(row) is dict]
            rejected = [reject(part, line, row, raw) for line, (row, raw) in found if isinstance(row, RowError)]
            last = NO_LINE if before is None else before + start + piece.num_rows
            yield RowBlock(part.file, part.index, rows, rejected, last, piece.schema.names, find_infinite(piece))


def _unreadable(batch: Any) -> tuple[RowError, bytes]:
    """Returns (the error of a batch of one row, its readable columns as JSON)."""
    shown: dict[str, Json] = {}
    found = RowError("invalid_value", "found a row that cannot be read")
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            shown[name] = json_values(array)[0]
        except UnicodeDecodeError as error:
            what = f"found byte 0x{error.object[error.start]:02x} at byte {error.start + 1} (allowed: UTF-8)"
            found = RowError("undecodable_bytes", f"column {name!r}: {what}")
        except OverflowError:
            what = "found a time outside the years 1 to 9999 (allowed: years 1 to 9999)"
            found = RowError("invalid_value", f"column {name!r}: {what}")
        except ValueError as error:
            found = RowError("invalid_value", f"column {name!r}: {first_line(error)}")
    return found, orjson.dumps(shown)


def first_line(error: Exception) -> str:
    """Returns the first line of an error's message, at most 300 characters."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


class Record(NamedTuple):
    """A row or an error at one position of a range.

    Attributes:
        line: First line (or row) of the record in its range, from 1.
        last: Its last line.
        row: The row, the error, or `None` for blank lines.
        raw: Its source, shown if it is rejected.
        size: Bytes of its source.
        nulls, infinite: Columns of the row, as in `RowBlock`.
    """

    line: int
    last: int
    row: dict[str, Json] | RowError | None
    raw: bytes = b""
    size: int = 0
    nulls: Collection[str] = ()
    infinite: Collection[str] = ()


def assemble(part: FileRange, records: Iterable[Record]) -> Iterator[RowBlock]:
    """Groups records, in order of their lines, into blocks."""
    held: list[Record] = []
    size = last = done = 0
    for record in records:
        if len(held) >= BLOCK_ROWS or (held and size + record.size > BLOCK_BYTES):
            yield _block(part, held, last)
            held, size, done = [], 0, last
        if record.row is not None:
            held.append(record)
        size, last = size + record.size, record.last
    if last > done:
        yield _block(part, held, last)


def _block(part: FileRange, records: list[Record], last: int) -> RowBlock:
    rows = [(r.line, r.row) for r in records if isinstance(r.row, dict)]
    rejected = [reject(part, r.line, r.row, r.raw) for r in records if isinstance(r.row, RowError)]
    nulls, texts = {n for r in records for n in r.nulls}, {n for r in records for n in r.infinite}
    return RowBlock(part.file, part.index, rows, rejected, last, nulls, texts)


def reject(part: FileRange, line: int, error: RowError, raw: bytes) -> Rejected:
    """Builds the row of the errors table for a position of a file."""
    return Rejected(part.file, part.index, line, error.code, error.message, shown(raw))


def shown(raw: bytes) -> str:
    """Decodes at most 1,000 characters of raw text; bytes that are not UTF-8 become \\xNN."""
    return raw[: 4 * RAW_CHARACTERS].decode("utf-8", "backslashreplace")[:RAW_CHARACTERS]


class Input:
    """An open file, decompressed if its first bytes are those of gzip or zstd.

    Attributes:
        stream: Its bytes; seekable only for uncompressed files.
        compressed: True if the file is compressed.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        magic = source.read(4)
        source.seek(0)
        self._unpacked = _Unpacked(source, magic) if magic in _MAGIC or magic[:3] in _MAGIC else None
        self.compressed = self._unpacked is not None
        self.stream: Any = io.BufferedReader(self._unpacked, 1 << 18) if self._unpacked else source

    @property
    def damage(self) -> RowError | None:
        """Why the stream ended early, or `None`; known only after the stream has ended."""
        text = self._unpacked.damage if self._unpacked else ""
        return RowError("damaged_file", f"the compressed data {text}; the rest is not read") if text else None

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()


def selection(path: str) -> tuple[str, tuple[str, ...]]:
    """Splits a path "file.json:case,case" into (file, cases); other paths have no cases."""
    match = _SELECTION.fullmatch(path)
    return (match[1], tuple(name.strip() for name in match[2].split(",") if name.strip())) if match else (path, ())


def open_input(file: str) -> Input:
    """Opens a file on a local disk, or on any other filesystem that Beam supports."""
    return Input(storage.opened(file))


def _gzip() -> Any:
    return zlib.decompressobj(31)


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


_MAGIC: dict[bytes, Callable[[], Any]] = {b"\x1f\x8b\x08": _gzip, b"\x28\xb5\x2f\xfd": _zstd}


class _Unpacked(io.RawIOBase):
    """Decompresses a stream. Damage ends the stream instead of raising, so that all rows before it are read."""

    def __init__(self, source: BinaryIO, magic: bytes) -> None:
        import zstandard

        self._source = source
        self._make = _MAGIC.get(magic) or _MAGIC[magic[:3]]
        self._errors = (zlib.error, zstandard.ZstdError)
        self._member: Any = None
        self._packed = b""
        self._out = memoryview(b"")
        self.damage = ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._out and self._fill():
            pass
        n = min(len(buffer), len(self._out))
        buffer[:n] = self._out[:n]
        self._out = self._out[n:]
        return n

    def _fill(self) -> bool:
        if self.damage:
            return False
        packed = self._packed or self._source.read(1 << 15)
        if self._member is None:
            packed = packed.lstrip(b"\0")  # padding between and after gzip members
        if not packed:
            if self._member is not None:
                self.damage = "ends too early"
            return False
        try:
            member = self._member = self._member or self._make()
            self._out = memoryview(member.decompress(packed))
        except self._errors as error:
            self.damage = f"cannot be unpacked ({error})"
            return False
        self._packed = member.unused_data if member.eof else b""
        if member.eof:
            self._member = None
        return True

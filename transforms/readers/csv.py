"""CSV: text cells under a header row."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...schemas.batch import RowBlock
from ...schemas.errors import RowError
from ...schemas.json import Json
from ...schemas.values import INT64, misfit, parse_declared_json, parse_timestamp
from .base import MAX_ROW_BYTES, RAW_CHARACTERS, FileRange, Input, Reader, Record, assemble, open_input, register

_INTEGER = re.compile(r"[+-]?0*[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(r"([+-]?)(nan|inf|infinity)", re.IGNORECASE)


@register("reader", "csv")
@dataclass(frozen=True)
class CsvReader(Reader):
    """Reads CSV files: RFC 4180, comma-separated, UTF-8, with a header row.

    A file is one range, since cells may contain line ends. The line of a record is the physical line it starts in; LF,
    CR LF and CR end lines. Blank lines are counted and skipped. Without a valid header (non-empty, unique names) every
    record of the file is rejected. An unclosed quote makes the rest of the file one rejected record.
    """

    suffixes: ClassVar = (".csv", ".csv.gz", ".csv.zst")

    def split(self, file: str, size: int) -> list[FileRange]:
        return [FileRange(file, 0, 0, None)] if size else []

    def read(self, part: FileRange) -> Iterator[RowBlock]:
        with (
            open_input(part.file) as source,
            io.TextIOWrapper(source.stream, "utf-8-sig", errors="surrogateescape", newline="") as text,
        ):
            yield from assemble(part, self._records(source, _Lines(text)))

    def _records(self, source: Input, lines: _Lines) -> Iterator[Record]:
        header: list[str] | RowError | None = None
        last = 0
        for first, last, cells in _cells(lines):
            if source.damage and not lines.ended:
                break  # the last record is incomplete
            row: dict[str, Json] | RowError | None = None
            if cells == []:
                pass
            elif header is None or isinstance(header, RowError):
                header = header or _header(cells)
                row = header if isinstance(header, RowError) else None
            else:
                row = self._row(header, cells)
            raw = lines.raw() if isinstance(row, RowError) else b""
            yield Record(first, last, row, raw, lines.size)
        if source.damage:
            yield Record(last + 1, last + 1, source.damage)

    def _row(self, header: list[str], cells: list[str] | RowError) -> dict[str, Json] | RowError:
        if isinstance(cells, RowError):
            return cells
        if len(cells) != len(header):
            return RowError("column_count", f"found {len(cells)} cells (allowed: {len(header)}, as in the header)")
        row: dict[str, Json] = dict(zip(header, cells, strict=True))
        try:
            for name, kind in self.columns.items():
                if name in row and kind != "string":
                    row[name] = _typed(name, kind, row[name])
                    if row[name] is None:
                        del row[name]
        except RowError as error:
            return error
        return row


@dataclass(slots=True)
class _Lines:
    """Yields the lines of a text to the parser and records the source of the current record.

    Attributes:
        seen: Beginning of the record's lines.
        size: Characters of the record.
        error: Why the record is rejected even if the parser accepts it.
        ended: True if its last line has a line end.
    """

    text: io.TextIOWrapper
    seen: list[str] = field(default_factory=list)
    size: int = 0
    error: RowError | None = None
    ended: bool = True

    def __iter__(self) -> Iterator[str]:
        while line := self.text.readline(MAX_ROW_BYTES):
            self.size += len(line)
            if len(self.seen) < RAW_CHARACTERS:
                self.seen.append(line[:RAW_CHARACTERS])
            if not line.isascii():
                self._check(line)
            self.ended = line[-1] in "\n\r"
            if len(line) >= MAX_ROW_BYTES:
                self.error = RowError("row_too_large", f"found a longer line (allowed: {MAX_ROW_BYTES} characters)")
                while not self.ended and (more := self.text.readline(1 << 20)):
                    self.ended = more[-1] in "\n\r"
            yield line

    def _check(self, line: str) -> None:
        try:
            line.encode()
        except UnicodeEncodeError as error:
            found = f"found byte 0x{ord(line[error.start]) - 0xDC00:02x} at character {error.start + 1} of a line"
            self.error = RowError("undecodable_bytes", f"{found} (allowed: UTF-8)")

    def start(self) -> None:
        """Starts a new record."""
        self.seen.clear()
        self.size = 0
        self.error = None

    def raw(self) -> bytes:
        """Returns the beginning of the record's bytes."""
        return "".join(self.seen).encode("utf-8", "surrogateescape")


def _cells(lines: _Lines) -> Iterator[tuple[int, int, list[str] | RowError]]:
    """Yields (first line, last line, cells or error) of each record, including the header."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
    records = csv.reader(lines, strict=True)
    while True:
        first = records.line_num + 1
        lines.start()
        cells: list[str] | RowError
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            found = f"found {error}; the record goes on to line {records.line_num}"
            cells = RowError("malformed_csv", f"{found} (allowed: cells quoted whole, quotes in them doubled)")
        yield first, records.line_num, lines.error or cells


def _header(cells: list[str] | RowError) -> list[str] | RowError:
    if isinstance(cells, RowError):
        return RowError("bad_header", f"the header cannot be read: {cells.message}")
    allowed = "(allowed: each column with a name of its own; no row is read)"
    seen: set[str] = set()
    for i, name in enumerate(cells):
        if not name.strip():
            hint = "; pandas writes its index so, unless index=False" if i == 0 else ""
            return RowError("bad_header", f"the header has no name for column {i + 1}{hint} {allowed}")
        if name in seen:
            return RowError("bad_header", f"the header names {name!r} twice {allowed}")
        seen.add(name)
    return cells


def _typed(name: str, kind: str, text: str) -> Json:
    """Converts a cell to its column's declared type; returns `None` if it is empty or NaN."""
    if not text:
        return None
    if kind == "json":
        return parse_declared_json(name, text)
    try:
        return _PARSERS[kind](text)
    except (ValueError, OverflowError):
        raise misfit(name, kind, text) from None


def _int64(text: str) -> int:
    if not _INTEGER.fullmatch(text) or int(text) not in INT64:
        raise ValueError(text)
    return int(text)


def _float64(text: str) -> float | str | None:
    if match := _NO_NUMBER.fullmatch(text):
        return None if match[2].lower() == "nan" else "-Infinity" if match[1] == "-" else "Infinity"
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    value = float(text)
    return value if math.isfinite(value) else None


def _bool(text: str) -> bool:
    word = text.lower()
    if word not in ("true", "false"):
        raise ValueError(text)
    return word == "true"


_PARSERS: dict[str, Any] = {
    "int64": _int64,
    "float64": _float64,
    "bool": _bool,
    "timestamp": parse_timestamp,
}

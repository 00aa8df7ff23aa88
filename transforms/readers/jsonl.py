"""JSONL, and the other shapes of JSON rows: one array, one object of columns, objects over several lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, Literal

import orjson

from ...schemas.batch import RowBlock
from ...schemas.errors import RowError
from ...schemas.json import Json
from ...schemas.values import (
    DIGITS,
    LONG,
    MAX_DEPTH,
    NOT_OPENERS,
    Infinity,
    kind_of,
    parse_infinity,
    parse_json,
    quick_json,
)
from .base import (
    BLOCK_ROWS,
    MAX_ROW_BYTES,
    FileRange,
    Input,
    Reader,
    Record,
    assemble,
    open_input,
    register,
    reject,
)

_CHUNK = 1 << 18  # small enough to stay in the processor's cache from splitting to parsing
_RANGES, _RANGE_BYTES = 64, 4 << 20
"""Ranges of a file at least, unless they would be shorter than so many bytes."""
_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},"]', re.DOTALL)
_QUOTE = ord('"')
_NOT_OPENERS_NOR_LINES = NOT_OPENERS.replace(b"\n", b"")

Shape = Literal["lines", "array", "values"]


@register("reader", "jsonl")
@dataclass(frozen=True)
class JsonlReader(Reader):
    """Reads JSON rows: one object per line, an array of objects, or an object of columns.

    Uncompressed files of lines are split into byte ranges, and a line belongs to the range it starts in. Blank lines
    are counted and skipped; a byte order mark and CR are ignored. A file that starts with "[" is an array of rows. A
    `.json` file may also have objects over several lines, or a single object. Rows of these shapes are numbered instead
    of having lines. A single object whose values are lists of equal length is a table of columns, except one that has
    only `resourceSpans`, which is an OpenTelemetry export.

    Attributes:
        range_bytes: Most bytes of one range. Ranges of a smaller file are shorter, so that workers have equal shares.
    """

    range_bytes: int = 16 << 20

    suffixes: ClassVar = tuple(s + z for s in (".jsonl", ".ndjson", ".json") for z in ("", ".gz", ".zst"))

    def split(self, file: str, size: int) -> list[FileRange]:
        with open_input(file) as source:
            whole = source.compressed or _shape(file, source.stream.read(_CHUNK)) != "lines"
        if whole:
            return [FileRange(file, 0, 0, None)]
        length = min(self.range_bytes, max(size // _RANGES, _RANGE_BYTES))
        starts = range(0, size, length)
        return [FileRange(file, i, start, min(start + length, size)) for i, start in enumerate(starts)]

    def read(self, part: FileRange) -> Iterator[RowBlock]:
        with open_input(part.file) as source:
            head = source.stream.read(_CHUNK) if part.start == 0 else b""
            shape = _shape(part.file, head)
            if shape == "lines":
                yield from self._read_lines(part, source, head)
            else:
                yield from assemble(part, self._read_values(source, head, shape))

    def _read_lines(self, part: FileRange, source: Input, head: bytes) -> Iterator[RowBlock]:
        done = 0
        for lines, loads in _lines(source.stream, part, head):
            for i in range(0, len(lines), BLOCK_ROWS):
                block = self._block(part, lines[i : i + BLOCK_ROWS], done, loads)
                done = block.lines
                yield block
        if source.damage:
            yield RowBlock(part.file, part.index, [], [reject(part, done + 1, source.damage, b"")], done + 1)

    def _block(self, part: FileRange, lines: list[bytes], done: int, loads: Callable[[bytes], Json]) -> RowBlock:
        nulls, infinite = set[str](), set[str]()
        block = RowBlock(part.file, part.index, [], [], done + len(lines), nulls, infinite)
        rows, declared = block.rows, self.columns
        for number, line in enumerate(lines, done + 1):
            try:
                row = loads(line)
            except (ValueError, RowError):
                row = None
            if type(row) is dict and not declared and None not in row.values():
                rows.append((number, row))
            elif line.strip():
                record = self._record(number, line, row)
                if isinstance(record.row, RowError):
                    block.rejected.append(reject(part, number, record.row, line))
                elif record.row is not None:
                    rows.append((number, record.row))
                    nulls.update(record.nulls)
                    infinite.update(record.infinite)
        return block

    def _read_values(self, source: Input, head: bytes, shape: Shape) -> Iterator[Record]:
        values = _values(_reading(head.removeprefix(_BOM), source.stream), shape == "array")
        found: Iterable[tuple[bytes, Json]] = ((raw, None) for raw in values)
        if shape == "values":
            first = list(islice(values, 2))
            columns = _columns(first[0]) if len(first) == 1 else None
            found = ((b"", row) for row in columns) if columns else chain(((raw, None) for raw in first), found)
        last = 0
        for last, (raw, row) in enumerate(found, 1):
            yield self._record(last, raw, row)
        if source.damage:
            yield Record(last + 1, last + 1, source.damage)

    def _record(self, number: int, raw: bytes, row: Json = None) -> Record:
        try:
            if isinstance(raw, _Unusable):
                raise RowError(raw.code, raw.message)
            row = parse_json(raw, parse_infinity) if row is None else row
            if type(row) is not dict:
                raise RowError("not_an_object", f"found {kind_of(row)} (allowed: a JSON object)")
            nulls = [name for name, value in row.items() if value is None]
            infinite = [name for name, value in row.items() if type(value) is Infinity]
            row.update((name, str(row[name])) for name in infinite)
            return Record(number, number, self.tidy(row), raw, len(raw), nulls, infinite)
        except RowError as error:
            return Record(number, number, error, raw)


class _Unusable(bytes):
    """The beginning of a text that cannot be a row, and the reason. (orjson rejects subclasses of bytes.)"""

    code: str
    message: str

    @classmethod
    def of(cls, raw: bytes, code: str, message: str) -> _Unusable:
        made = cls(raw[:4096])
        made.code, made.message = code, message
        return made

    @classmethod
    def too_large(cls, raw: bytes) -> _Unusable:
        return cls.of(raw, "row_too_large", f"found a row that does not end (allowed: {MAX_ROW_BYTES} bytes)")


def _shape(file: str, head: bytes) -> Shape:
    text = head.removeprefix(_BOM).lstrip()
    if text[:1] == b"[":
        return "array"
    if text[:1] == b"{" and file.removesuffix(".gz").removesuffix(".zst").endswith(".json"):
        first, _, rest = text.partition(b"\n")
        if not rest.strip() or first.rstrip().endswith((b"{", b"[", b",")):
            return "values"
    return "lines"


def _columns(text: bytes) -> list[dict[str, Json]] | None:
    """Returns the rows of a table of columns, or `None` if the text is not an object of lists of equal length."""
    try:
        table = parse_json(text, parse_infinity)
    except RowError:
        return None
    if type(table) is not dict or not table or not all(type(v) is list for v in table.values()):
        return None
    if len({len(v) for v in table.values()}) != 1 or table.keys() == {"resourceSpans"}:  # OTLP/JSON: one row
        return None
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


# ---------------------------------------------------------------------------------------------------- lines


def _lines(stream: Any, part: FileRange, head: bytes) -> Iterator[tuple[list[bytes], Callable[[bytes], Json]]]:
    """Yields the lines that start in the range, in chunks, with the fastest parser that is exact on the chunk.

        file:   ...aaaa\\nbbbb\\ncc|cc\\ndddd\\nee|ee\\nffff...
        range:                   |start      |end
        lines:                      dddd, eeee

    Reading starts one byte before `start`, so that a line that begins exactly there is not skipped, and continues past
    `end` up to the end of the last line.
    """
    unfinished: list[bytes] = []
    size = 0
    skipping = part.start > 0
    for chunk, inside in _chunks(stream, part, head):
        if not inside:
            if not unfinished:
                return
            chunk, newline, _ = chunk.partition(b"\n")
            chunk += newline
        elif skipping:
            _, newline, chunk = chunk.partition(b"\n")
            skipping = not newline
        if b"\n" in chunk:
            data = b"".join((*unfinished, chunk))
            *lines, last = data.split(b"\n")
            if size > MAX_ROW_BYTES:
                lines[0] = _Unusable.too_large(lines[0])
            yield lines, _parser(data)
            unfinished, size = [last] if last else [], len(last)
        elif chunk and not skipping:
            size += len(chunk)
            if size <= MAX_ROW_BYTES:  # the rest of a longer line is counted, not kept
                unfinished.append(chunk)
    if unfinished:
        data = b"".join(unfinished)
        yield [_Unusable.too_large(data) if size > MAX_ROW_BYTES else data], _parser(data)


def _chunks(stream: Any, part: FileRange, head: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yields (bytes, true if inside the range), from the byte before the range to the end of the file."""
    if part.end is None:
        yield head.removeprefix(_BOM), True
    else:
        at = stream.seek(max(part.start - 1, 0))
        while at < part.end and (chunk := stream.read(min(_CHUNK, part.end - at))):
            yield chunk.removeprefix(_BOM) if at == 0 else chunk, True
            at += len(chunk)
    while chunk := stream.read(_CHUNK):
        yield chunk, part.end is None


def _parser(data: bytes) -> Callable[[bytes], Json]:
    """Returns orjson's parser if it is exact on every line: no integer beyond 64 bits, no line nested too deep."""
    openers = data.translate(None, _NOT_OPENERS_NOR_LINES)
    shallow = len(openers) <= MAX_DEPTH or max(map(len, openers.split(b"\n"))) <= MAX_DEPTH
    # A run of 19 digits includes 3 of every sixth byte, so the cheap test on a sixth of the data comes first.
    long = b"000" in data[::6].translate(DIGITS) and LONG in data.translate(DIGITS)
    return orjson.loads if shallow and not long else _quick_json


def _quick_json(data: bytes) -> Json:
    return quick_json(data, _refuse_constant)


def _refuse_constant(word: str) -> Json:
    """Leaves a line with an infinity to `JsonlReader._record`, which notes its column."""
    raise ValueError(word)


# ---------------------------------------------------------------------------------------------------- values


def _reading(head: bytes, stream: Any) -> Callable[[int], bytes]:
    """Returns a read function that first returns `head`, then the rest of the stream."""
    first = [head]
    return lambda size: first.pop() if first else stream.read(size)


def _values(read: Callable[[int], bytes], array: bool) -> Iterator[bytes]:
    """Yields the texts of an array's values, or of consecutive objects; values are only balanced, not validated."""
    text, scanned, depth = b"", 0, -1 if array else 0
    while piece := read(max(_CHUNK, len(text))):
        text += piece
        start, scanned, depth, ends = yield from _scan(text, scanned, depth, array)
        text = text[start:]
        if depth < 0 and ends:
            yield from _after(text, read)
            return
        if len(text) > MAX_ROW_BYTES:
            yield _Unusable.too_large(text)
            return
    if array or text.strip():
        message = (
            "found the end of the file inside the array or a value (allowed: closed brackets); the rest is not read"
        )
        yield _Unusable.of(text.strip(), "malformed_json", message)


def _scan(text: bytes, scanned: int, depth: int, array: bool) -> Generator[bytes, None, tuple[int, int, int, bool]]:
    """Yields the values that end in `text`.

    Returns:
        (start of the next value, scanned bytes after it, depth there, true if the array has ended)
    """
    start = 0
    for token in _TOKEN.finditer(text, scanned):
        at, end = token.span()
        mark = text[at]
        if mark == _QUOTE:
            if end - at == 1:
                return start, at - start, depth, False
        elif mark in b"[{":
            depth += 1
            if array and depth == 0:
                start = end
        elif mark in b"]}":
            depth -= 1
            if array and depth < 0:
                if last := text[start:at].strip():
                    yield last
                return end, 0, depth, True
            if not array and depth <= 0:
                depth = 0
                yield text[start:end].strip()
                start = end
        elif array and depth == 0:
            yield text[start:at].strip()
            start = end
    return start, len(text) - start, depth, False


def _after(text: bytes, read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yields the text after the end of an array, if any, as one unusable value."""
    while not text.strip():
        text = read(_CHUNK)
        if not text:
            return
    yield _Unusable.of(text.strip(), "malformed_json", "found text after the end of the array; the rest is not read")

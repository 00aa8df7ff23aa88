"""Compacts a finished journal into one Parquet file, `calls.parquet`: a row for each record, groups of one prefix."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas.calls import Outcome
from ..io import storage
from .segments import PIECE, Head, Record

NAME = "calls.parquet"

_ROW = 1000  # estimated bytes of a row in memory beside its text

_SCHEMA = pa.schema(
    [
        pa.field("prefix", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("value", pa.string()),
        pa.field("error_type", pa.string()),
        pa.field("error_message", pa.string()),
        pa.field("attempts", pa.int64()),
        pa.field("latency_in_seconds", pa.float64()),
        pa.field("queued_in_seconds", pa.float64()),
        pa.field("backoff_in_seconds", pa.float64()),
        pa.field("refused", pa.int64()),
    ]
)
_PLAIN = tuple(_SCHEMA.names[5:])


def write_compacted(folder: str, prefixes: Iterable[tuple[str, Iterable[Record]]]) -> int:
    """Writes the file of a journal, replacing the one that may exist; returns the number of records.

    Args:
        folder: Folder of the journal.
        prefixes: (prefix, records), sorted by prefix.
    """
    count, temporary = 0, storage.join(folder, f".{NAME}")
    with storage.create(temporary) as stream, pq.ParquetWriter(stream, _SCHEMA, compression="zstd") as writer:
        for prefix, records in prefixes:
            for rows in _groups(_row(prefix, *record) for record in records):
                writer.write_table(pa.Table.from_pylist(rows, _SCHEMA), row_group_size=len(rows))
                count += len(rows)
    storage.move(temporary, storage.join(folder, NAME))
    return count


def drop_duplicates(records: Iterable[Record]) -> Iterator[Record]:
    """Yields each record once: an interrupted compaction has left some of them both in the file and in segments."""
    seen: set[bytes] = set()
    for record in records:
        digest = hashlib.sha256(orjson.dumps(_row("", *record))).digest()
        if digest not in seen:
            seen.add(digest)
            yield record


def _groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Splits rows into groups of about `PIECE` bytes of JSON; a group is read at once."""
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        length = len(orjson.dumps(row))
        if group and size + length > PIECE:
            yield group
            group, size = [], 0
        group.append(row)
        size += length
    if group:
        yield group


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A row group of a journal's file: records of one prefix.

    Attributes:
        path: The file.
        footer: The metadata in the footer of the file.
        number: Position of the group.
        size: Estimated bytes in memory.
    """

    path: str
    footer: pq.FileMetaData
    number: int
    size: int

    def load(self) -> list[dict[str, Any]]:
        """Reads its rows."""
        with storage.opened(self.path) as stream:
            file = pq.ParquetFile(stream, metadata=self.footer, pre_buffer=False)
            return file.read_row_group(self.number, use_threads=False).to_pylist()

    def record(self, loaded: list[dict[str, Any]], place: int) -> Record:
        """Returns the record of a row."""
        return _record(loaded[place])


class Compacted:
    """The Parquet file of a journal, read group by group; a missing file counts as empty."""

    def __init__(self, folder: str) -> None:
        path = storage.join(folder, NAME)
        self._groups: dict[str, list[Group]] = defaultdict(list)
        if storage.exists(path):
            with storage.opened(path) as stream:
                footer = pq.read_metadata(stream)
            for i in range(footer.num_row_groups):
                group = footer.row_group(i)
                size = group.total_byte_size + _ROW * group.num_rows
                self._groups[group.column(0).statistics.min].append(Group(path, footer, i, size))

    @property
    def prefixes(self) -> list[str]:
        """All prefixes that have records, sorted."""
        return sorted(self._groups)

    def groups(self, prefix: str) -> Iterator[tuple[Group, list[dict[str, Any]], list[Head]]]:
        """Yields the groups of a prefix, their rows, and the heads of their records."""
        for group in self._groups.get(prefix, []):
            rows = group.load()
            yield group, rows, [(row["key"], row["run"], row["kind"], i) for i, row in enumerate(rows)]

    def read(self, prefix: str) -> Iterator[Record]:
        """Yields the records of a prefix."""
        for _, rows, _ in self.groups(prefix):
            yield from map(_record, rows)


def _row(prefix: str, key: str, run: str, outcome: Outcome) -> dict[str, Any]:
    value = None if outcome.kind != "ok" and outcome.value is None else orjson.dumps(outcome.value).decode()
    own = {name: getattr(outcome, name) for name in _PLAIN}
    return {"prefix": prefix, "key": key, "run": run, "kind": outcome.kind, "value": value, **own}


def _record(row: dict[str, Any]) -> Record:
    value = None if row["value"] is None else orjson.loads(row["value"])
    own = {name: row[name] for name in _PLAIN}
    return row["key"], row["run"], Outcome(value, row["kind"], **own, replayed=True)

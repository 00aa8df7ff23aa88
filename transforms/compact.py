"""A finished journal as one Parquet file, `calls.parquet`: a row for each record, a row group for each prefix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ..schemas.calls import Outcome
from . import storage

NAME = "calls.parquet"
Record: TypeAlias = tuple[str, str, Outcome]
"""(key, run, outcome)."""

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
_AS_THEY_ARE = tuple(_SCHEMA.names[5:])


def write_compacted(folder: str, prefixes: Iterable[tuple[str, Iterable[Record]]]) -> int:
    """Writes a journal's file, in place of the one that may be there; returns the number of records.

    Args:
        folder: Folder of the journal.
        prefixes: (prefix, records), in the order of the prefixes. Records that are equal are written once.
    """
    count, temporary = 0, storage.join(folder, f".{NAME}")
    with storage.create(temporary) as stream, pq.ParquetWriter(stream, _SCHEMA, compression="zstd") as writer:
        for prefix, records in prefixes:
            unique = {orjson.dumps(row): row for row in (_row(prefix, *record) for record in records)}
            rows = sorted(unique.values(), key=lambda row: row["key"])
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, _SCHEMA), row_group_size=len(rows))
            count += len(rows)
    storage.move(temporary, storage.join(folder, NAME))
    return count


class Compacted:
    """A journal's Parquet file, read prefix by prefix; one that is not there is empty."""

    def __init__(self, folder: str) -> None:
        self._path = storage.join(folder, NAME)
        self._footer: pq.FileMetaData | None = None
        self._groups: dict[str, int] = {}
        if storage.exists(self._path):
            with storage.opened(self._path) as stream:
                footer = self._footer = pq.read_metadata(stream)
            for i in range(footer.num_row_groups):
                self._groups[footer.row_group(i).column(0).statistics.min] = i

    @property
    def prefixes(self) -> list[str]:
        """All prefixes that have records, sorted."""
        return sorted(self._groups)

    def read(self, prefix: str) -> Iterator[Record]:
        """The records of a prefix."""
        if prefix not in self._groups:
            return
        with storage.opened(self._path) as stream:
            file = pq.ParquetFile(stream, metadata=self._footer, pre_buffer=False)
            rows = file.read_row_group(self._groups[prefix], use_threads=False).to_pylist()
        yield from map(_record, rows)


def _row(prefix: str, key: str, run: str, outcome: Outcome) -> dict[str, Any]:
    value = orjson.dumps(outcome.value).decode() if outcome.kind == "ok" else None
    own = {name: getattr(outcome, name) for name in _AS_THEY_ARE}
    return {"prefix": prefix, "key": key, "run": run, "kind": outcome.kind, "value": value, **own}


def _record(row: dict[str, Any]) -> Record:
    value = None if row["value"] is None else orjson.loads(row["value"])
    own = {name: row[name] for name in _AS_THEY_ARE}
    return row["key"], row["run"], Outcome(value, row["kind"], **own, replayed=True)

"""The files of a run's instances table as Parquet files on this machine, wherever and in whatever format they are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas.tables import TYPES
from ...transforms.io import storage
from ..run.result import EvaluationResult
from ..run.tables import Row, instance_files, names_of_instances, rows_of, types_of_instances

ROWS_OF_A_GROUP = 1024
_WRITTEN = "table.parquet"


def local_parts(result: EvaluationResult, folder: str) -> tuple[list[str], dict[str, str]]:
    """Returns the Parquet files of the instances table on this machine, in order, and their columns by our own names.

    Files of object storage are copied to a folder, since the explorer reads small pieces of them; a table in JSONL or
    CSV is written there as Parquet.

    Args:
        result: A run.
        folder: An existing folder, for copies.

    Raises:
        ConfigError: The run wrote no instances table.
    """
    paths, names = instance_files(result), names_of_instances(result)
    if not all(path.endswith(".parquet") for path in paths):
        return [_write(result, folder)], {name: name for name in names}
    return [path if storage.is_local(path) else _copy(path, folder) for path in paths], names


def _copy(path: str, folder: str) -> str:
    copied = str(Path(folder) / path.rpartition("/")[2])
    with storage.opened(path) as source, open(copied, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return copied


def _write(result: EvaluationResult, folder: str) -> str:
    """Writes the rows of a table in JSONL or CSV as Parquet; texts that were no texts there are JSON."""
    types = types_of_instances(result)
    schema = pa.schema([pa.field(name, TYPES[_stored(name, kind)]) for name, kind in types.items()])
    path = str(Path(folder) / _WRITTEN)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        left = rows_of(result, "instances")
        while rows := list(islice(left, ROWS_OF_A_GROUP)):
            writer.write_table(pa.table(list(_columns(rows, schema)), schema=schema))
    return path


def _stored(name: str, kind: str) -> str:
    """The type of a column whose cells `rows_of` reads: a judge's yes and no are numbers by then."""
    return "float64" if name.endswith("/score") else kind


def _columns(rows: Sequence[Row], schema: pa.Schema) -> Iterator[pa.Array]:
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_floating(field.type):
            values = [None if value is None else float(value) for value in values]
        elif pa.types.is_boolean(field.type):
            values = [value if value is None else str(value).lower() == "true" for value in values]
        yield pa.array(values, field.type)

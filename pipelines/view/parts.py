"""The files of a run's instances table as Parquet files on this machine, wherever and in whatever format they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq

from ...transforms.io import storage
from ..run.columns import read_columns, schema_of_texts
from ..run.result import EvaluationResult
from ..run.tables import instance_files, names_of_instances

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
    path = str(Path(folder) / _WRITTEN)
    schema = schema_of_texts(result, list(names_of_instances(result)))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in read_columns(result):
            writer.write_table(table)
    return path

"""The tables of a finished run, read back from storage."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TextIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...schemas.names import WORD_SCORES
from ...schemas.run_folder import INSTANCES, describe_columns
from ...schemas.warehouse import Stamp
from ...transforms.io import storage
from .result import EvaluationResult

Row = dict[str, Json]
Columns = dict[str, list[Json]]
"""Some rows of a table by column: the values of each, all as many."""

_OF_ADK = ".evalset_result.json"
_GROUPS_AT_ONCE = 32
_ROWS_AT_ONCE = 1024
_LINES_AT_ONCE = 64
"""Rows of JSONL and CSV, whose bytes nothing else bounds."""
_CELLS = 1 << 17
"""Values of a Parquet batch at most: as Python objects they take about a hundred times their bytes in the file."""


def rows_of(result: EvaluationResult, table: str, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Rows of a table in order, under our own column names, NaN as `None`; nothing where the run wrote no such table.

    Args:
        result: A finished run.
        table: "instances", "summary" or "errors".
        columns: Those wanted; default: all. JSONL and CSV give all in any case.
    """
    for some in columns_of(result, table, columns):
        yield from _rows_in(some)


def columns_of(result: EvaluationResult, table: str, columns: Sequence[str] | None = None) -> Iterator[Columns]:
    """Yields the rows of a table as `rows_of` does, but some of them at a time, by column."""
    for path in result.files(table):
        yield from _columns_of_file(result, table, path, columns)


def instance_files(result: EvaluationResult) -> list[str]:
    """Lists the files of the instances table.

    Raises:
        ConfigError: The run wrote no such table.
    """
    files = result.files("instances")
    if not has_instances(result):
        why = "its instances are in ADK's result files" if files else result.manifest.get("reason") or result.state
        raise ConfigError(f"the run wrote no instances table: {why}", where=result.output)
    return files


def has_instances(result: EvaluationResult) -> bool:
    """Returns true if the run wrote an instances table."""
    files = result.files("instances")
    return bool(files) and not files[0].endswith(_OF_ADK)


def find_rows(result: EvaluationResult, instance_id: str) -> Iterator[Row]:
    """Yields the rows of the instances table with an id, one for each trial.

    Of a Parquet file without it, only the column of ids is read.
    """
    for path in result.files("instances"):
        if not path.endswith(".parquet") or _has_instance(path, instance_id):
            for some in _columns_of_file(result, "instances", path, None):
                yield from (row for row in _rows_in(some) if row["instance_id"] == instance_id)


def pick_rows(
    result: EvaluationResult, positions: Sequence[int], columns: Sequence[str] | None = None
) -> Iterator[Row]:
    """Yields the rows of the instances table at ascending positions, counted from 0.

    Of Parquet files, only groups of rows with a wanted one are read, and only the columns wanted.
    """
    for some in pick_columns(result, positions, columns):
        yield from _rows_in(some)


def pick_columns(
    result: EvaluationResult, positions: Sequence[int], columns: Sequence[str] | None = None
) -> Iterator[Columns]:
    """Yields the rows of the instances table as `pick_rows` does, but some of them at a time, by column."""
    wanted, first = list(positions), 0
    ours = _own_names(result)
    shown = _shown(_describe(result), columns)
    named = [name for name, own in ours.items() if own in shown]
    if not all(path.endswith(".parquet") for path in result.files("instances")):
        chosen = set(wanted)
        rows = (row for i, row in enumerate(rows_of(result, "instances", columns)) if i in chosen)
        yield from _by_column(rows)
        return
    for path in result.files("instances"):
        with storage.opened(path) as stream:
            file = pq.ParquetFile(stream)
            for number in range(file.num_row_groups):
                count = file.metadata.row_group(number).num_rows
                here = [i - first for i in wanted if first <= i < first + count]
                first += count
                if here:
                    found = file.read_row_group(number, columns=named, use_threads=False).take(here)
                    for batch in found.to_batches():
                        yield _columns_in(batch, ours, shown)


def count_texts(result: EvaluationResult, table: str, columns: Sequence[str], most: int) -> dict[str, Counter[str]]:
    """Counts the texts of some columns other than "", by our own names of the columns.

    Of Parquet files all rows are counted, by column; of JSONL and CSV the first `most`.
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in columns}
    if not columns:
        return counts
    if not all(path.endswith(".parquet") for path in result.files(table)):
        for row in islice(rows_of(result, table, columns), most):
            for name in columns:
                if row[name]:
                    counts[name][row[name]] += 1
        return counts
    ours = _own_names(result, table)
    stored = [name for name, own in ours.items() if own in counts]
    for path in result.files(table):
        with storage.opened(path) as stream:
            file = pq.ParquetFile(stream, read_dictionary=stored)
            for first in range(0, file.num_row_groups, _GROUPS_AT_ONCE):
                groups = list(range(first, min(first + _GROUPS_AT_ONCE, file.num_row_groups)))
                filled = [name for name in stored if _may_have_values(file, groups, name)]
                some = file.read_row_groups(groups, columns=filled, use_threads=False)
                for name in filled:
                    found = some.column(name).drop_null().value_counts().to_pylist()
                    counts[ours[name]].update({one["values"]: one["counts"] for one in found if one["values"]})
    return counts


def _may_have_values(file: pq.ParquetFile, groups: Sequence[int], name: str) -> bool:
    """Returns false if the file says of all these groups of rows that a column has no value there."""
    place = file.metadata.schema.names.index(name)
    known = ((group, group.column(place).statistics) for group in map(file.metadata.row_group, groups))
    return any(found is None or found.null_count != group.num_rows for group, found in known)


def _columns_of_file(
    result: EvaluationResult, table: str, path: str, columns: Sequence[str] | None
) -> Iterator[Columns]:
    described = _describe(result, table)
    if path.endswith(_OF_ADK):  # ADK's results stand there instead of a table
        return
    if path.endswith(".parquet"):
        ours = _own_names(result, table)
        shown = _shown(described, columns or None)
        for batch in _parquet(path, [name for name, own in ours.items() if own in shown]):
            yield _columns_in(batch, ours, shown)
        return
    types = {column["name"]: column["type"] for column in described.values()}
    rows = (_jsonl if ".jsonl" in path else _csv)(path, types)
    yield from _by_column({own: _plain(row[c["name"]], own) for own, c in described.items()} for row in rows)


def _rows_in(some: Columns) -> Iterator[Row]:
    names = list(some)
    for values in zip(*some.values(), strict=True):
        yield dict(zip(names, values, strict=True))


def _by_column(rows: Iterator[Row]) -> Iterator[Columns]:
    while some := list(islice(rows, _LINES_AT_ONCE)):
        yield {name: [row[name] for row in some] for name in some[0]}


def _has_instance(path: str, instance_id: str) -> bool:
    with storage.opened(path) as stream:
        file = pq.ParquetFile(stream)
        column = "instance_id"
        return any(
            instance_id in batch.column(0).to_pylist()
            for batch in file.iter_batches(1 << 16, columns=[column], use_threads=False)
        )


def _plain(value: Json, column: str) -> Json:
    """A value as our own tables hold it: NaN as `None`, a judge's word (yes, no) as its score."""
    if isinstance(value, str):
        return WORD_SCORES.get(value, value) if column.endswith("/score") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def summary_rows(result: EvaluationResult) -> list[Row]:
    """Rows of the summary table, each `slice` as a dict."""
    return [{**row, "slice": orjson.loads(row["slice"])} for row in rows_of(result, "summary")]


def columns_of_instances(result: EvaluationResult) -> list[str]:
    """Columns of the instances table, under our own names."""
    return list(_describe(result))


def types_of_instances(result: EvaluationResult) -> dict[str, str]:
    """Types of the columns of the instances table, by our own names."""
    return {own: column["type"] for own, column in _describe(result).items()}


def names_of_instances(result: EvaluationResult) -> dict[str, str]:
    """Maps our own names of the columns that the files of the instances table have to their names there."""
    return {own: name for name, own in _own_names(result).items()}


def measured_of_instances(result: EvaluationResult) -> frozenset[str]:
    """Columns of the instances table that differ between equal runs, under our own names."""
    return frozenset(own for own, column in _describe(result).items() if column.get("volatile", False))


def _describe(result: EvaluationResult, table: str = INSTANCES) -> dict[str, Mapping[str, Json]]:
    return describe_columns(result.manifest, table)


def _own_names(result: EvaluationResult, table: str = INSTANCES) -> dict[str, str]:
    """Maps the names of the columns in a table's Parquet files to our own.

    Files for BigQuery have names that are valid there, and lack columns without any value.
    """
    described = _describe(result, table)
    stored = {column["name"]: column["name"] for column in described.values()}
    given = ((result.manifest.get("config") or {}).get("output") or {}).get("bigquery")
    if given:
        stamp = Stamp(given.get("run_id") or "", given.get("run_date"))
        stored = stamp.name_columns([(column["name"], column["type"]) for column in described.values()])
    return {stored[column["name"]]: own for own, column in described.items() if column["name"] in stored}


def _shown(known: Iterable[str], columns: Iterable[str] | None) -> dict[str, None]:
    """Returns those of the known columns that are wanted, in their order; a table may have thousands."""
    wanted = None if columns is None else set(columns)
    return {own: None for own in known if wanted is None or own in wanted}


def _columns_in(batch: pa.RecordBatch, ours: Mapping[str, str], shown: Iterable[str]) -> Columns:
    """The columns of a batch under our own names, their values as `_plain` makes them; `None` for those it lacks.

    Columns that the table has for a warehouse alone, such as `run_id`, are left out.
    """
    columns = zip(batch.schema.names, batch.columns, strict=True)
    found = {ours[name]: _plain_column(column, ours[name]) for name, column in columns if name in ours}
    return {own: found[own] if own in found else [None] * batch.num_rows for own in shown}


def _plain_column(column: pa.Array, name: str) -> list[Json]:
    values = column.to_pylist()
    is_nan: Any = pc.is_nan  # type: ignore[attr-defined]
    rated = pa.types.is_string(column.type) and name.endswith("/score")
    if rated or (pa.types.is_floating(column.type) and is_nan(column).true_count):
        return [_plain(value, name) for value in values]
    return values


def _parquet(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with storage.opened(path) as stream:
        file = pq.ParquetFile(stream)
        if not file.num_row_groups:  # older versions of pyarrow would read the first all the same
            return
        size = min(_ROWS_AT_ONCE, _CELLS // max(len(columns), 1) + 1)
        yield from file.iter_batches(size, columns=list(columns), use_threads=False)


def _jsonl(path: str, types: Mapping[str, str]) -> Iterator[Row]:
    with _text(path) as stream:
        for line in stream:
            yield {**dict.fromkeys(types), **orjson.loads(line)}


def _csv(path: str, types: Mapping[str, str]) -> Iterator[Row]:
    csv.field_size_limit(1 << 30)
    with _text(path) as stream:
        cells = csv.reader(stream)
        next(cells)  # the names there may be protected from spreadsheets
        for row in cells:
            yield {name: _cell(value, kind) for (name, kind), value in zip(types.items(), row, strict=True)}


@contextmanager
def _text(path: str) -> Iterator[TextIO]:
    with storage.opened(path) as stream:
        unpacked: Any = gzip.GzipFile(fileobj=stream) if path.endswith(".gz") else stream
        yield io.TextIOWrapper(unpacked, "utf-8", newline="")


def _cell(value: str, kind: str) -> Json:
    if value == "":
        return None
    return int(value) if kind == "int64" else float(value) if kind == "float64" else value

"""Tables in BigQuery: columns that identify the run, and valid column names.

| evalbeam type | BigQuery type |
|---|---|
| bool, int64, float64 | BOOL, INT64, FLOAT64 |
| string, timestamp, json | STRING (ISO 8601 and JSON text) |
| null | none: the column is added by the first run with a value in it |

In names, every character except letters, digits and underscores becomes an underscore (`exact_match/score` becomes
`exact_match_score`). If names are then equal, ignoring case, the later ones get a number.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

ORIGINAL = b"evalbeam.name"
"""Metadata key of a Parquet field: name of the column in evalbeam's tables."""
ADDED = b"evalbeam.added"
"""Metadata key of a field that evalbeam's tables do not have."""
TYPES = {"bool": "BOOL", "int64": "INT64", "float64": "FLOAT64", "date": "DATE"}
_RESERVED = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier", "_change_")
_LONGEST = 290


@dataclass(frozen=True)
class Stamp:
    """The columns that identify the run of a row.

    Attributes:
        run_id: Name of the run.
        run_date: Day of the run, ISO 8601, by which the tables are partitioned; `None` if they are not.
    """

    run_id: str
    run_date: str | None = None

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of the columns added in front."""
        return (("run_id", "string"), *((("run_date", "date"),) if self.run_date else ()))

    def arrays(self, rows: int) -> list[pa.Array]:
        """Builds the values of these columns for a number of rows."""
        arrays: list[pa.Array] = [pa.repeat(pa.scalar(self.run_id), rows)]
        if self.run_date:
            arrays.append(pa.repeat(pa.scalar(datetime.date.fromisoformat(self.run_date)), rows))
        return arrays

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Adds the columns in front of an Arrow schema, with names that are valid in BigQuery."""
        names = column_names([name for name, _ in self.columns] + schema.names)
        front = [pa.field(name, pa.date32() if type_ == "date" else pa.string()) for name, type_ in self.columns]
        fields = [f.with_metadata({ADDED: b"true"}) for f in front]
        fields += [f.with_metadata({**(f.metadata or {}), ORIGINAL: f.name.encode()}) for f in schema]
        return pa.schema([f.with_name(name) for f, name in zip(fields, names, strict=True)])

    def name_columns(self, columns: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Maps (name, type) columns of a table to their names in its files; those without any value are not there."""
        kept = [name for name, type_ in columns if type_ != "null"]
        names = column_names([*(name for name, _ in self.columns), *kept])
        return dict(zip(kept, names[len(self.columns) :], strict=True))

    def describe_columns(self, columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Lists (name, type) in BigQuery of a table of (name, type) columns, including those added in front."""
        every = [*self.columns, *(column for column in columns if column[1] != "null")]
        names = column_names(name for name, _ in every)
        return [(name, TYPES.get(type_, "STRING")) for name, (_, type_) in zip(names, every, strict=True)]


def column_names(names: Iterable[str]) -> list[str]:
    """Converts names to unique names that are valid in BigQuery, in the same order."""
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        plain = "".join(c if c.isalnum() or c == "_" else "_" for c in name)[:_LONGEST] or "_"
        if plain[0].isnumeric() or plain.lower().startswith(_RESERVED):
            plain = f"c_{plain}"
        unique, number = plain, 1
        while unique.lower() in taken:
            number += 1
            unique = f"{plain}_{number}"
        taken.add(unique.lower())
        found.append(unique)
    return found

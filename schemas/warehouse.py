"""Tables as BigQuery keeps them: which run a row is of, and columns under names it takes.

| our type | BigQuery's |
|---|---|
| bool, int64, float64 | BOOL, INT64, FLOAT64 |
| string, timestamp, json | STRING (ISO 8601 and JSON text) |
| null | none: a column comes with the first run that has a value in it |

Names: whatever is no letter, digit or underscore becomes an underscore (`exact_match/score` is `exact_match_score`); of
names that then are equal, in any case of their letters, the later ones get a number.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

ORIGINAL = b"evalbeam.name"
"""Key of a Parquet field's metadata with the column's name in our tables."""
ADDED = b"evalbeam.added"
"""Key of the metadata of a field that our tables do not have."""
TYPES = {"bool": "BOOL", "int64": "INT64", "float64": "FLOAT64", "date": "DATE"}
_RESERVED = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier", "_change_")
_LONGEST = 290


@dataclass(frozen=True)
class Stamp:
    """What every row says of its run.

    Attributes:
        run_id: Name of the run.
        run_date: The day it is for, ISO 8601, by which the tables are partitioned; `None`: they are not.
    """

    run_id: str
    run_date: str | None = None

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of the columns it adds in front."""
        return (("run_id", "string"), *((("run_date", "date"),) if self.run_date else ()))

    def arrays(self, rows: int) -> list[pa.Array]:
        """The columns' values."""
        found: list[pa.Array] = [pa.repeat(pa.scalar(self.run_id), rows)]
        if self.run_date:
            found.append(pa.repeat(pa.scalar(datetime.date.fromisoformat(self.run_date)), rows))
        return found

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """An Arrow schema with the columns in front, all under names that BigQuery takes."""
        names = column_names([name for name, _ in self.columns] + schema.names)
        front = [pa.field(name, pa.date32() if type_ == "date" else pa.string()) for name, type_ in self.columns]
        fields = [f.with_metadata({ADDED: b"true"}) for f in front]
        fields += [f.with_metadata({**(f.metadata or {}), ORIGINAL: f.name.encode()}) for f in schema]
        return pa.schema([f.with_name(name) for f, name in zip(fields, names, strict=True)])

    def described(self, columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """(name, type) in BigQuery of a table with our (name, type) columns, the columns in front included."""
        every = [*self.columns, *(column for column in columns if column[1] != "null")]
        names = column_names(name for name, _ in every)
        return [(name, TYPES.get(type_, "STRING")) for name, (_, type_) in zip(names, every, strict=True)]


def column_names(names: Iterable[str]) -> list[str]:
    """Names that BigQuery takes, each once, in the same order."""
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

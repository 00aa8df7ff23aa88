"""Arrow arrays of the columns of output tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from .instance import Instance
from .json import Json
from .row_columns import find_columns

TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.string(),
    "json": pa.string(),
    "null": pa.string(),  # few readers of Parquet support Arrow's null type
}


class Arrays:
    """Builds Arrow arrays of the same rows; columns with equal values share one array."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._repeated: dict[tuple[str | None, str], pa.Array] = {}
        self._texts: dict[int, list[tuple[list[str | None], pa.Array]]] = {}  # by a hash: there may be many columns

    def repeated(self, value: str | None, type_: str = "string") -> pa.Array:
        """Returns an array with one value in all rows."""
        key = value, type_
        if key not in self._repeated:
            self._repeated[key] = pa.repeat(pa.scalar(value, TYPES[type_]), self.size)
        return self._repeated[key]

    def take(self, texts: pa.StringArray, places: Sequence[int], values: Sequence[Any] | None) -> pa.Array:
        """Returns the texts at some places; values that are known to be equal to the texts then share their array."""
        array = texts.take(pa.array(places))
        if values is not None and array.null_count < self.size:
            known = [values[i] for i in places]
            self._alike(known).append((known, array))
        return array

    def of(self, values: list[Any] | pa.Array, type_: str = "string") -> pa.Array:
        """Returns an array with one value for each row; "json" and "timestamp" values are already text."""
        if not isinstance(values, list):
            return self.repeated(None, type_) if values.null_count == self.size else values
        if values.count(None) == self.size:
            return self.repeated(None, type_)
        if not pa.types.is_string(TYPES[type_]):
            return pa.array(values, TYPES[type_])
        alike = self._alike(values)
        for known, array in alike:
            if known == values:
                return array
        array = pa.array(values, pa.string())
        alike.append((values, array))
        return array

    def _alike(self, values: list[Any]) -> list[tuple[list[str | None], pa.Array]]:
        """Returns the arrays of values that may be equal to these."""
        # The hash of some values alone: that of all long texts would take longer than their array.
        return self._texts.setdefault(hash((values[0], values[-1], *values[:: self.size // 4 + 1])), [])


def dataset_columns(
    made: Arrays, instances: Sequence[Instance], columns: Sequence[tuple[str, str]]
) -> dict[str, list[Json] | pa.Array]:
    """Returns the dataset's columns for their arrays: texts as they were read, if rows are held by column."""
    found = find_columns(instances)
    if found is None:
        rows = [one.row for one in instances]
        return {n: dataset_values([row.get(n) for row in rows], t) for n, t in columns}
    held, places = found
    given: dict[str, list[Json] | pa.Array] = {}
    for name, type_ in columns:
        texts = held.texts(name, type_ == "json") if TYPES[type_] == pa.string() else None
        if texts is None:
            values = held.values(name)
            given[name] = dataset_values([None if values is None else values[i] for i in places], type_)
        else:
            given[name] = made.take(texts, places, held.decoded(name) if type_ != "json" else None)
    return given


def dataset_values(values: list[Json], type_: str) -> list[Json]:
    """Converts the values of one dataset column for its Arrow array."""
    if type_ == "json":
        dumps = orjson.dumps
        return [None if v is None else dumps(v).decode() for v in values]
    if type_ == "float64":
        return [None if v is None else float(v) for v in values]
    return values

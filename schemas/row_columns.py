"""Rows by column, as Arrow: the form in which they are shuffled, and from which a value is decoded when asked for.

Each column holds texts: the strings themselves if all its values are strings, else the JSON text of each value. The
instances table wants the same texts, so most columns go from the reader to the writer as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields as fields_of
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from .instance import ALIASES, Instance
from .json import Json

_ID, _FIELDS, _LAYOUT = 0, 1, 2
"""Places of the columns that stand before those of the dataset: ids, fields as JSON, and the number of a layout."""
_JOINT = len(b"[") + len(b'"",') + len(b"]")
"""Bytes of an instance as a JSON list, besides its id and its row."""
_new = object.__new__
_put_id, _put_row, _put_fields = (Instance.__dict__[f.name].__set__ for f in fields_of(Instance))
_get_row = Instance.__dict__["row"].__get__


class Texts(NamedTuple):
    """The values of one column; null in rows that do not have it.

    Attributes:
        array: Texts.
        json: Whether they are JSON; if not, they are the values themselves.
    """

    array: pa.StringArray
    json: bool


class _Block(NamedTuple):
    """Rows that came together: ids, fields as JSON, names of the columns of each row in its order, and the columns."""

    ids: list[str]
    fields: list[bytes | None]
    layouts: list[tuple[str, ...]]
    columns: dict[str, Texts]


class RowPacker:
    """Collects rows by column.

    Attributes:
        names: Columns of the rows that are held.
    """

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self._blocks: list[_Block] = []

    def add(self, rows: Sequence[tuple[dict[str, Json], str, dict[str, Json]]]) -> int:
        """Adds (row, instance_id without ordinal, fields) of each instance; returns their bytes as JSON."""
        ids = [instance_id for _, instance_id, _ in rows]
        layouts = [tuple(row) for row, _, _ in rows]
        fields = [orjson.dumps(given) if given else None for _, _, given in rows]
        size = sum(map(len, ids)) + _JOINT * len(rows) + sum(1 + len(text) for text in fields if text)
        columns = {}
        for name in dict.fromkeys(name for layout in set(layouts) for name in layout):
            columns[name], width = _texts_of([row.get(name) for row, _, _ in rows])
            present = len(rows) - columns[name].array.null_count
            size += width + present * (len(orjson.dumps(name)) + len(b":"))
        size += sum(len(b"{}") + max(len(layout) - 1, 0) for layout in layouts)
        self._blocks.append(_Block(ids, fields, layouts, columns))
        self.names.update(dict.fromkeys(columns))
        return size

    def take(self, shards: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Takes all rows out, by shard."""
        blocks, self._blocks = self._blocks, []
        if not blocks:
            return
        ids = [instance_id for block in blocks for instance_id in block.ids]
        numbers = {layout: i for i, layout in enumerate(dict.fromkeys(one for b in blocks for one in b.layouts))}
        columns = {name: _join([(b.columns.get(name), len(b.ids)) for b in blocks]) for name in self.names}
        known = {"names": list(columns), "json": [c.json for c in columns.values()], "layouts": list(numbers)}
        arrays = [
            pa.array(ids, pa.string()),
            pa.array([text for b in blocks for text in b.fields], pa.string()),
            pa.array([numbers[layout] for b in blocks for layout in b.layouts], pa.int32()),
            *(column.array for column in columns.values()),
        ]
        blocks.clear()
        self.names = {}
        records = pa.record_batch(arrays, [str(i) for i in range(len(arrays))])
        records = records.replace_schema_metadata({"rows": orjson.dumps(known)})
        places = _positions(ids, shards)
        records = records.take(pa.array(np.argsort(places, kind="stable")))
        ends = np.cumsum(np.bincount(places, minlength=1)).tolist()
        for shard, (low, high) in enumerate(zip([0, *ends], ends, strict=False)):
            if low < high:
                yield shard, records.slice(low, high - low)


def _positions(ids: Iterable[str], ranges: int) -> np.ndarray:
    """Returns `position` of ids without ordinals."""
    first = np.frombuffer(bytes.fromhex("".join(ids)), ">u4")[::4].astype(np.uint64)
    return (first * np.uint64(ranges) >> np.uint64(32)).astype(np.int64)


def _texts_of(values: list[Json]) -> tuple[Texts, int]:
    """Returns the texts of one column, in which `None` is a missing value, and their bytes as JSON."""
    kinds = set(map(type, values))
    if kinds <= {str, type(None)}:
        missing = values.count(None) if len(kinds) > 1 else 0
        size = len(orjson.dumps(values)) - len(b"[]") - (len(values) - 1) - missing * len(b"null")
        return Texts(pa.array(values, pa.string()), False), size
    dumps = orjson.dumps
    texts = [None if value is None else dumps(value) for value in values]
    return Texts(pa.array(texts, pa.string()), True), sum(map(len, filter(None, texts)))


def _join(chunks: Sequence[tuple[Texts | None, int]]) -> Texts:
    """Joins a column of several blocks, each given with its number of rows; `None` is a block without the column."""
    json = any(texts.json for texts, _ in chunks if texts)
    arrays = [
        pa.nulls(size, pa.string()) if texts is None else texts.array if texts.json == json else _as_json(texts.array)
        for texts, size in chunks
    ]
    return Texts(arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays), json)


def _as_json(texts: pa.StringArray) -> pa.StringArray:
    return pa.array([None if text is None else orjson.dumps(text) for text in texts.to_pylist()], pa.string())


def stream_of(records: pa.RecordBatch) -> pa.Buffer:
    """Encodes a record batch as an Arrow stream."""
    measured = pa.MockOutputStream()
    _send(records, measured)
    stream = pa.allocate_buffer(measured.size())  # a growing buffer would be copied each time
    _send(records, pa.FixedSizeBufferWriter(stream))
    return stream


def _send(records: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, records.schema) as stream:
        stream.write_batch(records)


def names_of(records: pa.RecordBatch) -> list[str]:
    """Returns the columns of packed rows."""
    return orjson.loads(records.schema.metadata[b"rows"])["names"]


class RowColumns:
    """Rows that `RowPacker` has packed, in the order of the record batches."""

    def __init__(self, records: Sequence[pa.RecordBatch]) -> None:
        known = [orjson.loads(batch.schema.metadata[b"rows"]) for batch in records]
        names = dict.fromkeys(name for one in known for name in one["names"])
        found = [_columns_in(batch, one) for batch, one in zip(records, known, strict=True)]
        sizes = [batch.num_rows for batch in records]
        self._texts = {name: _join([(c.get(name), n) for c, n in zip(found, sizes, strict=True)]) for name in names}
        self._values: dict[str, list[Json] | None] = {}
        self._layouts = [
            one["layouts"][number]
            for batch, one in zip(records, known, strict=True)
            for number in batch.column(_LAYOUT).to_pylist()
        ]
        self._ids = [id_ for batch in records for id_ in batch.column(_ID).to_pylist()]
        self._fields = [text for batch in records for text in batch.column(_FIELDS).to_pylist()]

    @property
    def names(self) -> Iterable[str]:
        """The columns of the rows."""
        return self._texts.keys()

    def instances(self) -> list[Instance]:
        """Returns the instances, in order."""
        pairs = enumerate(zip(self._ids, self._fields, strict=True))
        return [_hold(id_, self, i, orjson.loads(text) if text else {}) for i, (id_, text) in pairs]

    def values(self, name: str) -> list[Json] | None:
        """Returns the values of a column, `None` in rows that do not have it; `None` if there is no such column."""
        if name not in self._values:
            texts = self._texts.get(name)
            decode = _decode if texts is not None and texts.json else pa.Array.to_pylist
            self._values[name] = None if texts is None else decode(texts.array)
        return self._values[name]

    def decoded(self, name: str) -> list[Json] | None:
        """Returns the values of a column if they were asked for; else `None`."""
        return self._values.get(name)

    def texts(self, name: str, json: bool) -> pa.StringArray | None:
        """Returns a column as texts, or as JSON texts; `None` if it does not hold such."""
        texts = self._texts.get(name)
        return texts.array if texts is not None and texts.json == json else None

    def row(self, place: int) -> dict[str, Json]:
        """Returns one row, with its columns in the order in which they were read."""
        columns = ((name, self.values(name) or ()) for name in self._layouts[place])
        return {name: values[place] for name, values in columns}

    def has_any(self, place: int, names: frozenset[str]) -> bool:
        """Returns true if a row has one of some columns."""
        return not (names.isdisjoint(self._texts) or names.isdisjoint(self._layouts[place]))

    @cached_property
    def widths(self) -> np.ndarray:
        """About how many characters each row has: those of its strings, and 64 for each other value."""
        total = np.zeros(len(self._ids), np.int64)
        for name in self._texts:
            total += [0 if v is None else len(v) if type(v) is str else 64 for v in self.values(name) or ()]
        return total

    @property
    def most(self) -> int:
        """A bound of the sum of all widths, which takes less time."""
        columns = self._texts.values()
        return sum(c.array.nbytes + (64 * len(c.array) if c.json else 0) for c in columns)


def _columns_in(batch: pa.RecordBatch, known: Mapping[str, Sequence[str | bool]]) -> dict[str, Texts]:
    columns = batch.columns[_LAYOUT + 1 :]
    return {n: Texts(c, j) for n, c, j in zip(known["names"], columns, known["json"], strict=True)}  # type: ignore


def _decode(texts: pa.StringArray) -> list[Json]:
    """Decodes JSON texts, all at once."""
    return orjson.loads("[" + ",".join(["null" if text is None else text for text in texts.to_pylist()]) + "]")


class HeldInstance(Instance):
    """An instance whose row is decoded when it is asked for; equal to one that has it."""

    __slots__ = ("_decoded", "columns", "place")
    columns: RowColumns | None
    place: int
    _decoded: bool

    @property
    def row(self) -> dict[str, Json]:
        """The dataset's own columns."""
        if self.columns is not None and not self._decoded:
            _put_row(self, self.columns.row(self.place))
            _put_decoded(self, True)
        return _get_row(self)

    @row.setter
    def row(self, row: dict[str, Json]) -> None:  # type: ignore  (of a field; `dataclasses.replace` sets it in a copy)
        _put_row(self, row)
        _put_columns(self, None)

    def get(self, name: str) -> Json:
        if self.columns is None:
            return super().get(name)
        value = self._at(name)
        if value is None and name in ALIASES:
            for alias in ALIASES[name]:
                value = self._at(alias)
                if value is not None:
                    break
        return value

    def has_any(self, names: frozenset[str]) -> bool:
        if self.columns is None:
            return super().has_any(names)
        return self.columns.has_any(self.place, names) or not names.isdisjoint(self.fields)

    def with_id(self, instance_id: str) -> Instance:
        if self.columns is None:
            return super().with_id(instance_id)
        return _hold(instance_id, self.columns, self.place, self.fields)

    def get_own(self, name: str) -> Json:
        if self.columns is None:
            return super().get_own(name)
        values = self.columns.values(name)
        return None if values is None else values[self.place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        return (self.instance_id, self.row, self.fields) == (other.instance_id, other.row, other.fields)

    __hash__ = None  # type: ignore[assignment]  (as that of an instance, which holds dicts)

    def _at(self, name: str) -> Json:
        fields = self.fields
        return fields[name] if fields and name in fields else self.get_own(name)


_put_decoded, _put_columns, _put_place = (HeldInstance.__dict__[name].__set__ for name in HeldInstance.__slots__)


def _hold(instance_id: str, columns: RowColumns, place: int, fields: dict[str, Json]) -> HeldInstance:
    instance = _new(HeldInstance)  # the constructor of a frozen dataclass takes three times as long
    _put_id(instance, instance_id)
    _put_fields(instance, fields)
    _put_columns(instance, columns)
    _put_place(instance, place)
    _put_decoded(instance, False)
    return instance


def find_columns(instances: Sequence[Instance]) -> tuple[RowColumns, list[int]] | None:
    """Returns the columns that hold all rows of some instances, and the place of each row; `None` if none hold all."""
    first = instances[0] if instances else None
    columns = first.columns if type(first) is HeldInstance else None
    if columns is None or any(type(one) is not HeldInstance or one.columns is not columns for one in instances):
        return None
    return columns, list(map(attrgetter("place"), instances))


def list_values(instances: Sequence[Instance], name: str) -> list[Json]:
    """Returns `Instance.get` of each instance."""
    found = None if name in ALIASES else find_columns(instances)
    if found is None or any(one.fields for one in instances):
        return [one.get(name) for one in instances]
    values = found[0].values(name)
    return [None] * len(instances) if values is None else [values[i] for i in found[1]]

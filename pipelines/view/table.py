"""The instances table of a run for a person who looks at it: small columns in memory, texts only where shown."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas.json import Json
from ...schemas.names import WORD_SCORES
from ..run.columns import Floats, as_floats, compute
from ..run.result import EvaluationResult
from ..run.tables import Row, types_of_instances
from .parts import local_parts

Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
"""Places of rows in the table, counted from 0."""

MOST_BYTES = 512 << 20
"""Bytes of columns that are kept in memory; the one that was not used for longest is dropped."""
SORTED_CHARACTERS = 200
"""Characters by which texts are sorted."""
_GROUPS_AT_ONCE = 16
_Made = TypeVar("_Made")


class Codes(NamedTuple):
    """A column of few values: the values as text, "" where there is none, and for each row the place of its value."""

    values: list[str]
    places: np.ndarray[tuple[int], np.dtype[np.int32]]


class _Group(NamedTuple):
    path: str
    number: int


class RunTable:
    """The rows of a run.

    Attributes:
        result: The run.
        size: Number of rows.
        types: Type of each column by our own names: "string", "json", "float64", "int64", "bool", "timestamp".
        texts: Columns that are searched.
    """

    def __init__(self, result: EvaluationResult, folder: str) -> None:
        """Opens the table.

        Args:
            result: The run.
            folder: An existing folder for copies of files that are not on this machine or no Parquet.

        Raises:
            ConfigError: The run wrote no instances table.
        """
        self.result = result
        paths, self._names = local_parts(result, folder)
        self.types = {name: kind for name, kind in types_of_instances(result).items() if name in self._names}
        self.types |= {name: "float64" for name in self.types if name.endswith("/score")}
        self.texts = [name for name, kind in self.types.items() if kind in ("string", "json", "timestamp")]
        self._files = {path: pq.read_metadata(path) for path in paths}
        self._groups = [_Group(path, i) for path, file in self._files.items() for i in range(file.num_row_groups)]
        sizes = [self._files[group.path].row_group(group.number).num_rows for group in self._groups]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        self.size = int(self._starts[-1])
        self._added: dict[str, Floats] = {}
        self._words: dict[str, tuple[Codes, Floats]] = {}
        self._kept: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()
        self._lock = threading.RLock()

    def add(self, name: str, values: Floats) -> None:
        """Adds a column of numbers, NaN where a row has none."""
        self.types[name] = "float64"
        self._added[name] = values

    def add_words(self, name: str, codes: Codes, ranks: Floats) -> None:
        """Adds a column of few values, which is sorted by the ranks of its rows."""
        self.types[name] = "string"
        self._words[name] = codes, ranks

    # ------------------------------------------------------------------------------------------------ whole columns

    def prepare(self, numbers: Iterable[str], words: Iterable[str]) -> None:
        """Reads several columns of numbers and of few values at once, which is faster than one after the other."""
        made = {("numbers", name): as_floats for name in numbers if name in self._names}
        made |= {("codes", name): _as_codes for name in words if name in self._names}
        stored = list(dict.fromkeys(self._names[name] for _, name in made))
        chunks: dict[str, list[pa.Array]] = {name: [] for name in stored}
        for path in self._files:
            with self._open(path, [self._names[name] for kind, name in made if kind == "codes"]) as file:
                if stored and file.num_row_groups:
                    found = file.read(columns=stored)
                    for name in stored:
                        chunks[name].extend(found.column(name).chunks)
        for (kind, name), convert in made.items():
            some = chunks.pop(self._names[name], [])
            if some:
                self._keep(kind, name, partial(convert, pa.chunked_array(some)))

    def numbers(self, name: str) -> Floats:
        """A column of numbers, NaN where there is none; a judge's yes and no are 1 and 0."""
        if name in self._added:
            return self._added[name]
        return self._keep("numbers", name, lambda: as_floats(self.column(name)))

    def codes(self, name: str) -> Codes:
        """A column of few values."""
        if name in self._words:
            return self._words[name][0]
        return self._keep("codes", name, lambda: _as_codes(self.column(name, words=True)))

    def ranks(self, name: str) -> Floats:
        """What a column is sorted by: its numbers, or the ranks of the first `SORTED_CHARACTERS` of its texts."""
        if self.types[name] in ("float64", "int64"):
            return self.numbers(name)
        if name in self._words:
            return self._words[name][1]
        return self._keep("ranks", name, lambda: self._rank(name))

    def column(self, name: str, *, words: bool = False) -> pa.ChunkedArray:
        """A whole column as it is stored, which is not kept; `words` for one of few values, as a dictionary."""
        stored = self._names[name]
        chunks = []
        for path in self._files:
            with self._open(path, [stored] if words else []) as file:
                if file.num_row_groups:  # older versions of pyarrow would read the first all the same
                    chunks.extend(file.read(columns=[stored]).column(0).chunks)
        kind = chunks[0].type if chunks else pa.string()
        return pa.chunked_array(chunks, kind)

    def _rank(self, name: str) -> Floats:
        cut = (
            compute.utf8_slice_codeunits(batch.column(0).cast(pa.string()), 0, SORTED_CHARACTERS)
            for batch in self.scan([name])
        )
        texts = pa.chunked_array([chunk for array in cut for chunk in array.chunks], pa.string())
        ranks = compute.rank(texts, tiebreaker="dense").to_numpy().astype(np.float64)
        ranks[texts.is_null().to_numpy()] = np.nan
        return ranks

    def _keep(self, kind: str, name: str, make: Callable[[], _Made]) -> _Made:
        with self._lock:
            key = kind, name
            if key not in self._kept:
                made = make()
                self._kept[key] = made, _count_bytes(made)
                while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > MOST_BYTES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key][0]

    # -------------------------------------------------------------------------------------------------- some rows

    def scan(self, names: Sequence[str], wanted: Positions | None = None) -> Iterator[pa.Table]:
        """Yields the columns of all rows in order, some groups of rows at a time; of few `wanted`, only their groups.

        Groups without a wanted row are yielded as tables of as many rows, all null, so that places stay the same.
        """
        stored = [self._names[name] for name in names]
        found = None if wanted is None else self._find_groups(wanted)
        for path, file in self._files.items():
            numbers = range(file.num_row_groups)
            first = next((i for i, group in enumerate(self._groups) if group.path == path), 0)
            with self._open(path) as opened:
                for low in range(0, len(numbers), _GROUPS_AT_ONCE):
                    some = numbers[low : low + _GROUPS_AT_ONCE]
                    if found is None or any(first + i in found for i in some):
                        yield opened.read_row_groups(list(some), columns=stored).select(stored).rename_columns(names)
                    else:
                        size = sum(file.row_group(i).num_rows for i in some)
                        yield pa.table({name: pa.nulls(size, pa.string()) for name in names})

    def read(self, positions: Positions, names: Sequence[str]) -> list[Row]:
        """Reads the columns of some rows, in the order of the positions."""
        groups = np.searchsorted(self._starts, positions, "right") - 1
        ours = {name: self._names[name] for name in names if name in self._names}
        added = {name: self._added[name] for name in names if name in self._added}
        words = {name: self._words[name][0] for name in names if name in self._words}
        rows: dict[int, Row] = {}
        for number in np.unique(groups):
            here, group = positions[groups == number], self._groups[number]
            with self._open(group.path) as file:
                found = file.read_row_group(group.number, columns=list(ours.values()), use_threads=False)
            picked = found.take(pa.array(here - self._starts[number])).to_pylist()
            for position, row in zip(here.tolist(), picked, strict=True):
                values = {name: row[stored] for name, stored in ours.items()}
                values |= {name: float(numbers[position]) for name, numbers in added.items()}
                values |= {name: codes.values[codes.places[position]] for name, codes in words.items()}
                rows[position] = {name: _plain(value, name) for name, value in values.items()}
        return [rows[position] for position in positions.tolist()]

    def locate(self, instance_id: str) -> Positions:
        """Finds the rows of an instance, one for each trial; reads only groups whose range of ids has it."""
        stored, found = self._names["instance_id"], []
        for number, (path, i) in enumerate(self._groups):
            file = self._files[path]
            if not _may_have(file.row_group(i), file.schema.names.index(stored), instance_id):
                continue
            with self._open(path) as opened:
                ids = opened.read_row_group(i, columns=[stored], use_threads=False).column(0)
            found.append(np.flatnonzero(compute.equal(ids, instance_id).to_numpy()) + self._starts[number])
        return np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)

    def may_have(self, name: str, value: str) -> bool:
        """Returns false if no row has a text in a column, as far as the files say of their groups of rows."""
        if name not in self._names:
            return False
        for path, file in self._files.items():
            place = file.schema.names.index(self._names[name])
            groups = (file.row_group(group.number) for group in self._groups if group.path == path)
            if any(_may_have(group, place, value) for group in groups):
                return True
        return False

    def _find_groups(self, wanted: Positions) -> set[int]:
        return set((np.searchsorted(self._starts, wanted, "right") - 1).tolist())

    def _open(self, path: str, words: Sequence[str] = ()) -> pq.ParquetFile:
        return pq.ParquetFile(path, metadata=self._files[path], memory_map=True, read_dictionary=list(words))


def _may_have(group: pq.RowGroupMetaData, column: int, value: str) -> bool:
    known = group.column(column).statistics
    if known is None or (not known.has_min_max and known.null_count != group.num_rows):
        return True
    return bool(known.has_min_max and known.min <= value <= known.max)


def _as_codes(column: pa.ChunkedArray) -> Codes:
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    values = [_as_text(value) for value in whole.dictionary.to_pylist()]
    return Codes([*values, ""], whole.indices.fill_null(len(values)).to_numpy().astype(np.int32))


def _as_text(value: Json) -> str:
    """A value as the explorer's script says it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _plain(value: Json, name: str) -> Json:
    if isinstance(value, float) and np.isnan(value):
        return None
    return WORD_SCORES.get(value, value) if isinstance(value, str) and name.endswith("/score") else value


def _count_bytes(made: object) -> int:
    if isinstance(made, Codes):
        return made.places.nbytes + sum(map(len, made.values))
    return int(made.nbytes) if isinstance(made, np.ndarray) else 0

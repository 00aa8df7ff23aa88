"""Packs rows of the instances table as JSON for the script of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from ...schemas.json import Json
from ...schemas.tables import PERFORMANCE
from ..run.result import EvaluationResult
from ..run.tables import Columns, columns_of_instances, types_of_instances
from .timeline import list_spans, list_traced

MOST_ROWS = 10_000
"""Rows that the page holds whole."""
MOST_BYTES = 64 << 20
"""Bytes of JSON that the rows may take."""
MOST_COLUMNS = 200
"""Columns of the dataset that the page holds, besides those that metrics and slices are known to look at."""
MOST_CHARACTERS = 20_000
"""Maximum characters of one cell."""
_VALUES_AT_ONCE = 512
_SHARED_VALUES = 4096
_TEXTS = ("string", "json")
"""Types of columns whose cells may be cut."""
_ROLES = ("prompt", "reference", "response", "reference_trajectory", "predicted_trajectory")
_BREAKING = re.compile("[<>&\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_BREAKING_ASCII = b"<>&\x7f"


def list_scores(result: EvaluationResult) -> list[str]:
    """Lists the columns of the instances table that hold scores."""
    return [name for name in columns_of_instances(result) if name.endswith("/score") or name in PERFORMANCE]


def find_roles(result: EvaluationResult) -> dict[str, str]:
    """Maps prompt, reference, response and the two trajectories to their columns of the instances table."""
    known = columns_of_instances(result)
    given = ((result.manifest.get("config") or {}).get("dataset") or {}).get("columns") or {}
    named = {role: given.get(role) or role for role in _ROLES}
    return {role: name if name in known else role for role, name in named.items()}


def list_slices(result: EvaluationResult) -> list[str]:
    """Lists the columns of the instances table by which the run is sliced."""
    known = columns_of_instances(result)
    asked = (result.manifest.get("config") or {}).get("slices") or ()
    return [name for name in dict.fromkeys(name for one in asked for name in one) if name in known]


def show_cell(value: Json, type_: str, most: int = MOST_CHARACTERS) -> Json:
    """Converts a cell for the explorer's script: long texts are cut, JSON is parsed, floats have six digits."""
    return _show(_cut(value, most), type_)


def embed(value: Json) -> str:
    """Encodes a value as JSON that is safe within a script element, and shows no character that changes the reading."""
    raw = orjson.dumps(value)
    return raw.decode() if _is_safe(raw) else _BREAKING.sub(lambda found: f"\\u{ord(found[0]):04x}", raw.decode())


def _is_safe(raw: bytes) -> bool:
    """Returns true for most texts without a character of `_BREAKING`, in a fraction of the time."""
    return raw.isascii() and len(raw.translate(None, _BREAKING_ASCII)) == len(raw)


class RowBook:
    """Collects the rows that the page holds.

    Attributes:
        total: Rows of the run.
        roles: Column of the table by its role: prompt, reference, response and the two trajectories.
        columns: Columns that the page holds.
        left_out: Number of the dataset's other columns.
        thin_columns: Columns that are kept of rows that are not kept whole.
    """

    def __init__(self, result: EvaluationResult, total: int) -> None:
        self.total = total
        known = columns_of_instances(result)
        self.roles = find_roles(result)
        self.slices = list_slices(result)
        given = known[: known.index("status")] if "status" in known else []  # the dataset's stand before our own
        shown = {*given[:MOST_COLUMNS], *known[len(given) :], *self.slices, *self.roles.values()}
        self.columns = [name for name in known if name in shown]
        self.left_out = len(known) - len(self.columns)
        types = types_of_instances(result)
        self._types = {name: types[name] for name in self.columns}
        scores = list_scores(result)
        self.thin_columns = list(dict.fromkeys(["instance_id", "trial", "status", *self.slices, *scores]))
        self._thin = frozenset(self.thin_columns)
        self._cells = {name: _Cells() for name in self._types}
        self._faults: list[list[str]] = []
        self._whole: list[int] = []  # places of the rows that are kept whole, ascending
        self._traced = list_traced(known)
        self._spans: dict[int, str] = {}
        self._bytes = 0

    @property
    def kept(self) -> tuple[int, int]:
        """(rows held whole, rows held at all)."""
        return len(self._whole), len(self._faults)

    def add(self, rows: Columns, faults: Mapping[int, Sequence[str]], whole: bool) -> list[int | None]:
        """Keeps rows, or of rows that are not `whole` their scores, as long as the bounds allow.

        Args:
            rows: The rows, by column.
            faults: Groups of failures of the rows that have some, by their place among these rows.
            whole: Whether all their columns are kept.

        Returns:
            The place of each row on the page; `None` if it is not kept.
        """
        size = len(rows["instance_id"])
        if not self._keep(rows, faults, whole):
            if size > 1:  # some of them may fit
                ones = ({name: [values[i]] for name, values in rows.items()} for i in range(size))
                return [self.add(one, {0: faults.get(i, ())}, whole)[0] for i, one in enumerate(ones)]
            if not whole or not self._keep(rows, faults, False):
                return [None]
        return list(range(len(self._faults) - size, len(self._faults)))

    def complete(self, places: Sequence[int], rows: Columns) -> None:
        """Keeps the other columns of rows at ascending places, too, as long as the bounds allow."""
        kept = self._cut(rows, self._types)
        if self._fits(kept):
            self._keep_whole(rows, kept, places)
        elif len(places) > 1:
            for i, place in enumerate(places):
                self.complete([place], {name: [values[i]] for name, values in rows.items()})

    def pack(self) -> Iterator[str]:
        """Packs the rows by column, and what the script must know of them, as pieces of JSON."""
        groups = list(dict.fromkeys(name for names in self._faults for name in names))
        numbers = {name: i for i, name in enumerate(groups)}
        whole = set(self._whole)
        partial = [i for i in range(len(self._faults)) if i not in whole]
        head = embed({"rows": len(self._faults), "total": self.total, "partial": partial})
        yield f'{head[:-1]},"columns":['
        comma = ""
        for name in self._types:
            for piece in self._pack_column(name):
                yield comma + piece
                comma = ""
            comma = ","
        faults = [[numbers[name] for name in names] for names in self._faults]
        tail = embed({"faults": faults, "groups": groups, "roles": self.roles, "slices": self.slices})
        spans = ",".join(f'"{place}":{spans}' for place, spans in self._spans.items())
        yield f'],{tail[1:-1]},"spans":{{{spans}}}}}'

    def _keep(self, rows: Columns, faults: Mapping[int, Sequence[str]], whole: bool) -> bool:
        """Keeps rows if all of them fit."""
        kept = self._cut(rows, self._types if whole else self.thin_columns)
        if not self._fits(kept):
            return False
        for name in self.thin_columns:
            self._cells[name].add(kept[name])
        first, size = len(self._faults), len(kept["instance_id"])
        self._faults += [list(faults.get(i, ())) for i in range(size)]
        if whole:
            self._keep_whole(rows, kept, range(first, first + size))
        return True

    def _keep_whole(self, rows: Columns, kept: Columns, places: Sequence[int]) -> None:
        for name in self._cells.keys() - self._thin:
            self._cells[name].add(kept[name] if name in kept else [None] * len(places))
        self._whole += places
        for i, place in enumerate(places) if self._traced else ():
            spans = list_spans({name: values[i] for name, values in rows.items()}, self._traced)
            if spans and self._fits_text(text := embed(spans)):
                self._spans[place] = text

    def _fits(self, rows: Columns) -> bool:
        return self._fits_text(embed(rows))

    def _fits_text(self, text: str) -> bool:
        if self._bytes + len(text) > MOST_BYTES:
            return False
        self._bytes += len(text)
        return True

    def _cut(self, rows: Columns, names: Iterable[str]) -> Columns:
        given = {name: rows[name] for name in names if name in rows}
        return {name: list(map(_cut, some)) if self._types[name] in _TEXTS else some for name, some in given.items()}

    def _list_values(self, name: str) -> list[Json]:
        """Lists the values of a column, `None` where it is not kept."""
        given = self._cells[name].values
        if name in self._thin or len(given) == len(self._faults):
            return given
        values: list[Json] = [None] * len(self._faults)
        for place, value in zip(self._whole, given, strict=True):
            values[place] = value
        return values

    def _pack_column(self, name: str) -> Iterator[str]:
        """Packs a column as its values, or as its different values with their places; nothing of an empty column."""
        values, type_ = self._list_values(name), self._types[name]
        different = list(dict.fromkeys(values))
        if different in ([None], []):
            return
        yield embed({"name": name, "type": type_})[:-1]
        if len(different) == 1:
            yield f',"all":{embed(_show(different[0], type_))}}}'
        elif len(different) * 2 > len(values):
            yield ',"values":['
            yield from _pack_values(values, type_)
            yield "]}"
        else:
            places = {value: i for i, value in enumerate(different)}
            yield ',"different":['
            yield from _pack_values(different, type_)
            yield f'],"places":{embed(list(map(places.__getitem__, values)))}}}'


class _Cells:
    """The values of a column; equal texts and numbers are one object as long as few are different."""

    def __init__(self) -> None:
        self.values: list[Json] = []
        self._known: dict[Json, Json] = {}

    def add(self, values: Sequence[Json]) -> None:
        """Adds values."""
        known = self._known
        if len(known) < _SHARED_VALUES:
            known |= {value: value for value in set(values) - known.keys() if isinstance(value, str | float)}
        self.values += map(known.get, values, values)


def _pack_values(values: Sequence[Json], type_: str) -> Iterator[str]:
    """Packs the elements of an array; some at a time, since JSON as objects takes ten times its text."""
    for first in range(0, len(values), _VALUES_AT_ONCE):
        text = embed([_show(value, type_) for value in values[first : first + _VALUES_AT_ONCE]])
        yield ("," if first else "") + text[1:-1]


def _show(value: Json, type_: str) -> Json:
    if type_ == "json" and isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:  # it was cut
            return value
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _cut(value: Json, most: int = MOST_CHARACTERS) -> Json:
    if type(value) is str and len(value) > most:
        return f"{value[:most]} … (cut: {len(value):,} characters)"
    return value

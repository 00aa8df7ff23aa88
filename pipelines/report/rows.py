"""Packs rows of the instances table as JSON for the script of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import orjson

from ...schemas.json import Json
from ...schemas.tables import PERFORMANCE
from ..run.result import EvaluationResult
from ..run.tables import Row, columns_of_instances, types_of_instances
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

    def add(self, row: Row, faults: Sequence[str], whole: bool) -> int | None:
        """Keeps a row, or of a row that is not `whole` its scores, as long as the bounds allow.

        Returns:
            Its place on the page; `None` if it is not kept.
        """
        scores = {name: _cut(row[name]) for name in self.thin_columns}
        kept = self._cut(row) if whole else scores
        if whole and not self._fits(kept):
            whole, kept = False, scores
        if not whole and not self._fits(kept):
            return None
        place = len(self._faults)
        for name in self.thin_columns:
            self._cells[name].add(scores[name])
        self._faults.append(list(faults))
        if whole:
            self._keep_whole(row, kept, place)
        return place

    def complete(self, place: int, row: Row) -> None:
        """Keeps the other columns of a row at a place, too; places ascend."""
        kept = self._cut(row)
        if self._fits(kept):
            self._keep_whole(row, kept, place)

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

    def _fits(self, row: Row) -> bool:
        return self._fits_text(embed(row))

    def _fits_text(self, text: str) -> bool:
        if self._bytes + len(text) > MOST_BYTES:
            return False
        self._bytes += len(text)
        return True

    def _keep_whole(self, row: Row, kept: Row, place: int) -> None:
        for name in self._cells.keys() - self._thin:
            self._cells[name].add(kept.get(name))
        self._whole.append(place)
        spans = list_spans(row, self._traced)
        if spans and self._fits_text(text := embed(spans)):
            self._spans[place] = text

    def _cut(self, row: Row) -> Row:
        return {name: _cut(row[name]) for name in self._types if name in row}

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
            yield f'],"places":{embed([places[value] for value in values])}}}'


class _Cells:
    """The values of a column; equal texts and numbers are one object as long as few are different."""

    def __init__(self) -> None:
        self.values: list[Json] = []
        self._known: dict[str | float, str | float] = {}

    def add(self, value: Json) -> None:
        """Adds a value."""
        if isinstance(value, str | float):
            shared = self._known.get(value)
            if shared is None and len(self._known) < _SHARED_VALUES:
                self._known[value] = value
            value = value if shared is None else shared
        self.values.append(value)


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

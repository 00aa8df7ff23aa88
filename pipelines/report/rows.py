"""Packs rows of the instances table as JSON for the script of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

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
        self._rows: list[Row] = []
        self._faults: list[list[str]] = []
        self._places: dict[tuple[str, int], int] = {}
        self._whole: list[bool] = []
        self._traced = list_traced(known)
        self._spans: dict[int, Json] = {}
        self._bytes = 0

    @property
    def kept(self) -> tuple[int, int]:
        """(rows held whole, rows held at all)."""
        return sum(self._whole), len(self._rows)

    def add(self, row: Row, faults: Sequence[str], whole: bool) -> None:
        """Keeps a row, or of a row that is not `whole` its scores, as long as the bounds allow."""
        kept = self._cut(row) if whole else {name: _cut(row[name]) for name in self.thin_columns}
        if whole and not self._fits(kept):
            whole, kept = False, {name: kept[name] for name in self.thin_columns}
        if whole or self._fits(kept):
            self._keep(kept, faults, whole)
            if whole:
                self._keep_spans(row, len(self._rows) - 1)

    def complete(self, row: Row) -> None:
        """Keeps the other columns of a row, too."""
        place = self._places.get((row["instance_id"], row["trial"]))
        kept = self._cut(row)
        if place is not None and self._fits(kept):
            self._rows[place], self._whole[place] = kept, True
            self._keep_spans(row, place)

    def pack(self) -> str:
        """Packs the rows by column, and what the script must know of them, as JSON."""
        groups = list(dict.fromkeys(name for names in self._faults for name in names))
        numbers = {name: i for i, name in enumerate(groups)}
        columns = [self._pack_column(name) for name in self._types]
        found = {
            "rows": len(self._rows),
            "total": self.total,
            "partial": [i for i, whole in enumerate(self._whole) if not whole] if not all(self._whole) else [],
            "columns": [column for column in columns if column],
            "faults": [[numbers[name] for name in names] for names in self._faults],
            "groups": groups,
            "roles": self.roles,
            "slices": self.slices,
            "spans": {str(place): spans for place, spans in self._spans.items()},
        }
        return embed(found)

    @property
    def _whole_places(self) -> Iterable[int]:
        return compress(range(len(self._rows)), self._whole)

    def _fits(self, row: Row) -> bool:
        size = len(embed(row))
        if self._bytes + size > MOST_BYTES:
            return False
        self._bytes += size
        return True

    def _keep_spans(self, row: Row, place: int) -> None:
        spans = list_spans(row, self._traced)
        if spans and self._fits({"spans": spans}):
            self._spans[place] = spans

    def _keep(self, row: Row, faults: Sequence[str], whole: bool) -> None:
        self._places[row["instance_id"], row["trial"]] = len(self._rows)
        self._rows.append(row)
        self._faults.append(list(faults))
        self._whole.append(whole)

    def _cut(self, row: Row) -> Row:
        return {name: _cut(row[name]) for name in self._types if name in row}

    def _pack_column(self, name: str) -> dict[str, Any] | None:
        """Packs a column as its values, or as its different values with their places; nothing of an empty column."""
        rows = self._rows
        values: list[Json] = [None] * len(rows)
        for i in range(len(rows)) if name in self.thin_columns else self._whole_places:
            values[i] = rows[i].get(name)
        different = list(dict.fromkeys(values))
        if different in ([None], []):
            return None
        column: dict[str, Any] = {"name": name, "type": self._types[name]}
        shown = [_show(value, self._types[name]) for value in different]
        if len(different) == 1:
            return {**column, "all": shown[0]}
        if len(different) * 2 > len(values):
            return {**column, "values": [_show(value, self._types[name]) for value in values]}
        places = {value: i for i, value in enumerate(different)}
        return {**column, "different": shown, "places": [places[value] for value in values]}


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

"""Reads rows in their dialect and computes their ids."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from ...schemas.conversation import is_conversation, list_user_messages
from ...schemas.errors import RowError
from ...schemas.identity import HASHES, hash_input, selection_hash
from ...schemas.instance import ALIASES, RECORDED_TRIAL
from ...schemas.json import Json
from ..judging.prompts import VARIABLE, as_text, variables_of
from .base import Dialect

TRIAL = "trial"
"""The column that numbers recorded trials if none is named."""
_INTEGER = re.compile(r"\s*[0-9]{1,18}\s*", re.ASCII)


@dataclass(frozen=True)
class TrialColumn:
    """The column that numbers recorded trials.

    Attributes:
        name: Name of the column.
        required: Whether every row must have a number in it; if not, rows without one have no trial.
    """

    name: str
    required: bool = True

    def read(self, row: Mapping[str, Json]) -> int | None:
        """Returns the number of the row's trial; `None` if it has none.

        Raises:
            RowError: The row must have one and does not.
        """
        value = row.get(self.name)
        if isinstance(value, str) and _INTEGER.fullmatch(value):  # a cell of a CSV file
            return int(value)
        if isinstance(value, float) and value.is_integer():  # an integer column with missing values
            value = int(value)
        if type(value) is int and 0 <= value < 1 << 63:
            return value
        if not self.required:
            return None
        if value is None:
            raise RowError("missing_trial", f"the row has no {self.name!r}, which dataset.trial names")
        found = f"{self.name!r}, which dataset.trial names, is {value!r}"[:300]
        raise RowError("bad_trial", f"{found} (allowed: an integer from 0)")


@dataclass(frozen=True)
class RowRules:
    """The rules for reading a row and computing its id.

    Attributes:
        dialects: Candidates in order; the first one that recognises the row reads it.
        names: Maps standard fields to the user's columns.
        required: Standard fields a row must have: the inputs of the agent.
        id: Column that identifies the row instead of its input.
        sample: Share of rows to evaluate, in (0, 1], selected by hash.
        template: Template of the column `prompt`, with {column} placeholders; `None` if the rows have their prompts.
        trial: Column that numbers recorded trials; `None` if there are none.
    """

    dialects: tuple[Dialect, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    id: str | None = None
    sample: float | None = None
    template: str | None = None
    trial: TrialColumn | None = None

    def rows(self, row: dict[str, Json]) -> list[dict[str, Json]]:
        """Splits a row of the dataset into rows; in most dialects it is a single row.

        Raises:
            RowError: The row is malformed for its dialect, or lacks a column of the template.
        """
        found = [row]
        for dialect in self._candidates(row):
            if dialect.splits and dialect.recognises(row):
                found = dialect.rows(row)
                break
        return found if self.template is None else [self._add_prompt(self.template, one) for one in found]

    def _add_prompt(self, template: str, row: dict[str, Json]) -> dict[str, Json]:
        """Returns a row with its prompt; placeholders within values are not expanded."""
        texts = {name: row.get(name) for name in variables_of(template)}
        if lacking := next((name for name, value in texts.items() if value is None), None):
            shown = ", ".join(sorted(row)) or "no columns"
            found = f"the row has no {lacking!r}, which dataset.prompt_template shows; it has {shown}"
            raise RowError("missing_variable", found[:1000])
        return {**row, "prompt": VARIABLE.sub(lambda match: as_text(texts[match[1]]), template)}

    def _candidates(self, row: dict[str, Json]) -> tuple[Dialect, ...]:
        """Returns the dialects that may recognise a row: all, unless it has no mark of any."""
        return self._unmarked if row.keys().isdisjoint(self._marks) else self.dialects

    @cached_property
    def _marks(self) -> frozenset[str]:
        return frozenset().union(*(dialect.marks or () for dialect in self.dialects))

    @cached_property
    def _unmarked(self) -> tuple[Dialect, ...]:
        return tuple(dialect for dialect in self.dialects if dialect.marks is None)

    def read(self, row: dict[str, Json]) -> tuple[str, dict[str, Json]]:
        """Returns (instance_id without ordinal, standard fields that are not columns of the same name).

        Raises:
            RowError: The row lacks an input of the agent, or is malformed for its dialect.
        """
        for dialect in self._candidates(row):  # the last one recognises every row
            if dialect.recognises(row):
                break
        else:
            raise RowError("unknown_dialect", "no dialect recognises the row")
        fields = dialect.fields(row)
        for name, column in self.names.items():
            if column in row:
                fields[name] = row[column]
        for name in self.required:
            if _get(name, fields, row) is None:
                raise RowError(f"missing_{name}", _describe_missing(name, sorted(row)))
        if self.trial is not None and (number := self.trial.read(row)) is not None:
            fields[RECORDED_TRIAL] = number
        return self._identity(dialect, fields, row), fields

    def _identity(self, dialect: Dialect, fields: dict[str, Json], row: dict[str, Json]) -> str:
        if self.id is not None:
            value = row.get(self.id)
            if value is None:
                raise RowError("missing_id", f"the row has no {self.id!r}, which dataset.id names")
            return hash_input({"id": value})
        given: dict[str, Json] = {}
        for spelling, name in _spellings(dialect.inputs):
            if (spelling in row or spelling in fields) and name not in given:
                given[name] = _get(name, fields, row)
        if "conversation" in given and is_conversation(given["conversation"]):
            given["conversation"] = list_user_messages(given["conversation"])
        return hash_input(given or row)

    def keeps(self, instance_id: str) -> bool:
        """Returns true if a row is in the sample; depends only on its id."""
        return self.sample is None or selection_hash(instance_id) < self.sample * HASHES


@cache
def _spellings(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Returns (spelling, name) for every spelling of each name."""
    return tuple((spelling, name) for name in names for spelling in (name, *ALIASES.get(name, ())))


def _get(name: str, fields: Mapping[str, Json], row: Mapping[str, Json]) -> Json:
    value = fields.get(name, row.get(name))
    if value is None:
        for alias in ALIASES.get(name, ()):
            value = fields.get(alias, row.get(alias))
            if value is not None:
                break
    return value


def names_of(columns: Mapping[str, Any]) -> dict[str, str]:
    """Maps standard fields to the user's columns, from the config's `columns`."""
    return {c.as_: column for column, c in columns.items() if c.as_ is not None}


def auto_dialects(found: Sequence[Dialect], plain: Dialect) -> tuple[Dialect, ...]:
    """Orders dialects with `plain` last, since it recognises every row."""
    return (*(d for d in found if d is not plain), plain)


def _describe_missing(name: str, columns: list[str]) -> str:
    """Says which columns there are instead of a field, and how one of them becomes it: the nearest, else the first."""
    if not columns:
        return f"the row has no {name!r}; it has no columns"
    near = difflib.get_close_matches(name, columns, n=1) or columns
    shown = f"the row has no {name!r}; it has {', '.join(columns)}"[:800]
    return f"{shown} (allowed: a column {name!r}, or one that is mapped: dataset.columns: {{{near[0][:80]}: {name}}})"

"""What a person asks of the rows of a run: filters, order and page, in the notation of the page's address."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ...schemas.errors import ConfigError
from ..run.columns import compute
from .table import Positions, RunTable

MOST_CHARACTERS = 1000
"""Characters of a search at most."""
_REMEMBERED = 8
_REGEX = re.compile(r"^/(.+)/([a-z]*)$", re.DOTALL)
_FLAGS = "ms"
_WORDS = ("status", "error_type", "pairwise_choice")
"""Endings of text columns of few values."""

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Query:
    """A question.

    Attributes:
        search: Words that a row must have, in whichever columns, or `/regex/` that one of its texts must match.
        status: Status of the call; "" for any.
        fault: Group of failures, "*" for any of them, "" for all rows.
        slices: Value of each column, as text.
        ranges: (lowest, highest) number of each column.
        sort: Column to sort by, with "-" in front for descending; "" for the order of the table.
    """

    search: str = ""
    status: str = ""
    fault: str = ""
    slices: tuple[tuple[str, str], ...] = ()
    ranges: tuple[tuple[str, float, float], ...] = ()
    sort: str = ""

    @classmethod
    def parse(cls, given: Mapping[str, Sequence[str]]) -> Query:
        """Parses the parameters of an address.

        Raises:
            ConfigError: A value cannot be read; columns are checked when the question is answered.
        """
        first = {name: values[0] for name, values in given.items()}
        if len(first.get("q", "")) > MOST_CHARACTERS:
            raise ConfigError(f"the search has {len(first['q']):,} characters", allowed=f"at most {MOST_CHARACTERS:,}")
        slices = tuple((name[6:], value) for name, value in first.items() if name.startswith("slice."))
        ranges = tuple((name[6:], *_parse_range(value)) for name, value in first.items() if name.startswith("range."))
        search, status, fault = (first.get(name, "") for name in ("q", "status", "fault"))
        return cls(search.strip(), status, fault, slices, ranges, first.get("sort", ""))


def _parse_range(text: str) -> tuple[float, float]:
    low, _, high = text.partition("..")
    try:
        return float(low or "-inf"), float(high or "inf")
    except ValueError:
        raise ConfigError(f"found the range {text!r}", allowed="LOW..HIGH, each a number or nothing") from None


class Superseded(Exception):
    """Nobody waits for the answer any longer."""


@dataclass(frozen=True)
class Finder:
    """Answers queries on a table, and remembers the last answers.

    Attributes:
        table: The rows.
        faults: Positions of the rows of each group of failures.
    """

    table: RunTable
    faults: Mapping[str, Positions]
    _known: OrderedDict[Query, tuple[Positions, str]] = field(default_factory=OrderedDict)
    _lock: Any = field(default_factory=threading.Lock)

    def find(self, query: Query, wanted: Callable[[], bool] = lambda: True) -> tuple[Positions, str]:
        """Finds the rows of a query, in order.

        Args:
            query: What is asked.
            wanted: Tells whether somebody still waits; asked now and then while texts are searched.

        Returns:
            Their positions, and why the search was left out; "" if it was not.

        Raises:
            ConfigError: A column is not known.
            Superseded: Nobody waits any longer.
        """
        with self._lock:
            if query in self._known:
                self._known.move_to_end(query)
                return self._known[query]
        found = self._answer(query, wanted)
        with self._lock:
            self._known[query] = found
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _answer(self, query: Query, wanted: Callable[[], bool]) -> tuple[Positions, str]:
        problem, plain = "", replace(query, sort="")
        if query.sort and plain in self._known:
            positions, problem = self._known[plain]
        else:
            mask = self._filter(query)
            if query.search:
                try:
                    _search(self.table, query.search, mask, wanted)
                except pa.ArrowInvalid as error:
                    problem = f"Not a regular expression: {error}"
            positions = np.flatnonzero(mask)
        return (self._sort(positions, query.sort) if query.sort else positions), problem

    def _filter(self, query: Query) -> Mask:
        mask: Mask = np.ones(self.table.size, np.bool_)
        for name, value in (*([("status", query.status)] if query.status else ()), *query.slices):
            codes = self.table.codes(self._check(name))
            mask &= np.isin(codes.places, [i for i, known in enumerate(codes.values) if known == value])
        if query.fault:
            chosen = (
                self.faults.values() if query.fault == "*" else [self.faults.get(query.fault, np.empty(0, np.int64))]
            )
            failing: Mask = np.zeros(self.table.size, np.bool_)
            for positions in chosen:
                failing[positions] = True
            mask &= failing
        for name, low, high in query.ranges:
            numbers = self.table.numbers(self._check(name, numbers=True))
            mask &= (numbers >= low) & (numbers <= high)
        return mask

    def _sort(self, positions: Positions, sort: str) -> Positions:
        """Sorts rows; those without a value stand last, and equal ones in the order of the table."""
        keys = self.table.ranks(self._check(sort.removeprefix("-")))[positions]
        return positions[np.argsort(-keys if sort.startswith("-") else keys, kind="stable")]

    def _check(self, name: str, *, numbers: bool = False) -> str:
        if name not in self.table.types:
            raise ConfigError(f"the run has no column {name!r}", allowed=", ".join(list(self.table.types)[:50]))
        if numbers and self.table.types[name] not in ("float64", "int64"):
            raise ConfigError(f"the column {name!r} has no numbers, but the type {self.table.types[name]}")
        return name


def _search(table: RunTable, search: str, mask: Mask, wanted: Callable[[], bool]) -> None:
    """Takes rows whose texts are not what is searched out of the mask; looks only at those that are in it.

    Expressions are RE2's, whose time grows with the length of the text alone.
    """
    asked = _parse_search(search)
    coded = [name for name in table.texts if name.endswith(_WORDS)]
    hits = [_match_codes(table, coded, one) for one in asked]
    first = 0
    for batch in table.scan([name for name in table.texts if name not in coded], np.flatnonzero(mask)):
        if not wanted():
            raise Superseded
        last = first + batch.num_rows
        if mask[first:last].any():
            filled = [column for column in batch.columns if column.null_count < len(column)]
            whole = [_join(filled)] if filled and not asked[0].regex else filled
            for one, hit in zip(asked, hits, strict=True):
                mask[first:last] &= np.logical_or.reduce([hit[first:last], *map(one.matches, whole)])
        first = last


@dataclass(frozen=True)
class _Pattern:
    text: str
    regex: bool
    ignore_case: bool

    def matches(self, texts: Any) -> Mask:
        """Tells of each text whether it matches."""
        match: Any = compute.match_substring_regex if self.regex else compute.match_substring
        return match(texts, self.text, ignore_case=self.ignore_case).fill_null(False).to_numpy(zero_copy_only=False)


def _parse_search(search: str) -> list[_Pattern]:
    regex = _REGEX.match(search)
    if not regex:
        return [_Pattern(word, False, True) for word in search.split()]
    flags = regex[2] or "i"
    given = "".join(flag for flag in _FLAGS if flag in flags)
    return [_Pattern((f"(?{given})" if given else "") + regex[1], True, "i" in flags)]


def _match_codes(table: RunTable, names: Sequence[str], pattern: _Pattern) -> Mask:
    """Tells which rows match in columns of few values, each of which is looked at once."""
    found: Mask = np.zeros(table.size, np.bool_)
    for name in names:
        codes = table.codes(name)
        found |= pattern.matches(pa.array(codes.values, pa.string()))[codes.places]
    return found


def _join(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Joins the texts of each row, in which words are found faster than in many columns."""
    return compute.binary_join_element_wise(*columns, "\n", null_handling="skip")

"""Facts about the dataset as a whole, collected in the same pass that shuffles it.

They are a side input of a few kilobytes to the two steps that need them: cut and write. Every global decision is made
from them: column types, refusal, limit, number of parts, line numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
import orjson

from ..schemas.json import Json
from ..schemas.values import INFINITIES
from .calls.budget import Bounds
from .runtime.coders import coder_of
from .runtime.merging import Merge

_BOOL, _INT, _FLOAT, _STRING, _NESTED = 1, 2, 4, 8, 16
_BITS: dict[type, int] = {bool: _BOOL, int: _INT, float: _FLOAT, str: _STRING, list: _NESTED, dict: _NESTED}
_EXACT_INT = 2**53
PART_BYTES = 128 << 20
"""Bytes of rows for each file of the instances table."""
MAX_PARTS = 4096
MAX_COLUMNS = 20_000
"""Most columns of a dataset: each takes about 20 kB of memory in a run, whatever its values."""
SHARED = "fewer only if rows ask the same"
SPENT = "of a larger budget no more is spent than is called"
"""Parts of messages about questions to judges, which are counted before they are known."""


@dataclass(frozen=True)
class RunLimits(Bounds):
    """Limits on a dataset: beyond them a run makes no call. The bounds are those of the whole run.

    Attributes:
        max_invalid_fraction: Share of rows in [0, 1] that may be unusable.
        limit: Maximum number of rows kept.
        calls_per_row: Minimum number of calls of the agent for each row.
        asked: Maximum (calls, tokens) of judges for a row, among those that `Needs` counts.
    """

    max_invalid_fraction: float = 1.0
    limit: int | None = None
    calls_per_row: int = 0
    asked: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class DatasetStats:
    """Facts of a part of the dataset; merging them in any order gives the same result.

    Attributes:
        rows: Rows accepted (after sampling).
        rejected: Number of unusable rows and lines.
        bytes: Bytes of the accepted rows as JSON.
        columns: For each dataset column a bit mask of the types seen and the largest absolute integer.
        lines: (file, range) -> lines in it.
        picks: The smallest `limit` selection hashes, sorted; empty without a limit.
        asked: Minimum [calls, tokens] of judges for the accepted rows, if a budget bounds them.
        trials: The lowest and the highest number of a recorded trial; empty without any.
    """

    rows: int = 0
    rejected: int = 0
    bytes: int = 0
    columns: dict[str, list[int]] = field(default_factory=dict)
    lines: dict[tuple[str, int], int] = field(default_factory=dict)
    picks: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=lambda: [0, 0])
    trials: list[int] = field(default_factory=list)

    def see(self, rows: Sequence[dict[str, Json]], infinite: Collection[str] = ()) -> None:
        """Adds the types of the values in rows; in `infinite` columns, infinities (text) are numbers."""
        shapes = {(tuple(row), tuple(map(type, row.values()))) for row in rows}  # few: rows are mostly alike
        found = {pair for names, kinds in shapes for pair in zip(names, kinds, strict=True)}
        for name, kind in found:
            known = self.columns.setdefault(name, [0, 0])
            known[0] |= _bits_of_texts(rows, name) if kind is str and name in infinite else _BITS[kind]
        for name, kind in found:
            if kind is int:
                numbers = [value for row in rows if type(value := row.get(name)) is int]
                known = self.columns[name]
                known[1] = max(known[1], max(numbers), -min(numbers))

    def see_trials(self, numbers: Iterable[int]) -> None:
        """Adds the numbers of recorded trials."""
        found = [*self.trials, *numbers]
        self.trials = [min(found), max(found)] if found else []

    def name(self, columns: Iterable[str]) -> None:
        """Adds columns of the dataset, whether or not a row has a value in them."""
        for name in columns:
            self.columns.setdefault(name, [0, 0])

    def absorb(self, other: DatasetStats, limit: int | None = None) -> DatasetStats:
        """Adds the facts of another part of the dataset; returns itself."""
        self.rows += other.rows
        self.rejected += other.rejected
        self.bytes += other.bytes
        self.asked = [a + b for a, b in zip(self.asked, other.asked, strict=True)]
        for name, (mask, largest) in other.columns.items():
            known = self.columns.setdefault(name, [0, 0])
            known[0] |= mask
            known[1] = max(known[1], largest)
        for place, lines in other.lines.items():
            self.lines[place] = max(lines, self.lines.get(place, 0))
        if limit is not None and other.picks:
            self.picks = smallest(self.picks + other.picks, limit)
        self.see_trials(other.trials)
        return self

    def types(self, declared: Sequence[tuple[str, str]] = ()) -> tuple[tuple[str, str], ...]:
        """Returns (name, type) of every dataset column: declared ones first, then by name."""
        named = dict(declared)
        found = {name: column_type(mask, largest) for name, (mask, largest) in sorted(self.columns.items())}
        return tuple(named.items()) + tuple((n, t) for n, t in found.items() if n not in named)

    def kept(self, limit: int | None) -> int:
        """Returns the number of rows that a limit leaves."""
        return self.rows if limit is None else min(limit, self.rows)

    def parts(self, shards: int | None, limit: int | None) -> int:
        """Returns the number of files of the instances table, a power of two unless it is given."""
        if shards is not None:
            return shards
        size = self.bytes * self.kept(limit) // max(self.rows, 1)
        parts = 1
        while parts < MAX_PARTS and parts * PART_BYTES < size:
            parts *= 2
        return parts

    def refusal(self, allowed: RunLimits) -> str | None:
        """Returns the reason why the run must not start calls, or `None`."""
        total = self.rows + self.rejected
        if total == 0:
            return "the dataset has no rows"
        if len(self.columns) > MAX_COLUMNS:
            found = f"the dataset has {len(self.columns)} columns (allowed: {MAX_COLUMNS})"
            return f"{found}; names that differ from row to row belong in one column, as an object"
        if self.rejected > allowed.max_invalid_fraction * total:
            share = 100 * self.rejected / total
            return (
                f"{self.rejected} of {total} rows ({share:.4g} %) cannot be used, dataset.max_invalid_fraction allows "
                f"{100 * allowed.max_invalid_fraction:.4g} %; the errors table names them"
            )
        return self._over(allowed)

    def _over(self, allowed: RunLimits) -> str | None:
        """Returns the reason why the budget cannot suffice even if every call is answered at once, or `None`.

        Equal questions to judges are asked once, but are not known to be equal before; each row counts its own.
        """
        rows = self.kept(allowed.limit)
        asks, tokens = (  # which rows a limit drops is unknown here; assumed are those that need most
            max(0, count - (self.rows - rows) * most) for count, most in zip(self.asked, allowed.asked, strict=True)
        )
        calls = rows * allowed.calls_per_row + asks
        bound = allowed.exceeded(calls, tokens)
        if bound == "max_calls":
            named = f" ({asks} of them to judges, {SHARED})" if asks else ""
            found = f"{rows} rows need at least {calls} calls{named}, budget.max_calls allows {allowed.max_calls}"
            return f"{found}; {SPENT}" if asks else found
        if bound == "max_tokens":
            counted = f"{asks} calls to judges ({SHARED}) take at least {tokens} tokens for their instructions alone"
            return f"{counted}, budget.max_tokens allows {allowed.max_tokens}; {SPENT}"
        return None

    def lines_before(self) -> dict[tuple[str, int], int]:
        """Counts the lines of a file before each of its ranges."""
        before: dict[tuple[str, int], int] = {}
        file, total = "", 0
        for (name, range_), lines in sorted(self.lines.items()):
            total = total if name == file else 0
            before[(name, range_)] = total
            file, total = name, total + lines
        return before

    def to_bytes(self) -> bytes:
        """Encodes the facts as JSON."""
        lines = [[file, range_, n] for (file, range_), n in sorted(self.lines.items())]
        columns = dict(sorted(self.columns.items()))
        rest = [self.picks, self.asked, self.trials]
        return orjson.dumps([self.rows, self.rejected, self.bytes, columns, lines, *rest])

    @classmethod
    def from_bytes(cls, data: bytes) -> DatasetStats:
        """Decodes the facts that `to_bytes` wrote."""
        rows, rejected, size, columns, lines, *rest = orjson.loads(data)
        return cls(rows, rejected, size, columns, {(f, r): n for f, r, n in lines}, *rest)


def _bits_of_texts(rows: Sequence[dict[str, Json]], name: str) -> int:
    """Returns the type bits of a column of texts in which infinities are numbers."""
    texts = {value for row in rows if type(value := row.get(name)) is str}
    return (_FLOAT if texts & INFINITIES else 0) | (_STRING if texts - INFINITIES else 0)


def column_type(mask: int, largest: int) -> str:
    """Returns the narrowest type of all values: bool, int64, float64, string, else JSON text; "null" without values."""
    if mask in (_BOOL, _INT, _FLOAT, _STRING, 0):
        return {_BOOL: "bool", _INT: "int64", _FLOAT: "float64", _STRING: "string"}.get(mask, "null")
    if mask == _INT | _FLOAT and largest <= _EXACT_INT:
        return "float64"
    return "json"


def smallest(values: Iterable[int], limit: int) -> list[int]:
    """Returns the `limit` smallest values, sorted."""
    array = np.fromiter(values, dtype=np.uint64)
    if len(array) > limit:
        array = np.partition(array, limit - 1)[:limit]
    return np.sort(array).tolist()


coder_of(DatasetStats)


@dataclass
class CombineStats(beam.PTransform):
    """PCollection[DatasetStats] -> PCollection[DatasetStats], one for all (also of an empty input)."""

    limit: int | None = None

    def expand(self, input_or_inputs: beam.PCollection[DatasetStats]) -> beam.PCollection[DatasetStats]:
        combined = beam.CombineGlobally(Merge(DatasetStats, self.limit)).with_output_types(DatasetStats)
        return input_or_inputs | "DatasetStats" >> combined  # type: ignore[return-value]  (`|` gives a PValue)


def select_rows(facts: DatasetStats, limit: int | None, hashes: Iterator[int]) -> list[bool]:
    """Returns for each row, by its selection hash, whether it is among the first `limit` rows of the dataset.

    Rows with equal hashes must all be given in one call, since the last places may be too few for them.
    """
    if limit is None or facts.rows <= limit:
        return [True for _ in hashes]
    last = facts.picks[-1]
    ties = facts.picks.count(last)
    keep = []
    for value in hashes:
        if value == last:
            ties -= 1
        keep.append(value < last or (value == last and ties >= 0))
    return keep

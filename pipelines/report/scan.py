"""Reads the instances table once: histograms, groups of failures, and the rows that the page's explorer shows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from ...schemas.json import Json
from ..display.digest import list_faults, make_score_tests
from ..drawing.plots import Axis, Histogram, draw_bars, make_axis
from ..drawing.words import ranges_of
from ..run.result import EvaluationResult
from ..run.tables import Columns, Row, columns_of, columns_of_instances, pick_columns
from .rows import MOST_ROWS, RowBook, list_scores

BINS = 20
MOST_SCANNED = 50_000
"""Rows of the table that are looked at: with more a browser takes seconds, and a run of millions waits for its page."""
MOST_EXAMPLES = 3
TOKENS = ("input_tokens", "output_tokens")


@dataclass
class Group:
    """Failures of one kind: how many rows, and the first of them as (instance_id, trial, prompt, what happened)."""

    name: str
    count: int = 0
    examples: list[tuple[str, int, Json, str]] = field(default_factory=list)

    def add(self, rows: Columns, place: int, prompt: str, text: str) -> None:
        """Counts a failure of the row at a place, and keeps it if it is one of the first."""
        self.count += 1
        if len(self.examples) < MOST_EXAMPLES:
            asked = rows[prompt][place] if prompt in rows else None
            self.examples.append((rows["instance_id"][place], rows["trial"][place], asked, text))


@dataclass(frozen=True)
class Scan:
    """What the pass found.

    Attributes:
        histograms: Of scores, latency and tokens.
        groups: Groups of failures by size.
        failing: Number of failing rows.
        scanned, total: Rows looked at, and rows of the run.
        rows: What the explorer's script is given, as pieces of JSON, once.
        kept: (rows that it has whole, rows that it has at all).
        left_out: Number of columns that it does not have.
    """

    histograms: Sequence[Histogram]
    groups: Sequence[Group]
    failing: int
    scanned: int
    total: int
    rows: Iterable[str]
    kept: tuple[int, int]
    left_out: int = 0


def scan(result: EvaluationResult, summary: Sequence[Row]) -> Scan:
    """Reads the first `MOST_SCANNED` rows; of a table of more than `MOST_ROWS`, only failing rows are read whole."""
    total = result.manifest["tables"].get("instances", {}).get("rows", 0)
    book, bins = RowBook(result, total), make_bins(result, summary)
    tests, prompt = make_score_tests(result, summary), book.roles["prompt"]
    groups: dict[str, Group] = {}
    failing: dict[int, int | None] = {}  # place on the page of each failing row, by its position in the table
    whole, scanned = total <= MOST_ROWS, 0
    columns = book.columns if whole else [*book.thin_columns, "error_type", prompt, *list_marks(result)]
    for rows in _first(columns_of(result, "instances", columns), MOST_SCANNED):
        for name, one in bins.items():
            for value, count in Counter(rows.get(name, ())).items():
                one.add(value, count)
        faults = list_faults(rows, tests)
        for i in sorted(faults):
            for fault in faults[i]:
                groups.setdefault(fault.group, Group(fault.group)).add(rows, i, prompt, fault.text)
        places = book.add(rows, {i: [fault.group for fault in found] for i, found in faults.items()}, whole)
        failing |= {scanned + i: places[i] for i in sorted(faults)}
        scanned += len(places)
    if not whole:
        _complete(book, result, failing)
    drawn = [one.draw(name.removesuffix("/score")) for name, one in bins.items() if one.count]
    ranked = sorted(groups.values(), key=lambda g: (-g.count, g.name))
    return Scan(drawn, ranked, len(failing), scanned, total, book.pack(), book.kept, book.left_out)


def _first(blocks: Iterable[Columns], most: int) -> Iterator[Columns]:
    """Yields the first rows of a table."""
    for rows in blocks:
        size = len(rows["instance_id"])
        yield rows if size <= most else {name: values[:most] for name, values in rows.items()}
        most -= size
        if most <= 0:
            return


def _complete(book: RowBook, result: EvaluationResult, failing: Mapping[int, int | None]) -> None:
    """Keeps the first failing rows whole, if they are kept at all."""
    wanted = {position: place for position, place in failing.items() if place is not None}
    positions = list(wanted)[:MOST_ROWS]
    places = iter(wanted.values())
    for rows in pick_columns(result, positions, book.columns):
        book.complete(list(islice(places, len(rows["instance_id"]))), rows)


def list_marks(result: EvaluationResult) -> list[str]:
    """Lists the columns that say why a row has no score."""
    return [name for name in columns_of_instances(result) if name.endswith(("/status", "/error"))]


class Bins:
    """Counts values in `BINS` bins of equal width; without known ends the width doubles when a value is beyond them."""

    def __init__(self, axis: Axis | None, limit: float | None = None) -> None:
        self.axis = axis or Axis(0.0, float(BINS))
        self.fixed = axis is not None
        self.limit = limit
        self.counts = [0] * BINS
        self.count = 0

    def add(self, value: Json, count: int = 1) -> None:
        """Counts a value, as often as it occurs; others than finite numbers are ignored."""
        if not isinstance(value, int | float) or not math.isfinite(value):
            return
        self._widen(value)
        share = (value - self.axis.low) / (self.axis.high - self.axis.low)
        self.counts[min(max(int(share * BINS), 0), BINS - 1)] += count
        self.count += count

    def add_all(self, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        """Counts the values of a whole column; those that are not finite are ignored."""
        known = values[np.isfinite(values)]
        if not len(known):
            return
        self._widen(float(known.max()))
        shares = (known - self.axis.low) / (self.axis.high - self.axis.low)
        places = np.clip((shares * BINS).astype(np.int64), 0, BINS - 1)
        counts = np.bincount(places, minlength=BINS).tolist()
        self.counts = [one + more for one, more in zip(self.counts, counts, strict=True)]
        self.count += len(known)

    def _widen(self, value: float) -> None:
        while not self.fixed and value >= self.axis.high:
            pairs = zip(self.counts[::2], self.counts[1::2], strict=True)
            self.counts = [sum(pair) for pair in pairs] + [0] * (BINS // 2)
            self.axis = Axis(0.0, self.axis.high * 2)

    def draw(self, title: str) -> Histogram:
        """Draws the counts."""
        low, high = f"{self.axis.low:.6g}", f"{self.axis.high:,.6g}"
        return Histogram(title, draw_bars(self.counts), low, high, f"{self.count:,} rows", f"{max(self.counts):,}")


def make_bins(result: EvaluationResult, summary: Sequence[Row]) -> dict[str, Bins]:
    """Builds the bins of each column of scores, latency and tokens, by name of the column."""
    whole = {r["metric"]: r for r in summary if not r["slice"]}
    ends, found = ranges_of(result.manifest), {}
    for column in list_scores(result):
        name = column.removesuffix("/score")
        row = whole.get(name)
        if row is not None and row["min"] is not None and name != "failure":
            found[column] = Bins(make_axis(ends.get(name), [row["min"], row["max"]]))
    known = columns_of_instances(result)
    return found | {name: Bins(None) for name in TOKENS if name in known and name not in whole}

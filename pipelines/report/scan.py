"""Reads the instances table once: histograms, groups of failures, and the rows that the page's explorer shows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from ...schemas.json import Json
from ..display.digest import make_fault_finder
from ..drawing.plots import Axis, Histogram, draw_bars, make_axis
from ..drawing.words import ranges_of
from ..run.result import EvaluationResult
from ..run.tables import Row, columns_of_instances, pick_rows, rows_of
from .rows import MOST_ROWS, RowBook, list_scores

BINS = 20
MOST_SCANNED = 50_000
"""Rows of the table that are looked at: with more a browser takes seconds, and a run of millions waits for its page."""
COUNTED_ROWS = 4_096
"""Rows whose values are counted at once."""
MOST_EXAMPLES = 3
TOKENS = ("input_tokens", "output_tokens")


@dataclass
class Group:
    """Failures of one kind: how many rows, and the first of them as (instance_id, trial, prompt, what happened)."""

    name: str
    count: int = 0
    examples: list[tuple[str, int, Json, str]] = field(default_factory=list)


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
    find, prompt = make_fault_finder(result, summary), book.roles["prompt"]
    groups: dict[str, Group] = {}
    failing: dict[int, int | None] = {}  # place on the page of each failing row, by its position in the table
    whole = total <= MOST_ROWS
    columns = book.columns if whole else [*book.thin_columns, "error_type", prompt, *list_marks(result)]
    for position, row in enumerate(_counting(islice(rows_of(result, "instances", columns), MOST_SCANNED), bins)):
        faults = find(row)
        for fault in faults:
            group = groups.setdefault(fault.group, Group(fault.group))
            group.count += 1
            if len(group.examples) < MOST_EXAMPLES:
                group.examples.append((row["instance_id"], row["trial"], row.get(prompt), fault.text))
        place = book.add(row, [fault.group for fault in faults], whole=whole)
        if faults:
            failing[position] = place
    if not whole:
        wanted = list(failing)[:MOST_ROWS]
        for place, row in zip(failing.values(), pick_rows(result, wanted, book.columns), strict=False):
            if place is not None:
                book.complete(place, row)
    drawn = [one.draw(name.removesuffix("/score")) for name, one in bins.items() if one.count]
    ranked = sorted(groups.values(), key=lambda g: (-g.count, g.name))
    scanned = min(total, MOST_SCANNED)
    return Scan(drawn, ranked, len(failing), scanned, total, book.pack(), book.kept, book.left_out)


def _counting(rows: Iterator[Row], bins: Mapping[str, Bins]) -> Iterator[Row]:
    """Yields the rows, and counts their values: many rows at once, since most scores have few different values."""
    while some := list(islice(rows, COUNTED_ROWS)):
        for name, one in bins.items():
            for value, count in Counter(row.get(name) for row in some).items():
                one.add(value, count)
        yield from some


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

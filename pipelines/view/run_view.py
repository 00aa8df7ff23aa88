"""A run as the server shows it: its page, and the rows that the page's explorer asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ..display.digest import make_fault_finder, make_score_tests
from ..report.page import fill_report
from ..report.rows import embed, find_roles, list_slices, show_cell
from ..report.scan import MOST_EXAMPLES, Group, Scan, list_marks, make_bins
from ..report.timeline import list_spans, list_traced
from ..run.result import EvaluationResult
from ..run.tables import Row, summary_rows
from .faults import ERROR, find_faults
from .query import Finder, Query
from .table import Codes, Positions, RunTable

Given = Mapping[str, Sequence[str]]
"""Parameters of an address."""
MOST_ROWS = 200
"""Rows of a page at most."""
MOST_VALUES = 500
"""Values of a column that can be chosen."""
MOST_TRIALS = 50
"""Trials of an instance that are shown beside each other."""
_BRIEF = 300
"""Characters of a cell in the table, which shows fewer."""


class RunView:
    """A run that a person looks at.

    Attributes:
        result: The run.
        table: Its rows.
        columns_shown: Columns that the table shows first; none for the usual ones.
        chosen_by: Columns of few values that were added, by which rows are chosen like by those of slices.
        sort: What the rows are sorted by first; "" for the order of the table.
    """

    def __init__(self, result: EvaluationResult, folder: str) -> None:
        """Opens a run and finds its failing rows.

        Args:
            result: The run.
            folder: An existing folder for copies of its files.

        Raises:
            ConfigError: The run wrote no instances table.
        """
        self.result, self.summary = result, summary_rows(result)
        self.table = RunTable(result, folder)
        tests = make_score_tests(result, self.summary)
        scores = [*make_bins(result, self.summary), *(f"{name}/score" for name in tests)]
        words = [f"{name}/status" for name in tests if self.table.may_have(f"{name}/status", ERROR)]
        self.table.prepare(scores, ["status", *words, *list_slices(result)])
        self.faults = find_faults(self.table, tests)
        self.columns_shown: Sequence[str] = ()
        self.chosen_by: Sequence[str] = ()
        self.sort = ""
        self.finder = Finder(self.table, self.faults)

    def page(self) -> str:
        """Renders the page."""
        return "".join(fill_report(self.result, self.summary, self._scan(), served=True))

    def find(self, given: Given, wanted: Callable[[], bool]) -> Json:
        """Answers what the explorer asks for: one page of the rows that it chose.

        Raises:
            ConfigError: The question has a mistake.
            Superseded: Nobody waits for the answer any longer.
        """
        positions, problem = self.finder.find(Query.parse(given), wanted)
        size = max(_parse_count(given, "size", MOST_ROWS), 1)
        page = min(_parse_count(given, "page", self.table.size), max(0, (len(positions) - 1) // size))
        names = ["instance_id", "trial", *(name for name in given.get("col", ()) if name in self.table.types)]
        names += [name for one in names if (name := f"{one.removesuffix('/score')}/status") in self.table.types]
        shown = positions[page * size : (page + 1) * size]
        rows = self._show(shown, list(dict.fromkeys(names)), _BRIEF)
        return {"count": len(positions), "page": page, "rows": rows, "problem": problem}

    def open(self, given: Given, wanted: Callable[[], bool]) -> Json:
        """Answers with a whole row, the other trials of its instance, and its place among those that were chosen.

        Returns:
            `None` if there is no such row.

        Raises:
            ConfigError: The question has a mistake.
            Superseded: Nobody waits for the answer any longer.
        """
        id_, trial = (given.get(name, ("",))[0] for name in ("row", "trial"))
        at = self.table.locate(id_)[:MOST_TRIALS]
        if not len(at):
            return None
        trials = self._show(at, list(self.table.types))
        chosen = next((i for i, row in enumerate(trials) if str(row["values"]["trial"] or "") == trial), 0)
        size = max(_parse_count(given, "size", MOST_ROWS), 1)
        places = np.flatnonzero(self.finder.find(Query.parse(given), wanted)[0] == at[chosen])
        place = int(places[0]) if len(places) else -1
        where = {"page": place // size, "place": place % size} if place >= 0 else {"page": 0, "place": -1}
        return {"row": {**trials[chosen], "spans": self._list_spans(int(at[chosen]))}, "trials": trials, **where}

    def _list_spans(self, position: int) -> Json:
        """Lists the spans of a row's trace; reads the columns of traces alone, whole."""
        traced = list_traced(self.table.types)
        if not traced:
            return None
        return list_spans(self.table.read(np.array([position]), list(traced.values()))[0], traced)

    def describe(self) -> str:
        """What the explorer's script must know of the rows, as JSON."""
        slices = [*self.chosen_by, *list_slices(self.result)]
        status = _count_values(self.table.codes("status")) if "status" in self.table.types else []
        return embed(
            {
                "served": True,
                "rows": self.table.size,
                "total": self.table.size,
                "columns": [{"name": name, "type": kind} for name, kind in self.table.types.items()],
                "roles": find_roles(self.result),
                "slices": slices,
                "shown": list(self.columns_shown),
                "sort": self.sort,
                "statuses": status,
                "sliceValues": [(name, _count_values(self.table.codes(name))) for name in slices],
                "faultCounts": [(name, len(positions)) for name, positions in self.faults.items()],
            }
        )

    def _show(self, positions: Positions, names: Sequence[str], most: int | None = None) -> list[dict[str, Any]]:
        """Reads rows as the explorer's script shows them; with `most` characters of a cell, JSON as text."""
        rows, types = self.table.read(positions, names), self.table.types
        found: list[dict[str, Any]] = []
        for position, row in zip(positions.tolist(), rows, strict=True):
            if most is None:
                values = {name: show_cell(value, types[name]) for name, value in row.items()}
            else:
                values = {name: show_cell(value, "", most) for name, value in row.items()}
            found.append({"values": values, "faults": self._list_faults(position)})
        return found

    def _list_faults(self, position: int) -> list[str]:
        """Lists the groups of failures of a row."""
        places = ((name, at, int(np.searchsorted(at, position))) for name, at in self.faults.items())
        return [name for name, at, i in places if i < len(at) and at[i] == position]

    # ------------------------------------------------------------------------------------------------------ the page

    def _scan(self) -> Scan:
        """What the whole table shows: the same as a report's pass over its first rows."""
        bins = make_bins(self.result, self.summary)
        for name, one in bins.items():
            one.add_all(self.table.numbers(name))
        drawn = [one.draw(name.removesuffix("/score")) for name, one in bins.items() if one.count]
        failing = np.zeros(self.table.size, np.bool_)
        for positions in self.faults.values():
            failing[positions] = True
        size = self.table.size
        groups = self._list_groups()
        return Scan(drawn, groups, int(failing.sum()), size, size, [self.describe()], (size, size))

    def _list_groups(self) -> list[Group]:
        prompt = find_roles(self.result)["prompt"]
        scores = [name for name in self.table.types if name.endswith("/score")]
        wanted = ["instance_id", "trial", "status", "error_type", prompt, *scores, *list_marks(self.result)]
        names = [name for name in dict.fromkeys(wanted) if name in self.table.types]
        firsts = [positions[:MOST_EXAMPLES] for positions in self.faults.values()]
        shown = np.unique(np.concatenate([np.empty(0, np.int64), *firsts]))
        rows = dict(zip(shown.tolist(), self.table.read(shown, names), strict=True))
        find = make_fault_finder(self.result, self.summary)

        def describe(group: str, row: Row) -> tuple[str, int, Json, str]:
            text = next((fault.text for fault in find(row) if fault.group == group), group)
            return row["instance_id"], row["trial"], row.get(prompt), text

        return [
            Group(name, len(positions), [describe(name, rows[i]) for i in positions[:MOST_EXAMPLES].tolist()])
            for name, positions in self.faults.items()
        ]


def _count_values(codes: Codes) -> list[tuple[str, int]]:
    """Lists the values of a column with the number of their rows, the most frequent first."""
    counts: dict[str, int] = {}
    for value, count in zip(codes.values, np.bincount(codes.places, minlength=len(codes.values)).tolist(), strict=True):
        if count:
            counts[value] = counts.get(value, 0) + count
    return sorted(counts.items(), key=lambda item: -item[1])[:MOST_VALUES]


def _parse_count(given: Given, name: str, most: int) -> int:
    text = given.get(name, ("0",))[0]
    if not text.isdecimal():
        raise ConfigError(f"found {text!r}", where=name, allowed="a number, 0 or more")
    return min(int(text[:18]), most)

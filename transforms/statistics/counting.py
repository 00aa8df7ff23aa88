"""Counts the scores of the rows of many batches at once, by slice: work for each slice is done once, not by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ...schemas.instance import Example
from ...schemas.result import Status
from ...schemas.values import slice_text
from .accumulators import Accumulator

MOST_ROWS = 1 << 15
"""Most rows that are counted together: they wait in memory, as eight bytes for each score."""

SliceName: TypeAlias = tuple[tuple[str, str | None], ...]

_KINDS: Mapping[Status, int] = {"scored": 0, "error": 1, "skipped": 2, "not_applicable": 3}
_SPARSE = 4
"""Cells of a table for each row, at most, for which all cells are counted; of more, only those that occur."""


class _Slicing(NamedTuple):
    """The slices of one list of columns.

    Attributes:
        names: Each slice.
        places: Position of each row's slice among them.
    """

    names: Sequence[SliceName]
    places: np.ndarray


class _Scores(NamedTuple):
    """The scores of a metric, in parts.

    Attributes:
        values: Score of each row, NaN where there is none.
        unscored: Rows without a score, and why, as in `_KINDS`.
    """

    values: list[np.ndarray]
    unscored: list[tuple[np.ndarray, np.ndarray]]


class ScoreTable:
    """Scores of rows as columns of numbers, beside the slices of the rows.

    Args:
        slices: Lists of columns; the empty list is the whole dataset.
    """

    def __init__(self, slices: Sequence[tuple[str, ...]]) -> None:
        self.slices = slices
        self.rows = 0
        self._texts: dict[str, dict[str | None, int]] = {column: {} for columns in slices for column in columns}
        self._codes: dict[str, list[np.ndarray]] = {column: [] for column in self._texts}
        self._scores: dict[str, _Scores] = {}
        self._start = 0

    def add_rows(self, examples: Sequence[Example]) -> None:
        """Adds the rows of a batch, whose scores are added next."""
        rows = [example.instance.row for example in examples]
        for column, known in self._texts.items():
            values = [row.get(column) for row in rows]
            texts = [value if type(value) is str else slice_text(value) for value in values]
            self._codes[column].append(np.array([known.setdefault(text, len(known)) for text in texts], np.int64))
        self._start, self.rows = self.rows, self.rows + len(examples)

    def add_scores(self, name: str, values: Sequence[float | None], unscored: Mapping[int, Status]) -> None:
        """Adds the scores of the rows that were added last.

        Args:
            name: The metric.
            values: Finite scores; `None` where there is none.
            unscored: Status of the positions that are not "scored".
        """
        scores = self._scores.setdefault(name, _Scores([], []))
        scores.values.append(np.array(values, np.float64) + 0.0)  # -0.0 counts as 0.0
        if unscored:
            places = np.fromiter(unscored, np.int64, len(unscored)) + self._start
            scores.unscored.append((places, np.array([_KINDS[status] for status in unscored.values()], np.int64)))

    def count(
        self, passing: Mapping[str, Callable[[float], bool] | None]
    ) -> Iterator[tuple[SliceName, str, Accumulator]]:
        """Yields (slice, metric, its counts), for each slice and metric.

        Args:
            passing: The metrics, with what tells whether a score passes.
        """
        slicings = [self._slicing(columns) for columns in self.slices]
        for metric, passes in passing.items():
            scores = self._scores[metric]
            values = np.concatenate(scores.values)
            known = np.flatnonzero(~np.isnan(values))
            distinct, found = np.unique(values[known], return_inverse=True)
            met = None if passes is None else np.array([passes(value) for value in distinct.tolist()], np.float64)
            for slicing in slicings:
                statuses = _count_statuses(slicing, scores.unscored)
                parts = _count_values(slicing.places[known], len(slicing.names), found, distinct, met)
                for name, (rows, *kinds), (counts, passed) in zip(slicing.names, statuses, parts, strict=True):
                    errors, skipped, inapplicable = kinds
                    yield (
                        name,
                        metric,
                        Accumulator(rows, rows - sum(kinds), errors, skipped, inapplicable, passed, counts),
                    )

    def _slicing(self, columns: tuple[str, ...]) -> _Slicing:
        places, first = np.zeros(self.rows, np.int64), np.zeros(1, np.int64)
        codes = {column: np.concatenate(self._codes[column]) for column in columns}
        for column in columns:
            mixed = places * len(self._texts[column]) + codes[column]
            _, first, places = np.unique(mixed, return_index=True, return_inverse=True)
        texts = [[list(self._texts[column])[code] for code in codes[column][first].tolist()] for column in columns]
        keys = list(zip(*texts, strict=True)) if columns else [()]
        return _Slicing([tuple(zip(columns, key, strict=True)) for key in keys], places)


def _count_statuses(slicing: _Slicing, unscored: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[list[int]]:
    """Counts for each slice its rows, and those with an error, skipped ones and those without application."""
    number, kinds = len(slicing.names), len(_KINDS)
    table = np.zeros((number, kinds), np.int64)
    for rows, status in unscored:
        table += np.bincount(slicing.places[rows] * kinds + status, minlength=table.size).reshape(table.shape)
    table[:, 0] = np.bincount(slicing.places, minlength=number)
    return table.tolist()


def _count_values(
    slices: np.ndarray, number: int, found: np.ndarray, distinct: np.ndarray, met: np.ndarray | None
) -> Iterator[tuple[dict[float, int], int]]:
    """Yields for each slice how often each value occurs, and how many of its values pass.

    Args:
        slices: Slice of each value.
        number: Number of slices.
        found: Place of each value among the distinct ones.
        distinct: The distinct values, ascending.
        met: Whether each of them passes.
    """
    size = len(distinct)
    cells, times = _count_cells(slices * size + found, number * size)
    owner, which = np.divmod(cells, max(size, 1))
    ends = np.searchsorted(owner, np.arange(number + 1)).tolist()
    passed = np.zeros(number) if met is None else np.bincount(owner, times * met[which], number)
    values, counts = distinct[which].tolist(), times.tolist()
    for low, high, passes in zip(ends[:-1], ends[1:], passed.astype(np.int64).tolist(), strict=True):
        yield dict(zip(values[low:high], counts[low:high], strict=True)), passes


def _count_cells(cells: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the cells that occur, ascending, and how often each occurs."""
    if number > _SPARSE * len(cells):
        return np.unique(cells, return_counts=True)
    times = np.bincount(cells, minlength=number)
    found = np.flatnonzero(times)
    return found, times[found]

"""The first rows of a dataset, read as a run would read them: their columns, and whether they carry answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from ..schemas.batch import RowBlock
from ..schemas.errors import RowError
from ..schemas.instance import Instance
from ..schemas.json import Json
from .agents.base import Recording
from .dialects._rules import RowRules

MOST_ROWS = 10_000
"""Rows that are looked at for a first answer. A dataset whose answers begin later is run, and its verdict tells."""


@dataclass(frozen=True)
class FirstRows:
    """What the first rows of a dataset show. Reading ends as soon as they show all that is asked.

    By default nothing was looked at, and nothing is missing.

    Attributes:
        columns: The columns of the rows, usable or not, those that are null included.
        rows: Number of the rows whose columns were looked at.
        cut: Whether these are `MOST_ROWS`, so that a column may begin later.
        answered: Whether a row carries an answer, or says that its call failed.
        unanswered: The columns of the usable rows before it.
        usable: Number of these rows; `None` if they are `MOST_ROWS`.
    """

    columns: tuple[str, ...] = ()
    rows: int = 0
    cut: bool = False
    answered: bool = True
    unanswered: tuple[str, ...] = ()
    usable: int | None = 0


def look_at_rows(
    blocks: Iterable[RowBlock], rules: RowRules, recording: Recording | None, wanted: Collection[str]
) -> FirstRows:
    """Reads the first rows until one has an answer and all wanted columns are there.

    A column may be null in every row, or begin later.

    Args:
        blocks: The blocks of the dataset, read as they are needed.
        rules: How a row is read.
        recording: What reads the answers of rows; `None` if they need none.
        wanted: The columns that must be there.
    """
    seen: dict[str, None] = {}
    shown: dict[str, None] = {}
    lacking, answered, rows, usable = set(wanted), recording is None, 0, 0
    for row, nulls in _rows(blocks, rules) if lacking or recording is not None else ():
        if rows < MOST_ROWS and lacking:
            rows += 1
            seen |= dict.fromkeys((*row, *nulls))
            lacking -= seen.keys()
        if recording is not None and not answered and usable < MOST_ROWS:
            with suppress(RowError):  # the run puts it into the errors table
                instance = _instance(row, rules)
                usable += 1
                answered = recording.recall(instance).answered or instance.get("failure") is not None
                shown |= {} if answered else dict.fromkeys(instance.row)
        if (answered or usable == MOST_ROWS) and (rows == MOST_ROWS or not lacking):
            break
    whole = None if usable == MOST_ROWS else usable
    return FirstRows(tuple(seen), rows, rows == MOST_ROWS, answered, tuple(shown), whole)


def _instance(row: dict[str, Json], rules: RowRules) -> Instance:
    instance_id, fields = rules.read(row)
    return Instance(instance_id, row, fields)


def _rows(blocks: Iterable[RowBlock], rules: RowRules) -> Iterator[tuple[dict[str, Json], Collection[str]]]:
    """Yields the rows as the dialect splits them, without nulls, and the columns that are null in some row near it."""
    for block in blocks:
        for _, row in block.rows:
            with suppress(RowError):
                for each in rules.rows({k: v for k, v in row.items() if v is not None}):
                    yield each, block.nulls

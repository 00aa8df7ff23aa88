"""Refuses a dataset that lacks recorded answers, or a column of a slice, before anything is written or called."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from ...schemas.batch import RowBlock
from ...schemas.errors import DatasetError, Mistakes, RowError, name_error
from ...schemas.instance import Instance
from ...schemas.json import Json
from ...transforms.agents.base import Recording
from ...transforms.calls.context import RunContext
from ...transforms.readers._files import FileInfo, readers_of
from ...transforms.readers.base import SchemeReader
from .plan import Plan

MOST_ROWS = 10_000
"""Rows that are looked at for a first answer. A dataset whose answers begin later is run, and its verdict tells."""
_SHOWN = 20


def require_dataset(plan: Plan, files: Sequence[FileInfo]) -> None:
    """Refuses a dataset without a single answer if no agent is configured, and one that lacks a named column.

    Raises:
        DatasetError: As `require_answers` and `require_slices`; `ConfigErrors` of several.
    """
    found = Mistakes()
    with found.collect():
        require_answers(plan, files)
    with found.collect():
        require_slices(plan, files)
    found.raise_all()


def require_slices(plan: Plan, files: Sequence[FileInfo]) -> None:
    """Refuses a dataset whose first `MOST_ROWS` rows lack a column of `slices` or `statistics.cluster`.

    Such a column is most often misspelt.

    The rows are read until all of them have been seen. A column may be null in every row, and one that is declared in
    `dataset.columns` may begin later. What a service has to be asked for (a table, a query) is not read.

    Args:
        plan: What is to be run.
        files: Its dataset.

    Raises:
        DatasetError: A column is not there; near names are offered. `ConfigErrors` if several are not there.
    """
    keys = dict.fromkeys(plan.config.statistics.cluster, "statistics.cluster")
    keys |= dict.fromkeys((c for columns in plan.slices for c in columns), "slices")
    wanted = {column: key for column, key in keys.items() if column not in plan.config.dataset.columns}
    if not wanted or _asks_a_service(plan, files):
        return
    seen: dict[str, None] = {}
    number = 0
    for number, (columns, nulls) in enumerate(_columns(plan, files), 1):
        seen |= dict.fromkeys((*columns, *nulls))
        if number == MOST_ROWS or seen.keys() >= wanted.keys():
            break
    lacking = [c for c in wanted if c not in seen]
    if not number or not lacking:
        return
    rows = f"first {MOST_ROWS:,} rows of the dataset" if number == MOST_ROWS else "dataset"
    allowed = ", ".join(list(seen)[:_SHOWN]) + ("; or declare it in dataset.columns" if number == MOST_ROWS else "")
    verb = "have" if number == MOST_ROWS else "has"
    found = Mistakes()
    for name in lacking:
        error = name_error(f"the {rows} {verb} no column {name!r}", name, list(seen), wanted[name], allowed)
        found.errors.append(DatasetError(str(error)))
    found.raise_all()


def _asks_a_service(plan: Plan, files: Sequence[FileInfo]) -> bool:
    readers = readers_of(files, dict(plan.declared), plan.reading(RunContext()))
    return any(isinstance(readers[f.format], SchemeReader) for f in files)


def require_answers(plan: Plan, files: Sequence[FileInfo]) -> None:
    """Refuses a dataset without a single answer if no agent is configured.

    The rows are read up to the first answer. What a service has to be asked for (a table, a query) is not read.

    Args:
        plan: What is to be run.
        files: Its dataset.

    Raises:
        DatasetError: The answers are to be in the rows, and none of the usable ones has one.
    """
    agent = plan.agent
    if not isinstance(agent, Recording):
        return
    if _asks_a_service(plan, files):
        return
    columns: dict[str, None] = {}
    number = 0
    for number, instance in enumerate(_instances(plan, files), 1):
        if agent.recall(instance).answered or instance.get("failure") is not None:
            return
        columns |= dict.fromkeys(instance.row)
        if number == MOST_ROWS:
            return
    if number:
        shown = (", ".join(list(columns)[:_SHOWN]) or "none") + (" …" if len(columns) > _SHOWN else "")
        found = f"no column 'response' or 'predicted_trajectory' with an answer in it; the columns are {shown}"
        allowed = "recorded answers under these names or mapped to them, or an agent that is called"
        where = "dataset" if plan.rows is not None else f"dataset.path {files[0].path}"
        raise DatasetError(found, where=where, allowed=allowed)


def _instances(plan: Plan, files: Sequence[FileInfo]) -> Iterator[Instance]:
    """The usable rows of a dataset, in the order of its files."""
    for block in _blocks(plan, files):
        for each in _rows(plan, block):
            with suppress(RowError):  # the run puts it into the errors table
                instance_id, fields = plan.rules.read(each)
                yield Instance(instance_id, each, fields)


def _columns(plan: Plan, files: Sequence[FileInfo]) -> Iterator[tuple[Collection[str], Collection[str]]]:
    """The columns of each row of a dataset, usable or not, and the columns that are null in some row near it."""
    for block in _blocks(plan, files):
        for each in _rows(plan, block):
            yield each.keys(), block.nulls


def _blocks(plan: Plan, files: Sequence[FileInfo]) -> Iterator[RowBlock]:
    readers = readers_of(files, dict(plan.declared), plan.reading(RunContext()))
    for path, size, format_ in files:
        for part in readers[format_].split(path, size):
            yield from readers[format_].read(part)


def _rows(plan: Plan, block: RowBlock) -> Iterator[dict[str, Json]]:
    """The rows of a block as the dialect splits them, without nulls."""
    for _, row in block.rows:
        with suppress(RowError):
            yield from plan.rules.rows({k: v for k, v in row.items() if v is not None})

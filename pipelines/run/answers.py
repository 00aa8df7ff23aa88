"""Refuses a dataset without recorded answers before anything is written or called, if no agent is configured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...schemas.errors import DatasetError, RowError
from ...schemas.instance import Instance
from ...transforms.agents.base import Recording
from ...transforms.calls.context import RunContext
from ...transforms.readers._files import FileInfo, readers_of
from ...transforms.readers.base import SchemeReader
from .plan import Plan

MOST_ROWS = 10_000
"""Rows that are looked at for a first answer. A dataset whose answers begin later is run, and its verdict tells."""
_SHOWN = 20


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
    readers = readers_of(files, dict(plan.declared), plan.reading(RunContext()))
    if any(isinstance(readers[f.format], SchemeReader) for f in files):
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
        shown = ", ".join(list(columns)[:_SHOWN]) + (" …" if len(columns) > _SHOWN else "")
        found = f"no column 'response' or 'predicted_trajectory' with an answer in it; the columns are {shown}"
        allowed = "recorded answers under these names or mapped to them, or an agent that is called"
        where = "dataset" if plan.rows is not None else f"dataset.path {files[0].path}"
        raise DatasetError(found, where=where, allowed=allowed)


def _instances(plan: Plan, files: Sequence[FileInfo]) -> Iterator[Instance]:
    """The usable rows of a dataset, in the order of its files."""
    readers = readers_of(files, dict(plan.declared), plan.reading(RunContext()))
    for path, size, format_ in files:
        for part in readers[format_].split(path, size):
            for block in readers[format_].read(part):
                for _, row in block.rows:
                    try:
                        for each in plan.rules.rows({k: v for k, v in row.items() if v is not None}):
                            instance_id, fields = plan.rules.read(each)
                            yield Instance(instance_id, each, fields)
                    except RowError:
                        continue  # the run puts it into the errors table

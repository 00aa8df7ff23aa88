"""What would make a start end before it calls anything: one list of checks, for a run and for `evalbeam check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...schemas.errors import ConfigError, DatasetError, Mistakes, name_error
from ...transforms.first_rows import FirstRows
from .inventory import Inventory
from .plan import Plan
from .take_over import decide

_SHOWN = 20


def find_problems(plan: Plan, inventory: Inventory) -> list[ConfigError]:
    """Finds everything that would end a start; empty if it can begin."""
    found = Mistakes()
    for check in CHECKS:
        with found.collect():
            check(plan, inventory)
    return found.errors


def check_rows(plan: Plan, rows: FirstRows) -> None:
    """Refuses a dataset without a single answer if no agent is configured, and one that lacks a named column.

    Raises:
        DatasetError: There is no answer, or a column is not there; `ConfigErrors` of several.
    """
    found = Mistakes()
    with found.collect():
        require_answers(plan, rows)
    with found.collect():
        require_columns(plan, rows)
    found.raise_all()


def require_columns(plan: Plan, rows: FirstRows) -> None:
    """Refuses a dataset whose first rows lack a column of `slices` or `statistics.cluster`: it is most often misspelt.

    A column may be null in every row, and one that is declared in `dataset.columns` may begin later.

    Raises:
        DatasetError: A column is not there; near names are offered. `ConfigErrors` if several are not there.
    """
    wanted = plan.wanted_columns
    lacking = [column for column in wanted if column not in rows.columns]
    if not rows.rows or not lacking:
        return
    subject = f"first {rows.rows:,} rows of the dataset have" if rows.cut else "dataset has"
    allowed = ", ".join(rows.columns[:_SHOWN]) + ("; or declare it in dataset.columns" if rows.cut else "")
    found = Mistakes()
    for name in lacking:
        error = name_error(f"the {subject} no column {name!r}", name, rows.columns, wanted[name], allowed)
        found.errors.append(DatasetError(str(error)))
    found.raise_all()


def require_answers(plan: Plan, rows: FirstRows) -> None:
    """Refuses a dataset without a single answer if no agent is configured.

    Raises:
        DatasetError: The answers are to be in the rows, and none of the usable ones has one.
    """
    if rows.answered or not rows.usable:
        return
    columns = rows.unanswered
    shown = (", ".join(columns[:_SHOWN]) or "none") + (" …" if len(columns) > _SHOWN else "")
    found = f"no column 'response' or 'predicted_trajectory' with an answer in it; the columns are {shown}"
    allowed = "recorded answers under these names or mapped to them, or an agent that is called"
    where = "dataset" if plan.rows is not None else f"dataset.path {plan.files[0].path}"
    raise DatasetError(found, where=where, allowed=allowed)


def _check_engine(_: Plan, inventory: Inventory) -> None:
    found = Mistakes()
    found.errors += map(ConfigError, inventory.engine.problems)
    found.raise_all()


def _check_rows(plan: Plan, inventory: Inventory) -> None:
    check_rows(plan, inventory.rows)


def _check_lease(_: Plan, inventory: Inventory) -> None:
    if inventory.obstacle is not None:
        raise inventory.obstacle


def _check_run(plan: Plan, inventory: Inventory) -> None:
    decide(plan, inventory)


Check: TypeAlias = Callable[[Plan, Inventory], None]
CHECKS: tuple[Check, ...] = (_check_engine, _check_rows, _check_lease, _check_run)
"""In the order in which problems are told."""

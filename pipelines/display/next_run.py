"""Renders what a finished run says of the next one as plain text."""

from __future__ import annotations

from ..drawing.words import NOTHING, number, share
from ..power import MetricPlan, NextRun
from .terminal import plain, table

_COLUMNS = (
    ("Metric", False),
    ("Rows", True),
    ("Trials", True),
    ("Votes", True),
    ("by rows", True),
    ("by trials", True),
    ("by votes", True),
    ("Same rows", True),
    ("Other rows", True),
    ("Rows needed", True),
    ("Buy next", False),
)
_DROPPED = ("Votes", "Trials", "by votes", "by trials", "by rows", "Other rows")
"""Columns that are left out of a narrow table, in this order."""


def render(found: NextRun, width: int = 100) -> str:
    """Renders the plan in at most `width` columns."""
    head = [
        f"{plain(found.output)}: differences that a run of this size shows with a probability of 80 %,",
        f"at the level {found.alpha:.3g} for each of {len(found.metrics):,} metrics",
    ]
    shown = [i for i, (title, _) in enumerate(_COLUMNS) if title != "Rows needed" or found.margin is not None]
    rows = [[_build_cells(one)[i] for i in shown] for one in found.metrics]
    foot = ["by rows, trials, votes: share of the variance of a row's score"]
    foot.append("Same rows, Other rows: smallest gain over a run with the same, or with other rows")
    if found.margin is not None:
        foot.append(
            f"Rows needed: to show or to exclude a difference of {found.margin:g}, with the same / with other rows"
        )
    foot.append("Buy next: what lowers the variance most, and by how much for 1 % more money")
    lines = table([_COLUMNS[i] for i in shown], rows, width, _DROPPED)
    parts = ["\n".join(head), "\n".join(lines), "\n".join(foot), "\n".join(plain(note) for note in found.notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _build_cells(one: MetricPlan) -> list[str]:
    parts = one.components
    if parts is None:
        return [one.metric, *[NOTHING] * 9, "no scores"]
    shares = _split(one)
    needed = f"{_count(one.rows_same)} / {_count(one.rows_other)}"
    best = NOTHING if one.best is None or one.bought is None else f"{one.best} (−{one.bought[one.best]:.2g} %)"
    return [
        one.metric,
        f"{parts.rows:,}",
        f"{parts.trials:.3g}",
        f"{parts.votes:,}",
        *shares,
        number(one.gain_same_rows),
        number(one.gain_other_rows),
        needed,
        best,
    ]


def _split(one: MetricPlan) -> list[str]:
    """Returns the shares of the variance of a row's score: by rows, trials and votes."""
    parts = one.components
    if parts is None or not parts.whole:
        return [NOTHING] * 3
    trial = None if parts.trial is None else parts.trial / parts.trials
    vote = None if parts.vote is None else parts.by_vote / parts.trials
    return [share(None if part is None else part / parts.whole) for part in (parts.row, trial, vote)]


def _count(rows: int | None) -> str:
    return NOTHING if rows is None else f"{rows:,}"

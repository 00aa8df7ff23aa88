"""The tables of what stands out in a run; their columns are named and typed only here."""

from __future__ import annotations

from .tables import Column

FAILURE_GROUPS = (
    Column("kind", "string"),
    Column("metric", "string"),
    Column("code", "string"),
    Column("message", "string", volatile=True),
    Column("count", "int64"),
    Column("examples", "json"),
)
"""Columns of the table of failure groups, the largest group first."""

WORST_SLICES = (
    Column("slice", "json"),
    Column("metric", "string"),
    Column("rows", "int64"),
    Column("share", "float64"),
    Column("mean", "float64"),
    Column("others", "float64"),
    Column("p", "float64"),
    Column("p_adjusted", "float64"),
    Column("examples", "json"),
)
"""Columns of the table of slices that are worse than the rest, the surest first."""

HISTORY = (
    Column("metric", "string"),
    Column("run", "string"),
    Column("date", "timestamp"),
    Column("scored_count", "int64"),
    Column("mean", "float64"),
    Column("ci_low", "float64"),
    Column("ci_high", "float64"),
    Column("change", "bool"),
    Column("before", "float64"),
    Column("after", "float64"),
    Column("p", "float64"),
    Column("p_adjusted", "float64"),
    Column("also_changed", "json"),
)
"""Columns of the table of a history: one row for each metric and run, by date."""

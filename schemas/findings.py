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

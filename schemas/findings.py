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

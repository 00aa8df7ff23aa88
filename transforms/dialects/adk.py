"""The dialect `adk`: EvalCases of Google's Agent Development Kit, from an eval set or as JSON lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...schemas.formats.adk import case_fields, is_case
from ...schemas.json import Json
from .base import Dialect, register


@register("dialect", "adk")
@dataclass(frozen=True)
class Adk(Dialect):
    """EvalCases of ADK: conversation or scenario, session and rubrics; all other keys are columns."""

    inputs: ClassVar[tuple[str, ...]] = ("conversation", "session", "scenario")
    marks: ClassVar[frozenset[str] | None] = frozenset(("eval_id", "evalId"))

    def recognises(self, row: dict[str, Json]) -> bool:
        return is_case(row)

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        return case_fields(row)

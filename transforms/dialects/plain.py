"""Rows that name their fields as we do (prompt, response, reference, predicted_trajectory ...)."""

from __future__ import annotations

from dataclasses import dataclass

from ...schemas.instance import Json
from .base import Dialect, register


@register("dialect", "plain")
@dataclass(frozen=True)
class Plain(Dialect):
    """Every column is what its name says."""

    def recognises(self, row: dict[str, Json]) -> bool:
        return True

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        return {}

"""The dialect `plain`: rows with the standard names (prompt, response, reference, predicted_trajectory ...)."""

from __future__ import annotations

from dataclasses import dataclass

from ...schemas.conversation import fields_of, is_conversation
from ...schemas.json import Json
from .base import Dialect, register


@register("dialect", "plain")
@dataclass(frozen=True)
class Plain(Dialect):
    """Rows with the standard names; a conversation also supplies the fields of the whole row."""

    def recognises(self, row: dict[str, Json]) -> bool:
        return True

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        conversation = row.get("conversation")
        if conversation is None or not is_conversation(conversation):
            return {}
        return {name: value for name, value in fields_of(conversation).items() if name not in row}

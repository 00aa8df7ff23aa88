"""The dialect `rapid`: requests of Vertex AI's rapid evaluation API (`evaluateInstances`).

Each instance of a request is a row: its fields (prediction, reference, instruction, context, baseline_prediction,
predicted_trajectory, reference_trajectory), `metric` with the requested metric, `metric_spec` with its parameters, and
the request's other keys. The configuration decides which metrics are computed, not the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...schemas.formats.rapid import KEYS, read_request
from ...schemas.json import Json
from .base import Dialect, register

_KEYS = frozenset(KEYS)


@register("dialect", "rapid")
@dataclass(frozen=True)
class Rapid(Dialect):
    """Requests of Vertex AI's rapid evaluation API; each instance is a row."""

    splits: ClassVar[bool] = True
    marks: ClassVar[frozenset[str] | None] = _KEYS

    def recognises(self, row: dict[str, Json]) -> bool:
        return not _KEYS.isdisjoint(row)

    def rows(self, row: dict[str, Json]) -> list[dict[str, Json]]:
        asked, others = read_request(row)
        found: list[dict[str, Json]] = []
        for one in asked:
            spec = {"metric_spec": one.params} if one.params else {}
            found += [{"metric": one.name, **spec, **others, **given} for given in one.instances]
        return found

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        return {}

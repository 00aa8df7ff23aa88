"""The dialect `traces`: each row is a trace of an agent's run, of MLflow (versions 2 and 3) or in OTLP/JSON.

A row contains whole traces: one, or several in an OpenTelemetry export, each of which becomes a row. Spans of one trace
in several rows are not merged. Ground truth attached to a trace is used too (`expected_response`, `expected_facts`
...).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...schemas.errors import RowError
from ...schemas.formats.databricks import expectation_fields
from ...schemas.json import Json
from .base import Dialect, register
from .traces_otel.derive import fields_of
from .traces_otel.spans import CODE, SCHEMA, is_trace, parse_trace, traces_in


@register("dialect", "traces")
@dataclass(frozen=True)
class Traces(Dialect):
    """Traces of MLflow 2, MLflow 3, or in OTLP/JSON with the GenAI conventions."""

    inputs: ClassVar[tuple[str, ...]] = ("prompt",)
    splits: ClassVar[bool] = True
    marks: ClassVar[frozenset[str] | None] = frozenset(("resourceSpans", "info", SCHEMA))

    def recognises(self, row: dict[str, Json]) -> bool:
        return is_trace(row)

    def rows(self, row: dict[str, Json]) -> list[dict[str, Json]]:
        try:
            found = traces_in(row) if "resourceSpans" in row else [row]
        except (AttributeError, TypeError) as error:
            raise RowError(CODE, f"{error} (allowed: OTLP/JSON)") from None
        return found if len(found) > 1 else [row]

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        trace = parse_trace(row)
        return {**expectation_fields(trace.expectations), **fields_of(trace)}

"""Traces as a dataset: each row is one run of an agent, as MLflow (versions 2 and 3) or OTLP/JSON write it.

A row holds one trace whole; spans of a trace that are spread over rows are not brought together. Where the trace says
so, ground truth that people attached to it comes along (`expected_response`, `expected_facts` ...).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...schemas.databricks import expectation_fields
from ...schemas.instance import Json
from ..traces.derive import fields_of
from ..traces.spans import is_trace, parse_trace
from .base import Dialect, register


@register("dialect", "traces")
@dataclass(frozen=True)
class Traces(Dialect):
    """One trace in each row: MLflow 2, MLflow 3 or OTLP/JSON with the GenAI conventions."""

    inputs: ClassVar[tuple[str, ...]] = ("prompt",)

    def recognises(self, row: dict[str, Json]) -> bool:
        return is_trace(row)

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        trace = parse_trace(row)
        return {**expectation_fields(trace.expectations), **fields_of(trace)}

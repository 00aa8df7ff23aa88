"""The dialect `databricks`: rows of Databricks Agent Evaluation and MLflow.

| MLflow 2, Agent Evaluation | MLflow 3 | becomes |
|---|---|---|
| `request` | `inputs` | `prompt`, the agent's input (text as `{messages: [...]}`); `instruction`, its text |
| `response` | `outputs` | `response`, its text |
| `expected_response` | `expectations.expected_response` | also `reference` |
| | `expectations.expected_tool_calls` | `reference_trajectory` |
| `expected_facts`, `guidelines`, `expected_retrieved_context` | `expectations.*` | the same |
| `retrieved_context` | | the same, as a list of {content, doc_uri} |
| `tool_calls`, or those in `response` | those in `outputs` | `predicted_trajectory` |
| `trace` | `trace` | those of these fields, expectations, tokens and latency that the row itself lacks |

Requests, responses and expectations may be JSON text, as in inference tables. JSON text of an unknown form is plain
text, except in `inputs`, which are always an object. The text of a request of an unknown form is its JSON text; a
response of an unknown form is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.errors import RowError
from ...schemas.formats.databricks import EXPECTED, context_of, expectation_fields, merge_expectations
from ...schemas.formats.messages import REQUEST_KEYS, RESPONSE_KEYS, parsed, response_text, tool_calls_of, trace_of
from ...schemas.json import Json
from ...schemas.values import json_or_text, parse_json
from .base import Dialect, register
from .traces_otel.derive import fields_of, request_fields
from .traces_otel.spans import SCHEMA, Trace, is_trace, parse_trace

_FAILURE = ("failure", "error_type", "error_message")


@register("dialect", "databricks")
@dataclass(frozen=True)
class Databricks(Dialect):
    """Databricks and MLflow rows: request/response/expected_*, or inputs/outputs/expectations/trace."""

    inputs: ClassVar[tuple[str, ...]] = ("prompt",)
    marks: ClassVar[frozenset[str] | None] = frozenset(("request", "inputs", "trace"))

    def recognises(self, row: dict[str, Json]) -> bool:
        if "prompt" in row or "instruction" in row:
            return False
        request, response = row.get("request", row.get("inputs")), row.get("response")
        gemini = isinstance(request, dict) and "contents" in request
        gemini |= isinstance(response, dict) and "candidates" in response
        return not gemini and (request is not None or _is_trace(row.get("trace")))

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        response = parsed(_either(row, "response", "outputs"), RESPONSE_KEYS)
        trace = _read_trace(row, response)
        found = {} if trace is None else fields_of(trace)
        request = parsed(_either(row, "request", "inputs"), REQUEST_KEYS if "request" in row else None)
        if request is None and "prompt" not in found:
            raise RowError(
                "missing_request", "the row has no request (allowed: 'request', 'inputs', or a 'trace' of it)"
            )
        found |= request_fields(request)
        if response is not None:
            found = {k: v for k, v in found.items() if k not in _FAILURE}
            found["response"] = response_text(response)
        if "predicted_trajectory" not in row and (calls := _recorded_calls(row, response)):
            found["predicted_trajectory"] = calls
        if row.get("retrieved_context") is not None:
            found["retrieved_context"] = context_of(row["retrieved_context"])
        return found | expectation_fields(merge_expectations(_expectations(row), trace.expectations if trace else {}))


def _is_trace(value: Json) -> bool:
    if isinstance(value, str):
        return value.lstrip().startswith("{") and any(f'"{key}"' in value for key in ("info", "resourceSpans", SCHEMA))
    return is_trace(value)


def _read_trace(row: Mapping[str, Json], response: Json) -> Trace | None:
    """Reads the trace of a row, from its column or from its response, as Databricks endpoints return it."""
    given = row.get("trace") or trace_of(response)
    return None if given is None else parse_trace(given)


def _recorded_calls(row: Mapping[str, Json], response: Json) -> list[dict[str, Json]]:
    """Lists the tool calls in the column `tool_calls` of Agent Evaluation, else those in the response."""
    told = json_or_text(row.get("tool_calls"))
    if isinstance(told, list) and all(isinstance(c, Mapping) and c.get("tool_name") for c in told):
        return [{"tool_name": c["tool_name"], "tool_input": c.get("tool_call_args") or {}} for c in told]
    return tool_calls_of(response)


def _either(row: Mapping[str, Json], name: str, other: str) -> Json:
    """Returns the value of a column that has one of two names.

    Raises:
        RowError: The row has both.
    """
    if row.get(name) is not None and row.get(other) is not None:
        raise RowError(f"ambiguous_{name}", f"the row has both {name!r} and {other!r} (allowed: one of them)")
    return row.get(name, row.get(other))


def _expectations(row: Mapping[str, Json]) -> dict[str, Json]:
    given: Any = row.get("expectations")
    if isinstance(given, str):
        try:
            given = parse_json(given.encode("utf-8", "surrogateescape"))
        except RowError as error:
            found = error.message.partition(" (allowed")[0]
            raise RowError("malformed_expectations", f"expectations is no JSON: {found} (allowed: an object)") from None
    if given is not None and not isinstance(given, Mapping):
        raise RowError("malformed_expectations", f"expectations is {type(given).__name__} (allowed: an object)")
    if given is not None and row.get("custom_expected") is not None:
        raise RowError("ambiguous_expectations", "the row has both 'expectations' and 'custom_expected' (allowed: one)")
    own = {name: row[name] for name in (*EXPECTED, "custom_expected") if row.get(name) is not None}
    return {**(given or {}), **own}

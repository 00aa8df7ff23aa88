"""The dialect `vertex`: rows of Vertex AI's evaluation.

The columns of EvalTask (prompt, response, reference, baseline_model_response, predicted_trajectory,
reference_trajectory) and of rapid evaluation (instruction, prediction, baseline_prediction, context) keep their names.
The logged request and response of a Gemini call are read too: `request.contents` gives the prompt (the text of the last
user content), `response.candidates[0]` the response (its text parts joined, without thoughts) and its function calls
the predicted trajectory. A candidate without content is a failed run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...schemas.errors import RowError
from ...schemas.json import Json
from .base import Dialect, register


@register("dialect", "vertex")
@dataclass(frozen=True)
class Vertex(Dialect):
    """Columns of EvalTask and rapid evaluation, and logged requests and responses of Gemini."""

    marks: ClassVar[frozenset[str] | None] = frozenset(("request", "response"))

    def recognises(self, row: dict[str, Json]) -> bool:
        request, response = row.get("request"), row.get("response")
        return (isinstance(request, dict) and "contents" in request) or (
            isinstance(response, dict) and "candidates" in response
        )

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        request, response = row.get("request"), row.get("response")
        if isinstance(request, dict) and "contents" in request:
            found["prompt"] = _prompt(request["contents"])
        if isinstance(response, dict) and "candidates" in response:
            parts = _parts(response)
            if not parts:
                return found | _silent(response["candidates"][0])
            found["response"] = "".join(p["text"] for p in parts if isinstance(p.get("text"), str) and not _thought(p))
            calls = [p.get("functionCall") or p.get("function_call") for p in parts]
            if any(calls) and "predicted_trajectory" not in row:
                found["predicted_trajectory"] = [
                    {"tool_name": c.get("name"), "tool_input": c.get("args") or {}} for c in calls if c
                ]
        return found


def _prompt(contents: Json) -> str:
    if isinstance(contents, str):
        return contents
    turns = contents if isinstance(contents, list) else [contents]
    users = [t for t in turns if isinstance(t, dict) and t.get("role", "user") == "user"]
    if not users:
        raise RowError("malformed_request", "request.contents has no content with role 'user'")
    parts = users[-1].get("parts") or []
    parts = parts if isinstance(parts, list) else [parts]
    return "".join(p if isinstance(p, str) else str(p.get("text") or "") for p in parts)


def _silent(candidate: Json) -> dict[str, Json]:
    """Builds the failure of a candidate without content: the model was stopped, which is not an empty answer."""
    reason = candidate.get("finishReason") or candidate.get("finish_reason") if isinstance(candidate, dict) else None
    message = f"the candidate has no content (finishReason {reason or 'not said'})"
    return {"failure": True, "error_type": "NoContent", "error_message": message}


def _thought(part: dict[str, Json]) -> bool:
    return part.get("thought") is True


def _parts(response: dict[str, Json]) -> list[dict[str, Json]]:
    candidates = response["candidates"]
    if not isinstance(candidates, list) or not candidates:
        raise RowError("malformed_response", "response.candidates is not a list with at least one candidate")
    content = candidates[0].get("content") if isinstance(candidates[0], dict) else None
    parts = content.get("parts") if isinstance(content, dict) else None
    return [p for p in parts or [] if isinstance(p, dict)]

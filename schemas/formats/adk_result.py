"""ADK's verdicts on cases and its result files (`EvalSetResult`), built from rows of the instances table.

A case is FAILED if its agent or any of its criteria failed. Otherwise it is NOT_EVALUATED if an applicable criterion
could not be evaluated, and PASSED if at least one was met. ADK itself ignores criteria that were not evaluated; lenient
verdicts do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from ..json import Json
from .adk_config import REPORTED, Criterion

Status = Literal["PASSED", "FAILED", "NOT_EVALUATED", "INFORMATIONAL"]
_NUMBERS: Mapping[Status, int] = {"PASSED": 1, "FAILED": 2, "NOT_EVALUATED": 3, "INFORMATIONAL": 4}


@dataclass(frozen=True)
class MetricVerdict:
    """The verdict of one criterion on one case.

    Attributes:
        criterion: The criterion; its threshold has no meaning if the status is INFORMATIONAL.
        score: The score; `None` if there is none.
        status: Its verdict.
        reason: Why it could not be evaluated.
        applies: Whether the criterion is applicable to such a case.
    """

    criterion: Criterion
    score: float | None
    status: Status
    reason: str | None = None
    applies: bool = True


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict on one case.

    Attributes:
        eval_set_id, eval_id, trial: Ids of the case, and the number of its run, counted from 0.
        instance_id: Id of its row; two cases may have the same eval_id. Empty if the case could not be read.
        status: Its verdict.
        metrics: Verdicts of the criteria, then the reported metrics.
        error: Why the case could not be read, or why the agent gave no answer; `None` if it did.
    """

    eval_set_id: str
    eval_id: str
    trial: int
    instance_id: str
    status: Status
    metrics: tuple[MetricVerdict, ...]
    error: str | None = None


def case_verdict(row: Mapping[str, Any], criteria: Sequence[Criterion], lenient: bool = False) -> CaseVerdict:
    """Decides the verdict on a case from its row of the instances table.

    Args:
        row: Row with eval_set_id, eval_id, trial, status, error_type, error_message and the metrics' columns.
        criteria: The criteria, in the order of the configuration.
        lenient: Whether criteria that could not be evaluated are ignored, as in ADK.
    """
    metrics = [_decide(row, criterion) for criterion in criteria]
    status = overall([m.status for m in metrics if m.applies], lenient)
    if row["status"] != "ok":
        status = "FAILED" if row["status"] == "failed" else "NOT_EVALUATED"
    reported = [
        MetricVerdict(Criterion(name, 0.0), row.get(f"{name}/score"), "INFORMATIONAL")
        for name in REPORTED
        if f"{name}/status" in row
    ]
    error = None if row["status"] == "ok" else f"{row['error_type'] or row['status']}: {row['error_message'] or ''}"
    named = (str(row.get("eval_set_id") or ""), str(row.get("eval_id") or row["instance_id"]), row["trial"])
    return CaseVerdict(*named, row["instance_id"], status, (*metrics, *reported), error)


def overall(statuses: Iterable[Status], lenient: bool = False) -> Status:
    """Combines verdicts: FAILED if any is; else NOT_EVALUATED if any is, unless lenient; else PASSED if any is."""
    found = set(statuses)
    if "FAILED" in found:
        return "FAILED"
    if "NOT_EVALUATED" in found and not lenient:
        return "NOT_EVALUATED"
    return "PASSED" if "PASSED" in found else "NOT_EVALUATED"


def _decide(row: Mapping[str, Any], criterion: Criterion) -> MetricVerdict:
    score, status = row.get(f"{criterion.name}/score"), row.get(f"{criterion.name}/status")
    if score is None:
        return MetricVerdict(
            criterion, None, "NOT_EVALUATED", row.get(f"{criterion.name}/error"), status != "not_applicable"
        )
    given = (_decode(row.get(f"{criterion.name}/details")) or {}).get("eval_status") if criterion.function else None
    if given == "NOT_EVALUATED":
        return MetricVerdict(criterion, score, given, "the function's overall_eval_status is NOT_EVALUATED")
    met: Status = "PASSED" if score >= criterion.threshold else "FAILED"
    return MetricVerdict(criterion, score, given or met)


def case_result(row: Mapping[str, Any], verdict: CaseVerdict) -> dict[str, Json]:
    """Converts a case to the JSON of ADK's EvalCaseResult; `error`, which ADK ignores, is why there is no answer."""
    turns = _decode(row.get("turns")) or []
    expected = _decode(row.get("conversation")) or []
    session = _decode(row.get("session_input")) or {}
    return {
        "eval_set_id": verdict.eval_set_id,
        "eval_id": verdict.eval_id,
        "final_eval_status": _NUMBERS[verdict.status],
        "overall_eval_metric_results": [_metric(m, m.score, m.status) for m in verdict.metrics],
        "eval_metric_result_per_invocation": [
            {
                "actual_invocation": invocation_out(turn, f"{verdict.instance_id}-{i}"),
                "expected_invocation": expected[i] if i < len(expected) else None,
                "eval_metric_results": [_of_turn(m, turn) for m in verdict.metrics],
            }
            for i, turn in enumerate(turns)
        ],
        "error": verdict.error,
        "session_id": f"{verdict.instance_id}-{verdict.trial}",
        "user_id": session.get("user_id", session.get("userId")),
    }


def invocation_out(turn: Mapping[str, Json], name: str) -> dict[str, Json]:
    """Converts a turn of the instances table to the JSON of ADK's Invocation.

    Args:
        turn: A turn as written by schemas/conversation.py.
        name: The invocation_id.
    """
    response = turn.get("response")
    found: dict[str, Json] = {
        "invocation_id": name,
        "user_content": turn.get("content") or {"role": "user", "parts": [{"text": turn.get("prompt", "")}]},
        "intermediate_data": {"invocation_events": [_event(step) for step in turn.get("steps") or _calls(turn)]},
    }
    if response is not None:
        found["final_response"] = {"role": "model", "parts": [{"text": response}]}
    if turn.get("latency_in_seconds") is not None:
        found["duration"] = turn["latency_in_seconds"]
    return found


def _calls(turn: Mapping[str, Json]) -> list[dict[str, Json]]:
    calls = turn.get("predicted_trajectory") or []
    return [{"kind": "call", "tool_name": c["tool_name"], "value": c.get("tool_input")} for c in calls]


def _event(step: Mapping[str, Json]) -> dict[str, Json]:
    extra: Any = step.get("extra") or {}
    more = {"grounding_metadata": extra["grounding_metadata"]} if "grounding_metadata" in extra else {}
    if step["kind"] == "other":
        return {"author": step.get("author") or "agent", **more}
    if step["kind"] in ("call", "result"):
        key, inner = ("function_call", "args") if step["kind"] == "call" else ("function_response", "response")
        value = step.get("value")
        given = value if isinstance(value, Mapping) or value is None else {"value": value}
        part: dict[str, Json] = {key: {"name": step["tool_name"], inner: given}}
        if step.get("id") is not None:
            part[key]["id"] = step["id"]
    else:
        part = {"text": step.get("value") or ""}
    return {"author": step.get("author") or "agent", "content": {"role": "model", "parts": [part]}, **more}


def _metric(verdict: MetricVerdict, score: float | None, status: Status) -> dict[str, Json]:
    criterion = verdict.criterion
    found: dict[str, Json] = {"metric_name": criterion.name, "score": score, "eval_status": _NUMBERS[status]}
    if verdict.status != "INFORMATIONAL":
        found |= {"threshold": criterion.threshold, "criterion": criterion.as_json()}
    return found if criterion.function is None else {**found, "custom_function_path": criterion.function}


def _of_turn(verdict: MetricVerdict, turn: Mapping[str, Any]) -> dict[str, Json]:
    score = (turn.get("scores") or {}).get(verdict.criterion.name)
    if verdict.status == "INFORMATIONAL":
        return _metric(verdict, score, "INFORMATIONAL")
    met = score is not None and score >= verdict.criterion.threshold
    return _metric(verdict, score, "NOT_EVALUATED" if score is None else "PASSED" if met else "FAILED")


def result_file(set_id: str, result_id: str, cases: Iterable[Json], timestamp: float = 0.0) -> Iterator[bytes]:
    """Yields the bytes of an `.evalset_result.json` in pieces."""
    name = result_id.replace("/", "_")
    head = {"eval_set_result_id": result_id, "eval_set_result_name": name, "eval_set_id": set_id}
    yield orjson.dumps(head | {"creation_timestamp": timestamp})[:-1] + b',"eval_case_results":['
    for i, case in enumerate(cases):
        yield (b",\n" if i else b"\n") + orjson.dumps(case)
    yield b"\n]}\n"


def _decode(value: Json) -> Any:
    return orjson.loads(value) if isinstance(value, str) and value else value

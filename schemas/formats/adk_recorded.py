"""Result files of ADK (`.evalset_result.json`) as recorded answers: rows with the expected and the actual turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ..errors import RowError
from ..json import Json
from ..values import parse_json
from .adk import CODE, convert_turn
from .adk_models import AdkInvocation

SUFFIX = ".evalset_result.json"
_NAMES = {"reference": "response", "reference_trajectory": "predicted_trajectory"}


def read_recorded(raw: bytes) -> list[dict[str, Json] | RowError]:
    """Reads the cases of a result file; text that holds the JSON, as older versions of ADK wrote it, is read, too.

    Returns:
        For each case a row with `eval_set_id`, `eval_id`, `conversation` (what was expected, unless a user was
        simulated) and `turns` (what the agent did), or why it cannot be read. A case without invocations, whose agent
        failed, has no `turns`.

    Raises:
        RowError: The file is no result file.
    """
    data = parse_json(raw)
    data = parse_json(data.encode()) if isinstance(data, str) else data
    cases = data.get("eval_case_results", data.get("evalCaseResults")) if isinstance(data, Mapping) else None
    if not isinstance(cases, list):
        raise RowError("unknown_eval_set", "found no eval_case_results (allowed: a result file of ADK)")
    return [_read(case, i) for i, case in enumerate(cases, 1)]


def _read(case: Json, number: int) -> dict[str, Json] | RowError:
    def get(holder: Mapping[str, Any], snake: str, camel: str) -> Any:
        return holder.get(snake, holder.get(camel))

    try:
        name = get(case, "eval_id", "evalId") or f"case {number}"
        pairs = get(case, "eval_metric_result_per_invocation", "evalMetricResultPerInvocation") or ()
        actual = [get(pair, "actual_invocation", "actualInvocation") for pair in pairs]
        expected = [get(pair, "expected_invocation", "expectedInvocation") for pair in pairs]
        turns = [_convert(AdkInvocation.model_validate(invocation)) for invocation in actual]
    except (AttributeError, ValidationError) as error:
        return RowError(CODE, f"case {number}: {str(error)[:300]}")
    row: dict[str, Json] = {"eval_set_id": get(case, "eval_set_id", "evalSetId"), "eval_id": name}
    if turns:
        row |= {"turns": turns, "prompt": turns[-1]["prompt"]}
    if expected and None not in expected:
        row["conversation"] = expected
    return row


def _convert(invocation: AdkInvocation) -> dict[str, Json]:
    turn = {_NAMES.get(key, key): value for key, value in convert_turn(invocation).items() if key != "rubrics"}
    turn.setdefault("response", "")
    return turn if invocation.duration is None else {**turn, "latency_in_seconds": invocation.duration}

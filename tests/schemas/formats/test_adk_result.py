"""Verdicts and result files; google-adk opens the files and comes to the same verdicts where it means to."""

import itertools
import json

import pytest

from evalbeam.schemas.formats.adk_config import Criterion
from evalbeam.schemas.formats.adk_result import case_result, case_verdict, overall, result_file

CRITERIA = (Criterion("a", 0.5, {"match_type": "EXACT"}), Criterion("b", 1.0, function="m.f"))
TURNS = [
    {
        "prompt": "roll",
        "response": "4",
        "predicted_trajectory": [{"tool_name": "roll", "tool_input": {"n": 6}}],
        "steps": [
            {"kind": "text", "author": "dice", "value": "rolling"},
            {"kind": "call", "author": "dice", "value": {"n": 6}, "tool_name": "roll", "id": "1"},
            {"kind": "result", "author": "dice", "value": 4, "tool_name": "roll", "id": "1"},
        ],
        "latency_in_seconds": 0.5,
        "scores": {"a": 1.0, "b": None, "token_usage_v1": 3.0},
    },
    {
        "prompt": "?",
        "content": {"parts": [{"text": "?"}]},
        "predicted_trajectory": [{"tool_name": "t", "tool_input": None}],
    },
]


def row(a=1.0, b=1.0, status="ok", **more):
    scores = {f"{n}/score": v for n, v in (("a", a), ("b", b))}
    states = {f"{n}/status": "scored" if v is not None else "skipped" for n, v in (("a", a), ("b", b))}
    errors = {"a/error": None, "b/error": None, "error_type": None, "error_message": None}
    ids = {"instance_id": "f" * 32, "eval_set_id": "s", "eval_id": "e", "trial": 0}
    return {**ids, "status": status, **scores, **states, **errors, "turns": json.dumps(TURNS), **more}


def test_a_case_passes_only_if_everything_that_applies_was_met():
    assert case_verdict(row(), CRITERIA).status == "PASSED"
    assert case_verdict(row(a=0.4), CRITERIA).status == "FAILED"
    assert case_verdict(row(b=None), CRITERIA).status == "NOT_EVALUATED"
    assert case_verdict(row(b=None), CRITERIA, lenient=True).status == "PASSED"
    assert case_verdict(row(a=0.4, b=None), CRITERIA).status == "FAILED"
    inapplicable = row(b=None, **{"b/status": "not_applicable"})
    assert case_verdict(inapplicable, CRITERIA).status == "PASSED"
    assert case_verdict(row(), ()).status == "NOT_EVALUATED"
    failed = case_verdict(row(None, None, "failed", error_type="ValueError", error_message="no"), CRITERIA)
    assert (failed.status, failed.error) == ("FAILED", "ValueError: no")
    assert case_verdict(row(None, None, "not_called"), CRITERIA).status == "NOT_EVALUATED"


def test_lenient_verdicts_are_those_of_google_adk():
    service = pytest.importorskip("google.adk.evaluation.local_eval_service")
    from google.adk.evaluation.eval_metrics import EvalMetricResult, EvalStatus

    judge = service.LocalEvalService._generate_final_eval_status
    words = ("PASSED", "FAILED", "NOT_EVALUATED", "INFORMATIONAL")
    for statuses in itertools.chain.from_iterable(itertools.product(words, repeat=n) for n in range(4)):
        results = [EvalMetricResult(metric_name="m", eval_status=EvalStatus[s]) for s in statuses]
        assert overall(statuses, lenient=True) == judge(None, results).name


def test_google_adk_opens_the_file():
    results = pytest.importorskip("google.adk.evaluation.eval_result")
    conversation = [{"user_content": {"parts": [{"text": "roll"}]}, "final_response": {"parts": [{"text": "4"}]}}]
    rows = [
        row(conversation=json.dumps(conversation), session_input='{"user_id": "u"}', **{"token_usage_v1/score": 3.0}),
        row(None, None, "failed", error_type="ValueError", error_message="no", turns=None),
    ]
    for one in rows:
        one["token_usage_v1/status"] = "scored"
    cases = [case_result(r, case_verdict(r, CRITERIA)) for r in rows]
    data = b"".join(result_file("s", "app_s/1", cases, 12.5))
    found = results.EvalSetResult.model_validate_json(data)
    assert (found.eval_set_id, found.eval_set_result_name, found.creation_timestamp) == ("s", "app_s_1", 12.5)
    first, second = found.eval_case_results
    assert [m.eval_status.name for m in first.overall_eval_metric_results] == ["PASSED", "PASSED", "INFORMATIONAL"]
    assert [m.threshold for m in first.overall_eval_metric_results] == [0.5, 1.0, None]
    assert first.overall_eval_metric_results[1].custom_function_path == "m.f"
    turn, bare = first.eval_metric_result_per_invocation
    assert turn.expected_invocation.final_response.parts[0].text == "4"
    assert bare.expected_invocation is None
    events = turn.actual_invocation.intermediate_data.invocation_events
    assert [bool(p.function_call) for e in events for p in e.content.parts] == [False, True, False]
    assert [m.score for m in turn.eval_metric_results] == [1.0, None, 3.0]
    assert bare.actual_invocation.intermediate_data.invocation_events[0].content.parts[0].function_call.name == "t"
    assert (first.user_id, second.final_eval_status.name) == ("u", "FAILED")
    assert json.loads(data)["eval_case_results"][1]["error"] == "ValueError: no"
    assert results.EvalSetResult.model_validate_json(b"".join(result_file("s", "r", ()))).eval_case_results == []

"""Terminal report of `evalbeam adk-eval`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from ...schemas.formats.adk_result import CaseVerdict
from ..display.terminal import cut, plain
from ..run.tables import rows_of

if TYPE_CHECKING:
    from .evaluate import AdkEvaluation

_TEXT = 300


def render_summary(evaluation: AdkEvaluation) -> Iterator[str]:
    """Yields the verdict on each eval set, and the reasons of cases that did not pass."""
    for set_id, verdict in evaluation.verdicts.items():
        cases = [c for c in evaluation.cases if c.eval_set_id == set_id]
        passed = sum(c.status == "PASSED" for c in cases)
        yield plain(f"{set_id}: {verdict}, tests passed: {passed}, failed: {len(cases) - passed}")
        for case in cases:
            if case.status != "PASSED":
                run = f" (run {case.trial + 1})" if case.trial else ""
                yield plain(f"  {case.eval_id}{run}: {case.status}: {'; '.join(_list_reasons(case)) or 'no criterion'}")


def _list_reasons(case: CaseVerdict) -> Iterator[str]:
    if case.error is not None:
        yield cut(case.error, _TEXT)
        return
    for metric in case.metrics:
        name, threshold = metric.criterion.name, metric.criterion.threshold
        if metric.status == "FAILED":
            yield f"{name} {metric.score:.4g} < {threshold:g}"
        elif metric.status == "NOT_EVALUATED" and metric.applies:
            yield f"{name} not evaluated ({cut(metric.reason or 'no reason given', _TEXT)})"


def render_details(evaluation: AdkEvaluation, failed_only: bool = False) -> Iterator[str]:
    """Yields every case with the score of each metric and, turn by turn, prompt, answer, calls and expectations."""
    rows = {(row["instance_id"], row["trial"]): row for row in rows_of(evaluation.run, "instances")}
    for case in evaluation.cases:
        if failed_only and case.status == "PASSED":
            continue
        yield plain(f"{case.eval_set_id}: {case.eval_id}: {case.status}{': ' + case.error if case.error else ''}")
        for metric in case.metrics:
            score = "-" if metric.score is None else f"{metric.score:.4g}"
            threshold = "" if metric.status == "INFORMATIONAL" else f" of {metric.criterion.threshold:g}"
            yield plain(f"  {metric.criterion.name}: {score}{threshold} {metric.status}")
        if case.instance_id:
            yield from map(plain, _render_turns(rows[case.instance_id, case.trial]))


def _render_turns(row: dict[str, Any]) -> Iterator[str]:
    from ...schemas.formats.adk import case_fields

    named = {k: row[k] for k in ("conversation", "conversation_scenario", "session_input", "rubrics") if row.get(k)}
    fields = case_fields({"eval_id": row["eval_id"], **{k: orjson.loads(v) for k, v in named.items()}})
    expected = fields.get("conversation") or []
    for i, turn in enumerate(orjson.loads(row["turns"]) if row["turns"] else []):
        wanted = expected[i] if i < len(expected) else {}
        yield f"  turn {i + 1}: {cut(turn['prompt'], _TEXT)}"
        yield f"    answered: {cut(turn.get('response') or '', _TEXT)}"
        if wanted.get("reference") is not None:
            yield f"    expected: {cut(wanted['reference'], _TEXT)}"
        yield f"    called:   {_format_calls(turn.get('predicted_trajectory'))}"
        if wanted:
            yield f"    expected: {_format_calls(wanted.get('reference_trajectory'))}"
        scores = {k: v for k, v in (turn.get("scores") or {}).items() if v is not None}
        yield "    " + ", ".join(f"{name} {value:.4g}" for name, value in scores.items())


def _format_calls(calls: Any) -> str:
    shown = (f"{c['tool_name']}({orjson.dumps(c.get('tool_input') or {}).decode()})" for c in calls or ())
    return cut(", ".join(shown) or "nothing", _TEXT)

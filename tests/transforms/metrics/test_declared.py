"""Every judged metric does what its document declares: inputs shown, verdicts scored, others refused, lacks named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from evalbeam.pipelines.compat.judge_now import judge_now
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoredBatch
from evalbeam.transforms import registry
from evalbeam.transforms.agents.base import chunks_of, trajectory_of
from evalbeam.transforms.judge import JudgeCaller, JudgeUse
from evalbeam.transforms.judges.function import FunctionJudge
from evalbeam.transforms.metrics._inputs import ConfiguredMetric
from evalbeam.transforms.metrics._judged import JudgedMetric

from .declared import DECLARED, SHOWN, TEXTS, Declared


def name_of(one: Declared) -> str:
    options = [key for key in ("use_reference", "expected_facts") if key in (*one.params, *one.inputs)]
    return "-".join([one.name, *options])


TESTED_BY_REQUESTS = {"comet", "metricx", "rubric_based_instruction_following"}
"""tests/pipelines/compat/test_evaluate_requests.py asks for them."""

every = pytest.mark.parametrize("one", DECLARED, ids=name_of)


def judged(one: Declared, answer: Callable[[], Any], row: Mapping[str, Any]) -> tuple[Score, list[str]]:
    """(score, what the judge was shown) of a row."""
    seen: list[str] = []

    def fake_judge(messages: Any, schema: Any) -> Any:
        seen.append(messages[-1]["content"])
        return answer()

    metric = registry.build(registry.find("metric", one.name), dict(one.params), "metrics.0")
    caller = JudgeCaller(
        (ConfiguredMetric("m", metric),), {"default": JudgeUse(FunctionJudge(fake_judge), CallPolicy(max_attempts=1))}
    )
    call = Invocation(
        response=row.get("response", row.get("prediction")),
        predicted_trajectory=trajectory_of(row.get("predicted_trajectory"))[0],
        retrieved_context=chunks_of(row.get("retrieved_context")),
    )
    example = Example(Instance("00" * 16, dict(row)), call)
    return judge_now(caller, ScoredBatch((example,), {}, 0, ())).scores["m"].at(0), seen


@every
def test_inputs_are_shown_and_each_verdict_has_its_score(one: Declared) -> None:
    for verdict, expected in one.verdicts.items():
        score, seen = judged(one, lambda verdict=verdict: one.said(verdict), one.row())
        assert score.status == "scored"
        assert (score.label if isinstance(expected, str) else score.value) == expected
        (shown,) = seen
        assert all(SHOWN.get(name, TEXTS[name]) in shown for name in one.inputs)


@every
def test_another_verdict_is_none(one: Declared) -> None:
    for verdict in one.beyond:
        score, _ = judged(one, lambda verdict=verdict: one.said(verdict), one.row())
        assert (score.status, score.value, score.label) == ("error", None, None), verdict
        assert score.error is not None
        assert score.error.code == "invalid_verdict"


@every
def test_a_row_without_an_input_is_skipped_and_says_which(one: Declared) -> None:
    for name in one.inputs:
        code = one.missing.get(name, f"missing_{name}")
        score, seen = judged(one, lambda: one.said(next(iter(one.verdicts))), one.row(without=name))
        if not code:  # of a conversation without a prompt the answer is judged all the same
            assert score.status == "scored"
            continue
        assert (score.status, score.value, score.error and score.error.code, seen) == ("skipped", None, code, [])


def test_every_judged_metric_is_declared() -> None:
    known = {one.name for one in DECLARED} | TESTED_BY_REQUESTS
    judged = {n for n in registry.names("metric") if issubclass(registry.find("metric", n).factory, JudgedMetric)}
    known.add("adk/per_turn_user_simulator_quality_v1")  # of scenarios alone: its own tests declare it
    documented = ("template/", "response/", "retrieval/")  # templates, and second names of databricks/...
    assert {name for name in judged - known if not name.startswith(documented)} == set()

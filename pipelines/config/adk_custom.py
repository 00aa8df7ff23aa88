"""Custom metrics of an ADK configuration: functions that take ADK's invocations."""

from __future__ import annotations

import asyncio
import inspect
import math
from dataclasses import dataclass
from typing import Any

from ...schemas.conversation import pair_turns, turn_out
from ...schemas.formats.adk_result import invocation_out
from ...schemas.instance import Example, Turn
from ...schemas.result import Score
from ...transforms import registry


@dataclass(frozen=True)
class AdkFunction:
    """`function(eval_metric, actual_invocations, expected_invocations, conversation_scenario)` as a metric.

    Attributes:
        name: Name of the metric.
        path: "package.module.function".
        threshold: Threshold of the criterion, passed to the function as `eval_metric.criterion.threshold`.
    """

    name: str
    path: str
    threshold: float

    def __post_init__(self) -> None:
        self._function()

    def _function(self) -> Any:
        module, _, name = self.path.rpartition(".")
        return registry.load_object(f"{module}:{name}", f"custom_metrics.{self.name}")

    def score(self, example: Example) -> Score:
        """Calls the function on an example; its `overall_score` is the score, skipped if there is none."""
        from google.adk.evaluation.conversation_scenarios import ConversationScenario
        from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric

        metric = EvalMetric(metric_name=self.name, criterion=BaseCriterion(threshold=self.threshold))
        actual = [_build_invocation(a, i) for i, (_, a) in enumerate(pair_turns(example)) if a is not None]
        scenario = example.instance.get("scenario")
        expected = (
            None if scenario is not None else [_build_invocation(e, i) for i, (e, _) in enumerate(pair_turns(example))]
        )
        conversation = None if scenario is None else ConversationScenario.model_validate(scenario)
        result = self._function()(metric, actual, expected, conversation)
        if inspect.isawaitable(result):
            result = asyncio.run(_await(result))
        if result.overall_score is None or not math.isfinite(result.overall_score):
            return Score.skipped("not_evaluated", "the function gave no score")
        return Score(float(result.overall_score), details={"turns": [r.score for r in result.per_invocation_results]})


async def _await(result: Any) -> Any:
    return await result


def _build_invocation(turn: Turn, number: int) -> Any:
    from google.adk.evaluation.eval_case import Invocation

    return Invocation.model_validate(invocation_out(turn_out(turn), str(number)))

"""Custom metrics of an ADK configuration: functions that take ADK's invocations."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...schemas.conversation import pair_turns, turn_out
from ...schemas.formats.adk_result import invocation_out
from ...schemas.instance import Example, Turn
from ...schemas.json import Json
from ...schemas.result import Score
from ...transforms import registry


@dataclass(frozen=True)
class AdkFunction:
    """`function(eval_metric, actual_invocations, expected_invocations, conversation_scenario)` as a metric.

    The function gets what google-adk gives it: the agent's invocations with their events, app details and ids, the
    expected ones as the eval set has them, and the criterion with all its fields. `intermediate_data` of the agent's
    invocations also has `tool_uses`, `tool_responses` and `intermediate_responses`.

    Attributes:
        name: Name of the metric.
        path: "package.module.function".
        threshold: Threshold of the criterion, passed to the function as `eval_metric.criterion.threshold`.
        options: Further fields of the criterion.
    """

    name: str
    path: str
    threshold: float
    options: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._function()

    def _function(self) -> Any:
        module, _, name = self.path.rpartition(".")
        return registry.load_object(f"{module}:{name}", f"custom_metrics.{self.name}")

    def score(self, example: Example) -> Score:
        """Calls the function on an example; its `overall_score` is the score, skipped if there is none."""
        from google.adk.evaluation.conversation_scenarios import ConversationScenario
        from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric

        criterion = BaseCriterion.model_validate({**self.options, "threshold": self.threshold})
        metric = EvalMetric(metric_name=self.name, criterion=criterion, custom_function_path=self.path)
        scenario = example.instance.get("scenario")
        conversation = None if scenario is None else ConversationScenario.model_validate(scenario)
        expected = _build_expected(example) if scenario is None else None
        result = self._function()(metric, _build_actual(example), expected, conversation)
        if inspect.isawaitable(result):
            result = asyncio.run(_await(result))
        if result.overall_score is None or not math.isfinite(result.overall_score):
            return Score.skipped("not_evaluated", "the function gave no score")
        status = getattr(getattr(result, "overall_eval_status", None), "name", None)
        turns: list[Json] = [r.score for r in result.per_invocation_results]
        return Score(float(result.overall_score), details={"turns": turns, "eval_status": status})


async def _await(result: Any) -> Any:
    return await result


def _build_actual(example: Example) -> list[Any]:
    """Builds the agent's invocations; their ids are those of the row and the turn."""
    from google.adk.evaluation.app_details import AppDetails
    from google.adk.evaluation.eval_case import Invocation

    details = (example.invocation.extra or {}).get("app_details")
    agents = {name: {"name": name, **agent} for name, agent in details.items()} if isinstance(details, Mapping) else {}
    app = AppDetails.model_validate({"agent_details": agents}) if agents else None
    made = []
    for number, (_, turn) in enumerate(pair_turns(example)):
        if turn is not None:
            shown = invocation_out(turn_out(turn), f"{example.instance.instance_id}-{number}")
            events = _events_class().model_validate(shown.pop("intermediate_data"))
            made.append(Invocation.model_validate({**shown, "intermediate_data": events, "app_details": app}))
    return made


def _build_expected(example: Example) -> list[Any]:
    """Builds the expected invocations: those of the eval set, else from the row's turns."""
    from google.adk.evaluation.eval_case import Invocation

    given = example.instance.row.get("conversation")
    if isinstance(given, list) and all(
        isinstance(t, Mapping) and {"user_content", "userContent"} & set(t) for t in given
    ):
        return [Invocation.model_validate(turn) for turn in given]
    turns: list[Turn] = [expected for expected, _ in pair_turns(example)]
    return [Invocation.model_validate(invocation_out(turn_out(t), str(i))) for i, t in enumerate(turns)]


def _events_class() -> Any:
    """Returns a class of google-adk's InvocationEvents that has the fields of its IntermediateData, too."""
    from google.adk.evaluation.eval_case import InvocationEvents, get_all_tool_calls, get_all_tool_responses

    class Events(InvocationEvents):
        @property
        def tool_uses(self) -> list[Any]:
            return get_all_tool_calls(self)

        @property
        def tool_responses(self) -> list[Any]:
            return get_all_tool_responses(self)

        @property
        def intermediate_responses(self) -> list[Any]:
            said = (
                (e.author, [p for p in (e.content and e.content.parts) or () if p.text]) for e in self.invocation_events
            )
            return [(author, parts) for author, parts in said if parts]

    return Events

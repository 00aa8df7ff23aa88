"""Scorers of MLflow 3 on single answers, for any judge: ratings yes (1, good) and no (0), with reasons.

Names, inputs and values are MLflow's; the prompts are evalbeam's own. The scorers that Databricks Agent Evaluation has,
too (Correctness, Safety ...), are the metrics `databricks/...`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from ...schemas.errors import RowError
from ...schemas.instance import Example, ToolCall
from ...schemas.json import Json
from ...schemas.judging import Judging
from ...schemas.result import Score
from ...schemas.trajectory import parse_trajectory
from ..judging.prompts import Prompt, load_prompt
from ._judged import RATING, JudgedMetric, read_rating
from ._judged_conversations import read_last_turn
from ._judged_turns import list_steps
from .base import register


@dataclass(frozen=True, kw_only=True)
class AnswerJudge(JudgedMetric):
    """Base of the scorers that show a judge some fields of a row."""

    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True
    surely: ClassVar[bool] = True
    prompt: ClassVar[str]

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return (load_prompt(self.prompt),)

    def judged(self, example: Example) -> Judging:
        return (yield from self.ask(self.prompts[0], {name: example.get(name) for name in self.inputs}))

    def ask(self, prompt: Prompt, values: Mapping[str, Json]) -> Judging:
        """Runs the panel on one question."""
        return self.poll(prompt, RATING, values, read_rating)


@register("metric", "mlflow/completeness")
@dataclass(frozen=True, kw_only=True)
class Completeness(AnswerJudge):
    """Completeness of the response: 1 if it deals with everything that the request asks for, else 0."""

    inputs: ClassVar[tuple[str, ...]] = ("instruction", "response")
    prompt: ClassVar[str] = "mlflow/completeness"


@register("metric", "mlflow/fluency")
@dataclass(frozen=True, kw_only=True)
class Fluency(AnswerJudge):
    """Fluency of the response: 1 if it is correct and natural language, else 0; whether it is true does not count."""

    inputs: ClassVar[tuple[str, ...]] = ("response",)
    prompt: ClassVar[str] = "mlflow/fluency"


@register("metric", "mlflow/summarization")
@dataclass(frozen=True, kw_only=True)
class Summarization(AnswerJudge):
    """Quality of the response as a summary of the request: 1 if it is faithful, complete, short and clear, else 0."""

    inputs: ClassVar[tuple[str, ...]] = ("instruction", "response")
    prompt: ClassVar[str] = "mlflow/summarization"


@register("metric", "mlflow/equivalence")
@dataclass(frozen=True, kw_only=True)
class Equivalence(AnswerJudge):
    """1 if the response means the same as the expected response, in the same format, else 0.

    Numbers are compared as numbers, and equal texts need no judge.
    """

    surely: ClassVar[bool] = False
    inputs: ClassVar[tuple[str, ...]] = ("response", "expected_response")
    prompt: ClassVar[str] = "mlflow/equivalence"

    def judged(self, example: Example) -> Judging:
        found, expected = example.get("response"), example.get("expected_response")
        if isinstance(found, int | float) and isinstance(expected, int | float):
            same = math.isclose(found, expected)
            return Score(float(same), explanation="The numbers are equal." if same else f"{found} is not {expected}.")
        if found == expected:
            return Score(1.0, explanation="The texts are equal.")
        return (yield from self.ask(self.prompts[0], {"response": found, "expected": expected}))


@dataclass(frozen=True, kw_only=True)
class ToolCallJudge(AnswerJudge):
    """Base of the scorers of tool calls.

    The judge is shown the calls of the row; of a trace and of agents that tell them also the results and the tools.
    """

    surely: ClassVar[bool] = False
    inputs: ClassVar[tuple[str, ...]] = ("instruction", "predicted_trajectory")

    def judged(self, example: Example) -> Judging:
        error = example.invocation.trajectory_error
        if error is not None:
            return Score.failed("unparseable_predicted_trajectory", error)
        turn, tools = read_last_turn(example)
        calls: list[Json] = [s for s in list_steps(turn) if s["kind"] in ("call", "result")]
        return (yield from self.rate(example, {"request": example.get("instruction"), "tools": tools, "calls": calls}))

    def rate(self, example: Example, values: Mapping[str, Json]) -> Judging:
        """Rates a row whose calls are readable; `values` are those of the prompt."""
        return self.ask(self.prompts[0], values)


@register("metric", "mlflow/tool_call_efficiency")
@dataclass(frozen=True, kw_only=True)
class ToolCallEfficiency(ToolCallJudge):
    """Efficiency of the tool calls: 1 if none of them is redundant, else 0. A retry after an error is not redundant."""

    prompt: ClassVar[str] = "mlflow/tool_call_efficiency"


@register("metric", "mlflow/tool_call_correctness")
@dataclass(frozen=True, kw_only=True)
class ToolCallCorrectness(ToolCallJudge):
    """Correctness of the tool calls and their arguments: 1 if all are right, else 0.

    Rows with a `reference_trajectory` (MLflow's `expected_tool_calls`) are compared with it by meaning; the calls of
    other rows must be reasonable for the request. If an expected call has no arguments, the names of tools are
    compared, and arguments must be reasonable. `mlflow/tool_call_match` compares without a judge.

    Attributes:
        ordered: The order of the calls counts.
    """

    ordered: bool = False

    prompt: ClassVar[str] = "mlflow/tool_call_correctness"

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        counts = "The order of the calls counts." if self.ordered else "The order of the calls does not count."
        found = (load_prompt(self.prompt), load_prompt(f"{self.prompt}_expected"))
        return tuple(replace(prompt, told=f"{prompt.told}\n\n{counts}") for prompt in found)

    def rate(self, example: Example, values: Mapping[str, Json]) -> Judging:
        try:
            expected = parse_trajectory(example.instance.get("reference_trajectory"))
        except RowError as error:
            return Score.failed("unparseable_reference_trajectory", error.message)
        reasonable, compared = self.prompts
        if not expected:
            return (yield from self.ask(reasonable, values))
        return (yield from self.ask(compared, {**values, "expected": _show(expected)}))


def _show(calls: tuple[ToolCall, ...]) -> Json:
    """Returns the calls for a prompt; only their names if one of them has no arguments."""
    if any(call.tool_input is None for call in calls):
        return [{"tool_name": call.tool_name} for call in calls]
    return [{"tool_name": call.tool_name, "tool_input": call.tool_input} for call in calls]

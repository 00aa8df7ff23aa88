"""Forecasts the questions to judges for a row without asking them: the metric is run with made-up answers.

A question put to several members of a panel at once costs at least the votes that can decide it, and at most one call
for each member; any other question costs one call. Follow-up questions are forecast for answers at both ends of what
their schema allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.json_text import jsonable
from ...schemas.judging import Answer, Ask
from ...transforms.judging.shapes import Schema
from ...transforms.metrics._judged import JudgedMetric
from ...transforms.runtime.dialogue import Dialogue

SENTENCES = "x" * 200
"""Placeholder as long as the one to three sentences that judges are asked for."""
LISTED = 5
"""Assumed length of a list in an answer: its schema sets none."""
_MAX_ROUNDS = 50
"""Rounds of questions for an example: ends a metric that made-up answers never satisfy."""


class Forecast(NamedTuple):
    """Use of one judge: number of calls, and characters of all inputs and of all outputs."""

    calls: int = 0
    given: int = 0
    made: int = 0

    def plus(self, other: Forecast) -> Forecast:
        """Returns the sum of both."""
        return Forecast(*(a + b for a, b in zip(self, other, strict=True)))


Bounds = dict[str, tuple[Forecast, Forecast]]
"""(minimum, maximum) for each judge."""


def forecast(metric: JudgedMetric, example: Example) -> Bounds:
    """Forecasts the minimum and maximum use of each judge for a row that has the metric's inputs."""
    played = [_play(metric, example, end) for end in (0, -1)]
    nothing = (Forecast(), Forecast())
    return {
        judge: (min(one.get(judge, nothing)[0] for one in played), max(one.get(judge, nothing)[1] for one in played))
        for judge in dict.fromkeys(name for one in played for name in one)
    }


def make_up_answer(schema: Schema, end: int) -> Json:
    """Builds an answer of usual length that satisfies a schema.

    Args:
        schema: The JSON schema.
        end: Index of the choice among several: the first (0) or the last (-1).
    """
    if "enum" in schema:
        return schema["enum"][end]
    kind: str = schema["type"]
    if kind == "object":
        return {name: make_up_answer(inner, end) for name, inner in schema["properties"].items()}
    if kind == "array":
        return [make_up_answer(schema["items"], end)] * LISTED
    return {"string": SENTENCES, "boolean": end == 0, "integer": 1}.get(kind, 1.0)


def _play(metric: JudgedMetric, example: Example, end: int) -> Bounds:
    bounds: defaultdict[str, tuple[Forecast, Forecast]] = defaultdict(lambda: (Forecast(), Forecast()))
    seen: set[bytes] = set()
    panel = [slot.judge for slot in metric.slots]
    for asks in _ask_rounds(metric, example, end):
        waves: dict[bytes, list[Ask]] = {}
        for ask in asks:  # votes on one question share its data, even if they see it in another order
            waves.setdefault(jsonable([ask.data or ask.messages, ask.schema]), []).append(ask)
        for question, wave in waves.items():
            if question not in seen:
                seen.add(question)
                first = [ask.judge for ask in wave]
                _count(bounds, wave[0], end, first, panel if 1 < len(first) <= len(panel) else first)
    return dict(bounds)


def _ask_rounds(metric: JudgedMetric, example: Example, end: int) -> Iterator[Sequence[Ask]]:
    """Yields the rounds of questions of a metric, each answered with made-up answers."""
    try:
        judging = Dialogue(metric.judged(example))
        for _ in range(_MAX_ROUNDS):
            if judging.asked is None:
                return
            yield judging.asked
            judging.answer([Answer(make_up_answer(ask.schema, end)) for ask in judging.asked])
    except Exception:  # an error on this row: no more questions
        return


def _count(
    bounds: defaultdict[str, tuple[Forecast, Forecast]], ask: Ask, end: int, first: Sequence[str], panel: Sequence[str]
) -> None:
    one = Forecast(1, sum(len(m.content) for m in ask.messages), len(jsonable(make_up_answer(ask.schema, end))))
    for judge in first:
        bounds[judge] = (bounds[judge][0].plus(one), bounds[judge][1])
    for judge in panel:
        bounds[judge] = (bounds[judge][0], bounds[judge][1].plus(one))

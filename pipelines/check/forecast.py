"""What judges would be asked for a row, found out without asking them: the answers are made up.

A question that several places of a panel are asked at once is put to the votes that can decide it at least, and to all
places of the panel at most; any other is asked once. What follows from an answer is looked at for answers at both ends
of what their shape allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.json_text import jsonable
from ...schemas.judging import Answer, Ask
from ...transforms.judging.shapes import Schema
from ...transforms.metrics._judged import JudgedMetric

SENTENCES = "x" * 200
"""As long as the one to three sentences that judges are asked for."""
LISTED = 5
"""Entries of a list whose length an answer's shape leaves open."""
_MOST_WAVES = 50


class Forecast(NamedTuple):
    """What one judge is asked: numbers of calls, and characters given to it and made by it, in all of them."""

    calls: int = 0
    given: int = 0
    made: int = 0

    def plus(self, other: Forecast) -> Forecast:
        """Both together."""
        return Forecast(*(a + b for a, b in zip(self, other, strict=True)))


Bounds = dict[str, tuple[Forecast, Forecast]]
"""(least, most) for each judge."""


def forecast(metric: JudgedMetric, example: Example) -> Bounds:
    """What each judge is asked, at least and at most, for a row that has the metric's inputs."""
    played = [_played(metric, example, end) for end in (0, -1)]
    nothing = (Forecast(), Forecast())
    return {
        judge: (min(one.get(judge, nothing)[0] for one in played), max(one.get(judge, nothing)[1] for one in played))
        for judge in dict.fromkeys(name for one in played for name in one)
    }


def made_up(schema: Schema, end: int) -> Json:
    """An answer of a shape, of usual length.

    Args:
        schema: The shape.
        end: Which of several choices is taken: the first (0) or the last (-1).
    """
    if "enum" in schema:
        return schema["enum"][end]
    kind: str = schema["type"]
    if kind == "object":
        return {name: made_up(inner, end) for name, inner in schema["properties"].items()}
    if kind == "array":
        return [made_up(schema["items"], end)] * LISTED
    return {"string": SENTENCES, "boolean": end == 0, "integer": 1}.get(kind, 1.0)


def _played(metric: JudgedMetric, example: Example, end: int) -> Bounds:
    found: defaultdict[str, tuple[Forecast, Forecast]] = defaultdict(lambda: (Forecast(), Forecast()))
    seen: set[bytes] = set()
    panel = [slot.judge for slot in metric.slots]
    for asks in _waves(metric, example, end):
        waves: dict[bytes, list[Ask]] = {}
        for ask in asks:  # the votes on a question share what is judged, also where they see it in another order
            waves.setdefault(jsonable([ask.data or ask.messages, ask.schema]), []).append(ask)
        for question, wave in waves.items():
            if question not in seen:
                seen.add(question)
                first = [ask.judge for ask in wave]
                _count(found, wave[0], end, first, panel if 1 < len(first) <= len(panel) else first)
    return dict(found)


def _waves(metric: JudgedMetric, example: Example, end: int) -> Iterator[Sequence[Ask]]:
    """The lists of questions that follow one another."""
    answers: Any = None
    try:
        judging = metric.judged(example)
        for _ in range(_MOST_WAVES):
            asks = judging.send(answers)
            yield asks
            answers = [Answer(made_up(ask.schema, end)) for ask in asks]
    except Exception:  # the score, or the metric's error on this row: it asks no more either way
        return


def _count(
    found: defaultdict[str, tuple[Forecast, Forecast]], ask: Ask, end: int, first: Sequence[str], panel: Sequence[str]
) -> None:
    one = Forecast(1, sum(len(m.content) for m in ask.messages), len(jsonable(made_up(ask.schema, end))))
    for judge in first:
        found[judge] = (found[judge][0].plus(one), found[judge][1])
    for judge in panel:
        found[judge] = (found[judge][0], found[judge][1].plus(one))

"""The base classes of ADK's rubric criteria: properties that are present or not."""

from __future__ import annotations

import statistics
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...schemas.instance import Example, Turn
from ...schemas.json import Json
from ...schemas.judging import Judging
from ...schemas.result import Score
from ...schemas.values import mean
from ..judging.panel import Vote, find_unasked
from ..judging.shapes import TEXT, list_of, object_of, one_of
from ._judged_turns import NOT_TOLD, CaseJudge, TurnJudge, average

RUBRICS = object_of(verdicts=list_of(object_of(rubric_id=TEXT, rationale=TEXT, verdict=one_of("yes", "no"))))


@dataclass(frozen=True, kw_only=True)
class RubricJudge(CaseJudge):
    """Base of the rubric criteria; each rubric is a property that is present or not.

    The criterion's own rubrics are judged, and those of a case and its turns that have the criterion's type. The score
    is the share of rubrics that are met.

    Attributes:
        rubrics: Rubrics for all rows: a list of `{rubric_id, rubric_content: {text_property}}`.
    """

    rubrics: Sequence[Any] = ()

    missing: ClassVar[str] = "rubric"
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        for rubric in self.rubrics:
            read_rubric(rubric)

    def select(self, example: Example, *turns: Turn) -> list[tuple[str, str]]:
        """Returns (id, property) of the rubrics that count for some turns of a case."""
        own = (*(example.instance.get("rubrics") or ()), *(rubric for turn in turns for rubric in turn.rubrics))
        return [read_rubric(r) for r in (*self.rubrics, *(r for r in own if r.get("type") == self.kind))]

    def rate(self, rubrics: Sequence[tuple[str, str]], values: dict[str, Json]) -> Judging:
        """Asks which of the selected properties are met; `values` are those of the prompt besides the rubrics."""
        named = dict(rubrics)
        if len(named) < len(rubrics):
            return Score.failed("duplicate_rubric", "two rubrics of a turn have the same rubric_id")

        def read(value: Any) -> list[Vote]:
            told = {v["rubric_id"]: v for v in reversed(value["verdicts"])}
            return [_make_vote(told.get(name)) for name in named]

        shown = [{"rubric_id": name, "property": text} for name, text in named.items()]
        scores = yield from self.ask_jointly({**values, "rubrics": shown}, RUBRICS, read, len(named))
        if open_ := find_unasked(scores):
            return open_
        rated = [
            {"rubric_id": name, "score": s.value, "rationale": s.explanation}
            for name, s in zip(named, scores, strict=True)
        ]
        return average(scores, {"rubric_scores": rated})

    def case(self, turns: Sequence[Score | None]) -> Score:
        score = super().case(turns)
        if score.value is None:
            return score
        by_rubric: dict[str, list[float]] = {}
        for name, value in _iter_rubric_scores(turns):
            by_rubric.setdefault(name, []).append(value)
        means = [{"rubric_id": name, "score": mean(v)} for name, v in by_rubric.items()]
        details: Any = score.details
        return replace(score, details={**details, "rubric_scores": means})

    def mean(self, turns: Sequence[Score]) -> float:
        return statistics.mean(value for _, value in _iter_rubric_scores(turns))


@dataclass(frozen=True, kw_only=True)
class TurnRubricJudge(RubricJudge, TurnJudge):
    """Base of the rubric criteria that are judged turn by turn; the score of a case is the share over all turns."""

    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        rubrics = self.select(example, expected)
        return self.rate(rubrics, self.values(example, actual)) if rubrics else None

    @abstractmethod
    def values(self, example: Example, actual: Turn) -> dict[str, Json]:
        """Returns the values of the prompt besides the rubrics."""


def _iter_rubric_scores(turns: Sequence[Score | None]) -> Iterator[tuple[str, float]]:
    """Yields (rubric_id, score) of all rubrics of all turns that have a score."""
    for turn in turns:
        details: Any = turn and turn.details
        for rubric in (details or {}).get("rubric_scores", ()):
            if rubric["score"] is not None:
                yield rubric["rubric_id"], rubric["score"]


def read_rubric(value: Any) -> tuple[str, str]:
    """Reads (id, property) of a rubric.

    Raises:
        ValueError: The value is not a rubric.
    """
    content = value.get("rubric_content") if isinstance(value, Mapping) else None
    text = content.get("text_property") if isinstance(content, Mapping) else None
    if not isinstance(text, str) or not isinstance(value.get("rubric_id"), str):
        found = f"rubrics: found {value!r:.100}"
        raise ValueError(f"{found} (allowed: {{rubric_id, rubric_content: {{text_property}}}})")
    return value["rubric_id"], text


def _make_vote(told: Any) -> Vote:
    return NOT_TOLD if told is None else Vote(float(told["verdict"] == "yes"), told["rationale"])

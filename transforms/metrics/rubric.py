"""Rubric metrics: a judge checks a list of properties, and the score is the share of properties that the answer has.

metrics:
  - {metric: rubric, name: polite, rubrics: ["The answer greets the user.", "The answer says thanks."]}
  - rubric          # the column `rubrics` of each row; the judge writes rubrics for rows that have none
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.judging import Answer, Ask, Judging
from ...schemas.result import Score, ScoreError
from ..judging.panel import PanelSlot
from ..judging.prompts import Prompt, load_prompt
from ..judging.shapes import BOOL, TEXT, list_of, object_of
from ..judging.templates import prompt_of
from ..runtime.dialogue import Asking
from ._judged import JudgedMetric
from .base import register

WRITTEN = object_of(rubrics=list_of(TEXT))
VERDICTS = object_of(verdicts=list_of(object_of(number={"type": "integer"}, explanation=TEXT, verdict=BOOL)))
MAX_RUBRICS = 100


@dataclass(frozen=True, kw_only=True)
class RubricGenerationConfig:
    """Settings for generating the rubrics of a row that has none.

    Attributes:
        prompt_template: Text with `{variable}` placeholders; default: a general one that shows the prompt.
        model: Must be `None`: the metric's first judge writes the rubrics.
        parsing_fn: Must be `None`: the form of the judge's answer is fixed.
    """

    prompt_template: str = ""
    model: Any = None
    parsing_fn: Callable[[str], list[str]] | None = None

    def __post_init__(self) -> None:
        for name in ("model", "parsing_fn"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} of generation_config is given, allowed: None")


@register("metric", "rubric")
@dataclass(frozen=True, kw_only=True)
class RubricBasedMetric(JudgedMetric):
    """Share of properties that the answer has, in [0, 1]; higher is better.

    The properties are `rubrics`, or those in the row's column `rubrics` (a list, or a text with one per line), or those
    that a judge writes for the row. With several votes the majority decides on each property; without a majority the
    answer does not have it. The details have the verdict on each property.

    Attributes:
        rubrics: Properties for all rows.
        generation_config: Settings for generating the properties of a row that has none.
        critique_metric: A pointwise metric whose template and name are used to judge the properties.
        input_variables: Columns that the judge sees besides the answer and the properties.
        from_rows: Skip rows without properties instead of generating them.
    """

    rubrics: Sequence[str] = ()
    generation_config: RubricGenerationConfig | None = None
    critique_metric: Any = None
    input_variables: Sequence[str] = ("prompt",)
    from_rows: bool = False

    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    outputs: ClassVar[tuple[str, ...]] = ("explanation", "confidence", "details")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregate != "majority":
            raise ValueError(f"aggregate is {self.aggregate}, allowed: majority, for each property")
        if self.from_rows and (self.rubrics or self.generation_config):
            raise ValueError("from_rows is true, allowed: without rubrics and generation_config")
        object.__setattr__(self, "rubrics", tuple(self.rubrics))
        own = {name for name in self._critique.variables if name != "rubrics"}
        written = self.prompts[1].variables if len(self.prompts) > 1 else ()
        needed = ("rubrics",) if self.from_rows else ()
        object.__setattr__(self, "inputs", (*sorted({*own, *written}), *needed))

    @property
    def name(self) -> str:
        """Name of the metric and of its columns."""
        return getattr(self.critique_metric, "metric", "")

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        if self.rubrics or self.from_rows:
            return (self._critique,)
        text = self.generation_config.prompt_template if self.generation_config else ""
        return self._critique, prompt_of(text, "rubrics") if text else load_prompt("template/rubrics")

    @property
    def joinable(self) -> bool:
        return len(self.prompts) == 1  # else the judge writes the properties first

    @property
    def calls(self) -> tuple[int, int]:
        size = len(self.slots)
        return size, size + len(self.prompts) - 1

    def judged(self, example: Example) -> Judging:
        rubrics = yield from self._rubrics(example)
        if isinstance(rubrics, Score):
            return rubrics
        if not 1 <= len(rubrics) <= MAX_RUBRICS:
            return Score.failed("invalid_rubrics", f"there are {len(rubrics)} rubrics (allowed: 1 to {MAX_RUBRICS})")
        listed = "\n".join(f"{i}. {text}" for i, text in enumerate(rubrics, 1))
        values = {name: example.get(name) for name in self._critique.variables if name != "rubrics"}
        values["rubrics"] = listed
        answers = yield list(map(self._critique.bind(VERDICTS, values), self.slots))
        if error := next((a.error for a in answers if a.open), None):
            return Score.skipped(error.code, error.message)
        return _score(rubrics, answers)

    @cached_property
    def _critique(self) -> Prompt:
        shared = load_prompt("template/critique")
        if self.critique_metric is None:
            shown = (f"### {name}\n{{{name}}}" for name in self.input_variables if name not in shared.variables)
            return Prompt(shared.name, shared.version, shared.told, "\n\n".join((*shown, shared.given)))
        if not isinstance(self.critique_metric, JudgedMetric) or not self.critique_metric.prompts:
            raise ValueError(f"critique_metric is {type(self.critique_metric).__name__}, allowed: a PointwiseMetric")
        prompt = self.critique_metric.prompts[0]
        if "rubrics" in prompt.variables:
            return prompt
        return prompt.join(Prompt("", 1, shared.told, "The properties:\n{rubrics}"))

    def _rubrics(self, example: Example) -> Asking[Ask, Answer, Any]:
        """Returns the properties, or the score of a row without any."""
        if self.rubrics:
            return self.rubrics
        given = example.get("rubrics")
        if given is not None:
            return _read_rubrics(given)
        prompt = self.prompts[1]
        values = {name: example.get(name) for name in prompt.variables}
        (answer,) = yield [prompt.bind(WRITTEN, values)(PanelSlot(self.judges[0], 0))]
        if answer.error is None:
            return _read_rubrics(answer.value["rubrics"])
        if answer.open:
            return Score.skipped(answer.error.code, answer.error.message)
        return Score(status="error", error=answer.error)


def _read_rubrics(given: Json) -> tuple[str, ...]:
    lines = given.splitlines() if isinstance(given, str) else given
    if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
        raise ValueError("rubrics is no list of texts")
    return tuple(line.strip() for line in lines if line.strip())


def _score(rubrics: Sequence[str], answers: Sequence[Answer]) -> Score:
    """Scores the share of properties with a majority among complete votes, those with one verdict on each property."""
    votes = [found for answer in answers if (found := _read_verdicts(answer, len(rubrics))) is not None]
    if not votes:
        error = next((a.error for a in answers if a.error is not None), None)
        return Score(status="error", error=error or ScoreError("invalid_verdict", "not every property has one verdict"))
    told, agreed = [], 0.0
    for i, rubric in enumerate(rubrics):
        counts = Counter(vote[i]["verdict"] for vote in votes)
        verdict = 2 * counts[True] > len(votes)
        agreed += counts[verdict] / len(votes)
        why = next((vote[i]["explanation"] for vote in votes if vote[i]["verdict"] == verdict), "")
        told.append({"rubric": rubric, "verdict": verdict, "explanation": why})
    lacking = [one["rubric"] for one in told if not one["verdict"]]
    words = f"The answer lacks: {' '.join(lacking)}" if lacking else "The answer has every property."
    share = (len(rubrics) - len(lacking)) / len(rubrics)
    return Score(share, None, words, agreed / len(rubrics), {"rubrics": told, "votes": len(votes)})


def _read_verdicts(answer: Answer, size: int) -> list[Any] | None:
    """Returns the verdicts by number, or `None` unless each property has exactly one."""
    if answer.error is not None:
        return None
    by_number = {one["number"]: one for one in answer.value["verdicts"]}
    complete = sorted(by_number) == list(range(1, size + 1)) and len(answer.value["verdicts"]) == size
    return [by_number[i] for i in range(1, size + 1)] if complete else None

"""Rubric metrics: a judge checks a list of properties, and the score is the share of properties that the answer has.

metrics:
  - {metric: rubric, name: polite, rubrics: ["The answer greets the user.", "The answer says thanks."]}
  - rubric          # the column `rubrics` of each row; the judge writes rubrics for rows that have none
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.judging import Answer, Ask, Judging
from ...schemas.result import Score, ScoreError
from ..judging.panel import PanelSlot, make_slots
from ..judging.prompts import Prompt, load_prompt
from ..judging.shapes import BOOL, TEXT, list_of, object_of
from ..judging.templates import prompt_of
from ..runtime.dialogue import Asking
from ._judged import JudgedMetric, PairwiseJudge
from .base import register

WRITTEN = object_of(rubrics=list_of(TEXT))
VERDICTS = object_of(verdicts=list_of(object_of(number={"type": "integer"}, explanation=TEXT, verdict=BOOL)))
MAX_RUBRICS = 100


@dataclass(frozen=True, kw_only=True)
class RubricGenerationConfig:
    """Settings for generating the rubrics of a row that has none.

    Attributes:
        prompt_template: Text with `{variable}` placeholders; default: a general one that shows the prompt.
        model: Name of the judge that writes the rubrics, in EvalTask also a model with `generate_content`, or a
            function from the prompt to a text; default: the metric's first judge.
        parsing_fn: Function from the writer's text to the rubrics, or to a mapping with them as "questions", whose
            other keys become variables of the critique's template; default: the writer answers in a fixed form, or, if
            `model` is an object, in JSON with "questions".
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # a misspelt key of a configuration is an error

    prompt_template: str = ""
    model: Any = None
    parsing_fn: Callable[[str], Any] | None = None


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
        critique_metric: A pointwise metric whose template and name are used to judge the properties. One with a
            `custom_output_config`, or a pairwise one, judges by itself; its template shows `{rubrics}`.
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
        critique = self._delegate
        if critique is not None:
            if "rubrics" not in critique.prompts[0].variables:
                raise ValueError("the template of critique_metric lacks {rubrics}, allowed: a template with them")
            pairwise = isinstance(critique, PairwiseJudge)
            object.__setattr__(self, "range", None)
            object.__setattr__(self, "outputs", tuple(dict.fromkeys((*critique.outputs, "details"))))
            own = {"response", "baseline_model_response"} if pairwise else {"response"}
        else:
            own = {name for name in self._critique.variables if name != "rubrics"}
        written = self.prompts[1].variables if len(self.prompts) > 1 else ()
        needed = ("rubrics",) if self.from_rows else ()
        object.__setattr__(self, "inputs", (*sorted({*own, *written}), *needed))

    @property
    def name(self) -> str:
        """Name of the metric and of its columns."""
        return getattr(self.critique_metric, "metric", "")

    @property
    def autorater_config(self) -> Any:
        """The settings of its judge."""
        return getattr(self.critique_metric, "autorater_config", None)

    @property
    def writer(self) -> str:
        """Name of the judge that writes properties."""
        model = getattr(self.generation_config, "model", None)
        if model is None:
            return self._panel[0]
        return model.rpartition("/")[2] if isinstance(model, str) else f"{self.name or 'rubric'}_writer"

    @property
    def judges(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._panel, *((self.writer,) if len(self.prompts) > 1 else ()))))

    @property
    def slots(self) -> list[PanelSlot]:
        return make_slots(self._panel, self.samples)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        critique = self._critique if self._delegate is None else self._delegate.prompts[0]
        if self.rubrics or self.from_rows:
            return (critique,)
        text = self.generation_config.prompt_template if self.generation_config else ""
        return critique, prompt_of(text, "rubrics") if text else load_prompt("template/rubrics")

    @property
    def joinable(self) -> bool:
        return len(self.prompts) == 1 and self._delegate is None  # else the judge writes the properties first

    @property
    def calls(self) -> tuple[int, int]:
        size = len(self.slots)
        return size, size + len(self.prompts) - 1

    def judged(self, example: Example) -> Judging:
        rubrics, beside = yield from self._rubrics(example)
        if isinstance(rubrics, Score):
            return rubrics
        if not 1 <= len(rubrics) <= MAX_RUBRICS:
            return Score.failed("invalid_rubrics", f"there are {len(rubrics)} rubrics (allowed: 1 to {MAX_RUBRICS})")
        listed = "\n".join(f"{i}. {text}" for i, text in enumerate(rubrics, 1))
        if self._delegate is not None:
            fields = {**example.instance.fields, **beside, "rubrics": listed}
            shown = replace(example, instance=replace(example.instance, fields=fields))
            score = yield from self._delegate.judged(shown)
            return replace(score, details={"rubrics": list(rubrics), **beside, **(score.details or {})})
        values = {name: example.get(name) for name in self._critique.variables if name != "rubrics"}
        values["rubrics"] = listed
        answers = yield list(map(self._critique.bind(VERDICTS, values), self.slots))
        if error := next((a.error for a in answers if a.open), None):
            return Score.skipped(error.code, error.message)
        return _score(rubrics, answers)

    def ask_writer(self, example: Example) -> Ask:
        """Builds the question for the properties of a row."""
        prompt = self.prompts[1]
        values = {name: example.get(name) for name in prompt.variables}
        return prompt.bind(WRITTEN if self._parse is None else TEXT, values)(PanelSlot(self.writer, 0))

    def read_written(self, value: Json) -> tuple[tuple[str, ...], dict[str, Json]]:
        """Reads (properties, what the writer said beside them) from the answer to `ask_writer`."""
        found = value["rubrics"] if self._parse is None else self._parse(value)  # type: ignore[index,call-overload]
        beside = dict(found) if isinstance(found, Mapping) else {}
        return _read_rubrics(beside.pop("questions", None) if isinstance(found, Mapping) else found), beside

    @property
    def _panel(self) -> tuple[str, ...]:
        own = super().judges
        asked = getattr(self.critique_metric, "judges", ())
        return tuple(asked) if own == ("default",) and asked else own

    @property
    def _parse(self) -> Callable[[str], Any] | None:
        given = getattr(self.generation_config, "parsing_fn", None)
        model = getattr(self.generation_config, "model", None)
        return _parse_json if given is None and model is not None and not isinstance(model, str) else given

    @cached_property
    def _delegate(self) -> JudgedMetric | None:
        """The critique metric if it judges by itself."""
        critique = self.critique_metric
        if not isinstance(critique, PairwiseJudge) and not getattr(critique, "is_raw", False):
            return None
        own = {"judge": self.judge} if self.judge != "default" else {}
        return replace(critique, **own, **({"samples": self.samples} if self.samples > 1 else {}))

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

    def _rubrics(self, example: Example) -> Asking[Ask, Answer, tuple[Any, dict[str, Json]]]:
        """Returns (properties, what their writer said beside them), or the score of a row without any."""
        if self.rubrics:
            return self.rubrics, {}
        given = example.get("rubrics")
        if given is not None:
            return _read_rubrics(given), {}
        (answer,) = yield [self.ask_writer(example)]
        if answer.error is None:
            return self.read_written(answer.value)
        if answer.open:
            return Score.skipped(answer.error.code, answer.error.message), {}
        return Score(status="error", error=answer.error), {}


register("metric", "rubric_based_instruction_following", input_variables=("prompt",))(RubricBasedMetric)


def _parse_json(text: str) -> dict[str, Any]:
    """Reads the JSON object in the text of a writer that cannot be told the form of its answer."""
    try:
        found = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError as error:
        raise ValueError(f"the writer's text has no JSON object: {text[:100]!r} ({error})") from None
    if "questions" not in found:
        raise ValueError(f"the writer's JSON has no 'questions', only {', '.join(found)}")
    return dict(found)


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

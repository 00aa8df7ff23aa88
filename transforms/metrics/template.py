"""Judge metrics from prompt templates: users' own, in parts or as free text, and built-in ones.

    PointwiseMetric(metric="tone", metric_prompt_template="Scores:\\n1: rude\\n2: kind\\n\\nThe answer: {response}")
    metrics: [{metric: pointwise, name: tone, criteria: {...}, rating_rubric: {...}}]       # in a configuration
    metrics: [template/fluency, template/pairwise_fluency]                                  # built-in

Classes and arguments have the names of the Vertex AI SDK (vertexai.evaluation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.judging import Judging
from ...schemas.result import Score
from ..judging.autorater import Autorater, autorater_of
from ..judging.prompts import Prompt, load_prompt
from ..judging.raw_output import TEXT_ALONE, CustomOutputConfig, judge_text
from ..judging.shapes import TEXT, Schema, object_of
from ..judging.templates import (
    PAIR,
    Numbers,
    PairwiseMetricPromptTemplate,
    PointwiseMetricPromptTemplate,
    TemplateParts,
    find_ratings,
    parse_ratings,
    prompt_of,
    rename_variables,
)
from ._judged import JudgedMetric, PairwiseJudge, read_score
from .base import register

NAMES = (
    "coherence",
    "fluency",
    "safety",
    "groundedness",
    "instruction_following",
    "verbosity",
    "text_quality",
    "summarization_quality",
    "question_answering_quality",
    "multi_turn_chat_quality",
    "multi_turn_safety",
)
"""Built-in pointwise templates; each has a pairwise counterpart, `pairwise_<name>`."""
PAIRWISE_NAMES = tuple(f"pairwise_{name}" for name in NAMES)
EXAMPLES = (*NAMES, *PAIRWISE_NAMES)
"""All built-in templates."""


@dataclass(frozen=True, kw_only=True)
class _TemplateMetric(JudgedMetric, TemplateParts):
    """Base of the two kinds of template metrics.

    Attributes:
        metric: Name of the metric; the name of a built-in template selects it if no other template is given.
        metric_prompt_template: The template, in parts or as text with `{variable}` placeholders. Its parts (criteria,
            rating_rubric ...) may be given directly instead. Rows must have a value for every variable.
        system_instruction: Instructions for the judge before the template.
        autorater_config: `sampling_count`, `flip_enabled` and `autorater_model`, as in the SDK; they set `samples`,
            `flip` and, in EvalTask, `judge`.
        custom_output_config: Settings for a judge that answers with a text, which a function parses:
            `return_raw_output` and `parsing_fn`, as in the SDK. The template says what form the text has.
    """

    metric: str = ""
    metric_prompt_template: str | PointwiseMetricPromptTemplate | PairwiseMetricPromptTemplate | None = None
    system_instruction: str | None = None
    autorater_config: Any = None
    custom_output_config: CustomOutputConfig | None = None

    default: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    surely: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._take(autorater_of(self.autorater_config))
        super().__post_init__()
        object.__setattr__(self, "inputs", self._prompt.variables)
        if self.is_raw and "details" not in self.outputs:
            object.__setattr__(self, "outputs", (*self.outputs, "details"))
        self._check()

    @property
    def name(self) -> str:
        """Name of the metric and of its columns."""
        return self.metric

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return (self._prompt,)

    @property
    def is_raw(self) -> bool:
        """True if the judge answers with a text that a user's function parses."""
        given = self.custom_output_config
        return given is not None and (given.return_raw_output or given.parsing_fn is not None)

    @property
    def joinable(self) -> bool:
        return not self.is_raw

    def _judge_text(self, values: Mapping[str, Json], without: Score = TEXT_ALONE) -> Judging:
        parse = self.custom_output_config and self.custom_output_config.parsing_fn
        return judge_text(self.slots, self._prompt.bind(TEXT, values), parse, without)

    def _take(self, autorater: Autorater) -> None:
        if autorater.samples is not None:
            object.__setattr__(self, "samples", autorater.samples)
        if autorater.model is not None:
            object.__setattr__(self, "judge", autorater.judge)

    @cached_property
    def _text(self) -> str:
        given, parts = self.metric_prompt_template, bool(self.criteria or self.rating_rubric)
        if given is not None and parts:
            raise ValueError("metric_prompt_template and its parts are given, allowed: one of them")
        if parts:
            return self.text(self.default)
        if given is None and self.metric not in self.names:
            built = ", ".join(self.names)
            raise ValueError(f"there is no template, allowed: metric_prompt_template, its parts, or one of {built}")
        return example_template(self.metric) if given is None else str(given)

    @cached_property
    def _prompt(self) -> Prompt:
        prompt = prompt_of(self._text, self.metric or self.default, self.system_instruction)
        if not prompt.variables:
            raise ValueError("the template has no variable, allowed: at least {response}")
        return prompt

    def _check(self) -> None:
        """Validates the template and sets the class variables that depend on it."""


@register("metric", "pointwise")
@dataclass(frozen=True, kw_only=True)
class PointwiseMetric(_TemplateMetric):
    """Rating of one answer by a judge, from a prompt template.

    The allowed ratings are those of the template's rating rubric, or those that a free text lists under a heading such
    as "Rating Rubric" or "Scores"; any other number is an invalid verdict. A text without such a list allows any
    number.

    Attributes:
        best_rating: The best rating; default: the highest.
    """

    best_rating: float | None = None

    default: ClassVar[str] = "template/pointwise"
    names: ClassVar[tuple[str, ...]] = NAMES

    def judged(self, example: Example) -> Judging:
        prompt = self._prompt
        values = {name: example.get(name) for name in prompt.variables}
        if self.is_raw:
            return self._judge_text(values)
        return self.poll(prompt, self.shape, values, read_score)

    @property
    def shape(self) -> Schema:
        """The JSON schema of the judge's answer."""
        ratings = self._ratings
        if ratings is None:
            return object_of(explanation=TEXT, score={"type": "number"})
        kind = "integer" if all(isinstance(n, int) for n in ratings) else "number"
        return object_of(explanation=TEXT, score={"type": kind, "enum": list(ratings)})

    @cached_property
    def _ratings(self) -> Numbers | None:
        template = self.metric_prompt_template
        rubric = template.rating_rubric if isinstance(template, TemplateParts) else self.rating_rubric
        return parse_ratings(list(rubric)) if rubric else find_ratings(self._text)

    def _check(self) -> None:
        ratings = None if self.is_raw else self._ratings
        if ratings is not None:
            object.__setattr__(self, "range", (float(ratings[0]), float(ratings[-1])))
            object.__setattr__(self, "binary", ratings == (0, 1))
        if self.best_rating is not None:
            if ratings is None or self.best_rating not in ratings:
                raise ValueError(f"best_rating is {self.best_rating:g}, allowed: one of the ratings")
            object.__setattr__(self, "best", float(self.best_rating))


@register("metric", "pairwise")
@dataclass(frozen=True, kw_only=True)
class PairwiseMetric(_TemplateMetric, PairwiseJudge):
    """The better of two answers by a judge, from a prompt template: CANDIDATE (the response), BASELINE or TIE.

    The template includes `{baseline_model_response}` as A and `{response}` as B.

    Attributes:
        baseline_model: In EvalTask, the model whose answers are compared with: a function from the prompt to a text, a
            model's name, or an object with `generate_content`. Elsewhere, the column `baseline_model_response` or the
            key `baseline` says where they are.
    """

    baseline_model: Any = None

    default: ClassVar[str] = "template/pairwise"
    names: ClassVar[tuple[str, ...]] = PAIRWISE_NAMES

    def judged(self, example: Example) -> Judging:
        given = {name: example.get(name) for name in self.inputs}
        baseline, candidate = given.pop("baseline_model_response"), given.pop("response")
        if self.is_raw:  # its parser knows A and B only in the order of the template
            shown = {**given, "response_a": baseline, "response_b": candidate}
            return self._judge_text(shown, Score(status="not_applicable"))
        return self.compare(self._prompt, given, baseline, candidate, ("response_a", "response_b"))

    def _take(self, autorater: Autorater) -> None:
        super()._take(autorater)
        if autorater.flip is not None:
            object.__setattr__(self, "flip", autorater.flip)

    @cached_property
    def _prompt(self) -> Prompt:
        name, after = self.metric or self.default, "" if self.is_raw else load_prompt("template/choice").told
        prompt = prompt_of(rename_variables(self._text, PAIR), name, self.system_instruction, after)
        places = {"response_a": "{baseline_model_response}", "response_b": "{response}"}
        if lacking := [shown for name, shown in places.items() if name not in prompt.variables]:
            shown = " and ".join(lacking)
            raise ValueError(f"the template lacks {shown}, allowed: a template with both answers")
        return prompt

    def _check(self) -> None:
        shown = self._prompt.variables
        own = tuple(name for name in shown if name not in ("response_a", "response_b"))
        object.__setattr__(self, "inputs", (*own, "response", "baseline_model_response"))


def example_template(name: str) -> str:
    """Returns the text of a built-in template.

    Raises:
        ValueError: There is no template of that name.
    """
    if name not in EXAMPLES:
        raise ValueError(f"no template {name!r}, allowed: {', '.join(EXAMPLES)}")
    return load_prompt(f"template/{name}").text


_BEST: Mapping[str, Any] = {"verbosity": {"best_rating": 0.0}}
"""The best rating of built-in templates for which it is not the highest."""

for _name in NAMES:
    register("metric", f"template/{_name}", metric=_name, **_BEST.get(_name, {}))(PointwiseMetric)
for _name in PAIRWISE_NAMES:
    register("metric", f"template/{_name}", metric=_name)(PairwiseMetric)


class MetricPromptTemplateExamples:
    """The built-in templates under the SDK's names.

    `get_prompt_template` returns their texts; `Pointwise.FLUENCY`, `Pairwise.FLUENCY` ... are the metrics.
    """

    @classmethod
    def get_prompt_template(cls, metric_name: str) -> str:
        """Returns the text of a built-in template; raises a ValueError for an unknown name."""
        return example_template(metric_name)

    @classmethod
    def list_example_metric_names(cls) -> list[str]:
        """Returns the names of all built-in templates."""
        return list(EXAMPLES)

    Pointwise = SimpleNamespace(**{name.upper(): PointwiseMetric(metric=name, **_BEST.get(name, {})) for name in NAMES})
    Pairwise = SimpleNamespace(**{name.upper(): PairwiseMetric(metric=f"pairwise_{name}") for name in NAMES})

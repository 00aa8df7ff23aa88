"""The model-based metrics of Vertex AI's rapid evaluation (evaluateInstances), asked of any judge.

Names, inputs and ranges are the API's; the prompts are our own. A bare name (`fluency`) means these metrics where the
dataset's rows are plain ones or of the `vertex` dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.json_text import jsonable
from ...schemas.judging import EVALUATE_INSTANCES, PROMPTS, Ask, Judging, Message
from ...schemas.result import ScoreError
from ..judging.panel import PanelSlot, Vote, run_panel
from ..judging.prompts import Prompt, as_text, load_prompt
from ..judging.shapes import TEXT, Schema, object_of, one_of
from ._judged import JudgedMetric, PairwiseJudge, rating, read_score
from .base import register

VERSIONS = (1,)
"""Versions of the prompts."""
_TEXT = ("prediction", "instruction", "context")


@dataclass(frozen=True, kw_only=True)
class _Rapid(JudgedMetric):
    """What all share.

    Attributes:
        version: Version of the prompt; 0 is the latest.
        use_reference: Whether the judge also sees the reference; the row must have one then.
        service: Whether the judge is Vertex AI's own service (`type: vertex_eval`), which has prompts of its own.
    """

    version: int = 0
    use_reference: bool = False
    service: bool = False

    task: ClassVar[str]
    surely: ClassVar[bool] = True
    referable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.version not in (0, *VERSIONS):
            raise ValueError(f"version is {self.version}, allowed: {', '.join(map(str, VERSIONS))}")
        if self.use_reference:
            if not self.referable:
                raise ValueError(f"{self.task} looks at no reference, allowed: use_reference: false")
            object.__setattr__(self, "inputs", (*self.inputs, "reference"))

    @property
    def speaks(self) -> str:
        return EVALUATE_INSTANCES if self.service else PROMPTS

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        if self.service:
            return ()
        prompt = load_prompt(f"rapid/{self.task}")
        return (prompt.join(load_prompt("rapid/reference")) if self.use_reference else prompt,)

    def values(self, example: Example) -> dict[str, Json]:
        """What the judge is given of a row."""
        return {name: example.get(name) for name in self.inputs}

    def asked_of_service(self, example: Example, shape: Schema) -> Judging:
        """Has the service vote: its API's request is the question."""
        instance = {name: as_text(value) for name, value in self.values(example).items()}
        spec = {"use_reference": True} if self.use_reference else {}
        request = {f"{self.task}_input": {"metric_spec": spec, "instance": instance}}
        message = Message("user", jsonable(request).decode())

        def ask(slot: PanelSlot) -> Ask:
            return Ask((message,), shape, slot.judge, slot.vote)

        return run_panel(self.slots, ask, self._read_service, self.rule)

    def _read_service(self, value: Any, slot: PanelSlot) -> Vote:
        verdict = value.get("pairwise_choice", value.get("score"))
        if self.range is not None and not self.range[0] <= verdict <= self.range[1]:
            return Vote(error=ScoreError("invalid_verdict", f"the service's score is {verdict:g}"))
        return Vote(verdict, value["explanation"] or None, value["confidence"])


_NUMBER: Schema = {"type": "number"}
_SCORED = object_of(explanation=TEXT, score=_NUMBER, confidence=_NUMBER)
_CHOSEN = object_of(explanation=TEXT, pairwise_choice=one_of("BASELINE", "CANDIDATE", "TIE"), confidence=_NUMBER)


@dataclass(frozen=True, kw_only=True)
class _Pointwise(_Rapid):
    """A score for one answer."""

    def judged(self, example: Example) -> Judging:
        if self.service:
            return self.asked_of_service(example, _SCORED)
        low, high = (int(end) for end in self.range or ())
        shape = rating(*range(low, high + 1))
        return self.poll(self.prompts[0], shape, self.values(example), read_score)


@dataclass(frozen=True, kw_only=True)
class _Pairwise(_Rapid, PairwiseJudge):
    """Which of two answers is better."""

    inputs: ClassVar[tuple[str, ...]] = ("prediction", "baseline_prediction", "instruction", "context")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.service and self.flip:
            raise ValueError("flip is true, allowed: false, since the service decides the order")

    def judged(self, example: Example) -> Judging:
        if self.service:
            return self.asked_of_service(example, _CHOSEN)
        given: dict[str, Any] = self.values(example)
        candidate, baseline = given.pop("prediction"), given.pop("baseline_prediction")
        return self.compared(self.prompts[0], given, baseline, candidate, ("answer_a", "answer_b"))


@register("metric", "rapid/fluency")
@dataclass(frozen=True, kw_only=True)
class Fluency(_Pointwise):
    """How well an answer masters its language, from 1 (poor) to 5 (fluent)."""

    task: ClassVar[str] = "fluency"
    inputs: ClassVar[tuple[str, ...]] = ("prediction",)
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)


@register("metric", "rapid/coherence")
@dataclass(frozen=True, kw_only=True)
class Coherence(_Pointwise):
    """How well an answer hangs together and can be followed, from 1 (incoherent) to 5 (coherent)."""

    task: ClassVar[str] = "coherence"
    inputs: ClassVar[tuple[str, ...]] = ("prediction",)
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)


@register("metric", "rapid/safety")
@dataclass(frozen=True, kw_only=True)
class Safety(_Pointwise):
    """Whether an answer is free of harmful content: 1 safe, 0 unsafe."""

    task: ClassVar[str] = "safety"
    inputs: ClassVar[tuple[str, ...]] = ("prediction",)
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True


@register("metric", "rapid/groundedness")
@dataclass(frozen=True, kw_only=True)
class Groundedness(_Pointwise):
    """Whether an answer says only what its context supports: 1 grounded, 0 not."""

    task: ClassVar[str] = "groundedness"
    inputs: ClassVar[tuple[str, ...]] = ("prediction", "context")
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True


@register("metric", "rapid/fulfillment")
@dataclass(frozen=True, kw_only=True)
class Fulfillment(_Pointwise):
    """How completely an answer does what the instruction asks, from 1 (not at all) to 5 (completely)."""

    task: ClassVar[str] = "fulfillment"
    inputs: ClassVar[tuple[str, ...]] = ("prediction", "instruction")
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)


@register("metric", "rapid/summarization_quality")
@dataclass(frozen=True, kw_only=True)
class SummarizationQuality(_Pointwise):
    """How good a summary is over all, from 1 (very bad) to 5 (very good)."""

    task: ClassVar[str] = "summarization_quality"
    inputs: ClassVar[tuple[str, ...]] = _TEXT
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)
    referable: ClassVar[bool] = True


@register("metric", "rapid/summarization_helpfulness")
@dataclass(frozen=True, kw_only=True)
class SummarizationHelpfulness(_Pointwise):
    """How well a summary stands in for its text, from 1 (unhelpful) to 5 (helpful)."""

    task: ClassVar[str] = "summarization_helpfulness"
    inputs: ClassVar[tuple[str, ...]] = _TEXT
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)
    referable: ClassVar[bool] = True


@register("metric", "rapid/summarization_verbosity")
@dataclass(frozen=True, kw_only=True)
class SummarizationVerbosity(_Pointwise):
    """How long-winded a summary is, from -2 (terse) over 0 (just right, the best) to 2 (verbose)."""

    task: ClassVar[str] = "summarization_verbosity"
    inputs: ClassVar[tuple[str, ...]] = _TEXT
    range: ClassVar[tuple[float, float] | None] = (-2.0, 2.0)
    best: ClassVar[float | None] = 0.0
    referable: ClassVar[bool] = True


@register("metric", "rapid/question_answering_quality")
@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringQuality(_Pointwise):
    """How good an answer to a question about a text is over all, from 1 (very bad) to 5 (very good)."""

    task: ClassVar[str] = "question_answering_quality"
    inputs: ClassVar[tuple[str, ...]] = _TEXT
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)
    referable: ClassVar[bool] = True


@register("metric", "rapid/question_answering_relevance")
@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringRelevance(_Pointwise):
    """How relevant to the question an answer is, from 1 (irrelevant) to 5 (relevant)."""

    task: ClassVar[str] = "question_answering_relevance"
    inputs: ClassVar[tuple[str, ...]] = _TEXT
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)
    referable: ClassVar[bool] = True


@register("metric", "rapid/question_answering_helpfulness")
@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringHelpfulness(_Pointwise):
    """How much of what the asker needs an answer gives, from 1 (unhelpful) to 5 (helpful)."""

    task: ClassVar[str] = "question_answering_helpfulness"
    inputs: ClassVar[tuple[str, ...]] = _TEXT
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)
    referable: ClassVar[bool] = True


@register("metric", "rapid/question_answering_correctness")
@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringCorrectness(_Pointwise):
    """Whether an answer to a question about a text is right: 1 correct, 0 incorrect."""

    task: ClassVar[str] = "question_answering_correctness"
    inputs: ClassVar[tuple[str, ...]] = _TEXT
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True
    referable: ClassVar[bool] = True


@register("metric", "rapid/pairwise_summarization_quality")
@dataclass(frozen=True, kw_only=True)
class PairwiseSummarizationQuality(_Pairwise):
    """Which of two summaries is better: CANDIDATE (the prediction), BASELINE or TIE."""

    task: ClassVar[str] = "pairwise_summarization_quality"
    referable: ClassVar[bool] = True


@register("metric", "rapid/pairwise_question_answering_quality")
@dataclass(frozen=True, kw_only=True)
class PairwiseQuestionAnsweringQuality(_Pairwise):
    """Which of two answers to a question about a text is better: CANDIDATE (the prediction), BASELINE or TIE."""

    task: ClassVar[str] = "pairwise_question_answering_quality"
    referable: ClassVar[bool] = True

"""The model-based metrics of Vertex AI's rapid evaluation (evaluateInstances), for any judge.

Names, inputs and ranges are the API's; the prompts are evalbeam's own. A bare name (`fluency`) refers to these metrics
if the dataset's rows are plain or of the `vertex` dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.judging import EVALUATE_INSTANCES, PROMPTS, Judging
from ...schemas.result import ScoreError
from ..judging.panel import PanelSlot, Vote
from ..judging.prompts import Prompt, as_text, load_prompt
from ..judging.shapes import TEXT, Schema, object_of, one_of
from ._judged import JudgedMetric, PairwiseJudge, make_rating, read_score
from .base import register

VERSIONS = (1,)
"""The existing versions of the prompts."""
_TEXT = ("prediction", "instruction", "context")


@dataclass(frozen=True, kw_only=True)
class _Rapid(JudgedMetric):
    """Base of the metrics of rapid evaluation.

    Attributes:
        version: Version of the prompt; 0 for the latest.
        use_reference: Show the reference to the judge; rows must have one then.
        service: Score with Vertex AI's own service (a judge of `type: vertex_eval`) and its prompts.
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
                raise ValueError(f"{self.task} does not use a reference, allowed: use_reference: false")
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
        """Returns the inputs of a row."""
        return {name: example.get(name) for name in self.inputs}

    def ask_service(self, example: Example, shape: Schema) -> Judging:
        """Runs the panel with requests of the service's API as questions."""
        instance = {name: as_text(value) for name, value in self.values(example).items()}
        spec = {"use_reference": True} if self.use_reference else {}
        request = {f"{self.task}_input": {"metric_spec": spec, "instance": instance}}
        return self.poll_service(request, shape, self._read_service)

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
    """Base of the metrics that score one answer."""

    def judged(self, example: Example) -> Judging:
        if self.service:
            return self.ask_service(example, _SCORED)
        low, high = (int(end) for end in self.range or ())
        shape = make_rating(*range(low, high + 1))
        return self.poll(self.prompts[0], shape, self.values(example), read_score)


@dataclass(frozen=True, kw_only=True)
class _Pairwise(_Rapid, PairwiseJudge):
    """Base of the metrics that compare two answers."""

    inputs: ClassVar[tuple[str, ...]] = ("prediction", "baseline_prediction", "instruction", "context")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.service and self.flip:
            raise ValueError("flip is true, allowed: false, since the service decides the order")

    def judged(self, example: Example) -> Judging:
        if self.service:
            return self.ask_service(example, _CHOSEN)
        given: dict[str, Any] = self.values(example)
        candidate, baseline = given.pop("prediction"), given.pop("baseline_prediction")
        return self.compare(self.prompts[0], given, baseline, candidate, ("answer_a", "answer_b"))


_QA = "question_answering"
_POINTWISE: tuple[tuple[str, tuple[str, ...], int, int, str], ...] = (
    ("fluency", ("prediction",), 1, 5, "Fluency of the answer's language, from 1 (poor) to 5 (fluent)."),
    ("coherence", ("prediction",), 1, 5, "Coherence of the answer, from 1 (incoherent) to 5 (coherent)."),
    ("safety", ("prediction",), 0, 1, "Absence of harmful content in the answer: 1 (safe) or 0 (unsafe)."),
    ("groundedness", ("prediction", "context"), 0, 1, "Support of the answer by its context: 1 (full) or 0."),
    ("fulfillment", _TEXT[:2], 1, 5, "Fulfillment of the instruction, from 1 (not at all) to 5 (completely)."),
    ("summarization_quality", _TEXT, 1, 5, "Overall quality of a summary, from 1 (very bad) to 5 (very good)."),
    ("summarization_helpfulness", _TEXT, 1, 5, "Usefulness of a summary in place of its text, from 1 to 5 (best)."),
    ("summarization_verbosity", _TEXT, -2, 2, "Verbosity of a summary, from -2 (terse) to 2 (verbose); 0 is best."),
    (f"{_QA}_quality", _TEXT, 1, 5, "Overall quality of an answer about a text, from 1 (very bad) to 5 (very good)."),
    (f"{_QA}_relevance", _TEXT, 1, 5, "Relevance of the answer to the question, from 1 (irrelevant) to 5 (relevant)."),
    (f"{_QA}_helpfulness", _TEXT, 1, 5, "Helpfulness of the answer to the asker, from 1 (unhelpful) to 5 (helpful)."),
    (f"{_QA}_correctness", _TEXT, 0, 1, "Correctness of an answer about a text: 1 (correct) or 0 (incorrect)."),
)
"""(task, inputs, lowest score, highest score, description for users)."""
_PAIRWISE = (
    ("pairwise_summarization_quality", "The better of two summaries: CANDIDATE (the prediction), BASELINE or TIE."),
    (f"pairwise_{_QA}_quality", "The better of two answers about a text: CANDIDATE (the prediction), BASELINE or TIE."),
)
"""(task, description for users)."""


def _define(base: type[_Rapid], task: str, description: str, **constants: Any) -> None:
    """Makes and registers the metric class of a task."""
    name = "".join(map(str.capitalize, task.split("_")))
    made = type(name, (base,), {"task": task, "__doc__": description, "__module__": __name__, **constants})
    # Workers unpickle metrics by module and name, so the class must be an attribute of this module.
    globals()[name] = register("metric", f"rapid/{task}")(dataclass(frozen=True, kw_only=True)(made))


for _task, _inputs, _low, _high, _description in _POINTWISE:
    _define(
        _Pointwise,
        _task,
        _description,
        inputs=_inputs,
        range=(float(_low), float(_high)),
        best=0.0 if _low < 0 else None,
        binary=(_low, _high) == (0, 1),
        referable=_inputs == _TEXT,  # tasks with a text take a reference
    )
for _task, _description in _PAIRWISE:
    _define(_Pairwise, _task, _description, referable=True)

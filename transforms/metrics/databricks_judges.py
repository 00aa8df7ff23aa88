"""The judges of Databricks Agent Evaluation, for any judge model: ratings yes (1, good) and no (0), with reasons.

Inputs, ranges and the choice of judges per row are Agent Evaluation's (schemas/formats); the prompts are evalbeam's
own. Scores of rows that a judge cannot rate have Databricks' codes: 1001 (a field is missing; the score is skipped),
1006 (a field is malformed) and 1010 (both expected_response and expected_facts are given), which are errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from ...schemas.errors import RowError
from ...schemas.formats import databricks as words
from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.judging import Judging
from ...schemas.result import Score
from ...schemas.values import mean
from ..judging.panel import Rule, find_unasked
from ..judging.prompts import Prompt, as_text, load_prompt
from ..runtime.dialogue import run_together
from ._judged import RATING, JudgedMetric, read_rating
from .base import Derived, Metric, register

EMPTY = "Chunk content is empty"
"""Agent Evaluation's message for a passage without content, which has no rating."""


@dataclass(frozen=True, kw_only=True)
class AgentJudge(JudgedMetric):
    """Base of the judges.

    Attributes:
        rows: "asked" scores all rows; "documented" scores only those for which Agent Evaluation would choose the judge,
            and the score of the others is `not_applicable`.
        instructions: What the judge must know of the domain; shown with its task.
        examples: Rated rows, {request, response ..., rating, rationale}; shown with its task.
    """

    rows: Literal["asked", "documented"] = "asked"
    instructions: str = ""
    examples: list[dict[str, Any]] = field(default_factory=list)

    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True
    task: ClassVar[str]
    prompt: ClassVar[str] = ""

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return (self._teach(load_prompt(f"databricks/{self.prompt or self.task}")),)

    def _teach(self, prompt: Prompt) -> Prompt:
        """Adds instructions and examples to the task of a prompt."""
        told = [prompt.told]
        if self.instructions:
            told.append(f"What to know of the domain:\n{self.instructions}")
        if self.examples:
            told.append("\n".join(["Examples of ratings, as JSON:", *map(as_text, self.examples)]))
        return replace(prompt, told="\n\n".join(told))

    @property
    def rule(self) -> Rule:
        return Rule(self.aggregate, 0.0)  # a tie is "no", for single passages too

    def judged(self, example: Example) -> Judging:
        row, judge = self.row(example), words.JUDGES[self.task]
        if self.rows == "documented" and not words.runs_by_default(judge, row.get):
            return Score(status="not_applicable")
        error = words.find_obstacle(judge, row.get)
        if error is not None:
            made = Score.skipped if error.code == words.MISSING else Score.failed
            return made(error.code, error.message)
        return (yield from self.rate({**row, "request": row["instruction"]}))

    def row(self, example: Example) -> dict[str, Json]:
        """Returns the fields of a row that judges use."""
        names = ("instruction", "response", "expected_response", "expected_facts", "guidelines")
        row: dict[str, Json] = {name: example.get(name) for name in names}
        context = example.get("retrieved_context")
        row["retrieved_context"] = [{"doc_uri": c.doc_uri, "content": c.content} for c in context or ()]
        return row

    def rate(self, row: Mapping[str, Json]) -> Judging:
        """Rates a row that has all required fields."""
        if "expected" not in words.JUDGES[self.task].needs:
            return (yield from self.ask(row))  # a mistake in the ground truth is no matter of this judge
        facts = row["expected_facts"]
        expected = row["expected_response"] if facts is None else words.facts_of(facts)
        return (yield from self.ask({**row, "expected": expected}))

    def ask(self, values: Mapping[str, Json]) -> Judging:
        """Runs the panel."""
        return self.poll(self.prompts[0], RATING, values, read_rating)


_JUDGES = (
    ("relevance_to_query", "Relevance of the response to the request: 1 if it addresses the request, else 0."),
    ("safety", "Safety of the response: 1 if it is free of harmful and toxic content, else 0."),
    ("groundedness", "Groundedness of the response: 1 if the retrieved passages support all of it, else 0."),
    (
        "correctness",
        "Correctness of the response: 1 if it states the expected_facts or agrees with expected_response, else 0.",
    ),
    (
        "context_sufficiency",
        "Sufficiency of the retrieved passages: 1 if the expected response can be given from them, else 0.",
    ),
)
"""(task, description for users) of the judges that differ in their prompt alone."""

for _task, _description in _JUDGES:
    _name = "".join(map(str.capitalize, _task.split("_")))
    _made = type(_name, (AgentJudge,), {"task": _task, "__doc__": _description, "__module__": __name__})
    # Workers unpickle metrics by module and name, so the class must be an attribute of this module.
    _made = register("metric", f"databricks/{_task}")(dataclass(frozen=True, kw_only=True)(_made))
    globals()[_name] = register("metric", f"{words.JUDGES[_task].column}/rating")(_made)


@register("metric", "databricks/chunk_relevance")
@register("metric", "retrieval/llm_judged/chunk_relevance_precision")
@dataclass(frozen=True, kw_only=True)
class ChunkRelevance(AgentJudge):
    """Precision of the retrieval: the share of retrieved passages that are relevant to the request, in [0, 1].

    Each passage is judged in its own question. The details have `ratings`, `rationales` and `error_messages` by
    position. A passage without content, or whose judge failed, has the rating null and does not count.
    """

    binary: ClassVar[bool] = False
    task: ClassVar[str] = "chunk_relevance"
    outputs: ClassVar[tuple[str, ...]] = ("details",)

    @property
    def joinable(self) -> bool:
        return False

    def rate(self, row: Mapping[str, Json]) -> Judging:
        texts: list[str] = [chunk["content"] for chunk in row["retrieved_context"]]
        places = [i for i, text in enumerate(texts) if text.strip()]
        asked = [self.ask({**row, "passage": texts[i]}) for i in places]
        found = dict(zip(places, (yield from run_together(asked)), strict=True))
        open_ = find_unasked(list(found.values()))
        if open_ is not None:
            return open_
        scores = [found.get(i, Score(explanation=EMPTY)) for i in range(len(texts))]
        details: Json = {
            "ratings": [_to_rating(s) for s in scores],
            "rationales": [s.explanation for s in scores],
            "error_messages": [s.error and f"{s.error.code}: {s.error.message}" for s in scores],
        }
        values = [s.value for s in scores if s.value is not None]
        if values:
            return Score(mean(values), details=details)
        error = next((s.error for s in scores if s.error is not None), None)
        if error is not None:
            return Score(status="error", error=error, details=details)
        return Score.skipped(words.MISSING, "Missing required field(s): content of retrieved_context")


@dataclass(frozen=True, kw_only=True)
class _Guidelines(AgentJudge):
    """Base of both judges of guidelines; the guidelines under one name are one question.

    The score is 1 if all guidelines are followed, else 0. With several names the details have the rating and the
    rationale of each name.
    """

    prompt: ClassVar[str] = "guidelines"

    def poll_each(self, row: Mapping[str, Json], named: Mapping[str, Sequence[str]]) -> Judging:
        """Runs the panel on the guidelines of each name."""
        asked = [self.ask({**row, "guidelines": list(texts)}) for texts in named.values()]
        scores = yield from run_together(asked)
        if len(scores) == 1:
            return scores[0]
        broken = find_unasked(scores) or next((s for s in scores if s.value is None), None)
        if broken is not None:
            return Score(status=broken.status, error=broken.error)
        ratings = {n: {"rating": _to_rating(s), "rationale": s.explanation} for n, s in zip(named, scores, strict=True)}
        against = [f"{n}: {s.explanation}" for n, s in zip(named, scores, strict=True) if not s.value]
        confidence = min(s.confidence or 0.0 for s in scores)
        told = " ".join(against) or "All guidelines are followed."
        return Score(float(not against), explanation=told, confidence=confidence, details=ratings)


@register("metric", "databricks/guideline_adherence")
@register("metric", "response/llm_judged/guideline_adherence/rating")
@dataclass(frozen=True, kw_only=True)
class GuidelineAdherence(_Guidelines):
    """Adherence of the response to the row's `guidelines`, a list or {name: list}: 1 if all are followed, else 0.

    Attributes:
        guideline: Name of the guidelines to judge, for separate columns per name; "" for those without a name; default:
            all guidelines of the row.
    """

    guideline: str | None = None

    task: ClassVar[str] = "guideline_adherence"
    outputs: ClassVar[tuple[str, ...]] = ("explanation", "confidence", "details")

    @property
    def joinable(self) -> bool:
        return self.guideline is not None  # else a row may name several

    @property
    def variant(self) -> str:
        return self.guideline or ""

    def row(self, example: Example) -> dict[str, Json]:
        row = super().row(example)
        if self.guideline is not None and row["guidelines"] is not None:
            try:
                named = words.guidelines_of(row["guidelines"], "")
            except RowError:
                return row  # `obstacle` reports what is wrong with the guidelines
            row["guidelines"] = named.get(f"/{self.guideline}" if self.guideline else "")
        return row

    def rate(self, row: Mapping[str, Json]) -> Judging:
        named = words.guidelines_of(row["guidelines"], "")
        return (yield from self.poll_each(row, {name.removeprefix("/"): texts for name, texts in named.items()}))


@register("metric", "databricks/global_guideline_adherence")
@dataclass(frozen=True, kw_only=True)
class GlobalGuidelineAdherence(_Guidelines):
    """Adherence of the response to guidelines for all rows: 1 if all are followed, else 0.

    Attributes:
        guidelines: The guidelines: a list, or {name: list}.
    """

    guidelines: Any = field(default_factory=list)

    task: ClassVar[str] = "global_guideline_adherence"
    outputs: ClassVar[tuple[str, ...]] = ("explanation", "confidence", "details")

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            named = words.guidelines_of(self.guidelines, "")
        except RowError as error:
            raise ValueError(error.message) from None
        if not any(named.values()):
            raise ValueError("guidelines is empty (allowed: a list of texts, or {name: list of texts})")

    @property
    def joinable(self) -> bool:
        return len(words.guidelines_of(self.guidelines, "")) == 1

    def row(self, example: Example) -> dict[str, Json]:
        return {**super().row(example), "global_guidelines": self.guidelines}

    def rate(self, row: Mapping[str, Json]) -> Judging:
        named = words.guidelines_of(self.guidelines, "")
        return (yield from self.poll_each(row, {name.removeprefix("/"): texts for name, texts in named.items()}))


@register("metric", "databricks/overall_assessment")
@dataclass(frozen=True)
class OverallAssessment(Derived):
    """1 if the row passes all judges of the run, else 0 with the first failing judge as the root cause.

    The order is Agent Evaluation's: context_sufficiency, chunk_relevance, groundedness, correctness,
    relevance_to_query, safety, guidelines, then other judge metrics with a score of 0 or 1; a row fails one of these
    by its worse score (see their `best`). chunk_relevance fails a row only if no passage is relevant. Judges without a
    verdict do not count; without any verdict the score is `not_applicable`.
    """

    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True
    outputs: ClassVar[tuple[str, ...]] = ("explanation", "details")

    def derive(self, scores: Mapping[str, tuple[Metric, Score]]) -> Score:
        found = [(n, m, s) for n, (m, s) in scores.items() if _counts(m) and s.value is not None]
        if not found:
            return Score(status="not_applicable")
        failing = [(_rank(m), name, m, score) for name, m, score in found if score.value == (m.ends() or (0.0,))[0]]
        if not failing:
            return Score(1.0)
        _, name, metric, score = min(failing, key=lambda one: one[0])
        rationale = score.explanation or "No passage is relevant to the request."
        task = metric.task if isinstance(metric, AgentJudge) else ""
        advice = words.ACTIONS.get(task, "Look at the rationale of the judge.")
        details = {
            "root_cause_assessment": name,
            "root_cause_rationale": rationale,
            "suggested_action": advice,
        }
        return Score(0.0, explanation=f"[{name}] {rationale} **Suggested Actions**: {advice}", details=details)


def _to_rating(score: Score) -> str | None:
    return None if score.value is None else "yes" if score.value else "no"


def _counts(metric: Metric) -> bool:
    return isinstance(metric, AgentJudge) or (isinstance(metric, JudgedMetric) and metric.binary)


def _rank(metric: Metric) -> int:
    """Returns the rank of a judge in the search for the root cause."""
    task = metric.task if isinstance(metric, AgentJudge) else ""
    return words.CAUSES.index(task) if task in words.CAUSES else len(words.CAUSES)

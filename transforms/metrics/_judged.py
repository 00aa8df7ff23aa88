"""The base classes of judge metrics, which yield questions to judges and never call a judge themselves.

    @register("metric", "polite")
    @dataclass(frozen=True)
    class Polite(JudgedMetric):
        '''Politeness of the answer: 1 (polite) or 0.'''

        inputs: ClassVar = ("response",)
        range: ClassVar = (0.0, 1.0)
        binary: ClassVar = True

        def judged(self, example: Example) -> Judging:
            values = {"response": example.get("response")}
            return (yield from self.poll(load_prompt("polite"), VERDICT, values, read_score))

`judged` is a generator: it yields lists of questions, receives their answers in order, and returns a score. The
questions of one list are asked concurrently; `yield from` chains stages. So a test needs no model:

    judging = metric.judged(example)
    asks = next(judging)
    judging.send([Answer({"explanation": "...", "score": 1})])     # raises StopIteration; its value is the score
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.json_text import jsonable
from ...schemas.judging import PROMPTS, Ask, Judging, Message
from ...schemas.result import Score
from ..judging.panel import MAX_SAMPLES, Aggregate, PanelSlot, Rule, Vote, make_slots, run_panel
from ..judging.prompts import Prompt
from ..judging.shapes import TEXT, Schema, object_of, one_of
from .base import Metric


@dataclass(frozen=True, kw_only=True)
class JudgedMetric(Metric):
    """Base of all metrics that judges score.

    Attributes:
        judge: Name of the judge in the configuration, or several names; each judge gives `samples` votes.
        samples: Number of votes per judge.
        aggregate: Aggregation of the votes: "majority", or the "mean" or the (lower) "median" of numbers.
        surely: True if every row with the inputs has a question, so that a budget can rely on it.
        sessions: True if it judges conversations, also those that are sessions of traces.
    """

    judge: str | tuple[str, ...] = "default"
    samples: int = 1
    aggregate: Aggregate = "majority"

    outputs: ClassVar[tuple[str, ...]] = ("explanation", "confidence")
    surely: ClassVar[bool] = False
    sessions: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise ValueError(f"samples is {self.samples}, allowed: 1 to {MAX_SAMPLES}")
        if not self.judges:
            raise ValueError("judge is an empty list, allowed: one or more names of judges")
        if len(self.slots) > 1 and "details" not in self.outputs:
            object.__setattr__(self, "outputs", (*self.outputs, "details"))

    @abstractmethod
    def judged(self, example: Example) -> Judging:
        """Judges one example that has all inputs. An exception becomes a score with status "error"."""

    def score(self, example: Example) -> Score:
        raise TypeError("a judge metric cannot score without judges: use `judged`")

    @property
    def judges(self) -> tuple[str, ...]:
        """Names of its judges."""
        return (self.judge,) if isinstance(self.judge, str) else tuple(dict.fromkeys(self.judge))

    @property
    def slots(self) -> list[PanelSlot]:
        """The slots of its panel."""
        return make_slots(self.judges, self.samples)

    @property
    def rule(self) -> Rule:
        """How votes are aggregated: without a majority, the worse of 0 and 1, or the lower median of other ratings."""
        worse, _ = self.ends() or (0.0, 1.0)
        return Rule(self.aggregate, worse if self.binary else None)

    @property
    def speaks(self) -> str:
        """Kind of its questions: prompts, or requests of a service, which only that service can answer."""
        return PROMPTS

    @property
    def joinable(self) -> bool:
        """True if its questions may be joined with those of other metrics.

        False for metrics with several stages, and for those that ask about several items separately.
        """
        return self.speaks == PROMPTS

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """Its prompts, which are shown to users and recorded in the manifest."""
        return ()

    @property
    def calls(self) -> tuple[int, int]:
        """(fewest, most) calls per row, if every answer is a verdict."""
        size = len(self.slots)
        return (size // 2 + 1 if self.aggregate == "majority" else size), size

    def poll(
        self,
        prompt: Prompt,
        schema: Schema,
        values: Mapping[str, Json],
        read: Callable[[Any, PanelSlot], Vote],
        *,
        flipped: Mapping[str, Json] | None = None,
    ) -> Judging:
        """Runs the panel on one question.

        Args:
            prompt: The prompt of the question.
            schema: JSON schema of the answer.
            values: Values of the prompt's variables.
            read: Reads the vote from the value of an answer.
            flipped: Values for slots that see the answers in the other order.
        """
        return run_panel(self.slots, prompt.bind(schema, values, flipped), read, self.rule)

    def poll_service(self, request: Json, schema: Schema, read: Callable[[Any, PanelSlot], Vote]) -> Judging:
        """Runs the panel on one request of a service's API; `schema` and `read` are those of `poll`."""
        message = Message("user", jsonable(request).decode())

        def ask(slot: PanelSlot) -> Ask:
            return Ask((message,), schema, slot.judge, slot.vote)

        return run_panel(self.slots, ask, read, self.rule)


@dataclass(frozen=True, kw_only=True)
class PairwiseJudge(JudgedMetric):
    """Base of metrics that compare two answers: CANDIDATE, BASELINE or TIE.

    Attributes:
        flip: Swap the two answers in the second half of the votes.
    """

    flip: bool = False

    outputs: ClassVar[tuple[str, ...]] = ("pairwise_choice", "explanation", "confidence")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregate != "majority":
            raise ValueError(f"aggregate is {self.aggregate}, allowed: majority, since choices are not numbers")

    @property
    def slots(self) -> list[PanelSlot]:
        return make_slots(self.judges, self.samples, self.flip)

    @property
    def rule(self) -> Rule:
        return Rule(self.aggregate, "TIE")

    def compare(
        self, prompt: Prompt, given: Mapping[str, Json], baseline: Json, candidate: Json, names: tuple[str, str]
    ) -> Judging:
        """Runs the panel on the choice between two answers.

        Args:
            prompt: The prompt of the question, whose answer has the schema `CHOICE`.
            given: Values of its other variables.
            baseline, candidate: The answers.
            names: The variables of the answer shown first and of the one shown second.
        """
        a, b = names
        shown, flipped = {**given, a: baseline, b: candidate}, {**given, a: candidate, b: baseline}
        return self.poll(prompt, CHOICE, shown, read_choice, flipped=flipped)


def is_judged(metric: Metric) -> bool:
    """Returns true if judges score the metric; a `JudgedMetric` that needs none has no `judges`."""
    return isinstance(metric, JudgedMetric) and bool(metric.judges)


@cache
def make_rating(*choices: int) -> Schema:
    """Returns the schema of an explanation and a score, one of some integers."""
    return object_of(explanation=TEXT, score=one_of(*choices))


def read_score(value: Any, slot: PanelSlot) -> Vote:
    """Reads the vote from an answer with the schema of `make_rating`."""
    return Vote(float(value["score"]), value["explanation"])


RATING: Schema = object_of(rationale=TEXT, rating=one_of("yes", "no"))
"""The schema of a rationale and a rating, yes (good) or no."""


def read_rating(value: Any, slot: PanelSlot) -> Vote:
    """Reads the vote from an answer with the schema `RATING`."""
    return Vote(float(value["rating"] == "yes"), value["rationale"])


CHOICE: Schema = object_of(explanation=TEXT, choice=one_of("A", "B", "SAME"))
"""The schema of an explanation and a choice. A is the answer shown first: the baseline, or the candidate if flipped."""


def read_choice(value: Any, slot: PanelSlot) -> Vote:
    """Reads the vote from an answer with the schema `CHOICE`: BASELINE, CANDIDATE or TIE."""
    first, second = ("CANDIDATE", "BASELINE") if slot.flipped else ("BASELINE", "CANDIDATE")
    return Vote({"A": first, "B": second, "SAME": "TIE"}[value["choice"]], value["explanation"])

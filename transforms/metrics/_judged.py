"""What a judge metric is: a metric that puts questions to judges and never calls one itself.

    @register("metric", "polite")
    @dataclass(frozen=True)
    class Polite(JudgedMetric):
        '''Whether the answer is polite, 0 or 1.'''

        inputs: ClassVar = ("response",)
        range: ClassVar = (0.0, 1.0)
        binary: ClassVar = True

        def judged(self, example: Example) -> Judging:
            values = {"response": example.get("response")}
            return (yield from self.poll(load("polite"), VERDICT, values, read_score))

`judged` is a generator: it yields questions, is sent the answers in their order, and returns a score. Stages follow one
another (`yield from`), and questions that stand in one list are asked at once. So a test needs no model:

    judging = metric.judged(example)
    asks = next(judging)
    judging.send([Answer({"explanation": "...", "score": 1})])     # StopIteration, whose value is the score
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.judging import PROMPTS, Judging
from ...schemas.result import Score
from ..judging.panel import MAX_SAMPLES, Aggregate, PanelSlot, Rule, Vote, make_slots, run_panel
from ..judging.prompts import Prompt
from ..judging.shapes import TEXT, Schema, object_of, one_of
from .base import Metric


@dataclass(frozen=True, kw_only=True)
class JudgedMetric(Metric):
    """Base of all metrics that judges score.

    Attributes:
        judge: Name of the judge in the configuration, or several names: each gives `samples` votes.
        samples: Votes of each judge.
        aggregate: How votes become a verdict: the majority, or the mean or the lower median of numbers.
        surely: Whether it has a question about every row that has its inputs, so that a budget can count on it.
    """

    judge: str | tuple[str, ...] = "default"
    samples: int = 1
    aggregate: Aggregate = "majority"

    outputs: ClassVar[tuple[str, ...]] = ("explanation", "confidence")
    surely: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise ValueError(f"samples is {self.samples}, allowed: 1 to {MAX_SAMPLES}")
        if not self.judges:
            raise ValueError("judge is an empty list, allowed: names of judges")
        if len(self.slots) > 1 and "details" not in self.outputs:
            object.__setattr__(self, "outputs", (*self.outputs, "details"))

    @abstractmethod
    def judged(self, example: Example) -> Judging:
        """Judges one example that has all inputs. An exception becomes a score with status "error"."""

    def score(self, example: Example) -> Score:
        raise TypeError("a judge metric scores by the answers of judges: see `judged`")

    @property
    def judges(self) -> tuple[str, ...]:
        """Names of the judges it asks."""
        return (self.judge,) if isinstance(self.judge, str) else tuple(dict.fromkeys(self.judge))

    @property
    def slots(self) -> list[PanelSlot]:
        """The places of its panel."""
        return make_slots(self.judges, self.samples)

    @property
    def rule(self) -> Rule:
        """How votes become a verdict: without a majority, of 0 and 1 the worse, of more ratings the lower median."""
        worse, _ = self.ends() or (0.0, 1.0)
        return Rule(self.aggregate, worse if self.binary else None)

    @property
    def speaks(self) -> str:
        """What its questions are: prompts, or the requests of a service, which only that service answers."""
        return PROMPTS

    @property
    def joinable(self) -> bool:
        """Whether its questions may be parts of one with those of other metrics: each vote is one question.

        Metrics of several steps, and those that ask about each of several things, say no.
        """
        return self.speaks == PROMPTS

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts it uses, shown to users and named in the manifest."""
        return ()

    @property
    def calls(self) -> tuple[int, int]:
        """(fewest, most) calls for a row, if all answers are verdicts."""
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
        """Has the panel vote on one question.

        Args:
            prompt: The question.
            schema: Shape of the answer.
            values: What the prompt's variables stand for.
            read: The vote in an answer's value.
            flipped: What they stand for where the judge sees the other order.
        """
        return run_panel(self.slots, prompt.bind(schema, values, flipped), read, self.rule)


@dataclass(frozen=True, kw_only=True)
class PairwiseJudge(JudgedMetric):
    """Base of the metrics that say which of two answers is better: CANDIDATE, BASELINE or TIE.

    Attributes:
        flip: Show the second half of the votes the answers in the other order.
    """

    flip: bool = False

    outputs: ClassVar[tuple[str, ...]] = ("pairwise_choice", "explanation", "confidence")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregate != "majority":
            raise ValueError(f"aggregate is {self.aggregate}, allowed: majority, since choices are no numbers")

    @property
    def slots(self) -> list[PanelSlot]:
        return make_slots(self.judges, self.samples, self.flip)

    @property
    def rule(self) -> Rule:
        return Rule(self.aggregate, "TIE")

    def compared(
        self, prompt: Prompt, given: Mapping[str, Json], baseline: Json, candidate: Json, names: tuple[str, str]
    ) -> Judging:
        """Has the panel choose one of two answers.

        Args:
            prompt: The question, whose answer is of shape `CHOICE`.
            given: What its other variables stand for.
            baseline, candidate: The answers.
            names: The variables of the answer that is shown first and of the other.
        """
        a, b = names
        shown, flipped = {**given, a: baseline, b: candidate}, {**given, a: candidate, b: baseline}
        return self.poll(prompt, CHOICE, shown, read_choice, flipped=flipped)


def is_judged(metric: Metric) -> bool:
    """Whether judges score it: a metric that can do without them names none."""
    return isinstance(metric, JudgedMetric) and bool(metric.judges)


@cache
def rating(*choices: int) -> Schema:
    """An explanation and a score, one of some whole numbers."""
    return object_of(explanation=TEXT, score=one_of(*choices))


def read_score(value: Any, slot: PanelSlot) -> Vote:
    """The vote in an answer of shape `rating`."""
    return Vote(float(value["score"]), value["explanation"])


CHOICE: Schema = object_of(explanation=TEXT, choice=one_of("A", "B", "SAME"))
"""An explanation and which of two answers is better. A is shown first: the baseline, or flipped, the candidate."""


def read_choice(value: Any, slot: PanelSlot) -> Vote:
    """The vote in an answer of shape `CHOICE`: BASELINE, CANDIDATE or TIE."""
    first, second = ("CANDIDATE", "BASELINE") if slot.flipped else ("BASELINE", "CANDIDATE")
    return Vote({"A": first, "B": second, "SAME": "TIE"}[value["choice"]], value["explanation"])

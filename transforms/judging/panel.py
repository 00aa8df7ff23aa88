"""Panels: several votes on one question, aggregated to a verdict.

Votes are numbered. The verdict follows from the shortest prefix of the votes, by number, that decides the majority
whatever the remaining votes are; failed votes do not count. So the verdict does not depend on timing. Votes that are
not needed are not requested: first as many as a majority needs, then each time the fewest that could complete one.

    5 slots:  A A B . .   no majority yet; one more A would decide, so one vote is requested
              A A B A     decided: A; the fifth vote is never requested
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from ...schemas.calls import NOT_MADE
from ...schemas.judging import Answer, Ask
from ...schemas.result import Score, ScoreError
from ...schemas.values import mean
from ..runtime.dialogue import Asking

MAX_SAMPLES = 101
"""Maximum number of votes of one judge on a question."""
Aggregate: TypeAlias = Literal["majority", "mean", "median"]
Value: TypeAlias = float | str


class Vote(NamedTuple):
    """One vote.

    Attributes:
        value: The verdict: a number, or a label; `None` for a failed vote.
        explanation: The judge's reasons.
        confidence: The judge's confidence in [0, 1], if it states one.
        error: Why the vote failed.
    """

    value: Value | None = None
    explanation: str | None = None
    confidence: float | None = None
    error: ScoreError | None = None


class PanelSlot(NamedTuple):
    """One slot of a panel.

    Attributes:
        judge: Name of the judge.
        vote: Number among the votes of that judge on the same question.
        flipped: True if the judge sees candidate and baseline in the other order.
    """

    judge: str
    vote: int
    flipped: bool = False


@dataclass(frozen=True)
class Rule:
    """How votes are aggregated.

    Attributes:
        aggregate: "majority": more than half of the votes agree; "mean" or "median" (the lower one) of numbers.
        tie: The verdict if there is no majority; `None` for the lower median.
    """

    aggregate: Aggregate = "majority"
    tie: Value | None = None


def make_slots(judges: Sequence[str], samples: int, flip: bool = False) -> list[PanelSlot]:
    """Makes the slots of a panel: `samples` per judge, in turn; with `flip`, the last half (rounded down) is flipped.

    A larger panel of the same judges includes all votes of a smaller one.
    """
    size = len(judges) * samples
    taken: Counter[tuple[str, bool]] = Counter()
    found = []
    for i in range(size):
        judge, flipped = judges[i % len(judges)], flip and i >= size - size // 2
        found.append(PanelSlot(judge, taken[judge, flipped], flipped))
        taken[judge, flipped] += 1
    return found


def run_panel(
    slots: Sequence[PanelSlot],
    ask: Callable[[PanelSlot], Ask],
    read: Callable[[Any, PanelSlot], Vote],
    rule: Rule,
) -> Asking[Ask, Answer, Score]:
    """Collects votes until they decide; yields questions and receives their answers.

    Args:
        slots: The slots of the panel, in order.
        ask: Builds the question for a slot.
        read: Reads the vote from the value of an answer.
        rule: How votes are aggregated.

    Returns:
        The verdict: a number as `value`, a word as `label`; the explanation of the first vote that agrees; as
        confidence the share of valid votes that agree (for a single vote the judge's own confidence, else 1); with more
        than one slot, the votes as details.
    """
    votes: list[Vote] = []
    while True:
        wave = slots[len(votes) : len(votes) + count_next_votes(votes, len(slots), rule)]
        answers = yield [ask(slot) for slot in wave]
        for slot, answer in zip(wave, answers, strict=True):
            if answer.open:
                assert answer.error is not None
                return Score.skipped(answer.error.code, answer.error.message)
            votes.append(Vote(error=answer.error) if answer.error else read(answer.value, slot))
            verdict = decide(votes, len(slots), rule)
            if verdict is not None:
                return score_of(verdict, votes, slots, rule)
        if len(votes) == len(slots):
            return failure_of(votes, slots)


def decide(votes: Sequence[Vote], size: int, rule: Rule) -> Value | None:
    """Returns the verdict if the first votes decide it whatever the remaining votes are, else `None`.

    Args:
        votes: The first votes by number, including failed ones.
        size: Number of slots of the panel.
        rule: How votes are aggregated.
    """
    values = [v.value for v in votes if v.value is not None]
    left = size - len(votes)
    if rule.aggregate == "majority":
        for value, count in Counter(values).most_common(1):
            if 2 * count > len(values) + left:
                return value
            if rule.tie is not None and 2 * (count + left) <= len(values) + left:
                return rule.tie
    if left or not values:
        return None
    if rule.aggregate == "mean":
        return mean([float(v) for v in values])
    return _lower_median(values)


def count_next_votes(votes: Sequence[Vote], size: int, rule: Rule) -> int:
    """Returns how many votes to request next: the fewest that can decide."""
    left = size - len(votes)
    if rule.aggregate != "majority":
        return left
    counts = Counter(v.value for v in votes if v.value is not None)
    received = sum(counts.values())
    most = max(counts.values(), default=0)
    return min(left, max(1, (received + left) // 2 + 1 - most))


def _lower_median(values: Sequence[Any]) -> Value:
    return sorted(values)[(len(values) - 1) // 2]


def score_of(verdict: Value, votes: Sequence[Vote], slots: Sequence[PanelSlot], rule: Rule) -> Score:
    """Builds the score of a verdict, with the explanation of the first vote that agrees."""
    counted = [v for v in votes if v.value is not None]
    agreeing = [v for v in counted if v.value == verdict]
    if rule.aggregate == "mean":
        near = min(abs(float(v.value or 0) - float(verdict)) for v in counted)
        agreeing = [v for v in counted if abs(float(v.value or 0) - float(verdict)) == near]
        share = max(Counter(v.value for v in counted).values()) / len(counted)
    else:
        share = len(agreeing) / len(counted)
    if len(slots) == 1 and agreeing[0].confidence is not None:
        share = agreeing[0].confidence
    number, word = (None, verdict) if isinstance(verdict, str) else (float(verdict), None)
    explanation = agreeing[0].explanation if agreeing else None
    details = {"votes": _list_votes(votes, slots)} if len(slots) > 1 else None
    return Score(number, word, explanation, share, details)


def failure_of(votes: Sequence[Vote], slots: Sequence[PanelSlot]) -> Score:
    """Builds the error score of a panel whose votes all failed."""
    error = next(v.error for v in votes if v.error is not None)
    details = {"votes": _list_votes(votes, slots)} if len(slots) > 1 else None
    return Score(status="error", error=error, details=details)


def _list_votes(votes: Sequence[Vote], slots: Sequence[PanelSlot]) -> list[dict[str, Any]]:
    shown = []
    for vote, slot in zip(votes, slots, strict=False):
        said = {"verdict": vote.value} if vote.error is None else {"error": vote.error.code}
        shown.append({"judge": slot.judge, **({"flipped": True} if slot.flipped else {}), **said})
    return shown


def find_unasked(scores: Sequence[Score]) -> Score | None:
    """Returns the first score whose questions were not asked because the run stopped, or `None`."""
    return next((s for s in scores if s.error is not None and s.error.code in NOT_MADE), None)

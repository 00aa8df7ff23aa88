"""Panels: several votes on one question, and the verdict they come to.

Votes are numbered. The verdict is that of the shortest prefix of the votes, by number, that decides the majority
whatever the others say; failed votes are left out. So it depends on no timing, and votes that are not needed are not
asked for: first as many as a majority takes, then each time the fewest that could make one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from ...schemas.judging import Answer, Ask
from ...schemas.result import Score, ScoreError
from ...schemas.values import mean

MAX_SAMPLES = 101
"""Votes of one judge on a question, at most."""
Aggregate: TypeAlias = Literal["majority", "mean", "median"]
Value: TypeAlias = float | str


class Vote(NamedTuple):
    """One vote.

    Attributes:
        value: The verdict: a number, or a label; `None` for a failed vote.
        explanation: Its reasons.
        confidence: In [0, 1], where the judge states one.
        error: Why it failed.
    """

    value: Value | None = None
    explanation: str | None = None
    confidence: float | None = None
    error: ScoreError | None = None


class PanelSlot(NamedTuple):
    """One place of a panel.

    Attributes:
        judge: Name of the judge who sits there.
        vote: Number among the votes of that judge on the same question.
        flipped: Whether the judge sees candidate and baseline in the other order.
    """

    judge: str
    vote: int
    flipped: bool = False


@dataclass(frozen=True)
class Rule:
    """How votes become a verdict.

    Attributes:
        aggregate: "majority": more than half of the votes agree; "mean" and "median" (the lower one) of numbers.
        tie: The verdict where no majority agrees; `None` takes the lower median.
    """

    aggregate: Aggregate = "majority"
    tie: Value | None = None


def make_slots(judges: Sequence[str], samples: int, flip: bool = False) -> list[PanelSlot]:
    """The slots of a panel: `samples` for each judge, in turn; with `flip` the smaller half, the last ones, flipped.

    A larger panel of the same judges holds all the votes of a smaller one.
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
) -> Generator[list[Ask], Sequence[Answer], Score]:
    """Asks for votes until they decide; yields questions and is sent their answers.

    Args:
        slots: The slots of the panel, by number.
        ask: The question to whoever sits at a place.
        read: The vote in the value of an answer.
        rule: How votes become a verdict.

    Returns:
        The verdict: a number as `value`, a word as `label`; the reasons of the first vote that agrees; as confidence
        the share of the counted votes that agree (of a single vote what the judge states, else 1); for more than one
        place the votes as details.
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
    """The verdict that a prefix of the votes settles, whatever the others will say; `None` where it does not.

    Args:
        votes: The first votes by number, failed ones included.
        size: Places of the panel.
        rule: How votes become a verdict.
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
    """How many votes to ask for next: the fewest that can decide."""
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
    """The score that a verdict is, with the reasons of the first vote that agrees."""
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
    """The error of a panel none of whose votes was given."""
    error = next(v.error for v in votes if v.error is not None)
    details = {"votes": _list_votes(votes, slots)} if len(slots) > 1 else None
    return Score(status="error", error=error, details=details)


def _list_votes(votes: Sequence[Vote], slots: Sequence[PanelSlot]) -> list[dict[str, Any]]:
    shown = []
    for vote, slot in zip(votes, slots, strict=False):
        said = {"verdict": vote.value} if vote.error is None else {"error": vote.error.code}
        shown.append({"judge": slot.judge, **({"flipped": True} if slot.flipped else {}), **said})
    return shown

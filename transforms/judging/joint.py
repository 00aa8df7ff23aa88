"""Panels that vote on several items at once: one question per slot, one verdict per item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...schemas.judging import Answer, Ask
from ...schemas.result import Score
from ..runtime.dialogue import Asking
from .panel import PanelSlot, Rule, Value, Vote, count_next_votes, decide, failure_of, score_of


def run_joint_panel(
    slots: Sequence[PanelSlot],
    ask: Callable[[PanelSlot], Ask],
    read: Callable[[Any], Sequence[Vote]],
    things: int,
    rule: Rule,
) -> Asking[Ask, Answer, list[Score]]:
    """Collects votes until the verdict of each item is decided, as `run_panel` does for one.

    Args:
        slots: The slots of the panel, in order.
        ask: Builds the question for a slot.
        read: Reads the votes from the value of an answer, one per item in order; an item without a verdict has a failed
            vote.
        things: Number of items, at least 1.
        rule: How votes are aggregated.
    """
    votes: list[list[Vote]] = [[] for _ in range(things)]
    verdicts: list[Value | None] = [None] * things
    asked = 0
    while asked < len(slots) and None in verdicts:
        open_ = [own for own, verdict in zip(votes, verdicts, strict=True) if verdict is None]
        wave = slots[asked : asked + max(count_next_votes(own, len(slots), rule) for own in open_)]
        answers = yield [ask(slot) for slot in wave]
        for answer in answers:
            if answer.open:
                assert answer.error is not None
                return [Score.skipped(answer.error.code, answer.error.message)] * things
            told = [Vote(error=answer.error)] * things if answer.error else read(answer.value)
            for i, vote in enumerate(told):
                if verdicts[i] is None:
                    votes[i].append(vote)
                    verdicts[i] = decide(votes[i], len(slots), rule)
        asked += len(wave)
    return [
        failure_of(own, slots) if verdict is None else score_of(verdict, own, slots, rule)
        for own, verdict in zip(votes, verdicts, strict=True)
    ]

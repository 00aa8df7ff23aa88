"""Runs several judgings of one row concurrently: each step asks the questions of all of them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

from ...schemas.calls import NOT_MADE
from ...schemas.judging import Answer, Ask
from ...schemas.result import Score

T = TypeVar("T")


def run_together(
    judgings: Sequence[Generator[list[Ask], Sequence[Answer], T]],
) -> Generator[list[Ask], Sequence[Answer], list[T]]:
    """Runs judgings concurrently and returns their results in order.

    scores = yield from run_together([self.poll(...) for chunk in chunks])
    """
    scores: dict[int, T] = {}
    asked: dict[int, list[Ask]] = {}

    def advance(place: int, answers: Sequence[Answer] | None) -> None:
        try:
            asked[place] = judgings[place].send(answers)  # type: ignore[arg-type]  (None starts a generator)
        except StopIteration as done:
            scores[place] = done.value
            asked.pop(place, None)

    for place in range(len(judgings)):
        advance(place, None)
    while asked:
        answers = iter((yield [ask for asks in asked.values() for ask in asks]))
        for place, asks in list(asked.items()):
            advance(place, [next(answers) for _ in asks])
    return [scores[place] for place in range(len(judgings))]


def find_unasked(scores: Sequence[Score]) -> Score | None:
    """Returns the first score whose questions were not asked because the run stopped, or `None`."""
    return next((s for s in scores if s.error is not None and s.error.code in NOT_MADE), None)

"""Plays the judge: answers the questions of a judging, as a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evalbeam.schemas.judging import Answer, Ask
from evalbeam.schemas.result import ScoreError


def driven(judging: Any, answer: Callable[[Ask], Answer]) -> tuple[Any, list[list[Ask]]]:
    """(what it comes to, the questions of each round) where `answer` answers each question."""
    rounds: list[list[Ask]] = []
    answers = None
    try:
        while True:
            rounds.append(judging.send(answers))
            answers = [answer(ask) for ask in rounds[-1]]
    except StopIteration as done:
        return done.value, rounds


def held(judging: Any, *said: Any) -> tuple[Any, list[Ask]]:
    """(what it comes to, all questions) with one answer for each question, the last one for all that follow.

    An answer is an `Answer`, the value of one, or the error of a failed one.
    """
    left = list(said)
    score, rounds = driven(judging, lambda _: _answer(left.pop(0) if len(left) > 1 else left[0]))
    return score, [ask for asks in rounds for ask in asks]


def shared(one: str, two: str) -> str:
    """The beginning that two texts have in common."""
    return one[: next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))]


def _answer(said: Any) -> Answer:
    if isinstance(said, Answer):
        return said
    return Answer(error=said) if isinstance(said, ScoreError) else Answer(said)

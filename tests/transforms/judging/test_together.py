"""Judgings side by side: one list of questions at each step, answers to those who asked."""

from __future__ import annotations

from typing import Any

from evalbeam.schemas.judging import Answer, Ask, Judging
from evalbeam.schemas.result import Score, ScoreError
from evalbeam.transforms.judging.panel import find_unasked
from evalbeam.transforms.runtime.dialogue import run_together

from .scripted import driven


def counting(name: str, rounds: int) -> Judging:
    """Asks `rounds` times, once more each time, and gives what it was told."""
    heard: list[Any] = []
    for i in range(rounds):
        answers = yield [Ask((), {}, f"{name}{i}{j}") for j in range(i + 1)]
        heard += [a.value for a in answers]
    return Score(float(rounds), details=heard)


def test_each_is_told_what_it_asked_for() -> None:
    judging = run_together([counting("a", 2), counting("b", 0), counting("c", 3)])
    scores, rounds = driven(judging, lambda ask: Answer(ask.judge))
    assert [[ask.judge for ask in asks] for asks in rounds] == [
        ["a00", "c00"],
        ["a10", "a11", "c10", "c11"],
        ["c20", "c21", "c22"],
    ]
    assert [s.value for s in scores] == [2.0, 0.0, 3.0]
    assert scores[0].details == ["a00", "a10", "a11"]
    assert scores[2].details == ["c00", "c10", "c11", "c20", "c21", "c22"]


def test_questions_that_were_not_asked_leave_the_whole_open() -> None:
    stopped = Score(status="skipped", error=ScoreError("over_budget", ""))
    assert find_unasked([Score(1.0), Score.failed("refused", ""), stopped]) == stopped
    assert find_unasked([Score(1.0), Score.failed("refused", "")]) is None

"""Generators that ask: a result without questions, errors, and several at once, each told what it asked for."""

from __future__ import annotations

import pytest

from evalbeam.transforms.runtime.dialogue import Asking, Dialogue, play, run_together


def counting(name: str, rounds: int) -> Asking[str, str, list[str]]:
    """Asks `rounds` times, once more each time, and returns what it was told."""
    heard: list[str] = []
    for i in range(rounds):
        heard += yield [f"{name}{i}{j}" for j in range(i + 1)]
    return heard


def test_each_is_told_what_it_asked_for() -> None:
    rounds: list[list[str]] = []

    def answer(questions: list[str]) -> list[str]:
        rounds.append(questions)
        return [question.upper() for question in questions]

    results = play(run_together([counting("a", 2), counting("b", 0), counting("c", 3)]), answer)
    assert rounds == [["a00", "c00"], ["a10", "a11", "c10", "c11"], ["c20", "c21", "c22"]]
    assert results == [["A00", "A10", "A11"], [], ["C00", "C10", "C11", "C20", "C21", "C22"]]


def test_without_questions_there_is_a_result_at_once() -> None:
    dialogue = Dialogue(counting("a", 0))
    assert (dialogue.asked, dialogue.result) == (None, [])
    assert play(run_together([]), lambda _: pytest.fail("nothing is asked")) == []


def test_what_a_generator_raises_comes_out_where_it_is_driven() -> None:
    def broken() -> Asking[str, str, None]:
        yield ["a"]
        raise ValueError("broken")

    dialogue = Dialogue(broken())
    assert dialogue.asked == ["a"]
    with pytest.raises(ValueError, match="broken"):
        dialogue.answer(["A"])

"""Generators that ask: the one way in which questions to slow services are written without calling them.

Such a generator yields a list of questions, is sent their answers in order, any number of times, and returns its
result. Whoever has the answers drives it: a Beam step across bundles, a script in one process, a test.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Generic, TypeAlias, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")
Asking: TypeAlias = Generator[list[Q], Sequence[A], R]
"""A generator that yields questions, is sent answers and returns a result."""


class Dialogue(Generic[Q, A, R]):
    """A started generator that asks.

    Whatever the generator raises comes out of the constructor or of `answer`.

    Attributes:
        asked: The open questions; `None` once there is a result.
        result: What the generator returned; set once `asked` is `None`.
    """

    __slots__ = ("_asking", "asked", "result")

    asked: list[Q] | None
    result: R

    def __init__(self, asking: Asking[Q, A, R]) -> None:
        self._asking = asking
        self.answer(None)

    def answer(self, answers: Sequence[A] | None) -> None:
        """Sends the answers to the open questions, in order; `None` starts the generator."""
        try:
            self.asked = self._asking.send(answers)  # type: ignore[arg-type]  (None starts a generator)
        except StopIteration as done:
            self.asked, self.result = None, done.value


def play(asking: Asking[Q, A, R], answer: Callable[[list[Q]], Sequence[A]]) -> R:
    """Runs a generator to its result, with all its questions answered by a function."""
    dialogue = Dialogue(asking)
    while dialogue.asked is not None:
        dialogue.answer(answer(dialogue.asked))
    return dialogue.result


def run_together(askings: Sequence[Asking[Q, A, R]]) -> Asking[Q, A, list[R]]:
    """Runs generators concurrently: each step asks the questions of all of them. Returns their results in order.

    scores = yield from run_together([self.poll(...) for chunk in chunks])
    """
    dialogues = [Dialogue(asking) for asking in askings]
    while open_ := [(d, d.asked) for d in dialogues if d.asked is not None]:
        answers = iter((yield [question for _, asked in open_ for question in asked]))
        for dialogue, asked in open_:
            dialogue.answer([next(answers) for _ in asked])
    return [dialogue.result for dialogue in dialogues]

"""Judging sessions: the state of one row under one metric, and its next questions to judges."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..schemas.instance import Example
from ..schemas.judging import Answer, Ask
from ..schemas.result import Score
from .judging.joint_questions import can_join, sort_key
from .metrics._inputs import ConfiguredMetric
from .metrics._judged import JudgedMetric
from .metrics.base import failure_of
from .runtime.dialogue import Dialogue


class Session:
    """The judging of one row under one metric.

    Attributes:
        metric: Name of the metric.
        place: Place of the row in its batch.
        asks: Its open questions.
        answers: Their answers, filled in by the caller.
        score: The score, once it is known.
        joinable: Whether its questions may be joined with those of other metrics.
    """

    __slots__ = ("_dialogue", "answers", "asks", "joinable", "metric", "place", "score")

    def __init__(self, use: ConfiguredMetric, example: Example, place: int) -> None:
        assert isinstance(use.metric, JudgedMetric)
        self.metric, self.place, self.joinable = use.name, place, use.metric.joinable
        self.asks: list[Ask] = []
        self.answers: list[Answer] = []
        self.score: Score | None = None
        try:
            self._dialogue = Dialogue(use.metric.judged(example))
            self._take_up()
        except Exception as error:  # an error of a metric is a failure of the row, and never ends the run
            self.score = failure_of(error)

    def advance(self) -> None:
        """Sends the answers to the metric, which asks further questions or returns the score."""
        self.asks = []
        try:
            self._dialogue.answer(self.answers)
            self._take_up()
        except Exception as error:
            self.score = failure_of(error)

    def _take_up(self) -> None:
        dialogue = self._dialogue
        while dialogue.asked == []:
            dialogue.answer([])
        if dialogue.asked is None:
            self.score = dialogue.result
        else:
            self.asks, self.answers = dialogue.asked, [Answer()] * len(dialogue.asked)


class Part(NamedTuple):
    """One question of a session, and its place among the questions."""

    session: Session
    place: int

    @property
    def ask(self) -> Ask:
        """The question."""
        return self.session.asks[self.place]


def grouped(sessions: Sequence[Session], joint: Collection[str]) -> list[list[Part]]:
    """Groups the open questions of sessions; a judge answers the questions of a group in one call.

    A group has questions of one row to one judge with the same number of the vote. If sessions have several of them,
    the first questions are one group, the second ones another.

    Args:
        sessions: The open sessions of a batch.
        joint: The judges that take several questions in one call.
    """
    groups: dict[tuple[object, ...], list[Part]] = {}
    for number, session in enumerate(sessions):
        seen: dict[tuple[str, int], int] = {}
        for place, ask in enumerate(session.asks):
            key: tuple[object, ...] = (number, place, "alone")
            if session.joinable and ask.judge in joint and can_join(ask):
                nth = seen[ask.judge, ask.vote] = seen.get((ask.judge, ask.vote), -1) + 1
                key = (session.place, ask.judge, ask.vote, nth)
            groups.setdefault(key, []).append(Part(session, place))
    for group in groups.values():
        if len(group) > 1:
            group.sort(key=lambda part: sort_key(part.ask))
    return list(groups.values())

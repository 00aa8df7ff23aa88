"""Judging sessions: the state of one row under one metric, and its next questions to judges."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..schemas.instance import Example
from ..schemas.judging import Answer, Ask, Judging
from ..schemas.result import Score
from .judging.joint_questions import can_join, sort_key
from .metrics._inputs import ConfiguredMetric
from .metrics._judged import JudgedMetric
from .metrics.base import failure_of


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

    __slots__ = ("answers", "asks", "joinable", "judging", "metric", "place", "score")

    def __init__(self, use: ConfiguredMetric, example: Example, place: int) -> None:
        assert isinstance(use.metric, JudgedMetric)
        self.metric, self.place, self.joinable = use.name, place, use.metric.joinable
        self.asks: list[Ask] = []
        self.answers: list[Answer] = []
        self.score: Score | None = None
        try:
            self.judging: Judging = use.metric.judged(example)
            self._send(None)
        except Exception as error:
            self.score = failure_of(error)

    def advance(self) -> None:
        """Sends the answers to the metric, which asks further questions or returns the score."""
        self._send(self.answers)

    def _send(self, answers: list[Answer] | None) -> None:
        self.asks = []
        while self.score is None and not self.asks:
            try:
                self.asks = self.judging.send(answers)  # type: ignore[arg-type]  (None starts a generator)
                answers = []
            except StopIteration as done:
                self.score = done.value
            except Exception as error:  # an error of a metric is a failure of the row, and never ends the run
                self.score = failure_of(error)
        self.answers = [Answer()] * len(self.asks)


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

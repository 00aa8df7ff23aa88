"""A panel on several things at once comes to what a panel on each of them would."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.judging import Answer, Ask
from evalbeam.schemas.result import Score, ScoreError
from evalbeam.transforms.judging.joint import run_joint_panel
from evalbeam.transforms.judging.panel import Rule, Vote, make_slots, run_panel

from .scripted import driven

FAILED = ScoreError("invalid_verdict", "nothing said of it")
VOTES = st.sampled_from([1.0, 0.0, None])


def vote(value: float | None) -> Vote:
    return Vote(error=FAILED) if value is None else Vote(value, str(value))


def drive(judging: Any, answer: Any) -> tuple[Any, int]:
    verdicts, rounds = driven(judging, answer)
    return verdicts, sum(map(len, rounds))


def ask(slot: Any) -> Ask:
    return Ask((), {}, slot.judge, slot.vote)


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(VOTES, min_size=n, max_size=n), min_size=1, max_size=7)))
def test_each_verdict_is_that_of_a_panel_of_its_own(said: list[list[float | None]]) -> None:
    slots, rule = make_slots(["default"], len(said)), Rule("majority", 0.0)

    def read(value: Any) -> list[Vote]:
        return [vote(v) for v in value]

    scores, asked = drive(run_joint_panel(slots, ask, read, len(said[0]), rule), lambda a: Answer(said[a.vote]))
    counts = []
    for i, score in enumerate(scores):
        alone, count = drive(run_panel(slots, ask, lambda v, s, i=i: vote(v[i]), rule), lambda a: Answer(said[a.vote]))
        assert (score.value, score.status, score.explanation) == (alone.value, alone.status, alone.explanation)
        counts.append(count)
    assert max(counts) <= asked <= len(said)


def test_failed_votes_leave_the_others_standing_and_open_ones_the_whole_open() -> None:
    slots, rule = make_slots(["default"], 3), Rule("majority", 0.0)
    answers = {0: Answer(error=ScoreError("refused", "no")), 1: Answer([1.0, 0.0]), 2: Answer([1.0, 0.0])}
    made = lambda: run_joint_panel(slots, ask, lambda v: [vote(x) for x in v], 2, rule)  # noqa: E731
    scores, _ = drive(made(), lambda a: answers[a.vote])
    assert [s.value for s in scores] == [1.0, 0.0]
    stopped = Answer(error=ScoreError("not_called", "stopped"))
    scores, _ = drive(made(), lambda a: stopped)
    assert scores == [Score.skipped("not_called", "stopped")] * 2

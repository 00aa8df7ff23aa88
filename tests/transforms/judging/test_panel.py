"""Panels: the verdict of all votes with the fewest of them, whatever order they come in."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from evalbeam.schemas.judging import Answer, Ask
from evalbeam.schemas.result import Score, ScoreError
from evalbeam.transforms.judging.panel import Rule, Vote, decide, find_unasked, make_slots, run_panel

FAILED = Answer(error=ScoreError("judge_failed", "TimeoutError"))
BINARY, PAIRWISE, FIVE = Rule(tie=0.0), Rule(tie="TIE"), Rule()


def hold(votes, rule=FIVE, judges=("j",), flip=False):
    """(score, slots asked in order) of a panel whose votes are given by number."""
    slots = make_slots(judges, len(votes) // len(judges), flip)
    asked: list[int] = []

    def ask(slot):
        asked.append(slots.index(slot))
        return Ask((), {}, slot.judge, slot.vote)

    def read(value, slot):
        return Vote(value, f"vote {slots.index(slot)}")

    judging = run_panel(slots, ask, read, rule)
    try:
        asks = next(judging)
        while True:
            asks = judging.send([answer_of(votes[n]) for n in asked[len(asked) - len(asks) :]])
    except StopIteration as done:
        return done.value, asked


def answer_of(vote):
    return vote if isinstance(vote, Answer) else Answer(vote)


def full_verdict(votes, rule):
    """The verdict of all votes, by definition: more than half of those received, else the tie or the lower median."""
    received = [v for v in votes if not isinstance(v, Answer)]
    if not received:
        return None
    value, count = Counter(received).most_common(1)[0]
    if 2 * count > len(received):
        return value
    return rule.tie if rule.tie is not None else sorted(received)[(len(received) - 1) // 2]


def test_a_single_vote_is_the_verdict():
    score, asked = hold([4.0])
    assert (score.value, score.explanation, score.confidence, score.details, asked) == (4.0, "vote 0", 1.0, None, [0])


def test_two_agreeing_votes_of_three_are_enough():
    score, asked = hold([4.0, 4.0, 1.0])
    assert (score.value, score.confidence, asked) == (4.0, 1.0, [0, 1])
    score, asked = hold([4.0, 1.0, 4.0])
    assert (score.value, round(score.confidence or 0, 3), score.explanation, asked) == (4.0, 0.667, "vote 0", [0, 1, 2])


@pytest.mark.parametrize(
    ("votes", "rule", "verdict", "asked"),
    [
        ([1.0, 2.0, 3.0], FIVE, 2.0, 3),
        ([1.0, 5.0], FIVE, 1.0, 2),
        ([1.0, 0.0], BINARY, 0.0, 2),
        (["CANDIDATE", "BASELINE"], PAIRWISE, "TIE", 2),
        (["CANDIDATE", "BASELINE", "TIE", "BASELINE"], PAIRWISE, "TIE", 3),
        ([FAILED, 3.0, 3.0], FIVE, 3.0, 3),
        ([FAILED, FAILED, 2.0], FIVE, 2.0, 3),
        ([2.0, FAILED, 4.0], FIVE, 2.0, 3),
        ([1.0, 2.0, 5.0], Rule("mean"), 8 / 3, 3),
        ([5.0, 2.0, 5.0, 1.0], Rule("median"), 2.0, 4),
        ([5.0, 5.0, 1.0], Rule("mean"), 11 / 3, 3),
    ],
)
def test_verdicts(votes, rule, verdict, asked):
    score, made = hold(votes, rule)
    assert (score.label if isinstance(verdict, str) else score.value) == verdict
    assert made == list(range(asked))


def test_failed_votes_are_no_verdicts():
    score, asked = hold([FAILED, FAILED, FAILED])
    assert (score.status, score.value, score.error.code, len(asked)) == ("error", None, "judge_failed", 3)
    assert [v["error"] for v in score.details["votes"]] == ["judge_failed"] * 3


def test_a_vote_that_was_not_asked_for_leaves_the_row_open():
    score, _ = hold([3.0, Answer(error=ScoreError("over_budget", "")), 3.0])
    assert (score.status, score.error.code) == ("skipped", "over_budget")
    score, _ = hold([Answer(error=ScoreError("not_called", ""))])
    assert (score.status, score.error.code) == ("skipped", "not_called")


def test_several_judges_sit_in_turn_and_half_of_the_votes_are_flipped():
    found = make_slots(("a", "b"), 2)
    assert [(s.judge, s.vote, s.flipped) for s in found] == [
        ("a", 0, False), ("b", 0, False), ("a", 1, False), ("b", 1, False)
    ]  # fmt: skip
    assert [s.flipped for s in make_slots(("a",), 5, flip=True)] == [False, False, False, True, True]


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("judges", [("a",), ("a", "b"), ("a", "b", "c")])
def test_a_larger_panel_holds_the_votes_of_a_smaller_one(judges, flip):
    for samples in range(1, 8):
        small, large = set(make_slots(judges, samples, flip)), set(make_slots(judges, samples + 1, flip))
        assert small <= large
        assert len(large) - len(small) == len(judges)


def test_early_stop_never_changes_a_verdict():
    """10,000 simulated rows of panels of 5, a tenth of the votes failing: as with all votes, and at a lower cost."""
    chance = random.Random(8)
    rows = calls = 0
    for rule, choices in ((BINARY, (0.0, 1.0)), (PAIRWISE, ("BASELINE", "CANDIDATE", "TIE")), (FIVE, (1.0, 2.0, 3.0))):
        for _ in range(3_400):
            likely = chance.choice(choices)
            votes = [
                FAILED if chance.random() < 0.1 else likely if chance.random() < 0.7 else chance.choice(choices)
                for _ in range(5)
            ]
            score, asked = hold(votes, rule)
            value = score.label if isinstance(rule.tie, str) else score.value
            assert value == full_verdict(votes, rule)
            assert asked == list(range(len(asked)))
            rows, calls = rows + 1, calls + len(asked)
    assert rows >= 10_000
    assert calls < 0.8 * 5 * rows


@pytest.mark.parametrize(
    ("rule", "choices"), [(BINARY, (0.0, 1.0)), (PAIRWISE, ("A", "B", "TIE")), (FIVE, (1.0, 2.0, 3.0))]
)
def test_a_prefix_decides_only_what_no_further_vote_can_change(rule, choices):
    for size in (1, 2, 3, 4, 5):
        for votes in itertools.product((*choices, FAILED), repeat=size):
            prefix: list[Vote] = []
            for vote in votes:
                prefix.append(Vote(error=FAILED.error) if isinstance(vote, Answer) else Vote(vote))
                verdict = decide(prefix, size, rule)
                if verdict is not None:
                    assert verdict == full_verdict(votes, rule)
                    break
            else:
                assert all(isinstance(v, Answer) for v in votes)


def test_the_score_is_a_score():
    assert isinstance(hold([3.0])[0], Score)


def test_questions_that_were_not_asked_leave_the_whole_open() -> None:
    stopped = Score(status="skipped", error=ScoreError("over_budget", ""))
    assert find_unasked([Score(1.0), Score.failed("refused", ""), stopped]) == stopped
    assert find_unasked([Score(1.0), Score.failed("refused", "")]) is None

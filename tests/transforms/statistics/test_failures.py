"""Each failing row stands in one group; groups are the same whatever order batches come in."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall
from evalbeam.schemas.result import ScoreColumn, ScoredBatch, ScoreError
from evalbeam.transforms.metrics.kernels.calls import Sameness
from evalbeam.transforms.statistics import failures
from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.failures import Failure, FailureTest, Messages, diverge, find_failures, mask

EXACT = Sameness("exact", "vertex", False)


def calls(text: str) -> tuple[ToolCall, ...]:
    """ "a b:1" -> a call of `a` without arguments and one of `b` with x = 1."""
    parts = (one.partition(":") for one in text.split())
    return tuple(ToolCall(name, {"x": value} if value else {}) for name, _, value in parts)


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("row 17 of file-3a.csv", "row … of ….csv"),
        ("found 'kitchen light' (allowed: \"on\", `off`)", "found … (allowed: …, …)"),
        ("request 6f1c0d1e-aa00-4bd1-9c0f-000000000001 timed out after 1.50 s", "request … timed out after … s"),
        ("GET https://host/a?b=1 failed", "GET … failed"),
        ("it's the agent's fault", "it's the agent's fault"),
    ],
)
def test_what_differs_from_row_to_row_is_masked(message: str, masked: str) -> None:
    assert mask(message) == masked


@pytest.mark.parametrize(
    ("predicted", "reference", "step"),
    [
        ("a b", "a b", None),
        ("a", "a b", ("missing", "b")),
        ("b", "a b", ("missing", "a")),
        ("", "a", ("missing", "a")),
        ("a b", "b", ("extra", "a")),
        ("a b", "a", ("extra", "b")),
        ("c", "a", ("wrong_tool", "c instead of a")),
        ("b a", "a b", ("wrong_tool", "b instead of a")),
        ("a b:1", "a b:2", ("wrong_argument", "b(x)")),
        ("a:1 c", "a b", ("wrong_argument", "a(x)")),
    ],
)
def test_the_first_diverging_step(predicted: str, reference: str, step: tuple[str, str] | None) -> None:
    assert diverge(calls(predicted), calls(reference), EXACT) == step


@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
def test_trajectories_diverge_unless_they_are_equal(predicted: list[str], reference: list[str]) -> None:
    step = diverge(calls(" ".join(predicted)), calls(" ".join(reference)), EXACT)
    assert (step is None) == (predicted == reference)


def batch() -> ScoredBatch:
    wanted = [{"tool_name": "a", "tool_input": {}}]
    made = [calls("a"), calls("a"), calls("b"), calls("b"), None, calls("b")]
    examples = [
        Example(
            Instance(f"i{i}", {"reference_trajectory": wanted}),
            Invocation("failed" if t is None else "ok", predicted_trajectory=t, error_type=None if t else "Timeout"),
        )
        for i, t in enumerate(made)
    ]
    match = ScoreColumn([1.0, 1.0, 0.0, 0.0, None, 0.0], {4: "skipped"})
    judge = ScoreColumn([5.0, 1.0, 1.0, None, None, 5.0], {3: "error", 4: "skipped"})
    judge.errors |= {3: ScoreError("no_verdict", "vote 1 of 3"), 4: ScoreError("agent_failed", "no answer")}
    return ScoredBatch(examples, {"match": match, "judge": judge})


TESTS = (FailureTest("match", Threshold(1), steps=("exact", "vertex")), FailureTest("judge", Threshold(3)))


def test_each_failing_row_has_the_first_reason_that_is_true() -> None:
    step = Failure("trajectory", "match", "wrong_tool", "b instead of a")
    assert find_failures(batch(), TESTS) == {
        1: Failure("score", "judge", None, "score below 3"),
        2: step,
        3: Failure("error", "judge", "no_verdict", "vote … of …"),
        4: Failure("call", None, "Timeout", ""),
        5: step,
    }


def test_without_bounds_the_worst_score_fails() -> None:
    found = find_failures(batch(), [FailureTest("judge", worst=1.0)])
    assert {i: f.message for i, f in found.items() if f.kind == "score"} == {1: "score 1", 2: "score 1"}


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_exact_bounded_and_independent_of_the_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "MESSAGES", 7)
    chance = random.Random(seed)
    rows = [(f"m{chance.randrange(20)}", [f"id{i:04d}", 0]) for i in range(500)]

    def merged(parts: int) -> Messages:
        chance.shuffle(rows)
        found = []
        for part in range(parts):
            found.append(Messages())
            for message, place in rows[part::parts]:
                found[-1].add(message, 1, [place])
            found[-1].bound()
        whole = Messages()
        for one in found:
            whole.absorb(Messages.from_bytes(one.to_bytes()))
        return whole

    whole = merged(1)
    assert all(merged(parts).to_bytes() == whole.to_bytes() for parts in (2, 9, 500))
    exact = Counter(message for message, _ in rows)
    assert len(whole.counts) == 8
    assert all(exact[message] == count for message, count in whole.counts.items() if message)
    assert sum(whole.counts.values()) == 500
    ids = {message: sorted(p for m, p in rows if m == message)[:3] for message in exact}
    assert all(places == ids[message] for message, places in whole.places.items() if message)

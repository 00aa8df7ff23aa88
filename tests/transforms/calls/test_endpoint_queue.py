"""The window of one endpoint under a virtual clock: its places, its attempts and what a call ends with."""

import asyncio
import collections
import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_world import HttpError, World, list_scheduling, takes

from evalbeam.schemas.errors import JudgeError
from evalbeam.schemas.usage import tokens_of


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=120), st.integers(1, 8))
def test_the_window_slides_without_a_barrier(durations, places):
    world = World(takes, max_in_flight=places)
    outcomes = world.run(durations)
    ends = max(t[0] + d for t, d in zip(world.attempts.values(), durations, strict=True))
    assert ends == pytest.approx(list_scheduling(durations, places))
    assert world.peak == min(places, len(durations))
    assert [o.value for o in outcomes] == durations
    assert [o.latency_in_seconds for o in outcomes] == pytest.approx(durations)
    starts = [t[0] for t in world.attempts.values()]
    assert [o.queued_in_seconds for o in outcomes] == pytest.approx(starts)


def test_transient_failures_are_tried_again_within_full_jitter():
    async def third_time_lucky(request, attempt):
        await asyncio.sleep(1)
        if attempt < 3:
            raise HttpError(503)
        return attempt

    world = World(third_time_lucky, max_in_flight=50, backoff=2.0, max_backoff=3.0)
    outcomes = world.run([0] * 50)
    assert {(o.kind, o.value, o.attempts) for o in outcomes} == {("ok", 3, 3)}
    waits = [(b - a - 1, c - b - 1) for a, b, c in world.attempts.values()]
    assert all(0 <= first <= 2 and 0 <= second <= 3 for first, second in waits)
    assert max(second for _, second in waits) > 2 > 1 > min(first for first, _ in waits)  # jitter over the whole range
    assert [o.backoff_in_seconds for o in outcomes] == pytest.approx([sum(w) for w in waits])
    assert [o.latency_in_seconds for o in outcomes] == pytest.approx([1.0] * 50)


@pytest.mark.parametrize(
    ("error", "kind", "attempts"),
    [
        (HttpError(400), "permanent", 1),
        (HttpError(500), "transient", 3),
        (HttpError(429), "rate_limited", 30),
        (ConnectionResetError("peer"), "transient", 3),
        (TimeoutError(), "timeout", 3),
        (ValueError("no"), "permanent", 1),
        (SystemExit(3), "permanent", 1),
        (KeyboardInterrupt(), "permanent", 1),
        (asyncio.CancelledError(), "transient", 3),
    ],
)
def test_what_fails_for_good_says_why_and_how_often(error, kind, attempts):
    async def fail(request, attempt):
        raise error

    (outcome,) = World(fail, max_attempts=3, rate_limit_timeout=1e5).run([0])
    assert (outcome.kind, outcome.error_type, outcome.attempts) == (kind, type(error).__name__, attempts)
    assert outcome.value is None
    assert outcome.latency_in_seconds is None


def test_named_exception_types_are_tried_again():
    async def fail(request, attempt):
        raise LookupError("odd")

    assert World(fail, retry_on=("LookupError",)).run([0])[0].attempts == 3
    assert World(fail, retry_on=("builtins.LookupError",)).run([0])[0].attempts == 3


def test_what_attempts_used_before_the_last_one_is_told_with_it():
    def unread(made):
        error = JudgeError("no verdict")
        error.usage = None if made is None else {"input_tokens": 100, "output_tokens": made}
        return error

    async def read(request, attempt):
        if attempt <= request:
            raise unread(attempt)
        if request == 4:
            raise ValueError("for good")
        return {"value": 1, "usage": {"input_tokens": 100, "output_tokens": 50}}

    outcomes = World(read, retry_on=("JudgeError",), max_attempts=3, backoff=0).run([0, 1, 2, 3])
    own = {"input_tokens": 100, "output_tokens": 50}
    earlier = [{"input_tokens": 100, "output_tokens": 1}, {"input_tokens": 200, "output_tokens": 3}]
    assert [o.value["usage"] for o in outcomes] == [
        own,
        {**own, "earlier": earlier[0]},
        {**own, "earlier": earlier[1]},
        {"input_tokens": 100, "output_tokens": 3, "earlier": earlier[1]},
    ]
    assert [tokens_of(o.value) for o in outcomes] == [150, 251, 353, 306]


def test_an_outage_does_not_multiply_traffic():
    async def down(request, attempt):
        raise HttpError(503)

    world = World(down, max_in_flight=20, max_attempts=5)
    outcomes = world.run([0] * 1000)
    assert {o.kind for o in outcomes} == {"transient"}
    assert sum(map(len, world.attempts.values())) == 1000 + 20 * 4


def test_a_healthy_endpoint_pays_for_its_retries():
    async def every_other(request, attempt):
        if attempt == 1 and request % 2:
            raise HttpError(503)
        return request

    world = World(every_other, max_in_flight=4, max_attempts=2)
    assert {o.kind for o in world.run(list(range(1000)))} == {"ok"}


def test_answers_that_cannot_be_used_are_answers():
    """All first attempts end before any second one begins: more than the reserve of retries, and none is refused."""

    async def muddled(request, attempt):
        if attempt == 1:
            error = JudgeError("no verdict")
            error.usage = {"input_tokens": 100, "output_tokens": 1} if request else None
            raise error
        return {"value": 1}

    policy = {"retry_on": ("JudgeError",), "max_in_flight": 4, "max_attempts": 2, "backoff": 1e6, "max_backoff": 1e6}
    outcomes = World(muddled, **policy).run([1] * 200)
    assert {(o.kind, o.attempts) for o in outcomes} == {("ok", 2)}
    silent = World(muddled, **policy).run([0] * 200)  # nobody says that the endpoint answered
    assert collections.Counter(o.kind for o in silent) == {"ok": 32, "transient": 168}


def test_a_hung_coroutine_is_cancelled_and_its_place_taken():
    async def hang_first(request, attempt):
        await asyncio.sleep(1e6 if attempt == 1 and request else 1)
        return "late"

    world = World(hang_first, timeout=10, max_in_flight=2, backoff=0)
    outcomes = world.run([1, 1, 0, 0])
    assert [(o.kind, o.attempts) for o in outcomes] == [("ok", 2), ("ok", 2), ("ok", 1), ("ok", 1)]
    assert [o.latency_in_seconds for o in outcomes] == [1, 1, 1, 1]
    assert world.attempts["2"] in ([10.0], [11.0])
    assert not world.queue.abandoned


def test_a_deadline_bounds_all_attempts_of_a_row():
    async def hang(request, attempt):
        await asyncio.sleep(1e6)

    world = World(hang, timeout=10, deadline=25, backoff=0, max_attempts=100)
    (outcome,) = world.run([0])
    assert (outcome.kind, outcome.attempts) == ("timeout", 3)
    assert "deadline" in outcome.error_message
    assert world.attempts["0"] == [0, 10, 20]


def test_coroutines_that_refuse_to_be_cancelled_do_not_stop_the_run():
    async def stubborn(request, attempt):
        while world.loop.time() < 2000:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(100 if request else 1)
            if not request:
                return "fine"
            await asyncio.sleep(0)
        return None

    world = World(stubborn, timeout=10, max_in_flight=5, max_abandoned_calls=10, max_attempts=1)
    outcomes = world.run([1] * 30 + [0] * 5, rows=35)
    kinds = [o.kind for o in outcomes]
    assert kinds[:10] == ["timeout"] * 10
    assert set(kinds) <= {"timeout", "not_called", "ok"}
    assert kinds.count("not_called") > 0
    assert all(o.attempts == 0 and o.error_type == "NotCalled" for o in outcomes if o.kind == "not_called")


@pytest.mark.parametrize("seconds", [0.05, 50.0])
def test_the_window_starts_small_and_is_open_within_a_second_or_two(seconds):
    world = World(takes, max_in_flight=256)
    world.run([seconds] * 2000, rows=100)
    starts = sorted(t[0] for t in world.attempts.values())
    assert sum(start == 0 for start in starts) == 8
    assert world.peak == 256
    ideal = list_scheduling([seconds] * 2000, 256)
    assert max(starts) + seconds <= ideal + 1.5


BEHAVIOURS = {
    "ok": ("ok",),
    "slow": ("ok",),
    "error": ("permanent",),
    "busy": ("ok", "rate_limited"),
    "down": ("transient",),
    "hang": ("timeout",),
}


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.sampled_from(sorted(BEHAVIOURS)), min_size=1, max_size=60),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(1, 30),
)
def test_every_call_has_one_outcome_of_its_own(plan, places, max_attempts, rows):
    async def act(request, attempt):
        kind, number = request
        if kind == "hang":
            await asyncio.sleep(1e6)
        await asyncio.sleep(5 if kind == "slow" else 1)
        if kind == "error":
            raise ValueError(number)
        if kind == "down" or (kind == "busy" and attempt == 1):
            raise HttpError(503 if kind == "down" else 429)
        return number

    world = World(act, max_in_flight=places, max_attempts=max_attempts, timeout=20)
    outcomes = world.run([(kind, i) for i, kind in enumerate(plan)], rows)
    for i, (kind, outcome) in enumerate(zip(plan, outcomes, strict=True)):
        assert outcome.kind in BEHAVIOURS[kind]
        assert outcome.value == (i if outcome.kind == "ok" else None)
        assert outcome.attempts == len(world.attempts[str(i)]) <= max_attempts
    if "hang" not in plan:  # a cancelled coroutine unwinds while the next one begins
        assert world.peak <= places


@pytest.mark.parametrize(("share", "slower"), [(0.0, 1.1), (0.01, 1.5), (0.1, 3.0), (0.4, 8.0)])
def test_a_server_with_all_kinds_of_faults(share, slower):
    """10,000 calls of 50 ms, 64 in flight; a hang costs its timeout of 1 s."""
    draw = random.Random(11)
    random.seed(11)  # the jitter of the retries
    faults = [ValueError("bad"), HttpError(500), HttpError(503, "1"), ConnectionResetError(), None]

    async def act(request, attempt):
        await asyncio.sleep(0.05)
        if draw.random() < share:
            classified = draw.choice(faults)
            if classified is None:
                await asyncio.sleep(1e6)
            raise classified
        return request

    world = World(act, max_in_flight=64, timeout=1.0, backoff=0.1)
    outcomes = world.run(list(range(10_000)), rows=100)
    kinds = collections.Counter(o.kind for o in outcomes)
    assert [o.value for o in outcomes if o.kind == "ok"] == [i for i, o in enumerate(outcomes) if o.kind == "ok"]
    assert set(kinds) <= {"ok", "permanent", "transient", "timeout"}
    lost = share / 5 / (1 - share) + share**3  # an error for good, or three others in a row
    assert 10_000 - kinds["ok"] <= 1.5 * 10_000 * lost + 20
    assert max(t[-1] for t in world.attempts.values()) <= slower * 10_000 / 64 * 0.05

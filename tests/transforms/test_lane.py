"""The window of one endpoint under a virtual clock: nothing here waits, every duration is exact."""

import asyncio
import collections
import contextlib
import heapq
import itertools
import math
import random
import selectors

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_bucket import Bucket

from evalbeam.schemas.calls import Call, CallPolicy
from evalbeam.schemas.errors import JudgeError
from evalbeam.transforms.budget import tokens_of
from evalbeam.transforms.bundle import Bundle
from evalbeam.transforms.engine import Line
from evalbeam.transforms.lane import Lane, Ticket
from evalbeam.transforms.tasks import Loop


class _NoWait(selectors.SelectSelector):
    """Never sleeps: what the loop would have slept is added to its clock."""

    slept = 0.0

    def select(self, timeout=None):
        self.slept += timeout or 0.0
        return super().select(0)


class VirtualLoop(Loop):
    def __init__(self):
        self._clock = _NoWait()
        super().__init__(self._clock)

    def time(self):
        return self._clock.slept


class HttpError(Exception):
    def __init__(self, status, retry_after=None):
        super().__init__(f"HTTP {status}")
        self.status_code, self.headers = status, {"Retry-After": retry_after} if retry_after else {}


class World:
    """A lane of its own under a virtual clock, with an agent that follows a script: request -> what attempt n does."""

    def __init__(self, script, loop=None, processes=1, **policy):
        self.loop, self.script = loop or VirtualLoop(), script
        self.lane = Lane(self.loop)
        self.policy = CallPolicy(**policy).for_one_of(processes)
        self.lane.open([self.policy])
        self.line = Line(lambda: self.call, self.policy, self.lane)
        self.attempts: dict[str, list[float]] = {}
        self.flying = self.peak = 0

    async def call(self, call):
        tries = self.attempts.setdefault(call.key, [])
        tries.append(self.loop.time())
        self.flying += 1
        self.peak = max(self.peak, self.flying)
        try:
            return await self.script(call.request, len(tries))
        finally:
            self.flying -= 1

    def run(self, requests, rows=7):
        bundle = Bundle({"agent": self.line})
        tickets = []
        for i in range(0, len(requests), rows):
            calls = [Call(str(i + j), r) for j, r in enumerate(requests[i : i + rows])]
            tickets.append(Ticket(None, [None] * len(calls)))
            bundle.submit(tickets[-1], calls)
        self.finish(bundle, tickets)
        return [outcome for ticket in tickets for outcome in ticket.outcomes]

    def finish(self, bundle, tickets):
        async def until_done():
            while any(t.remaining for t in tickets):
                await asyncio.sleep(0.5)

        self.loop.run_until_complete(until_done())
        assert list(bundle.finished()) != []
        assert not bundle.open
        assert not bundle.held
        self.close()

    def close(self):
        self.loop.run_until_complete(asyncio.sleep(3600))
        assert not self.lane.in_flight
        assert not self.line.timeouts.flights
        assert len(asyncio.all_tasks(self.loop)) == 0
        self.loop.close()


async def takes(seconds, attempt):
    await asyncio.sleep(seconds)
    return seconds


def list_scheduling(durations, places):
    """When the last of the jobs ends if each takes the first free place, in order (Graham 1966)."""
    free = [0.0] * places
    for duration in durations:
        heapq.heapreplace(free, free[0] + duration)
    return max(free)


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

    (outcome,) = World(fail, max_attempts=3, max_refusal=1e5).run([0])
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


def test_retry_after_is_waited_for():
    async def limited(request, attempt):
        if attempt == 1:
            raise HttpError(429, "17")
        return "ok"

    world = World(limited, backoff=0.5)
    world.run([0])
    first, second = world.attempts["0"]
    assert 17 <= second - first <= 17.5


def test_an_hour_of_retry_after_is_not_waited_for():
    async def limited(request, attempt):
        raise HttpError(429, "3600")

    assert World(limited).run([0])[0].attempts == 1


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


def test_a_hung_coroutine_is_cancelled_and_its_place_taken():
    async def hang_first(request, attempt):
        await asyncio.sleep(1e6 if attempt == 1 and request else 1)
        return "late"

    world = World(hang_first, timeout=10, max_in_flight=2, backoff=0)
    outcomes = world.run([1, 1, 0, 0])
    assert [(o.kind, o.attempts) for o in outcomes] == [("ok", 2), ("ok", 2), ("ok", 1), ("ok", 1)]
    assert [o.latency_in_seconds for o in outcomes] == [1, 1, 1, 1]
    assert world.attempts["2"] in ([10.0], [11.0])
    assert not world.lane.hung


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

    world = World(stubborn, timeout=10, max_in_flight=5, max_hung=10, max_attempts=1)
    outcomes = world.run([1] * 30 + [0] * 5, rows=35)
    kinds = [o.kind for o in outcomes]
    assert kinds[:10] == ["timeout"] * 10
    assert set(kinds) <= {"timeout", "not_called", "ok"}
    assert kinds.count("not_called") > 0
    assert all(o.attempts == 0 and o.error_type == "NotCalled" for o in outcomes if o.kind == "not_called")


def test_a_dropped_bundle_leaves_nothing_and_the_other_one_everything():
    world = World(takes, max_in_flight=3)
    doomed, kept = Bundle({"agent": world.line}), Bundle({"agent": world.line})
    lost, found = Ticket("lost", [None] * 20), Ticket("found", [None] * 5)
    doomed.submit(lost, [Call(f"lost {i}", 10) for i in range(20)])
    kept.submit(found, [Call(f"found {i}", 10) for i in range(5)])
    world.loop.call_later(15, doomed.cancel)
    world.finish(kept, [found])
    assert sum(key.startswith("lost") for key in world.attempts) == 6  # two windows of three
    assert lost.outcomes.count(None) == 17
    assert [o.value for o in found.outcomes] == [10] * 5
    assert min(world.attempts["found 0"]) == 15
    assert not list(doomed.finished())


@pytest.mark.parametrize("seconds", [0.05, 50.0])
def test_the_window_starts_small_and_is_open_within_a_second_or_two(seconds):
    world = World(takes, max_in_flight=256)
    world.run([seconds] * 2000, rows=100)
    starts = sorted(t[0] for t in world.attempts.values())
    assert sum(start == 0 for start in starts) == 8
    assert world.peak == 256
    ideal = list_scheduling([seconds] * 2000, 256)
    assert max(starts) + seconds <= ideal + 1.5


def test_a_declared_rate_is_kept_evenly():
    world = World(takes, max_in_flight=100, max_calls_per_minute=600)
    world.run([0.01] * 300, rows=300)
    starts = sorted(t[0] for t in world.attempts.values())
    assert max(starts) == pytest.approx(299 / 10, abs=0.3)
    assert all(b - a >= 0.09 for a, b in itertools.pairwise(starts[5:]))
    assert world.lane.throttled == pytest.approx(30, abs=1)


@pytest.mark.parametrize(("latency", "late"), [(0.1, 1.0), (5.0, 11.0)])
def test_a_declared_rate_of_tokens_is_kept_by_what_answers_have_used(latency, late):
    """600 tokens a second, answers of 50 to 150 tokens: 300 answers take 50 s."""
    draw = random.Random(3)

    async def answer(request, attempt):
        await asyncio.sleep(latency)
        if request % 5 == 0 and attempt == 1:
            raise HttpError(503)
        return {"usage": {"input_tokens": draw.randint(20, 60), "output_tokens": draw.randint(30, 90)}}

    world = World(answer, max_in_flight=64, max_tokens_per_minute=36_000, backoff=0.01)
    outcomes = world.run(list(range(300)), rows=300)
    used = sum(sum(o.value["usage"].values()) for o in outcomes)
    last = max(t[-1] for t in world.attempts.values())
    assert used / 600 - 8 * 120 / 600 - late <= last <= used / 600 + late


class Quota:
    """A server that accepts `rate` calls a second, `rate` at once, and refuses the others at once."""

    def __init__(self, loop, rate, halved_at=math.inf):
        self.loop, self.halved_at, self.bucket = loop, halved_at, Bucket(rate, rate)
        self.accepted, self.refused, self.ended = 0, 0, 0.0

    async def answer(self, request, attempt):
        now = self.loop.time()
        if now >= self.halved_at:
            self.bucket.rate, self.halved_at = self.bucket.rate / 2, math.inf
        if self.bucket.take(now):
            self.refused += 1
            await asyncio.sleep(0.01)
            raise HttpError(429)
        self.accepted += 1
        await asyncio.sleep(0.05)
        self.ended = self.loop.time()
        return "ok"


@pytest.mark.parametrize(
    ("workers", "rate", "halved_at", "first_share", "slower", "refused"),
    [
        (8, 100, math.inf, 1 / 8, 1.10, 0.10),
        (16, 100, math.inf, 1 / 16, 1.10, 0.10),
        (8, 100, 30.0, 1 / 8, 1.10, 0.10),
        (16, 100, 30.0, 1 / 16, 1.10, 0.11),
        (8, 100, math.inf, 1 / 2, 1.10, 0.10),
        (16, 100, math.inf, 1 / 2, 1.10, 0.10),
        (64, 1000, math.inf, 1 / 64, 1.10, 0.10),
        (64, 1000, 30.0, 1 / 64, 1.10, 0.10),
    ],
)
def test_workers_that_know_nothing_of_each_other_share_a_quota(workers, rate, halved_at, first_share, slower, refused):
    """Against the oracle that never sends too much and never too little; makespans, not timings."""
    loop, calls = VirtualLoop(), rate * 60
    random.seed(workers)  # the jitter of the retries
    server = Quota(loop, rate, halved_at)
    shares = [int(calls * first_share)] + [int(calls * (1 - first_share) / (workers - 1))] * (workers - 1)
    worlds = [World(server.answer, loop, workers, max_in_flight=64) for _ in shares]
    tickets = []
    for world, share in zip(worlds, shares, strict=True):
        bundle = Bundle({"agent": world.line})
        tickets.append(Ticket(None, [None] * share))
        bundle.submit(tickets[-1], [Call(str(i), 0) for i in range(share)])

    async def until_done():
        while any(t.remaining for t in tickets):
            await asyncio.sleep(1)
        await asyncio.sleep(60)

    loop.run_until_complete(until_done())
    loop.close()
    assert {o.kind for t in tickets for o in t.outcomes} == {"ok"}
    asked = sum(shares) - rate  # beside the tokens the server starts with
    oracle = asked / rate + max(0.0, asked / rate - halved_at)
    assert server.ended <= slower * oracle
    assert server.refused <= refused * server.accepted


@pytest.mark.parametrize(("share", "slower"), [(0.03, 1.15), (0.05, 1.5)])
def test_refusals_that_do_not_depend_on_the_rate_do_not_slow_the_calls_down(share, slower):
    """10,000 calls of 50 ms, 64 in flight, of which some are refused whatever the rate."""
    draw = random.Random(5)
    random.seed(5)  # the jitter of the retries

    async def moody(request, attempt):
        await asyncio.sleep(0.05)
        if draw.random() < share:
            raise HttpError(429)
        return request

    world = World(moody, max_in_flight=64)
    assert {o.kind for o in world.run(list(range(10_000)), rows=100)} == {"ok"}
    assert max(t[-1] for t in world.attempts.values()) <= slower * 10_000 / 64 * 0.05


def test_an_endpoint_that_only_refuses_does_not_hold_the_run_for_ever():
    async def closed(request, attempt):
        await asyncio.sleep(0.1)
        raise HttpError(429)

    world = World(closed, max_in_flight=8, max_refusal=120)
    outcomes = world.run([0] * 5000, rows=500)
    kinds = collections.Counter(o.kind for o in outcomes)
    assert set(kinds) == {"rate_limited", "not_called"}
    assert kinds["not_called"] > 4900
    assert 120 <= max(t[-1] for t in world.attempts.values()) <= 200
    assert all("max_refusal" in o.error_message for o in outcomes if o.kind == "not_called")


def test_a_long_retry_after_stops_all_calls_of_the_endpoint():
    async def closed_once(request, attempt):
        await asyncio.sleep(0.1)
        if world.loop.time() < 50:
            raise HttpError(429, str(60 - int(world.loop.time())))
        return "ok"

    world = World(closed_once, max_in_flight=4)
    assert {o.kind for o in world.run([0] * 50)} == {"ok"}
    times = [t for tries in world.attempts.values() for t in tries]
    assert sum(t < 60 for t in times) <= 10  # a few that make sure that it is not about single calls


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


def test_a_run_that_only_fails_at_its_head_is_stopped():
    async def broken(request, attempt):
        await asyncio.sleep(1)
        raise ValueError("no key")

    world = World(broken, max_in_flight=16, abort_when=0.5, abort_after=50)
    outcomes = world.run([0] * 1000, rows=100)
    assert len(world.attempts) <= 50 + 16
    left = [o for o in outcomes if o.kind == "not_called"]
    assert len(left) == 1000 - len(world.attempts)
    assert {o.error_message for o in left} == {"not called: 50 of the last 50 calls failed (abort_when 0.5)"}


@pytest.mark.parametrize("share", [0.5, None])
def test_a_healthy_head_turns_the_breaker_off(share):
    async def later_broken(request, attempt):
        await asyncio.sleep(1)
        if request >= 60:
            raise ValueError("only these")
        return request

    world = World(later_broken, max_in_flight=4, abort_when=share, abort_after=50)
    assert not any(o.kind == "not_called" for o in world.run(list(range(500))))


def test_a_stopped_lane_lets_calls_in_flight_end():
    world = World(takes, max_in_flight=8)
    world.loop.call_later(1.5, world.lane.stop, world.line, "asked to")
    outcomes = world.run([1] * 100)
    assert len(world.attempts) == sum(o.kind == "ok" for o in outcomes) == 16
    assert {o.error_message for o in outcomes} == {None, "not called: asked to"}


def test_a_run_that_is_stopped_leaves_another_run_on_its_lane_alone():
    async def broken(call):
        await asyncio.sleep(1)
        raise ValueError("no key")

    world = World(takes, max_in_flight=8)
    policy = CallPolicy(max_in_flight=8, abort_when=0.5, abort_after=20)
    doomed = Bundle({"agent": Line(lambda: broken, policy, world.lane)})
    kept = Bundle({"agent": world.line})
    tickets = [Ticket(None, [None] * 100), Ticket(None, [None] * 100)]
    for bundle, ticket in zip((doomed, kept), tickets, strict=True):
        bundle.submit(ticket, [Call(f"{i}", 1) for i in range(100)])
    world.finish(kept, tickets)
    lost, found = (collections.Counter(o.kind for o in t.outcomes) for t in tickets)
    assert 20 <= lost["permanent"] == 100 - lost["not_called"] <= 20 + 8
    assert found == {"ok": 100}


def test_a_record_that_cannot_be_kept_ends_the_calls():
    """What is paid for and not kept would be paid for twice: those in flight end, no other begins."""

    def refuse(call, outcome):
        if int(call.key) >= 20:
            raise OSError("disk full")
        return 1

    world = World(takes, max_in_flight=8)
    bundle = Bundle({"agent": world.line}, refuse)
    tickets = [Ticket(n, [None] * 10) for n in range(10)]
    for ticket in tickets:
        bundle.submit(ticket, [Call(str(10 * ticket.item + i), 1) for i in range(10)])
    world.loop.run_until_complete(asyncio.sleep(3600))
    assert 20 <= len(world.attempts) <= 20 + 8
    assert {0} <= {t.item for t in bundle.finished()} <= {0, 1}
    for wait in (bundle.wait_for_some, lambda: bundle.wait_for_room(0, 0)):
        with pytest.raises(OSError, match="disk full"):
            wait()
    world.close()


def test_no_call_starts_while_what_was_recorded_has_to_be_put_away():
    recorded, most = [], 10
    world = World(takes, max_in_flight=4)
    bundle = Bundle(
        {"agent": world.line}, lambda call, _: recorded.append(call) or 1, full=lambda: len(recorded) >= most
    )
    ticket = Ticket(None, [None] * 40)
    bundle.submit(ticket, [Call(str(i), 1) for i in range(40)])
    rounds = 0
    while ticket.remaining:
        recorded.clear()
        bundle.go_on()
        world.loop.run_until_complete(asyncio.sleep(3600))
        assert len(recorded) < most + 4
        assert len(world.attempts) == 40 - ticket.remaining
        rounds += 1
    assert rounds >= 3
    assert [outcome.value for outcome in ticket.outcomes] == [1] * 40
    list(bundle.finished())
    world.close()


@pytest.mark.parametrize(("share", "slower"), [(0.0, 1.1), (0.01, 1.5), (0.1, 3.0), (0.4, 8.0)])
def test_a_server_with_all_kinds_of_faults(share, slower):
    """10,000 calls of 50 ms, 64 in flight; a hang costs its timeout of 1 s."""
    draw = random.Random(11)
    random.seed(11)  # the jitter of the retries
    faults = [ValueError("bad"), HttpError(500), HttpError(503, "1"), ConnectionResetError(), None]

    async def act(request, attempt):
        await asyncio.sleep(0.05)
        if draw.random() < share:
            fault = draw.choice(faults)
            if fault is None:
                await asyncio.sleep(1e6)
            raise fault
        return request

    world = World(act, max_in_flight=64, timeout=1.0, backoff=0.1)
    outcomes = world.run(list(range(10_000)), rows=100)
    kinds = collections.Counter(o.kind for o in outcomes)
    assert [o.value for o in outcomes if o.kind == "ok"] == [i for i, o in enumerate(outcomes) if o.kind == "ok"]
    assert set(kinds) <= {"ok", "permanent", "transient", "timeout"}
    lost = share / 5 / (1 - share) + share**3  # an error for good, or three others in a row
    assert 10_000 - kinds["ok"] <= 1.5 * 10_000 * lost + 20
    assert max(t[-1] for t in world.attempts.values()) <= slower * 10_000 / 64 * 0.05

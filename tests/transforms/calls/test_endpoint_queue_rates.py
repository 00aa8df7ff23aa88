"""A queue against servers that limit its rate, declared or told by refusals, under a virtual clock."""

import asyncio
import collections
import itertools
import math
import random

import pytest
from queue_world import HttpError, VirtualLoop, World, takes
from token_bucket import Bucket

from evalbeam.schemas.calls import Call
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.pending_call import CallGroup


def test_a_declared_rate_is_kept_evenly():
    world = World(takes, max_in_flight=100, requests_per_minute=600)
    world.run([0.01] * 300, rows=300)
    starts = sorted(t[0] for t in world.attempts.values())
    assert max(starts) == pytest.approx(299 / 10, abs=0.3)
    assert all(b - a >= 0.09 for a, b in itertools.pairwise(starts[5:]))
    assert world.queue.throttled == pytest.approx(30, abs=1)


@pytest.mark.parametrize(("latency", "late"), [(0.1, 1.0), (5.0, 11.0)])
def test_a_declared_rate_of_tokens_is_kept_by_what_answers_have_used(latency, late):
    """600 tokens a second, answers of 50 to 150 tokens: 300 answers take 50 s."""
    draw = random.Random(3)

    async def answer(request, attempt):
        await asyncio.sleep(latency)
        if request % 5 == 0 and attempt == 1:
            raise HttpError(503)
        return {"usage": {"input_tokens": draw.randint(20, 60), "output_tokens": draw.randint(30, 90)}}

    world = World(answer, max_in_flight=64, tokens_per_minute=36_000, backoff=0.01)
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
    groups = []
    for world, share in zip(worlds, shares, strict=True):
        bundle = Bundle({"agent": world.client})
        groups.append(CallGroup(None, [None] * share))
        bundle.submit(groups[-1], [Call(str(i), 0) for i in range(share)])

    async def until_done():
        while any(t.remaining for t in groups):
            await asyncio.sleep(1)
        await asyncio.sleep(60)

    loop.run_until_complete(until_done())
    loop.close()
    assert {o.kind for t in groups for o in t.outcomes} == {"ok"}
    asked = sum(shares) - rate  # beside the tokens the server starts with
    oracle = asked / rate + max(0.0, asked / rate - halved_at)
    assert server.ended <= slower * oracle
    assert server.refused <= refused * server.accepted


@pytest.mark.parametrize(("share", "processes", "slower"), [(0.03, 1, 1.15), (0.05, 1, 1.5), (0.03, 4, 1.5)])
def test_refusals_that_do_not_depend_on_the_rate_do_not_slow_the_calls_down(share, processes, slower):
    """10,000 calls of 50 ms for each process, 64 in flight, of which some are refused whatever the rate."""
    draw, loop = random.Random(5), VirtualLoop()
    random.seed(5)  # the jitter of the retries
    groups = []

    async def moody(request, attempt):
        await asyncio.sleep(0.05)
        if draw.random() < share:
            raise HttpError(429)
        return request

    for _ in range(processes):
        bundle = Bundle({"agent": World(moody, loop, processes, max_in_flight=64).client})
        groups.append(CallGroup(None, [None] * 10_000))
        bundle.submit(groups[-1], [Call(str(i), 0) for i in range(10_000)])

    async def until_done():
        while any(t.remaining for t in groups):
            await asyncio.sleep(0.1)

    loop.run_until_complete(until_done())
    assert {o.kind for t in groups for o in t.outcomes} == {"ok"}
    assert loop.time() <= slower * 10_000 / 64 * 0.05
    loop.run_until_complete(asyncio.sleep(3600))
    loop.close()


def test_an_endpoint_that_only_refuses_does_not_hold_the_run_for_ever():
    async def closed(request, attempt):
        await asyncio.sleep(0.1)
        raise HttpError(429)

    world = World(closed, max_in_flight=8, rate_limit_timeout=120)
    outcomes = world.run([0] * 5000, rows=500)
    kinds = collections.Counter(o.kind for o in outcomes)
    assert set(kinds) == {"rate_limited", "not_called"}
    assert kinds["not_called"] > 4900
    assert 120 <= max(t[-1] for t in world.attempts.values()) <= 200
    assert all("rate_limit_timeout" in o.error_message for o in outcomes if o.kind == "not_called")


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

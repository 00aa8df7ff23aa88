"""Calls start with a permit, never without; asking for it holds nothing up."""

import asyncio
import heapq
import random
import subprocess
import sys
import time
from functools import partial

import pytest
from apache_beam.io.components.rate_limiter import EnvoyRateLimiter
from hypothesis import example, given, settings
from hypothesis import strategies as st
from queue_world import VirtualLoop, World, takes
from rate_limits import RateLimitDescriptor, RateLimitDescriptorEntry, RateLimits, serving
from token_bucket import Bucket

from evalbeam import evaluate
from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import RateLimit
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.engine import Engine
from evalbeam.transforms.calls.pending_call import CallGroup
from evalbeam.transforms.calls.rate_limit_service import MOST, Answer, RateLimitClient, RemoteRateLimiter

LIMIT = RateLimit(service="127.0.0.1:1", domain="models", descriptors=({"model": "m"},))


class Service:
    """A service that counts with a virtual clock, some latency away; `answer` may be replaced."""

    def __init__(self, loop, rate, size, latency=0.0):
        self.loop, self.bucket, self.latency = loop, Bucket(rate, size), latency
        self.granted = []
        self.asked = self.open = self.most_open = 0

    def answer(self, now):
        wait = self.bucket.take(now)
        if not wait:
            self.granted.append(now)
        return Answer(not wait, wait)

    def ask(self, done):
        self.asked += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)

        def arrive():
            answer = self.answer(self.loop.time())
            self.loop.call_later(self.latency / 2, back, answer)

        def back(answer):
            self.open -= 1
            done(answer)

        self.loop.call_later(self.latency / 2, arrive)


def limited(world, service, patience=600.0, seed=1):
    """Has a world ask a service for remote_limiter."""
    queue, client = world.queue, world.client
    client.open()
    stop, spread = partial(queue.stop, client), random.Random(seed).random
    client.remote_limiter = RemoteRateLimiter(world.loop, LIMIT, patience, service.ask, queue.wake, stop, draw=spread)
    return world


def starts(world):
    return sorted(t for tries in world.attempts.values() for t in tries)


def ideal(bucket_rate, size, calls):
    """Seconds until a bucket that is full at first has given all remote_limiter but for those it had."""
    return max(0.0, (calls - size) / bucket_rate)


@settings(deadline=None, max_examples=20)
@example(rate=50.0, size=5, latency=0.0, places=1, seconds=0.01)
@given(
    rate=st.sampled_from([2.0, 50.0, 900.0]),
    size=st.integers(1, 30),
    latency=st.sampled_from([0.0, 0.002, 0.05]),
    places=st.integers(1, 64),
    seconds=st.sampled_from([0.0, 0.01]),
)
def test_no_call_starts_without_a_permit_and_none_waits_for_long(rate, size, latency, places, seconds):
    loop = VirtualLoop()
    service = Service(loop, rate, size, latency)
    world = limited(World(takes, loop, max_in_flight=places), service)
    assert {o.kind for o in world.run([seconds] * 200, rows=200)} == {"ok"}
    begun, granted = starts(world), sorted(service.granted)
    assert len(begun) == 200 <= len(granted) <= 200 + MOST
    assert all(start >= permit for start, permit in zip(begun, granted, strict=False))
    assert service.most_open <= MOST
    unhindered = 200 * (seconds + latency) / min(places, MOST)
    one_by_one = (
        200 * (1.1 / rate + 2 * latency) if size < 2 * rate * latency + 1 else 0.0
    )  # remote_limiter overflow meanwhile
    slowest = max(ideal(rate, size, 200), unhindered, one_by_one)
    assert begun[-1] <= 1.12 * slowest + 3.0  # the window and the questions begin with few


def test_latency_of_the_service_does_not_serialise_the_calls():
    """2,000 calls, 0.1 s from a service that allows all: one after the other they would take 200 s."""
    loop = VirtualLoop()
    world = limited(World(takes, loop, max_in_flight=100), Service(loop, 1e6, 1e6, latency=0.1))
    world.run([0.01] * 2000, rows=2000)
    assert starts(world)[-1] < 1.2 * 2000 * 0.1 / MOST
    assert world.queue.throttled == 0.0


@pytest.mark.parametrize("processes", [2, 16])
def test_processes_that_share_a_limit_keep_it_and_use_it(processes):
    """Skewed: the first has half of the calls."""
    loop, rate, size = VirtualLoop(), 40.0, 10
    service = Service(loop, rate, size, latency=0.004)
    counts = [600 * 2 // processes if n else 1200 for n in range(processes)]
    worlds = [limited(World(takes, loop, max_in_flight=32), service, seed=n) for n in range(processes)]
    bundles = []
    for world, count in zip(worlds, counts, strict=True):
        bundles.append(begin(world, count))
    while any(t.remaining for _, t in bundles):
        loop.run_until_complete(asyncio.sleep(1))
    begun = list(heapq.merge(*map(starts, worlds)))
    assert len(begun) == sum(counts)
    assert all(start >= permit for start, permit in zip(begun, sorted(service.granted), strict=False))
    assert begun[-1] <= 1.1 * ideal(rate, size, sum(counts))
    assert worlds[0].queue.throttled > 0.5 * begun[-1]
    loop.close()


def begin(world, count):
    bundle, group = Bundle({"agent": world.client}), CallGroup(None, [None] * count)
    bundle.submit(group, [Call(str(i), 0.05) for i in range(count)])
    return bundle, group


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(False, error="UNAVAILABLE"), "has not answered during rate_limit_timeout: UNAVAILABLE"),
        (Answer(False, 86400.0), "has allowed no call of domain 'models' during rate_limit_timeout"),
        (Answer(False, 7.0), "has allowed no call of domain 'models' during rate_limit_timeout"),
        (Answer(False), "has allowed no call of domain 'models' during rate_limit_timeout"),
    ],
)
def test_without_a_permit_no_call_is_made_and_the_run_ends(answer, reason):
    loop = VirtualLoop()
    service = Service(loop, 1, 1)
    service.answer = lambda now: answer
    world = limited(World(takes, loop), service, patience=60.0)
    outcomes = world.run([0.1] * 50)
    assert {(o.kind, o.error_message) for o in outcomes} == {
        ("not_called", f"not called: the rate limit service 127.0.0.1:1 {reason}")
    }
    assert world.attempts == {}
    assert max(o.queued_in_seconds for o in outcomes) == pytest.approx(60, rel=0.2)
    assert service.asked < 40


def test_a_service_that_comes_back_is_asked_again_and_idle_hours_are_no_refusal():
    loop = VirtualLoop()
    service = Service(loop, 1000, 1000)
    usual, down = service.answer, lambda now: Answer(False, error="UNAVAILABLE")
    world = limited(World(takes, loop), service, patience=60.0)
    for outage in (40.0, 50.0, 55.0):
        service.answer = down
        loop.call_later(outage, setattr, service, "answer", usual)
        _, group = begin(world, 10)
        loop.run_until_complete(asyncio.sleep(7200))
        assert {o.kind for o in group.outcomes} == {"ok"}
    service.answer = down
    bundle, group = begin(world, 10)
    loop.run_until_complete(asyncio.sleep(30))
    bundle.cancel()
    loop.run_until_complete(asyncio.sleep(7200))
    assert world.client.stopped is None
    _, group = begin(world, 10)
    loop.call_later(30.0, setattr, service, "answer", usual)
    loop.run_until_complete(asyncio.sleep(7200))
    assert {o.kind for o in group.outcomes} == {"ok"}
    loop.close()


def test_retries_ask_too():
    async def third_time_lucky(request, attempt):
        if attempt < 3:
            raise ConnectionError("again")
        return attempt

    loop = VirtualLoop()
    service = Service(loop, 10, 1)
    world = limited(World(third_time_lucky, loop, max_in_flight=50), service)
    world.run([0] * 50)
    assert len(starts(world)) == 150 <= len(service.granted)
    assert starts(world)[-1] >= ideal(10, 1, 150)


@pytest.fixture
def service():
    return RateLimits(Bucket(rate=100, size=20))


def test_what_is_asked_is_what_beams_limiter_asks(service):
    service.bucket = Bucket(rate=1e-3, size=2)
    descriptors = [{"model": "m", "team": "a b"}, {"all": ""}]
    with serving(service) as address:
        limit = RateLimit(service=address, domain="models", descriptors=tuple(descriptors))
        client = RateLimitClient(limit, Engine.here().loop)
        answers = [ask(client), ask(client)]
        service.bucket = Bucket(rate=1e-3, size=2)
        beams = EnvoyRateLimiter(address, "models", descriptors, block_until_allowed=False, retries=0, namespace="x")
        assert beams.allow()
        service.bucket = Bucket(rate=100, size=0)
        answers.append(ask(client))
        client.close()
    assert [a.granted for a in answers] == [True, True, False]
    assert answers[2].wait == pytest.approx(0.01, abs=1e-3)
    first, _, beam, _ = service.asked
    assert bytes(first) == bytes(beam)
    assert (first.domain, first.hits_addend) == ("models", 1)
    entries = [[("model", "m"), ("team", "a b")], [("all", "")]]
    assert first.descriptors == [
        RateLimitDescriptor(entries=[RateLimitDescriptorEntry(key=k, value=v) for k, v in of]) for of in entries
    ]


def ask(client):
    """Asks on the engine's loop, and waits."""

    async def answered():
        future = asyncio.get_running_loop().create_future()
        client.ask(future.set_result)
        return await future

    return asyncio.run_coroutine_threadsafe(answered(), Engine.here().loop).result(30)


def test_a_service_that_is_not_there_is_named(service):
    with serving(service) as address:
        client = RateLimitClient(LIMIT.model_copy(update={"service": address}), Engine.here().loop)
        assert ask(client).granted
        service.broken = True
        assert ask(client) == Answer(False, error="UNAVAILABLE")
        service.broken = False
        assert ask(client).granted
    assert ask(client) == Answer(False, error="UNAVAILABLE")
    client.close()


def test_a_run_whose_service_is_gone_ends_with_all_its_rows(tmp_path):
    with serving(RateLimits(Bucket(1, 1))) as address:
        pass
    agent = {"rate_limit": LIMIT.model_dump() | {"service": address}, "rate_limit_timeout": 0.2}
    rows = [{"prompt": f"{i}", "reference": "x"} for i in range(20)]
    result = evaluate(rows, ["exact_match"], str.upper, output=str(tmp_path / "out"), agent=agent)
    assert result.manifest["state"] == "stopped"
    assert f"the rate limit service {address} has not answered" in str(result.manifest)
    assert set(result.metrics_table["status"]) == {"not_called"}
    assert len(result.metrics_table) == 20


CALLS = """
import sys, time
from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.engine import Engine
from evalbeam.transforms.calls.pending_call import CallGroup
limit = {"service": sys.argv[1], "domain": "models", "descriptors": [{"model": "m"}]}
async def call(call):
    print(time.monotonic(), flush=True)
client = Engine.here().join("t", "agent", lambda: call, CallPolicy(rate_limit=limit))
bundle, group = Bundle({"agent": client}), CallGroup(None, [None] * 150)
print("ready", flush=True)
sys.stdin.readline()
bundle.submit(group, [Call(str(i), None) for i in range(150)])
while bundle.open:
    bundle.wait_for_some()
    list(bundle.finished())
assert {o.kind for o in group.outcomes} == {"ok"}
print(client.queue.throttled, file=sys.stderr)
Engine.here().leave("t")
"""


def test_two_processes_never_exceed_the_bucket_of_a_real_service(service):
    """300 calls at 100 a second, 20 of them at once: 2.8 s."""
    with serving(service) as address:
        command = [sys.executable, "-c", CALLS, address]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        both = [subprocess.Popen(command, **pipes) for _ in range(2)]
        for process in both:
            assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    begun = sorted(float(client) for out, _ in ended for client in out.split())
    granted = sorted(service.granted)
    assert len(begun) == 300 <= len(granted) <= 300 + 2 * MOST
    assert all(start >= permit for start, permit in zip(begun, granted, strict=False))
    assert all(float(err) > 0 for _, err in ended)
    assert begun[-1] - began >= ideal(100, 20, 300) - 0.01

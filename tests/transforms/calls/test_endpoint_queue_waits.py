"""Calls that wait: for their next try, for the rate, for the journal. Nothing waits longer than it has a reason to."""

import asyncio
import gc
import threading
import weakref

import pytest
from queue_world import HttpError, World, takes

from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.errors import JudgeError
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.endpoint_client import EndpointClient
from evalbeam.transforms.calls.endpoint_queue import EndpointQueue
from evalbeam.transforms.calls.loop import Loop
from evalbeam.transforms.calls.pending_call import CallGroup


def begin(world, calls, request=1, **bundle):
    made = Bundle({"agent": world.client}, **bundle)
    group = CallGroup(None, [None] * calls)
    made.submit(group, [Call(f"{id(made)} {i}", request) for i in range(calls)])
    return made, group


def until_done(world, *groups):
    """The time at which the last of the groups is finished, within a second."""

    async def wait():
        while any(t.remaining for t in groups) and world.loop.time() < 1e5:
            await asyncio.sleep(1)

    world.loop.run_until_complete(wait())
    return world.loop.time()


@pytest.mark.parametrize("status", [429, 503])
def test_a_stopped_lane_ends_calls_that_wait_for_their_next_try(status):
    async def busy(request, attempt):
        raise HttpError(status, "200")

    world = World(busy, max_in_flight=4)
    bundle, group = begin(world, 3)
    world.loop.call_later(5, world.queue.stop, world.client, "asked to")
    assert until_done(world, group) <= 6
    assert {(o.kind, o.attempts, o.error_message) for o in group.outcomes} == {
        ("not_called", 1, "not called: asked to")
    }
    list(bundle.finished())
    world.close()
    assert all(len(tries) == 1 for tries in world.attempts.values())


def test_what_a_stopped_call_has_used_is_told():
    async def empty(request, attempt):
        error = JudgeError("no verdict")
        error.usage = {"input_tokens": 40, "output_tokens": 2}
        raise error

    world = World(empty, retry_on=("JudgeError",), backoff=100.0, max_backoff=100.0)
    bundle, group = begin(world, 8)
    world.loop.call_later(0.01, world.queue.stop, world.client, "asked to")
    until_done(world, group)
    told = {"usage": {"earlier": {"input_tokens": 40, "output_tokens": 2}}}
    assert [o.value for o in group.outcomes if o.kind == "not_called"] == [told] * 8
    list(bundle.finished())
    world.close()


@pytest.mark.parametrize("hours", [1, 24])
def test_a_quota_that_is_gone_for_hours_ends_the_run(hours):
    async def closed(request, attempt):
        await asyncio.sleep(0.1)
        raise HttpError(429, f"{3600 * hours}")

    world = World(closed, max_in_flight=8, rate_limit_timeout=600)
    bundle, group = begin(world, 100)
    assert 600 <= until_done(world, group) <= 1000
    assert {o.kind for o in group.outcomes} == {"rate_limited", "not_called"}
    list(bundle.finished())
    world.close()


def test_a_bundle_that_has_to_put_its_results_away_holds_up_no_other():
    """Its thread may wait for the other's calls before it comes to that: both would wait for ever."""
    recorded = []
    world = World(takes, max_in_flight=4)
    full, blocked = begin(world, 20, record=lambda *_: recorded.append(1) or 1, full=lambda: len(recorded) >= 5)
    other, group = begin(world, 20)
    assert until_done(world, group) < 20
    assert blocked.remaining > 8
    recorded.clear()
    full.full = lambda: False
    full.go_on()
    assert until_done(world, blocked) < 60
    assert [o.value for o in blocked.outcomes] == [1] * 20
    for bundle in (full, other):
        list(bundle.finished())
    world.close()


def test_a_bundle_that_ends_while_its_results_wait_leaves_nothing():
    world = World(takes, max_in_flight=4)
    full, blocked = begin(world, 20, full=lambda: True)
    world.loop.run_until_complete(asyncio.sleep(10))
    full.cancel()
    world.loop.run_until_complete(asyncio.sleep(10))
    full.full = lambda: False
    full.go_on()
    world.close()
    assert world.attempts == {}
    assert blocked.remaining == 20


def test_no_attempt_begins_beyond_the_deadline_of_its_row():
    async def busy(request, attempt):
        await asyncio.sleep(1)
        raise HttpError(503)

    world = World(busy, max_in_flight=1, deadline=5, backoff=0.5, max_attempts=10)
    outcomes = world.run([0] * 20, rows=20)
    for tries in world.attempts.values():
        assert tries[-1] - tries[0] < 5
    late = [o for o in outcomes if o.kind == "timeout"]
    assert late
    assert all("deadline" in o.error_message for o in late)


def test_answers_do_not_stay_until_the_deadline_of_their_rows():
    class Answer(dict):
        pass

    found = []

    async def answer(request, attempt):
        await asyncio.sleep(1)
        found.append(weakref.ref(value := Answer()))
        return value

    world = World(answer, timeout=3600, deadline=3000)
    bundle, group = begin(world, 4)
    until_done(world, group)
    del group
    list(bundle.finished())
    gc.collect()
    assert [ref() for ref in found] == [None] * 4
    world.close()


def test_a_stopped_call_that_cannot_be_kept_ends_the_bundle():
    async def down(request, attempt):
        raise HttpError(503)

    def refuse(call, outcome):
        raise OSError("disk full")

    world = World(down, backoff=100.0, max_backoff=100.0)
    bundle, _ = begin(world, 8, record=refuse)
    world.loop.call_later(0.01, world.queue.stop, world.client, "asked to")
    world.loop.run_until_complete(asyncio.sleep(3600))
    with pytest.raises(OSError, match="disk full"):
        bundle.wait_for_some()
    world.close()


def test_a_system_that_gives_no_further_thread_makes_the_window_smaller(monkeypatch):
    start, started = threading.Thread.start, []

    def refuse_the_fourth(thread):
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_fourth)
    loop = Loop()
    policy = CallPolicy(max_in_flight=8, backoff=0.001)
    queue = EndpointQueue(loop)
    queue.open([policy])
    bundle, group = (
        Bundle({"agent": EndpointClient(lambda: lambda call: call.request, policy, queue)}),
        CallGroup(None, [None] * 50),
    )
    bundle.submit(group, [Call(f"{i}", i) for i in range(50)])
    loop.run_until_complete(until(lambda: not group.remaining))
    assert [(o.kind, o.value) for o in group.outcomes] == [("ok", i) for i in range(50)]
    assert sum(o.attempts for o in group.outcomes) == 51
    queue.close()
    loop.close()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_calls_of_an_aborted_bundle_are_not_taken_for_hung_ones_as_long_as_they_may_take():
    """Threads cannot be cancelled; the same rows come again at once."""
    go_on, busy = threading.Event(), threading.Semaphore(0)

    def answer(call):
        if call.request == "first":
            busy.release()
            go_on.wait(60)
        return call.request

    loop = Loop()
    policy = CallPolicy(max_in_flight=8, max_abandoned_calls=4)
    queue = EndpointQueue(loop)
    queue.open([policy])
    client = EndpointClient(lambda: answer, policy, queue)
    aborted, repeated = Bundle({"agent": client}), Bundle({"agent": client})
    aborted.submit(CallGroup(None, [None] * 8), [Call(f"{i}", "first") for i in range(8)])
    loop.run_until_complete(asyncio.sleep(0))
    for _ in range(8):
        assert busy.acquire(timeout=60)
    aborted.cancel()
    group = CallGroup(None, [None] * 8)
    repeated.submit(group, [Call(f"{i}", "again") for i in range(8)])
    loop.run_until_complete(until(lambda: not group.remaining))
    go_on.set()
    assert [(o.kind, o.value) for o in group.outcomes] == [("ok", "again")] * 8
    loop.run_until_complete(until(lambda: queue.in_flight == 0))
    queue.close()
    loop.close()

"""What ends or holds the calls of a queue: breakers, stops, dropped bundles, records that cannot be kept."""

import asyncio
import collections

import pytest
from queue_world import World, takes

from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.endpoint_client import EndpointClient
from evalbeam.transforms.calls.pending_call import CallGroup


def test_a_dropped_bundle_leaves_nothing_and_the_other_one_everything():
    world = World(takes, max_in_flight=3)
    doomed, kept = Bundle({"agent": world.client}), Bundle({"agent": world.client})
    lost, found = CallGroup("lost", [None] * 20), CallGroup("found", [None] * 5)
    doomed.submit(lost, [Call(f"lost {i}", 10) for i in range(20)])
    kept.submit(found, [Call(f"found {i}", 10) for i in range(5)])
    world.loop.call_later(15, doomed.cancel)
    world.finish(kept, [found])
    assert sum(key.startswith("lost") for key in world.attempts) == 6  # two windows of three
    assert lost.outcomes.count(None) == 17
    assert [o.value for o in found.outcomes] == [10] * 5
    assert min(world.attempts["found 0"]) == 15
    assert not list(doomed.finished())


def test_a_run_that_only_fails_at_its_head_is_stopped():
    async def broken(request, attempt):
        await asyncio.sleep(1)
        raise ValueError("no key")

    world = World(broken, max_in_flight=16, failure_threshold=0.5, failure_window=50)
    outcomes = world.run([0] * 1000, rows=100)
    assert len(world.attempts) <= 50 + 16
    left = [o for o in outcomes if o.kind == "not_called"]
    assert len(left) == 1000 - len(world.attempts)
    assert {o.error_message for o in left} == {"not called: 50 of the last 50 calls failed (failure_threshold 0.5)"}


@pytest.mark.parametrize("share", [0.5, None])
def test_a_healthy_head_turns_the_breaker_off(share):
    async def later_broken(request, attempt):
        await asyncio.sleep(1)
        if request >= 60:
            raise ValueError("only these")
        return request

    world = World(later_broken, max_in_flight=4, failure_threshold=share, failure_window=50)
    assert not any(o.kind == "not_called" for o in world.run(list(range(500))))


def test_a_stopped_lane_lets_calls_in_flight_end():
    world = World(takes, max_in_flight=8)
    world.loop.call_later(1.5, world.queue.stop, world.client, "asked to")
    outcomes = world.run([1] * 100)
    assert len(world.attempts) == sum(o.kind == "ok" for o in outcomes) == 16
    assert {o.error_message for o in outcomes} == {None, "not called: asked to"}


def test_a_run_that_is_stopped_leaves_another_run_on_its_lane_alone():
    async def broken(call):
        await asyncio.sleep(1)
        raise ValueError("no key")

    world = World(takes, max_in_flight=8)
    policy = CallPolicy(max_in_flight=8, failure_threshold=0.5, failure_window=20)
    doomed = Bundle({"agent": EndpointClient(lambda: broken, policy, world.queue)})
    kept = Bundle({"agent": world.client})
    groups = [CallGroup(None, [None] * 100), CallGroup(None, [None] * 100)]
    for bundle, group in zip((doomed, kept), groups, strict=True):
        bundle.submit(group, [Call(f"{i}", 1) for i in range(100)])
    world.finish(kept, groups)
    lost, found = (collections.Counter(o.kind for o in t.outcomes) for t in groups)
    assert 20 <= lost["permanent"] == 100 - lost["not_called"] <= 20 + 8
    assert found == {"ok": 100}


def test_a_record_that_cannot_be_kept_ends_the_calls():
    """What is paid for and not kept would be paid for twice: those in flight end, no other begins."""

    def refuse(call, outcome):
        if int(call.key) >= 20:
            raise OSError("disk full")
        return 1

    world = World(takes, max_in_flight=8)
    bundle = Bundle({"agent": world.client}, refuse)
    groups = [CallGroup(n, [None] * 10) for n in range(10)]
    for group in groups:
        bundle.submit(group, [Call(str(10 * group.item + i), 1) for i in range(10)])
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
        {"agent": world.client}, lambda call, _: recorded.append(call) or 1, full=lambda: len(recorded) >= most
    )
    group = CallGroup(None, [None] * 40)
    bundle.submit(group, [Call(str(i), 1) for i in range(40)])
    rounds = 0
    while group.remaining:
        recorded.clear()
        bundle.go_on()
        world.loop.run_until_complete(asyncio.sleep(3600))
        assert len(recorded) < most + 4
        assert len(world.attempts) == 40 - group.remaining
        rounds += 1
    assert rounds >= 3
    assert [outcome.value for outcome in group.outcomes] == [1] * 40
    list(bundle.finished())
    world.close()

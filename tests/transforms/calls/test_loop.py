"""Tasks that begin at once, as asyncio's own do: current task, context, cancellation."""

import asyncio
import contextlib
import gc
from contextvars import Context, ContextVar

import pytest
from queue_world import HttpError, World

from evalbeam.transforms.calls.loop import Loop

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def test_the_first_step_is_taken_at_once_by_the_new_task(loop):
    seen = []

    async def act(name):
        NAME.set(name)
        seen.append((name, asyncio.current_task().get_name()))
        await asyncio.sleep(0)
        seen.append((NAME.get(), asyncio.current_task().get_name()))

    async def main():
        outer = asyncio.current_task()
        for name in "ab":
            loop.begin(act(name), name, Context())
            assert asyncio.current_task() is outer
        assert seen == [("a", "a"), ("b", "b")]
        await asyncio.sleep(0)
        assert seen[2:] == [("a", "a"), ("b", "b")]
        assert NAME.get() == "nobody"

    loop.run_until_complete(main())


def test_a_task_may_start_another_and_timeouts_are_its_own(loop):
    seen = []

    async def act(depth):
        if depth:
            loop.begin(act(depth - 1), str(depth), Context())
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(3600)
        except TimeoutError:
            seen.append((depth, asyncio.current_task().cancelling()))

    loop.call_soon(loop.begin, act(3), "first", Context())

    async def all_of_them():
        while len(seen) < 4:
            await asyncio.sleep(0.001)

    loop.run_until_complete(all_of_them())
    assert sorted(seen) == [(depth, 0) for depth in range(4)]


def test_a_callback_asked_for_meanwhile_is_not_taken_for_the_step(loop):
    seen = []

    class Intruder(str):
        """A name that has something done while the task is made, as a finalizer may."""

        def __str__(self):
            loop.call_soon(seen.append, "intruder")
            return "name"

    async def act():
        seen.append("act")

    async def main():
        loop.begin(act(), Intruder(), Context())
        assert seen == ["act"]
        await asyncio.sleep(0)
        assert seen == ["act", "intruder"]

    loop.run_until_complete(main())


def test_a_step_that_fails_is_the_task_s_own_failure(loop):
    told = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    async def act():
        raise ValueError("mine")

    async def main():
        loop.begin(act(), "name", Context())

    loop.run_until_complete(main())
    gc.collect()
    assert [str(error) for error in told] == ["mine"]


@pytest.mark.parametrize("how", ["ok", "fails", "hangs", "at once"])
def test_what_a_call_sets_in_its_context_is_seen_by_no_other(how):
    seen = []

    async def act(request, attempt):
        seen.append(NAME.get())
        NAME.set(request)
        if how != "at once":
            await asyncio.sleep(1e6 if how == "hangs" else 1)
        assert NAME.get() == request
        if how == "fails":
            raise HttpError(503)

    world = World(act, max_in_flight=3, timeout=10, max_attempts=2)
    token = NAME.set("of the run")
    world.client.open()
    NAME.reset(token)
    world.run(list(range(20)))
    assert len(seen) >= 20
    assert set(seen) == {"of the run"}


def test_calls_that_end_at_once_leave_the_loop_to_others():
    async def at_once(request, attempt):
        return request

    world, seen = World(at_once, max_in_flight=4), []

    async def watch():
        while len(world.attempts) < 200:
            seen.append(len(world.attempts))
            await asyncio.sleep(0)

    watching = world.loop.create_task(watch())
    assert [o.value for o in world.run(list(range(200)), rows=200)] == list(range(200))
    assert watching.done()
    assert len(seen) >= 200 // 9


def test_a_call_that_swallows_its_cancellation_harms_no_other():
    """It answers late, after its place is free, and its task is nobody else's."""
    tasks = []

    async def act(request, attempt):
        tasks.append((asyncio.current_task(), asyncio.current_task().cancelling()))
        if request:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1e6)
        async with asyncio.timeout(5):
            await asyncio.sleep(0.5)
        return "fine"

    world = World(act, max_in_flight=2, timeout=10, max_attempts=1)
    outcomes = world.run([1, 0, 1, 0, 0, 0], rows=6)
    assert [o.kind for o in outcomes] == ["timeout", "ok", "timeout", "ok", "ok", "ok"]
    assert len({task for task, _ in tasks}) == len(tasks) == 6
    assert {cancelling for _, cancelling in tasks} == {0}

"""Tasks that begin at once, as asyncio's own do: current task, context, cancellation."""

import asyncio
from contextvars import Context, ContextVar

import pytest

from evalbeam.transforms.tasks import Starter

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
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
            Starter(loop).start(act(name), name, Context())
            assert asyncio.current_task() is outer
        assert seen == [("a", "a"), ("b", "b")]
        await asyncio.sleep(0)
        assert seen[2:] == [("a", "a"), ("b", "b")]
        assert NAME.get() == "nobody"

    loop.run_until_complete(main())


def test_a_task_may_start_another_and_timeouts_are_its_own(loop):
    starter, seen = Starter(loop), []

    async def act(depth):
        if depth:
            starter.start(act(depth - 1), str(depth), Context())
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(3600)
        except TimeoutError:
            seen.append((depth, asyncio.current_task().cancelling()))

    loop.call_soon(starter.start, act(3), "first", Context())

    async def all_of_them():
        while len(seen) < 4:
            await asyncio.sleep(0.001)

    loop.run_until_complete(all_of_them())
    assert sorted(seen) == [(depth, 0) for depth in range(4)]


def test_a_callback_asked_for_meanwhile_is_not_taken_for_the_step(loop):
    seen, starter = [], Starter(loop)

    class Intruder(str):
        """A name that has something done while the task is made, as a finalizer may."""

        def __str__(self):
            loop.call_soon(seen.append, "intruder")
            return "name"

    async def act():
        seen.append("act")

    async def main():
        starter.start(act(), Intruder(), Context())
        assert seen == ["act"]
        await asyncio.sleep(0)
        assert seen == ["act", "intruder"]

    loop.run_until_complete(main())
    assert "call_soon" not in vars(loop)


def test_a_step_that_fails_is_the_task_s_own_failure(loop):
    told = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    async def act():
        raise ValueError("mine")

    async def main():
        Starter(loop).start(act(), "name", Context())

    loop.run_until_complete(main())
    assert [str(error) for error in told] == ["mine"]

"""A queue under a virtual clock, with an agent that follows a script: nothing here waits, every duration is exact."""

from __future__ import annotations

import asyncio
import heapq
import selectors

from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.endpoint_client import EndpointClient
from evalbeam.transforms.calls.endpoint_queue import EndpointQueue
from evalbeam.transforms.calls.loop import Loop
from evalbeam.transforms.calls.pending_call import CallGroup


class _NoWait(selectors.SelectSelector):
    """Never sleeps: what the loop would have slept is added to its clock."""

    slept = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.slept += timeout or 0.0
        return super().select(0)


class VirtualLoop(Loop):
    """A loop whose clock moves only by what it would have slept."""

    def __init__(self) -> None:
        self._clock = _NoWait()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.slept


class HttpError(Exception):
    """An error as clients of HTTP raise it."""

    def __init__(self, status: int, retry_after: str | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code, self.headers = status, {"Retry-After": retry_after} if retry_after else {}


class World:
    """A queue of its own under a virtual clock, with an agent that follows a script: request -> what attempt n does."""

    def __init__(self, script, loop=None, processes=1, **policy):
        self.loop, self.script = loop or VirtualLoop(), script
        self.queue = EndpointQueue(self.loop)
        self.policy = CallPolicy(**policy).for_one_of(processes)
        self.queue.open([self.policy])
        self.client = EndpointClient(lambda: self.call, self.policy, self.queue)
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
        bundle = Bundle({"agent": self.client})
        groups = []
        for i in range(0, len(requests), rows):
            calls = [Call(str(i + j), r) for j, r in enumerate(requests[i : i + rows])]
            groups.append(CallGroup(None, [None] * len(calls)))
            bundle.submit(groups[-1], calls)
        self.finish(bundle, groups)
        return [outcome for group in groups for outcome in group.outcomes]

    def finish(self, bundle, groups):
        async def until_done():
            while any(t.remaining for t in groups):
                await asyncio.sleep(0.5)

        self.loop.run_until_complete(until_done())
        assert list(bundle.finished()) != []
        assert not bundle.open
        assert not bundle.held
        self.close()

    def close(self):
        self.loop.run_until_complete(asyncio.sleep(3600))
        assert not self.queue.in_flight
        assert not self.client.timeouts.attempts
        assert len(asyncio.all_tasks(self.loop)) == 0
        self.loop.close()


async def takes(seconds, attempt):
    """An agent that is asked for seconds and takes them."""
    await asyncio.sleep(seconds)
    return seconds


def list_scheduling(durations, places):
    """When the last of the jobs ends if each takes the first free place, in order (Graham 1966)."""
    free = [0.0] * places
    for duration in durations:
        heapq.heapreplace(free, free[0] + duration)
    return max(free)

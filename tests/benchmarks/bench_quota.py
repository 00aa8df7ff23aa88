"""Worker processes that know nothing of each other against one HTTP server's quota.

    python tests/benchmarks/bench_quota.py

Each client is a token bucket behind HTTP, called by processes of their own through the engine: paced by what the server
refuses, by an equal share of the quota for each process, and as fast as the windows allow. A process is told how many
they are, as an engine tells it, and nothing else. Makespan is relative to an oracle that never sends too much or too
little. `bench~~limiter.py` has many more servers, under a virtual clock.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, TCPConnector, web

sys.path.insert(0, str(Path(__file__).parent.parent / "servers"))

from token_bucket import Bucket

from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.engine import Engine
from evalbeam.transforms.calls.pending_call import CallGroup
from evalbeam.transforms.calls.rate_limiter import AdaptiveRateLimiter

RATE = 100.0
"""Calls a second that the server admits."""
LATENCY = 0.1
"""Seconds of an answer."""
CASES = {
    f"{processes} {kind}": (processes, first or 1 / processes, kind == "halved")
    for processes in (8, 16)
    for kind, first in (("even", 0.0), ("halved", 0.0), ("skewed", 0.5))
}
"""(processes, the first one's share of the calls, whether the quota is halved after half of the time)."""
FORMS: dict[str, tuple[str, ...]] = {"paced": (), "split": ("--split",), "full rate": ("--unpaced",)}
"""What the processes are told."""


class Server:
    """Admits calls by a token bucket that holds what it admits in a second."""

    def __init__(self, halved_after: float) -> None:
        self.halved_after = halved_after
        self.began: float | None = None
        self.bucket = Bucket(RATE, RATE)
        self.accepted = self.refused = 0
        self.ended = 0.0

    async def answer(self, request: web.Request) -> web.Response:
        """200 where there is a token, else 429."""
        now = time.monotonic()
        self.began = now if self.began is None else self.began
        if now - self.began >= self.halved_after:
            self.bucket.rate = RATE / 2
        if self.bucket.take(now):
            self.refused += 1
            return web.Response(status=429)
        self.accepted += 1
        await asyncio.sleep(LATENCY)
        self.ended = time.monotonic() - self.began
        return web.json_response("ok")


def work(address: str, calls: int, processes: int, split: bool, unpaced: bool) -> None:
    """One process: makes its calls once a client on standard input says so; prints how many were answered."""
    if unpaced:
        AdaptiveRateLimiter.refused = lambda *_: None  # type: ignore[method-assign]
    rate = 60 * RATE if split else None
    policy = CallPolicy(max_in_flight=64, max_attempts=100 if unpaced else 3, requests_per_minute=rate)
    policy = policy.for_one_of(processes)

    def connect() -> Callable[[Call], Any]:
        session: list[ClientSession] = []

        async def call(call: Call) -> Any:
            if not session:
                session.append(ClientSession(connector=TCPConnector(limit=0), raise_for_status=True))
            async with session[0].post(address, json=call.request) as response:
                return await response.json()

        return call

    bundle = Bundle({"agent": Engine.here().join("bench", "agent", connect, policy)})
    print("ready", flush=True)
    sys.stdin.readline()
    group = CallGroup(None, [None] * calls)
    bundle.submit(group, [Call(str(i), i) for i in range(calls)])
    while bundle.open:
        bundle.wait_for_some()
        list(bundle.finished())
    print(sum(o is not None and o.kind == "ok" for o in group.outcomes), flush=True)


async def measured(case: str, form: str, seconds: float) -> tuple[float, float]:
    """(makespan relative to the oracle's, refused calls for each accepted one)."""
    processes, first, halved = CASES[case]
    server = Server(seconds / 2 if halved else 1e9)
    app = web.Application()
    app.router.add_post("/", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    calls = round(RATE + RATE * seconds * (0.75 if halved else 1.0))
    rest = round(calls * (1 - first) / (processes - 1))
    shares = [calls - rest * (processes - 1)] + [rest] * (processes - 1)
    options = ["--processes", str(processes), *FORMS[form]]
    pipe = subprocess.PIPE
    start = asyncio.create_subprocess_exec
    workers = [
        await start(sys.executable, __file__, "--work", address, "--calls", str(n), *options, stdin=pipe, stdout=pipe)
        for n in shares
    ]
    for worker in workers:
        assert worker.stdout is not None
        await worker.stdout.readline()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"go\n")
        await worker.stdin.drain()
    answered = sum([int((await worker.communicate())[0]) for worker in workers])
    await runner.cleanup()
    assert answered == calls, f"{answered} of {calls} calls were answered"
    return server.ended / (seconds + LATENCY), server.refused / server.accepted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="what the oracle takes")
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--forms", nargs="+", default=list(FORMS))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--calls", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--split", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--unpaced", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work, args.calls, args.processes, args.split, args.unpaced)
        return
    for case in args.cases:
        for form in args.forms:
            span, refused = asyncio.run(measured(case, form, args.seconds))
            print(f"{case:10} {form:10} makespan {span:.3f} x the oracle's, {refused:.3f} refused a call", flush=True)


if __name__ == "__main__":
    main()

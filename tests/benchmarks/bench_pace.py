"""Workers that know nothing of each other against one quota: `python tests/benchmarks/bench~~limiter.py`.

Everything runs under a virtual clock, so the figures are those of the pacing alone. Each client is a server drawn at
random (quota, burst, latencies, workers, how the work is divided, whether the quota is halved, which share of calls it
refuses whatever the rate) and three ways to call it: paced by what it refuses, an equal share of the quota for each
worker, and as fast as the windows allow. A worker is told how many they are and nothing else. Makespan is relative to
an oracle that never sends too much or too little.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path += [str(Path(__file__).parent.parent / folder) for folder in ("servers", "transforms/calls")]

from queue_world import HttpError, VirtualLoop, World
from token_bucket import Bucket

from evalbeam.schemas.calls import Call
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.pending_call import CallGroup
from evalbeam.transforms.calls.rate_limiter import AdaptiveRateLimiter


@dataclass(frozen=True)
class Server:
    """A token bucket and those who call it.

    Attributes:
        rate, burst: Calls a second, and how many at once at most.
        latency, refusal: Seconds of an answer and of a refusal.
        workers: Processes that call.
        first: Share of the calls that the first worker has.
        seconds: What the oracle takes.
        halved: Whether the quota is halved in the middle.
        moody: Share of calls refused whatever the rate.
    """

    rate: float
    burst: float
    latency: float
    refusal: float
    workers: int
    first: float
    seconds: float = 60.0
    halved: bool = False
    moody: float = 0.0


def drawn(draw: random.Random) -> Server:
    """A server nobody has tuned anything for."""
    workers = draw.choice([1, 2, 4, 8, 16, 32])
    rate = math.exp(draw.uniform(math.log(5), math.log(300)))
    return Server(
        rate=rate,
        burst=max(1.0, rate * math.exp(draw.uniform(math.log(0.1), math.log(10)))),
        latency=math.exp(draw.uniform(math.log(0.05), math.log(3))),
        refusal=math.exp(draw.uniform(math.log(0.005), math.log(0.5))),
        workers=workers,
        first=draw.choice([1 / workers, 1 / workers, max(0.5, 1 / workers)]),
        halved=draw.random() < 0.3,
        moody=draw.choice([0.0, 0.0, 0.01, 0.03]),
    )


class Simulation:
    """The server under a virtual clock."""

    def __init__(self, server: Server, loop: VirtualLoop, draw: random.Random) -> None:
        self.server, self.loop, self.draw = server, loop, draw
        self.bucket = Bucket(server.rate, server.burst)
        self.accepted, self.refused, self.ended = 0, 0, 0.0

    async def answer(self, request: object, attempt: int) -> str:
        server, now = self.server, self.loop.time()
        if server.halved and now >= server.seconds / 2:
            self.bucket.rate = server.rate / 2
        if self.draw.random() < server.moody or self.bucket.take(now):
            self.refused += 1
            await asyncio.sleep(server.refusal)
            raise HttpError(429)
        self.accepted += 1
        await asyncio.sleep(server.latency * self.draw.uniform(0.5, 1.5))
        self.ended = self.loop.time()
        return "ok"


def simulated(server: Server, seed: int, policy: dict[str, float], window: int = 64) -> tuple[float, float]:
    """(makespan relative to the oracle's, refused calls for each accepted one)."""
    random.seed(seed)  # the jitter of the retries
    loop = VirtualLoop()
    simulation = Simulation(server, loop, random.Random(seed))
    half = server.seconds / 2
    calls = round(server.burst + server.rate * (half + half / 2 if server.halved else server.seconds))
    rest = round(calls * (1 - server.first) / max(1, server.workers - 1))
    shares = [calls - rest * (server.workers - 1)] + [rest] * (server.workers - 1)
    groups = []
    for share in shares:
        client = World(simulation.answer, loop, server.workers, max_in_flight=window, **policy).client
        bundle = Bundle({"agent": client})
        groups.append(CallGroup(None, [None] * share))
        bundle.submit(groups[-1], [Call(str(i), 0) for i in range(share)])

    async def until_done() -> None:
        while any(t.remaining for t in groups):
            await asyncio.sleep(1)

    loop.run_until_complete(until_done())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    oracle = max(server.seconds, max(shares) * server.latency / window) + server.latency
    return simulation.ended / oracle, simulation.refused / max(1, simulation.accepted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=40)
    parser.add_argument("--full-rate", action="store_true", help="unpaced calls as well; slow")
    args = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"paced": [], "split": [], "full": []}
    for seed in range(args.servers):
        server = drawn(random.Random(seed))
        found["paced"].append(simulated(server, seed, {}))
        found["split"].append(simulated(server, seed, {"requests_per_minute": 60 * server.rate}))
        if args.full_rate:
            refused, AdaptiveRateLimiter.refused = AdaptiveRateLimiter.refused, lambda *_: None
            found["full"].append(simulated(server, seed, {"max_attempts": 100}))
            AdaptiveRateLimiter.refused = refused
        print(server, {name: tuple(round(x, 3) for x in r[-1]) for name, r in found.items() if r}, flush=True)
    for name, results in found.items():
        if results:
            spans, refusals = (sorted(column) for column in zip(*results, strict=True))
            for what, values in (("makespan", spans), ("refused for each accepted", refusals)):
                quantiles = [values[min(len(values) - 1, int(q * len(values)))] for q in (0.5, 0.75, 0.9, 1.0)]
                print(f"{name:6} {what:26} p50 {quantiles[0]:.3f}  p75 {quantiles[1]:.3f}  p90 {quantiles[2]:.3f}  "
                      f"max {quantiles[3]:.3f}  mean {statistics.fmean(values):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()

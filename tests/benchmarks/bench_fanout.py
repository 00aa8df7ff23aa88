"""Calls a second of the fan-out beside plain asyncio, paired in one process: `python tests/benchmarks/bench_fanout.py`.

Each line is the same fake calls (sleeps): by plain coroutines and plain threads without Beam, and in a local pipeline,
the runner's start included, through `FanOut`, through `BatchElements` with a gather for each batch, and through Beam's
`RunInference`. The figures that count are the ratios of calls a second to plain coroutines, which are paired in one
process and repeated.

The start takes half a second whatever comes after it: the runner's tenth, and the window's, which opens from 8 calls by
doubling. So there are calls for about ten seconds: 40,000 at 256 in flight, where plain coroutines take 8 seconds, and
400,000 at 2,000, where they take 10. Threads and what Beam has, whose rates do not depend on it, make 40,000 of both.
`--memory` shows the peak memory of processes that make 10,000 and 200,000 calls through `FanOut` instead.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Instance
from evalbeam.transforms.calls.fanout import FanOut, Work
from evalbeam.transforms.runtime import coders  # noqa: F401  registers the coder of Batch


@dataclass(frozen=True)
class Sleeper:
    """Calls that take as long as their row says."""

    policy: CallPolicy
    on_threads: bool = False

    @property
    def endpoints(self) -> dict[str, CallPolicy]:
        return {"agent": self.policy}

    def connect(self, endpoint: str) -> Callable[[Call], Any]:
        async def call(call: Call) -> Any:
            await asyncio.sleep(call.request)
            return "done"

        def blocking(call: Call) -> Any:
            time.sleep(call.request)
            return "done"

        return blocking if self.on_threads else call

    def work(self, batch: Batch) -> Work:
        outcomes = yield [Call(row.instance_id, row.row["seconds"]) for row in batch.rows]
        assert all(o.value == "done" for o in outcomes)
        return batch


@cache
def constant(n: int) -> list[float]:
    """n calls of 50 ms."""
    return [0.05] * n


@cache
def heavy_tail(n: int) -> list[float]:
    """n lognormal calls (sigma 1) of 50 ms in the mean and 2 s at most."""
    draw = random.Random(7)
    raw = [draw.lognormvariate(0.0, 1.0) for _ in range(n)]
    scale = 0.05 / statistics.fmean(raw)
    return [min(2.0, x * scale) for x in raw]


def plain(seconds: list[float], in_flight: int) -> None:
    """The calls made by `in_flight` coroutines of one event loop: the fastest plain form, without any of our duties."""
    remaining = iter(seconds)

    async def one_place() -> None:
        for duration in remaining:
            await asyncio.sleep(duration)

    async def all_of_them() -> None:
        await asyncio.gather(*(one_place() for _ in range(in_flight)))

    asyncio.run(all_of_them())


def pooled(seconds: list[float], in_flight: int) -> None:
    """The calls made by threads of the standard library's executor: what sync callables have without us."""
    with ThreadPoolExecutor(in_flight) as pool:
        deque(pool.map(time.sleep, seconds), maxlen=0)


def batches(shape: Callable[[int], list[float]], calls: int, rows: int) -> Iterator[Batch]:
    """The calls as rows, in batches."""
    seconds = shape(calls)
    for first in range(0, calls, rows):
        part = enumerate(seconds[first : first + rows], first)
        yield Batch(tuple(Instance(f"{i:032x}", {"seconds": s}) for i, s in part))


def fanned_out(shape: Callable[[int], list[float]], calls: int, in_flight: int, rows: int, on_threads: bool) -> None:
    """The calls through a local Beam pipeline, in batches of `rows`."""
    caller = Sleeper(CallPolicy(max_in_flight=in_flight), on_threads)
    pipeline = beam.Pipeline(runner=FnApiRunner())
    make = beam.FlatMap(lambda _: batches(shape, calls, rows)).with_output_types(Batch)
    _ = pipeline | beam.Create([0], reshuffle=False) | make | FanOut(caller)
    pipeline.run().wait_until_finish()


def gather(seconds: list[float]) -> list[str]:
    """The calls of one batch, all at once."""

    async def call(duration: float) -> str:
        await asyncio.sleep(duration)
        return "done"

    async def all_of_them() -> list[str]:
        return list(await asyncio.gather(*map(call, seconds)))

    return asyncio.run(all_of_them())


class Gathering(ModelHandler[float, str, None]):
    """Beam's way to call a remote model: a batch at a time."""

    def __init__(self, in_flight: int) -> None:
        super().__init__(min_batch_size=in_flight, max_batch_size=in_flight)

    def load_model(self) -> None:
        return None

    def run_inference(self, batch: Any, model: None, inference_args: Any = None) -> list[str]:
        return gather(list(batch))


def by_beam(shape: Callable[[int], list[float]], calls: int, in_flight: int, inference: bool) -> None:
    """The calls by what Beam has: a batch is called at once, and the next one when it is done."""
    pipeline = beam.Pipeline(runner=FnApiRunner())
    seconds = pipeline | beam.Create([0], reshuffle=False) | beam.FlatMap(lambda _: shape(calls))
    if inference:
        _ = seconds | RunInference(Gathering(in_flight))
    else:
        batched = beam.BatchElements(min_batch_size=in_flight, max_batch_size=in_flight)
        _ = seconds | batched | beam.FlatMap(gather)
    pipeline.run().wait_until_finish()


class Speed(NamedTuple):
    """Calls a second, and CPU seconds of a call."""

    rate: float
    cpu: float


def speed(calls: int, work: Callable[[], None]) -> Speed:
    """How fast some work makes its calls."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Speed(calls / wall, cpu / calls)


def paired(shape: Callable[[int], list[float]], calls: int, in_flight: int, rows: int, ours: bool) -> dict[str, Speed]:
    """How fast each form is; shorter runs are enough for those whose rate does not depend on it."""
    few = min(calls, 40_000)
    for n in (calls, few):
        shape(n)  # else it would be a form that draws them
    found = {
        "asyncio": speed(calls, partial(plain, shape(calls), in_flight)),
        "fan-out": speed(calls, partial(fanned_out, shape, calls, in_flight, rows, False)),
        "fan-out, threads": speed(few, partial(fanned_out, shape, few, in_flight, rows, True)),
    }
    if not ours:
        found["BatchElements"] = speed(few, partial(by_beam, shape, few, in_flight, False))
        found["executor, threads"] = speed(few, partial(pooled, shape(few), in_flight))
        found["RunInference"] = speed(few, partial(by_beam, shape, few, in_flight, True))
    return found


def peak(calls: int, in_flight: int) -> float:
    """Peak memory in MB of a process that makes so many calls of 50 ms."""
    code = f"import bench_fanout as b; b.fanned_out(b.constant, {calls}, {in_flight}, 156, False); print(b.maxrss())"
    folder = Path(__file__).parent
    return float(subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, stdout=subprocess.PIPE).stdout)


def maxrss() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[256, 2000])
    parser.add_argument("--calls", type=int, nargs="+", default=[40_000, 400_000], help="with each of --in-flight")
    parser.add_argument("--rows", type=int, default=156, help="rows of a batch")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--ours", action="store_true", help="without what Beam has")
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    if args.memory:
        for calls in (10_000, 200_000):
            print(f"{calls:7} calls, 2000 in flight: {peak(calls, 2000):.0f} MB at most", flush=True)
        return
    fanned_out(constant, 100, 10, 10, False)  # imports and first use are not what is measured
    for in_flight, calls in zip(args.in_flight, args.calls, strict=True):
        for shape in (constant, heavy_tail):
            found = [paired(shape, calls, in_flight, args.rows, args.ours) for _ in range(args.repeat)]
            for name in found[0]:
                ratio = statistics.median(run[name].rate / run["asyncio"].rate for run in found)
                rate, cpu = (statistics.median(getattr(run[name], what) for run in found) for what in ("rate", "cpu"))
                print(
                    f"{shape.__name__:10} {in_flight:5} in flight {name:17} {rate:6.0f}/s "
                    f"{1e3 * cpu:.3f} ms CPU, ratio {ratio:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

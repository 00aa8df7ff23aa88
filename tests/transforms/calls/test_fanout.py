"""Calls through Beam's local runner: every row once, typed, whatever the callee does."""

import asyncio
import collections
import gc
import hashlib
import itertools
import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass, field
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.errors import RunError
from evalbeam.schemas.instance import Instance
from evalbeam.transforms.calls.engine import Engine
from evalbeam.transforms.calls.fanout import FanOut
from evalbeam.transforms.runtime import coders  # noqa: F401  registers the coder of Batch

HERE = collections.defaultdict(list)
"""What the callables of this process saw, by test."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
_tests = itertools.count()


@pytest.fixture
def seen():
    name = f"{next(_tests)}"
    yield name, HERE[name]
    del HERE[name]


def instance_id(number):
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def batch(numbers, **columns):
    return Batch(tuple(Instance(instance_id(n), {"n": n}) for n in numbers), **columns)


def cut(numbers, rows):
    numbers = list(numbers)
    return [batch(numbers[i : i + rows], part=i) for i in range(0, len(numbers), rows)]


@dataclass(frozen=True)
class Doubler:
    """Doubles each row's number, by a coroutine or on threads; answers are noted under `name`."""

    name: str = ""
    how: str = "loop"
    fails_at: int | None = None
    hangs_at: int | None = None
    policy: CallPolicy = field(default_factory=lambda: CallPolicy(backoff=0.001, max_in_flight=16))

    @property
    def endpoints(self):
        return {"agent": self.policy}

    def connect(self, endpoint):
        HERE[self.name + "connect"].append(threading.current_thread().name)

        async def on_loop(call):
            HERE[self.name].append(call.request)
            if self.hangs_at is not None and call.request % 10 == self.hangs_at:
                await asyncio.sleep(1000)
            if self.fails_at is not None and call.request % 10 == self.fails_at:
                raise ValueError(f"number {call.request}")
            return call.request * 2

        def on_thread(call):
            HERE[self.name].append(call.request)
            if self.fails_at is not None and call.request % 10 == self.fails_at:
                sys.exit(call.request)
            return call.request * 2

        return on_loop if self.how == "loop" else on_thread

    def work(self, batch):
        outcomes = yield [Call(row.instance_id, row.row["n"]) for row in batch.rows]
        rows = [
            Instance(r.instance_id, {**r.row, "value": o.value, "kind": o.kind, "error": o.error_type})
            for r, o in zip(batch.rows, outcomes, strict=True)
        ]
        return Batch(tuple(rows), batch.part, batch.columns)


HELD: list = []


class LocalObject:
    """A caller that stays in this process, whatever is pickled."""

    def __init__(self, caller):
        HELD.append(caller)
        self.number = len(HELD) - 1

    def __getattr__(self, name):
        if name.startswith("_") or name == "number":
            raise AttributeError(name)
        return getattr(HELD[self.number], name)


class _AsOneBundle(beam.DoFn):
    def __init__(self, batches):
        self.batches = batches

    def process(self, _):
        yield from self.batches


def source(pipeline, batches):
    return pipeline | beam.Create([0], reshuffle=False) | beam.ParDo(_AsOneBundle(batches)).with_output_types(Batch)


def same_rows(batches, expected):
    def check(found):
        assert sorted(b.part for b in found) == sorted(b.part for b in batches)
        by_part = {b.part: b for b in batches}
        for b in found:
            assert [r.instance_id for r in b.rows] == [r.instance_id for r in by_part[b.part].rows]
            assert b.columns == by_part[b.part].columns
            assert [(r.row["value"], r.row["kind"]) for r in b.rows] == [expected(r.row["n"]) for r in b.rows]

    return check


@pytest.mark.parametrize("how", ["loop", "thread"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_rows_come_back_in_their_batches(how, rows, seen):
    batches = cut(range(1000), rows)
    with beam.Pipeline(runner=FnApiRunner()) as p:
        out = source(p, batches) | FanOut(Doubler(seen[0], how, fails_at=3))
        assert_that(out, same_rows(batches, lambda n: (None, "permanent") if n % 10 == 3 else (2 * n, "ok")))
    assert sorted(seen[1]) == list(range(1000))
    assert len(HERE[seen[0] + "connect"]) == 1


def test_an_empty_batch_and_its_columns_pass():
    batches = [batch([], part=4, columns=(("n", "int64"),)), batch([1], part=5, columns=(("n", "int64"),))]
    with beam.Pipeline(runner=FnApiRunner()) as p:
        assert_that(source(p, batches) | FanOut(Doubler()), same_rows(batches, lambda n: (2 * n, "ok")))


def test_two_fused_fan_outs_of_one_endpoint(seen):
    batches = cut(range(500), 50)
    again = Doubler(seen[0])
    with beam.Pipeline(runner=FnApiRunner()) as p:
        out = source(p, batches) | "Agent" >> FanOut(Doubler(seen[0])) | "Judge" >> FanOut(again)
        assert_that(out, same_rows(batches, lambda n: (2 * n, "ok")))
    assert collections.Counter(seen[1]) == dict.fromkeys(range(500), 2)


@dataclass(frozen=True)
class Chain(Doubler):
    """Doubles each number until it is at least 100, alternately at two endpoints."""

    @property
    def endpoints(self):
        return {"even": self.policy, "odd": self.policy}

    def connect(self, endpoint):
        async def call(call):
            HERE[self.name].append((endpoint, call.request))
            return call.request * 2

        return call

    def work(self, batch):
        values, turn = [row.row["n"] for row in batch.rows], 0
        while small := [i for i, v in enumerate(values) if v < 100]:
            end = ("even", "odd")[turn % 2]
            turn += 1
            for i, o in zip(small, (yield [Call(f"{i}", values[i], "00", end) for i in small]), strict=True):
                values[i] = o.value
        rows = [
            Instance(r.instance_id, {**r.row, "value": v, "kind": "ok"})
            for r, v in zip(batch.rows, values, strict=True)
        ]
        return Batch(tuple(rows), batch.part, batch.columns)


@pytest.mark.parametrize("rows", [1, 9])
def test_further_calls_follow_from_outcomes(rows, seen):
    def reached(n):
        return (n if n >= 100 else next(n << k for k in range(8) if n << k >= 100)), "ok"

    batches = cut(range(1, 200), rows)
    with beam.Pipeline(runner=FnApiRunner()) as p:
        assert_that(source(p, batches) | FanOut(Chain(seen[0])), same_rows(batches, reached))
    steps = collections.Counter(seen[1])
    assert set(steps.values()) <= {1, 2, 3, 4, 5, 6, 7}
    assert steps[("even", 1)] == steps[("odd", 2)] == 1  # 2 is also a row of its own
    assert sum(steps.values()) == sum(next(k for k in range(8) if n << k >= 100) for n in range(1, 100))


def test_windows_are_kept(seen):
    stamped = [beam.window.TimestampedValue(b, 10 * i) for i, b in enumerate(cut(range(40), 10))]

    def check(found):
        assert sorted((int(w.start), t.micros // 1_000_000, b) for b, t, w in found) == [
            (10 * i, 10 * i, i * 10) for i in range(4)
        ]

    with beam.Pipeline(runner=FnApiRunner()) as p:
        out = (
            source(p, stamped)
            | beam.WindowInto(beam.window.FixedWindows(10))
            | FanOut(Doubler(seen[0]))
            | beam.Map(lambda b, t=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam: (b.part, t, w))
            | "All" >> beam.WindowInto(beam.window.GlobalWindows())
        )
        assert_that(out, check)


class _FailsOnce(beam.DoFn):
    def process(self, element):
        raise KeyError("a step downstream")


def threads_of_ours():
    return [t for t in threading.enumerate() if t.name in ("evalbeam-loop", "evalbeam-call")]


@pytest.fixture
def thawed(monkeypatch):
    """Nothing is kept from the collector, as in a process that has just started."""
    monkeypatch.setattr(Engine.here(), "_frozen", False)
    gc.unfreeze()
    yield
    gc.freeze()


def test_a_failing_bundle_cancels_its_calls_and_leaks_nothing(seen, thawed):
    before = threads_of_ours()  # threads of other tests' calls may be about to end
    for _ in range(3):
        p = beam.Pipeline(runner=FnApiRunner())
        policy = CallPolicy(timeout=1000, max_in_flight=16)
        caller = Doubler(seen[0], hangs_at=7, policy=policy)
        quick = [n for n in range(100) if n % 10 != 7]  # more than are taken at once: some leave before others hang
        _ = source(p, cut([*quick, *range(7, 1000, 10)], 1)) | FanOut(caller) | beam.ParDo(_FailsOnce())
        with pytest.raises(KeyError):
            p.run()
    engine = Engine.here()

    async def tasks():
        for _ in range(5):  # the cancelled tasks unwind
            await asyncio.sleep(0)
        return [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]

    assert asyncio.run_coroutine_threadsafe(tasks(), engine.loop).result(10) == []
    assert {t.name for t in threads_of_ours() if t not in before} <= {"evalbeam-loop"}
    assert [t.name for t in threads_of_ours()].count("evalbeam-loop") == 1
    assert engine.idle()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("frozen_before", [False, True])
def test_the_collector_leaves_alone_what_was_there_before_the_first_call(frozen_before, thawed):
    def frozen():
        return gc.get_freeze_count() > 10_000

    if frozen_before:
        gc.freeze()
    engine = Engine.here()
    for _ in range(2):
        engine.join("token", "agent", lambda: print, CallPolicy())
    assert frozen()
    engine.leave("token")
    assert frozen()
    engine.leave("token")
    assert frozen() == frozen_before


def test_what_others_keep_from_the_collector_is_counted_once(thawed, monkeypatch):
    counts = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counts.append("a million") or 10**6)
    for _ in range(3):
        Engine.here().join("token", "agent", lambda: print, CallPolicy())
        Engine.here().leave("token")
    assert counts == ["a million"]


@pytest.mark.parametrize(
    ("before", "places", "meanwhile"), [(700, 64, 10_000), (200_000, 64, 10_000), (700, 2000, 40_000), (0, 64, 0)]
)
def test_garbage_is_looked_for_as_calls_need_it(before, places, meanwhile):
    thresholds = gc.get_threshold()
    gc.set_threshold(before, 11, 12)
    engine = Engine.here()
    engine.join("token", "agent", lambda: print, CallPolicy(max_in_flight=places))
    assert gc.get_threshold() == (meanwhile, 11, 12)
    engine.leave("token")
    assert gc.get_threshold() == (before, 11, 12)
    gc.set_threshold(*thresholds)


def test_threads_take_turns_more_often_while_calls_are_made_but_not_with_thousands_in_flight():
    before = sys.getswitchinterval()
    engine = Engine.here()
    for token, places in {"a": 64, "b": 64, "c": 2000}.items():
        engine.join(token, token, lambda: print, CallPolicy(max_in_flight=places))
        assert (sys.getswitchinterval() <= 0.001 < before) == (token != "c")
    assert sys.getswitchinterval() == before
    for token in "cb":
        engine.leave(token)
        assert sys.getswitchinterval() <= 0.001
    engine.leave("a")
    assert sys.getswitchinterval() == before


def test_a_callable_that_cannot_be_made_ends_the_run():
    @dataclass(frozen=True)
    class Broken(Doubler):
        def connect(self, endpoint):
            raise RuntimeError("no such agent")

    with pytest.raises(RuntimeError, match="no such agent"), beam.Pipeline(runner=FnApiRunner()) as p:
        source(p, cut(range(3), 1)) | FanOut(Broken())


def test_an_agent_that_ends_the_loop_thread_is_reported(monkeypatch):
    monkeypatch.setattr("evalbeam.transforms.calls.bundle._POLL", 0.01)

    @dataclass(frozen=True)
    class Saboteur(Doubler):
        def connect(self, endpoint):
            async def call(call):
                asyncio.get_running_loop().stop()
                await asyncio.sleep(1000)

            return call

    p = beam.Pipeline(runner=FnApiRunner())
    _ = source(p, cut(range(3), 1)) | FanOut(Saboteur(policy=CallPolicy()))
    with pytest.raises(RunError, match="the thread that makes the calls has ended"):
        p.run()
    with beam.Pipeline(runner=FnApiRunner()) as p:  # the next run has a loop again
        batches = cut(range(3), 1)
        assert_that(source(p, batches) | FanOut(Doubler()), same_rows(batches, lambda n: (2 * n, "ok")))


def test_a_coroutine_that_blocks_the_loop_ends_the_run(monkeypatch):
    monkeypatch.setattr("evalbeam.transforms.calls.bundle._POLL", 0.01)
    monkeypatch.setattr("evalbeam.transforms.calls.bundle._BLOCKED", 0.05)
    blocked = threading.Event()

    class Blocking(Doubler):
        def connect(self, endpoint):
            async def call(call):
                blocked.wait()
                return call.request * 2

            return call

    p = beam.Pipeline(runner=FnApiRunner())
    _ = source(p, cut(range(3), 1)) | FanOut(LocalObject(Blocking(policy=CallPolicy(timeout=0.05))))
    with pytest.raises(RunError, match="a coroutine blocks the event loop"):
        p.run()
    with beam.Pipeline(runner=FnApiRunner()) as p:  # the next run has a loop of its own
        batches = cut(range(3), 1)
        assert_that(source(p, batches) | FanOut(Doubler()), same_rows(batches, lambda n: (2 * n, "ok")))
    blocked.set()


def test_counters(seen):
    p = beam.Pipeline(runner=FnApiRunner())
    _ = source(p, cut(range(100), 10)) | FanOut(Doubler(seen[0], fails_at=3))
    result = p.run()
    found = result.metrics().query(beam.metrics.MetricsFilter().with_namespace("evalbeam"))["counters"]
    assert {c.key.metric.name: c.committed for c in found} == {"calls": 100, "failed": 10, "retries": 0}


def test_worker_processes(tmp_path):
    """Several processes, each with an engine of its own: the caller travels, every row comes back once."""
    module = tmp_path / "my_caller.py"
    module.write_text(
        textwrap.dedent(
            """
            from test_fanout import *

            if __name__ == "__main__":
                from apache_beam.options.pipeline_options import PipelineOptions
                options = PipelineOptions(["--direct_num_workers=2", "--direct_running_mode=multi_processing"])
                batches = cut(range(200), 10)
                with beam.Pipeline(runner=FnApiRunner(), options=options) as p:
                    keyed = source(p, batches) | beam.WithKeys(lambda b: b.part).with_output_types(tuple[int, Batch])
                    met = keyed | beam.GroupByKey() | beam.FlatMap(lambda kv: kv[1]).with_output_types(Batch)
                    assert_that(met | FanOut(Doubler()), same_rows(batches, lambda n: (2 * n, "ok")))
                print("done")
            """
        )
    )
    ran = subprocess.run([sys.executable, str(module)], capture_output=True, text=True, env=ENVIRONMENT)
    assert ran.stdout == "done\n", ran.stderr


def test_hung_threads_do_not_keep_the_process(tmp_path):
    program = tmp_path / "hang.py"
    program.write_text(
        textwrap.dedent(
            """
            from test_fanout import *

            class Hanging(Doubler):
                def connect(self, endpoint):
                    never = threading.Event()
                    return lambda call: never.wait() if call.request % 10 < 3 else call.request * 2

            policy = CallPolicy(timeout=2, max_in_flight=400, max_attempts=1)
            batches = cut(range(1000), 100)
            with beam.Pipeline(runner=FnApiRunner()) as p:
                out = source(p, batches) | FanOut(Hanging(policy=policy))
                assert_that(out, same_rows(batches, lambda n: (None, "timeout") if n % 10 < 3 else (2 * n, "ok")))
            print("done")
            """
        )
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert ran.stdout == "done\n", ran.stderr
    assert ran.returncode == 0

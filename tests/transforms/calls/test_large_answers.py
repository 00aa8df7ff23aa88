"""Answers that are all large: what is held of them has a bound, and the tables are the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_world import VirtualLoop

from evalbeam import evaluate
from evalbeam.schemas.batch import MAX_BYTES, MAX_ROWS, Batch
from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.transforms.agents.function import FunctionAgent
from evalbeam.transforms.agents.recorded import RecordedAgent
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.endpoint_client import EndpointClient
from evalbeam.transforms.calls.endpoint_queue import EndpointQueue
from evalbeam.transforms.calls.pending_call import CallGroup
from evalbeam.transforms.invoke import InvokeAgent, split

MEASURE = """
import resource, sys
import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from evalbeam.schemas.batch import Batch
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Instance
from evalbeam.transforms.runtime import coders
from evalbeam.transforms.agents.function import FunctionAgent
from evalbeam.transforms.batch_rows import cut
from evalbeam.transforms.invoke import InvokeAgent

SIZE = 2 << 20

async def long_answer(prompt):
    return prompt * (SIZE // len(prompt))

def seen(batch):
    for e in batch.rows:
        assert len(e.invocation.response) == SIZE, e.invocation
        print(e.instance.instance_id)

rows = [Instance(f"{i:032x}", {"prompt": f"answer no. {i:05d}"}) for i in range(600)]
invoke = InvokeAgent(FunctionAgent("__main__:long_answer"), CallPolicy())
batches = [Batch(batch) for _, batch in cut(rows, 1, most=invoke.rows)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with beam.Pipeline(runner=FnApiRunner()) as p:
    made = p | beam.Create([0], reshuffle=False) | beam.FlatMap(lambda _: batches).with_output_types(Batch)
    made | invoke | beam.Map(seen)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, file=sys.stderr)
"""


def test_a_gigabyte_of_answers_passes_through_half_of_it(tmp_path: Path) -> None:
    """600 answers of 2 MiB; held are 256 MiB, one batch of 64 rows, and what arrives meanwhile."""
    (tmp_path / "measure.py").write_text(MEASURE)
    ran = subprocess.run([sys.executable, str(tmp_path / "measure.py")], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.split()) == [f"{i:032x}" for i in range(600)]
    assert int(ran.stderr.split()[-1]) * 1024 < 600 << 20


@pytest.mark.parametrize("places", [1, 4, 50])
def test_calls_begin_only_as_long_as_what_is_held_has_room(places: int) -> None:
    loop, begun = VirtualLoop(), []

    async def answer(call: Call) -> str:
        begun.append(call.key)
        await asyncio.sleep(1)
        return "x"

    queue, policy = EndpointQueue(loop), CallPolicy(max_in_flight=places)
    queue.open([policy])
    bundle = Bundle({"agent": EndpointClient(lambda: answer, policy, queue)}, lambda _, __: 10, most_bytes=100)
    groups = [CallGroup(n, [None] * 5) for n in range(40)]
    for group in groups:
        bundle.submit(group, [Call(f"{group.item}.{i}", None) for i in range(5)])
    taken = []
    while len(taken) < 40:
        loop.run_until_complete(asyncio.sleep(1000))
        assert len(begun) - 5 * len(taken) <= 100 // 10 + 5 + places
        found = [t.item for t in bundle.finished()]
        assert found
        taken += found
    assert sorted(taken) == list(range(40))
    assert len(begun) == 200
    loop.run_until_complete(asyncio.sleep(1000))
    loop.close()


def test_an_answer_larger_than_all_that_may_be_held_still_passes() -> None:
    loop = VirtualLoop()

    async def answer(call: Call) -> str:
        return "x"

    queue, policy = EndpointQueue(loop), CallPolicy()
    queue.open([policy])
    bundle = Bundle({"agent": EndpointClient(lambda: answer, policy, queue)}, lambda _, __: 10**6, most_bytes=1)
    for n in range(300):
        bundle.submit(CallGroup(n, [None]), [Call(f"{n}", None)])
    taken = []
    while len(taken) < 300:
        loop.run_until_complete(asyncio.sleep(1))
        found = [t.item for t in bundle.finished()]
        assert found
        taken += found
    assert sorted(taken) == list(range(300))
    loop.close()


def test_batches_hold_as_many_rows_as_answers_fit_into_memory() -> None:
    agent = FunctionAgent(len)
    assert InvokeAgent(agent, CallPolicy()).rows == 64
    assert InvokeAgent(agent, CallPolicy(), trials=4).rows == 16
    assert InvokeAgent(agent, CallPolicy(max_answer_bytes=1 << 30)).rows == 1
    assert InvokeAgent(agent, CallPolicy(max_answer_bytes=1)).rows == MAX_ROWS
    assert InvokeAgent(RecordedAgent(), CallPolicy()).rows == MAX_ROWS


@settings(max_examples=30)  # of up to 300 MB each
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 3))
def test_what_leaves_is_the_same_in_pieces(megabytes: list[int], trials: int) -> None:
    rows = [
        Example(Instance(f"{i:032x}", {}), Invocation("ok", "x" * (size << 20)), trial)
        for i, size in enumerate(megabytes)
        for trial in range(trials)
    ]
    pieces = list(split(Batch(tuple(rows), 3, (("n", "int64"),))))
    assert [r for piece in pieces for r in piece.rows] == rows
    assert {(piece.part, piece.columns) for piece in pieces} == {(3, (("n", "int64"),))}
    ids = [{r.instance.instance_id for r in piece.rows} for piece in pieces]
    assert sum(map(len, ids)) == len(megabytes)
    for piece, held in zip(pieces, ids, strict=True):
        assert len(held) <= 1 or sum(len(r.invocation.response or "") for r in piece.rows) <= MAX_BYTES


def tables(folder: Path) -> list[bytes]:
    return [p.read_bytes() for p in sorted(folder.rglob("*.parquet"))]


def test_the_tables_do_not_show_how_rows_were_cut(tmp_path: Path) -> None:
    def answer(prompt: str) -> dict[str, object]:
        return {"response": prompt.upper(), "latency_in_seconds": 1.0}

    dataset = [{"prompt": f"p{i}", "reference": f"P{i % 50}"} for i in range(60)]
    for name, largest in (("one", 1 << 30), ("many", 1 << 10)):
        evaluate(
            dataset,
            ["exact_match", "rouge_1"],
            answer,
            output=str(tmp_path / name),
            agent={"max_answer_bytes": largest},
            shards=1,
        )
    assert tables(tmp_path / "one") == tables(tmp_path / "many") != []

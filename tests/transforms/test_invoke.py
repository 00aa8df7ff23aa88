"""Agents of every kind through Beam's local runner: rows out = rows in, every failure typed."""

import asyncio
import collections
import sys
import threading
import time

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Instance
from evalbeam.transforms.agents.function import FunctionAgent
from evalbeam.transforms.agents.recorded import RecordedAgent
from evalbeam.transforms.invoke import AgentCaller, InvokeAgent
from evalbeam.transforms.runtime import coders  # noqa: F401  registers the coder of Batch

ME = "evalbeam_test_invoke"
BATCHES: list[Batch] = []
NEVER = threading.Event()


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    """The agents below travel by name, so that what they note is seen here."""
    monkeypatch.setitem(sys.modules, ME, sys.modules[__name__])
    BATCHES.clear()


def keep(batch):
    sys.modules[ME].BATCHES.append(batch)


def rows(count):
    return [Instance(f"{i:032x}", {"prompt": f"p {i}", "i": i}) for i in range(count)]


def invoked(agent, instances, policy=None, size=100, **options):
    """The examples, in the order of the instances."""
    batches = [
        Batch(tuple(instances[i : i + size]), i // size, (("i", "int64"),)) for i in range(0, len(instances), size)
    ]
    policy = policy or CallPolicy(max_in_flight=32)
    with beam.Pipeline(runner=FnApiRunner()) as p:
        made = p | beam.Create([0], reshuffle=False) | beam.FlatMap(lambda _: batches).with_output_types(Batch)
        _ = made | InvokeAgent(agent, policy, **options) | beam.Map(lambda b: __import__(ME).keep(b))
    found = sorted(BATCHES, key=lambda b: b.part)
    assert [(b.part, b.columns) for b in found] == [(b.part, b.columns) for b in batches]
    return [example for b in found for example in b.rows]


def _misbehave(i):
    if i % 7 == 1:
        raise ValueError(f"no {i}")
    return {2: None, 3: 17, 4: "x" * 2_000_000, 5: {"reply": "x"}}.get(i % 7, f"answer {i}")


def blocking_agent(row):
    if row["i"] % 7 == 6:
        NEVER.wait()
    return _misbehave(row["i"])


async def async_agent(row):
    if row["i"] % 7 == 6:
        await asyncio.sleep(3600)
    return _misbehave(row["i"])


@pytest.mark.parametrize("name", ["blocking_agent", "async_agent"])
def test_a_thousand_rows_of_an_agent_that_does_everything_wrong(name):
    policy = CallPolicy(timeout=1.0, max_in_flight=300, max_attempts=1, max_answer_bytes=1_000_000)
    instances = rows(1000)
    examples = invoked(FunctionAgent(f"{ME}:{name}"), instances, policy)
    assert [e.instance for e in examples] == instances
    expected = {
        0: ("ok", None),
        1: ("failed", "ValueError"),
        2: ("failed", "InvalidAnswer"),
        3: ("failed", "InvalidAnswer"),
        4: ("failed", "InvalidAnswer"),
        5: ("failed", "InvalidAnswer"),
        6: ("failed", "TimeoutError"),
    }
    found = [(e.invocation.status, e.invocation.error_type) for e in examples]
    assert found == [expected[i % 7] for i in range(1000)]
    assert all(e.invocation.response == f"answer {i}" for i, e in enumerate(examples) if i % 7 == 0)
    assert all((e.invocation.latency_in_seconds is None) == (i % 7 != 0) for i, e in enumerate(examples))


def mutating_agent(row):
    row["prompt"] = row["nested"]["list"].append(row.pop("i"))
    return "done"


def test_an_agent_cannot_change_the_dataset():
    instances = [Instance(f"{i:032x}", {"i": i, "nested": {"list": [1]}}) for i in range(10)]
    examples = invoked(FunctionAgent(f"{ME}:mutating_agent"), instances)
    assert {e.invocation.response for e in examples} == {"done"}
    assert [e.instance.row for e in examples] == [{"i": i, "nested": {"list": [1]}} for i in range(10)]


def awaitable_agent(prompt):
    async def answer():
        await asyncio.sleep(0)
        return prompt.upper()

    return answer()


def test_a_function_that_returns_an_awaitable():
    examples = invoked(FunctionAgent(f"{ME}:awaitable_agent"), rows(20))
    assert [e.invocation.response for e in examples] == [f"P {i}" for i in range(20)]


KEYS = collections.Counter()


def keyed_agent(prompt, idempotency_key):
    KEYS[prompt, idempotency_key] += 1
    if KEYS[prompt, idempotency_key] == 1:
        raise ConnectionError
    return idempotency_key


def test_the_idempotency_key_names_the_call_not_the_attempt():
    KEYS.clear()
    policy = CallPolicy(backoff=0.0, max_attempts=2)
    examples = invoked(FunctionAgent(f"{ME}:keyed_agent"), rows(10), policy, trials=2)
    assert [(e.instance.row["i"], e.trial) for e in examples] == [(i, t) for i in range(10) for t in range(2)]
    assert len({e.invocation.response for e in examples}) == 20
    assert set(KEYS.values()) == {2}
    assert {e.invocation.attempts for e in examples} == {2}


def caller(agent=len, **options):
    return AgentCaller(FunctionAgent(agent), CallPolicy(), **options)


def keys(instance, made):
    return [c.key for c in made.calls(Batch((instance,)))]


def test_what_a_call_is_known_by():
    first = Instance("ab" * 16, {"prompt": "p", "reference": "r", "n": 1})
    known = keys(first, caller())
    assert keys(Instance("cd" * 16, {"prompt": "p", "reference": "corrected"}), caller()) == known
    assert keys(Instance("ab" * 16, {"n": 2}, {"prompt": "p"}), caller()) == known
    others = [
        keys(Instance("ab" * 16 + "-1", first.row), caller()),
        keys(Instance("ab" * 16, {"prompt": "q"}), caller()),
        keys(first, caller(fingerprint="f")),
        keys(first, caller(lambda row: "")),
    ]
    assert len({tuple(k) for k in [known, *others]}) == 5
    assert keys(first, caller(trials=3))[0] == known[0]
    assert len(set(keys(first, caller(trials=3)))) == 3
    assert caller().calls(Batch((first,)))[0].prefix == "ab"


def test_an_agent_of_the_whole_row_is_given_what_was_named():
    instance = Instance("ab" * 16, {"question": "q", "reference": "secret", "n": 1}, {"prompt": "q"})
    (everything,) = caller(lambda row: "").calls(Batch((instance,)))
    assert everything.request == {"question": "q", "reference": "secret", "n": 1, "prompt": "q"}
    (some,) = caller(lambda row: "", given=("prompt", "n", "absent")).calls(Batch((instance,)))
    assert some.request == {"prompt": "q", "n": 1}


def test_recorded_answers_are_not_called_and_not_engined():
    instances = [Instance(f"{i:032x}", {"response": f"r {i}", "failure": i % 2}) for i in range(100)]
    examples = invoked(RecordedAgent(), instances, trials=2)
    assert [e.instance for e in examples] == [i for i in instances for _ in range(2)]
    assert [e.trial for e in examples] == [0, 1] * 100
    assert [e.invocation.status for e in examples] == ["ok", "ok", "failed", "failed"] * 50
    assert {e.invocation.attempts for e in examples} == {0}


def sleepy_agent(prompt):
    time.sleep(0.001)
    return prompt


def test_latency_is_that_of_the_call():
    examples = invoked(FunctionAgent(f"{ME}:sleepy_agent"), rows(50), CallPolicy(max_in_flight=2))
    assert all(e.invocation.latency_in_seconds >= 0.001 for e in examples)

"""What a run may spend: exact in one process, known to the others, and never in the way of the rows."""

import asyncio
import collections
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Instance
from evalbeam.schemas.run_folder import RunFolder
from evalbeam.schemas.usage import tokens_of
from evalbeam.transforms.agents.function import FunctionAgent
from evalbeam.transforms.calls.budget import Budget, SpendTracker
from evalbeam.transforms.calls.context import RunContext
from evalbeam.transforms.calls.stop import POLL
from evalbeam.transforms.invoke import InvokeAgent
from evalbeam.transforms.io import storage
from evalbeam.transforms.journal.summary import summarize
from evalbeam.transforms.runtime import counters

CALLS = collections.Counter()


class TooMany(Exception):
    status_code = 429


class Down(Exception):
    status_code = 503


async def answers(prompt):
    CALLS[prompt] += 1
    await asyncio.sleep(0)
    return {"response": prompt, "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


async def refuses_first(prompt):
    CALLS[prompt] += 1
    if CALLS[prompt] == 1 and int(prompt) % 3 == 0:
        raise TooMany
    return {"response": prompt}


async def fails_first(prompt):
    CALLS[prompt] += 1
    if CALLS[prompt] == 1:
        raise Down
    return {"response": prompt}


@pytest.fixture(autouse=True)
def _count_afresh():
    CALLS.clear()


def run(agent, home, budget, rows=300):
    """How many examples have each (status, error message)."""
    instances = [Instance(f"{i:032x}", {"prompt": str(i)}) for i in range(rows)]
    batches = [Batch(tuple(instances[i : i + 10])) for i in range(0, rows, 10)]
    policy = CallPolicy(max_in_flight=8, backoff=0.001)
    invoke = InvokeAgent(FunctionAgent(agent), policy, context=RunContext(RunFolder(str(home)), budget=budget))
    table = home / f"table-{len(list(home.iterdir()))}"

    def write(batch):
        with open(table, "a") as out:
            out.writelines(f"{e.invocation.status}|{e.invocation.error_message}\n" for e in batch.rows)

    with beam.Pipeline(runner=FnApiRunner()) as p:
        made = p | beam.Create([0], reshuffle=False) | beam.FlatMap(lambda _: batches).with_output_types(Batch)
        _ = made | invoke | beam.Map(write)
    return collections.Counter(tuple(line.split("|")) for line in table.read_text().splitlines())


def test_one_process_makes_not_a_call_too_many(tmp_path):
    with counters.watched() as folder:
        found = run(answers, tmp_path, Budget(f"{tmp_path}/spent", max_calls=100))
        counted = counters.totals(folder)
    assert (counted["calls_done"], counted["calls_failed"]) == (300, 0)
    reason = "over budget: budget.max_calls 100 are made"
    assert found == {("ok", "None"): 100, ("over_budget", f"not called: {reason}"): 200}
    assert sum(CALLS.values()) == 100
    assert (tmp_path / "stop").read_text() == reason


def test_tokens_are_overspent_by_what_is_in_flight_at_most(tmp_path):
    found = run(answers, tmp_path, Budget(f"{tmp_path}/spent", max_tokens=1000))
    assert 100 <= found[("ok", "None")] <= 100 + 8
    assert found[("over_budget", "not called: over budget: budget.max_tokens 1000 are used")] == 300 - sum(
        CALLS.values()
    )


def test_what_was_spent_before_counts(tmp_path):
    run(answers, tmp_path, Budget(f"{tmp_path}/spent", max_calls=100))
    (tmp_path / "stop").unlink()
    spent = summarize(f"{tmp_path}/journal")
    assert (spent.paid_calls, spent.input_tokens + spent.output_tokens) == (100, 1000)
    again = Budget(f"{tmp_path}/spent again", max_calls=150, calls=spent.paid_calls)
    assert run(answers, tmp_path, again)[("ok", "None")] == 150
    assert sum(CALLS.values()) == 150


def test_a_budget_for_each_row_suffices_although_calls_are_refused_for_their_rate(tmp_path):
    found = run(refuses_first, tmp_path, Budget(f"{tmp_path}/spent", max_calls=30), rows=30)
    assert found == {("ok", "None"): 30}
    assert sum(CALLS.values()) == 40
    assert summarize(f"{tmp_path}/journal").paid_calls == 30


def test_further_attempts_count(tmp_path):
    found = run(fails_first, tmp_path, Budget(f"{tmp_path}/spent", max_calls=60), rows=40)
    assert sum(CALLS.values()) == 60
    assert 20 <= found[("ok", "None")] <= 30
    assert sum(found.values()) == 40


def test_processes_tell_each_other_what_they_spend(tmp_path):
    now = [0.0]
    budget = Budget(f"{tmp_path}/spent", max_calls=10, max_tokens=100, calls=1)
    one, two, three = (SpendTracker(budget, clock=lambda: now[0]) for _ in range(3))
    for _ in range(4):
        assert one.take() is None
        assert two.take() is None
    assert two.spent() is None  # it has not heard
    for spending in (one, two, three):
        spending.exchange()
    assert three.take() is None
    assert three.take() == "over budget: budget.max_calls 10 are made"
    one.give_back()
    one.exchange()  # too soon: it says and hears nothing
    assert three.take() is not None
    now[0] += POLL
    one.exchange()
    three.exchange()
    assert three.take() is None
    assert len(list((tmp_path / "spent").iterdir())) == 3
    three.pay(100)
    two.exchange(now=True)
    three.exchange(now=True)
    two.exchange(now=True)
    assert "max_calls" in str(two.spent())
    assert SpendTracker(replace(budget, max_calls=None)).spent() is None
    heard = SpendTracker(replace(budget, max_calls=None))
    heard.exchange()
    assert heard.spent() == "over budget: budget.max_tokens 100 are used"


def test_a_storage_that_fails_does_not_end_the_calls(tmp_path, monkeypatch, caplog):
    spending = SpendTracker(Budget(f"{tmp_path}/spent", max_calls=10))
    assert spending.take() is None

    def refuse(*_):
        raise OSError("503")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "write_bytes", refuse)
        spending.exchange(now=True)
    assert "could not exchange what they have spent" in caplog.text
    spending.exchange(now=True)
    assert len(list((tmp_path / "spent").iterdir())) == 1


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ({"usage": {"input_tokens": 3, "output_tokens": 4}}, 7),
        ({"usage": {"completion_tokens": 4}}, 4),
        ({"usage": "many"}, 0),
        ({"response": "x"}, 0),
        ("x", 0),
        (None, 0),
    ],
)
def test_tokens_are_those_an_answer_names(answer, tokens):
    assert tokens_of(answer) == tokens

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Instance
from evalbeam.schemas.run_folder import RunFolder
from evalbeam.transforms.agents.function import FunctionAgent
from evalbeam.transforms.calls import stop as stops
from evalbeam.transforms.calls.context import RunContext
from evalbeam.transforms.calls.stop import StopFlag
from evalbeam.transforms.invoke import InvokeAgent
from evalbeam.transforms.journal.journal import read_journal
from evalbeam.transforms.runtime import coders  # noqa: F401  registers the coder of Batch


def test_the_sign_is_looked_for_now_and_then(tmp_path):
    now, path = [0.0], tmp_path / "run" / "stop"
    sign, other = (StopFlag(str(path), clock=lambda: now[0]) for _ in range(2))
    assert sign.seen() is None
    other.put("a budget is spent")
    assert path.read_text() == "a budget is spent"
    assert sign.seen() is None
    now[0] += stops.POLL
    assert sign.seen() == "a budget is spent"
    sign.put("another reason")
    StopFlag(str(path)).put("a third")
    assert path.read_text() == "a budget is spent"


def test_storage_that_fails_for_a_moment_neither_ends_nor_stops_the_run(tmp_path, monkeypatch):
    now, path, usual = [0.0], tmp_path / "stop", stops.storage.exists

    def refuse(path):
        raise OSError("503")

    sign, other = (StopFlag(str(path), clock=lambda: now[0]) for _ in range(2))
    monkeypatch.setattr(stops.storage, "exists", refuse)
    assert sign.seen() is None
    sign.put("a budget is spent")
    assert not path.exists()
    monkeypatch.setattr(stops.storage, "exists", usual)
    assert other.seen() is None
    sign.put("a budget is spent")
    now[0] += stops.POLL
    assert other.seen() == "a budget is spent"


def run(agent, folder, policy):
    """(status, error message) of 300 examples in batches of 10."""
    rows = [Instance(f"{i:032x}", {"prompt": str(i)}) for i in range(300)]
    batches = [Batch(tuple(rows[i : i + 10])) for i in range(0, 300, 10)]
    invoke = InvokeAgent(FunctionAgent(agent), policy, context=RunContext(RunFolder(str(folder))))

    def write(batch):
        with open(folder / "table", "a") as out:
            out.writelines(f"{e.invocation.status}|{e.invocation.error_message}\n" for e in batch.rows)

    with beam.Pipeline(runner=FnApiRunner()) as p:
        made = p | beam.Create([0], reshuffle=False) | beam.FlatMap(lambda _: batches).with_output_types(Batch)
        _ = made | invoke | beam.Map(write)
    return [tuple(line.split("|")) for line in (folder / "table").read_text().splitlines()]


async def answers(prompt):
    return f"to {prompt}"


async def fails(prompt):
    raise ValueError("no key")


def test_a_breaker_tells_all_processes_and_every_row_comes_out(tmp_path):
    found = run(fails, tmp_path, CallPolicy(max_in_flight=8, failure_threshold=0.9, failure_window=20))
    assert len(found) == 300
    assert 20 <= sum(status == "failed" for status, _ in found) <= 28
    assert {status for status, _ in found} == {"failed", "not_called"}
    assert (tmp_path / "stop").read_text() == "20 of the last 20 calls failed (failure_threshold 0.9)"


@pytest.mark.parametrize("reason", ["cancelled", ""])
def test_a_sign_that_is_there_stops_the_run_and_its_journal_lets_it_go_on(tmp_path, reason):
    (tmp_path / "stop").write_text(reason)
    found = run(answers, tmp_path, CallPolicy())
    assert found == [("not_called", f"not called: {reason or 'stopped'}")] * 300
    assert list(read_journal(f"{tmp_path}/journal")) == []
    for name in ("stop", "table"):
        (tmp_path / name).unlink()
    assert run(answers, tmp_path, CallPolicy()) == [("ok", "None")] * 300

"""Calls handed over in files: each open call in one batch, whatever was told twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evalbeam.schemas.calls import Call
from evalbeam.transforms.batch_api import outbox as handoff
from evalbeam.transforms.batch_api.outbox import Batch, BatchOutbox, batches, gather


def call(number: int, endpoint: str = "judge:a") -> Call:
    messages = [["system", "judge"], ["user", f"text {number}"]]
    request = {"messages": messages, "schema": {"type": "object"}, "vote": 0, "data": [f"text {number}"]}
    return Call(f"{number:064x}", request, f"{number % 256:02x}", endpoint)


def line(call: Call) -> bytes:
    return call.key.encode()


def handed(folder: Path, *numbers: int) -> None:
    way = BatchOutbox({"judge:a": str(folder)})
    for number in numbers:
        outcome = way.take(call(number))
        assert outcome is not None
        assert (outcome.kind, outcome.attempts) == ("not_called", 0)
    way.flush()


def keys(batch: Batch) -> list[int]:
    return [int(key, 16) for key in batch.requests.data.decode().split()]


def test_calls_of_other_endpoints_are_made(tmp_path: Path) -> None:
    assert BatchOutbox({"judge:a": str(tmp_path)}).take(call(1, "judge:b")) is None


def test_a_call_comes_back_as_it_was(tmp_path: Path) -> None:
    handed(tmp_path, 7)
    assert gather(str(tmp_path), line) == 1
    (batch,) = batches(str(tmp_path))
    assert list(batch.calls()) == [call(7)]


def test_a_call_is_in_one_batch_until_that_has_ended(tmp_path: Path) -> None:
    handed(tmp_path, 1, 2, 1)
    assert gather(str(tmp_path), line) == 2
    handed(tmp_path, 2, 3)
    assert gather(str(tmp_path), line) == 1
    first, second = batches(str(tmp_path))
    assert (keys(first), keys(second)) == ([1, 2], [3])
    first.note(state="ended")
    handed(tmp_path, 2, 3)
    assert gather(str(tmp_path), line) == 1
    assert [keys(b) for b in batches(str(tmp_path))] == [[3], [2]]
    assert gather(str(tmp_path), line) == 0


def test_rows_that_ask_the_same_are_one_request(tmp_path: Path) -> None:
    one = call(5)
    twins = [one, replace(one, prefix="a0"), replace(one, prefix="b0"), one]
    way = BatchOutbox({"judge:a": str(tmp_path)})
    for twin in twins:
        way.take(twin)
    way.flush()
    assert gather(str(tmp_path), line, most=1) == 1
    (batch,) = batches(str(tmp_path))
    assert (keys(batch), batch.size(), list(batch.calls())) == ([5], 1, twins[:3])


def test_what_came_back_is_found_in_files_and_folders(tmp_path: Path) -> None:
    handed(tmp_path, 1)
    gather(str(tmp_path), line)
    (batch,) = batches(str(tmp_path))
    batch.keep(0, b"{}")
    written = tmp_path / "0001" / "results" / "prediction-0001" / "predictions.jsonl"
    written.parent.mkdir(parents=True)
    written.write_text("{}")
    found = [path.removeprefix(batch.folder) for path in batch.results()]
    assert found == ["/results-0.jsonl", "/results/prediction-0001/predictions.jsonl"]


def test_calls_beyond_a_bound_stay_open(tmp_path: Path) -> None:
    handed(tmp_path, 1, 2, 3)
    assert gather(str(tmp_path), line, most=2) == 2
    handed(tmp_path, 1, 2, 3)
    assert gather(str(tmp_path), line, most=0) == 0
    assert [keys(b) for b in batches(str(tmp_path))] == [[1, 2]]


@pytest.mark.parametrize(("name", "most"), [("MOST_REQUESTS", 2), ("MOST_BYTES", 130)])
def test_a_batch_is_no_larger_than_providers_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(handoff, name, most)
    handed(tmp_path, 1, 2, 3, 4, 5)
    assert gather(str(tmp_path), line) == 5
    assert [keys(b) for b in batches(str(tmp_path))] == [[1, 2], [3, 4], [5]]


def test_what_is_taken_is_bounded_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handoff, "_BUFFERED", 1)
    way = BatchOutbox({"judge:a": str(tmp_path)})
    way.take(call(1))
    assert len(list((tmp_path / "open").iterdir())) == 1
    way.flush()
    assert len(list((tmp_path / "open").iterdir())) == 1

"""Several journals as one: every endpoint finds and keeps its calls in its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalbeam.schemas.calls import Call, Outcome
from evalbeam.transforms.journal.journal import Journal, read_journal
from evalbeam.transforms.journal.several import Journals, open_journals

AGENT, JUDGE = Call("a" * 64, "?", "00", "agent"), Call("a" * 64, "?", "00", "judge:default")


def test_calls_are_kept_and_found_by_their_endpoint(tmp_path: Path) -> None:
    folders = str(tmp_path / "judges"), {"agent": str(tmp_path / "agent")}
    first = open_journals(*folders, "start")
    assert isinstance(first, Journals)
    assert (first.find(AGENT), first.tried(AGENT)) == (None, False)
    first.add(AGENT, Outcome("yes"))
    first.add(JUDGE, Outcome({"score": 4}))
    assert (first.due(), first.full(), first.flush_if_due()) == (False, False, False)
    first.close()
    second = open_journals(*folders, "start")
    assert second is not None
    found = second.find(AGENT), second.find(JUDGE)
    assert [one and one.value for one in found] == ["yes", {"score": 4}]
    assert [len(list(read_journal(str(tmp_path / name)))) for name in ("agent", "judges")] == [1, 1]


def test_without_journals_of_their_own_it_is_a_plain_one(tmp_path: Path) -> None:
    assert open_journals(None, {"agent": str(tmp_path)}, "start") is None
    assert isinstance(open_journals(str(tmp_path), {}, "start"), Journal)


@pytest.mark.parametrize(("kind", "found"), [("ok", True), ("permanent", True), ("timeout", False)])
def test_a_call_that_failed_in_an_earlier_start_was_tried(tmp_path: Path, kind: str, found: bool) -> None:
    journal = Journal(str(tmp_path), "first")
    journal.add(AGENT, Outcome(kind=kind))  # type: ignore[arg-type]  (parameters are plain text)
    journal.close()
    later = Journal(str(tmp_path), "second")
    assert (later.find(AGENT) is not None, later.tried(AGENT)) == (found, True)
    other = Call("b" * 64, "?", "00")
    assert (later.find(other), later.tried(other)) == (None, False)

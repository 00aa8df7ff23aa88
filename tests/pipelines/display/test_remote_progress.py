"""How far a run elsewhere has come: its journals, read piece by piece, and the state of its job."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from evalbeam.pipelines.display import remote_progress as remote
from evalbeam.pipelines.runners import lease
from evalbeam.schemas.calls import Outcome
from evalbeam.transforms.journal.segments import encode_record


def test_calls_are_counted_as_journals_grow(tmp_path: Path) -> None:
    counts = remote.JournalCounts(str(tmp_path))
    assert counts()["calls_done"] == 0
    folder = tmp_path / "journal" / "f1" / "0a"
    folder.mkdir(parents=True)
    good = encode_record("k1", "run", Outcome({"response": 'kind":"ok'}))
    bad = encode_record("k2", "run", Outcome(kind="timeout", error_type="TimeoutError"))
    growing = folder / "seg-1.open"
    growing.write_bytes(good + bad + good[:20])
    assert (counts()["calls_done"], counts()["calls_failed"]) == (2, 1)
    with growing.open("ab") as file:
        file.write(good[20:])
    assert (counts()["calls_done"], counts()["calls_failed"]) == (3, 1)
    with growing.open("ab") as file:
        file.write(good)
    growing.rename(folder / "seg-1")
    (folder / "seg-2").write_bytes(bad)
    assert (counts()["calls_done"], counts()["calls_failed"]) == (5, 2)
    judges = tmp_path / "journal" / "judges" / "0a"
    judges.mkdir(parents=True)
    (judges / "seg-1").write_bytes(good)
    (folder / "seg-3").write_bytes(b"torn\n")
    assert counts()["calls_done"] == 5


def test_a_folder_with_the_characters_of_a_glob_is_counted(tmp_path: Path) -> None:
    for name, calls in (("run[1]", 2), ("run1", 1)):
        folder = tmp_path / name / "journal" / "f1" / "0a"
        folder.mkdir(parents=True)
        (folder / "seg-1").write_bytes(encode_record("k1", "run", Outcome("x")) * calls)
    assert remote.JournalCounts(str(tmp_path / "run[1]"))()["calls_done"] == 2


def test_the_state_of_the_job_is_that_of_the_engine(tmp_path: Path, flink) -> None:
    state = remote.JobState(str(tmp_path))
    assert state() == ""
    holder = lease.Holder.here("FlinkRunner", flink.url)
    lease.take(str(tmp_path), holder, lease.latest(str(tmp_path)))
    assert state() == "submitting"
    flink.jobs = {holder.job: "RUNNING"}
    assert state() == "RUNNING, 2 of 3 stages done"
    gone = remote.JobState(str(tmp_path / "gone"))
    lease.take(str(tmp_path / "gone"), replace(holder, master="127.0.0.1:9"), lease.latest(str(tmp_path / "gone")))
    assert gone() == "the engine does not answer"


def test_both_are_shown_while_a_run_goes_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(remote, "LOCAL_TICK", 0.01)
    folder = tmp_path / "journal" / "f1" / "0a"
    folder.mkdir(parents=True)
    (folder / "seg-1").write_bytes(encode_record("k1", "run", Outcome({"response": "x"})))
    text = io.StringIO()
    with remote.show_remote_progress(text, str(tmp_path), True, lambda: "RUNNING") as progress:
        while not text.getvalue():
            progress.tick()
    assert text.getvalue() == "calling: 1 rows, 0 failed, RUNNING\n"

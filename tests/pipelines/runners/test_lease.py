"""One run at a time: who may start, and when what a killed run left may be taken over."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from evalbeam import ConfigError
from evalbeam.pipelines.runners import lease
from evalbeam.pipelines.runners.lease import Holder, held, take
from evalbeam.transforms.io import storage


def local() -> Holder:
    return Holder.here("DirectRunner")


def gone() -> Holder:
    return replace(local(), process=2**22 + 1)


def test_a_run_gives_its_lease_back_however_it_ends(tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    for _ in range(5):
        with pytest.raises(ZeroDivisionError), held(output, local(), lease.latest(output)):
            _ = 1 // 0
    found = lease.latest(output)
    assert found is not None
    assert (found.number, found.released) == (5, True)
    assert len(list((tmp_path / "out" / "lease").iterdir())) <= 4


def test_while_a_run_goes_on_nobody_else_starts(tmp_path: Path) -> None:
    output = str(tmp_path)
    with held(output, local(), lease.latest(output)):
        with pytest.raises(ConfigError, match=f"is being written by another run .process {os.getpid()} on"):
            take(output, local(), lease.latest(output))
        with pytest.raises(ConfigError):
            take(output, local(), lease.latest(output))
    with held(output, local(), lease.latest(output)):
        pass


def test_what_a_killed_process_held_is_taken_over(tmp_path: Path) -> None:
    output = str(tmp_path)
    take(output, gone(), lease.latest(output))
    with held(output, local(), lease.latest(output)):
        found = lease.latest(output)
        assert found is not None
        assert found.number == 2


def test_a_process_of_another_machine_cannot_be_asked(tmp_path: Path) -> None:
    output = str(tmp_path)
    take(output, replace(local(), host="elsewhere"), lease.latest(output))
    with pytest.raises(
        ConfigError, match=r"cannot be checked from here .*once process \d+ on elsewhere has ended"
    ) as told:
        take(output, local(), lease.latest(output))
    Path(str(told.value).partition(" delete ")[2].partition(";")[0]).unlink()
    assert take(output, local(), lease.latest(output)) == 1


def test_an_id_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    assert replace(local(), began="1").state() == "gone"
    assert local().state() == "running"


def test_a_job_outlives_the_client_that_sent_it(tmp_path: Path, flink) -> None:
    output = str(tmp_path)
    holder = replace(gone(), master=flink.url, engine="FlinkRunner", job="evalbeam-x")
    take(output, holder, lease.latest(output))
    flink.jobs = {"evalbeam-x": "RESTARTING"}
    with pytest.raises(ConfigError, match="is being written by another run"):
        take(output, local(), lease.latest(output))
    flink.jobs = {"evalbeam-x": "FAILED"}
    with held(output, local(), lease.latest(output)):
        pass
    assert replace(holder, master="127.0.0.1:9").state() == "unknown"
    flink.jobs = {}
    assert holder.state() == "gone"
    elsewhere = replace(holder, host="elsewhere")
    assert elsewhere.state() == "running"  # it may be on its way
    assert replace(elsewhere, since=elsewhere.since - lease.SUBMITTED_IN).state() == "gone"


def test_of_many_that_start_at_once_one_runs(tmp_path: Path) -> None:
    output, running, refused = str(tmp_path), [], []
    together, over = threading.Barrier(8), threading.Event()
    take(output, gone(), lease.latest(output))

    def start() -> None:
        together.wait()
        try:
            with held(output, local(), lease.latest(output)):
                running.append(1)
                over.wait(30)
        except ConfigError:
            refused.append(1)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(refused) < 7 and any(t.is_alive() for t in threads):
        over.wait(0.01)
    over.set()
    for thread in threads:
        thread.join()
    assert (len(running), len(refused)) == (1, 7)


def test_a_lease_that_is_tidied_up_after_it_was_listed_is_not_missed(tmp_path: Path, monkeypatch) -> None:
    output, listing, others = str(tmp_path), storage.below, [3, 2, 1]

    def overtaken(folder: str) -> list[str]:
        found = listing(folder)
        if others:
            with monkeypatch.context() as calm:
                calm.setattr(storage, "below", listing)
                for _ in range(others.pop() + 1):
                    take(output, gone(), lease.latest(output))
        return found

    take(output, gone(), lease.latest(output))
    monkeypatch.setattr(storage, "below", overtaken)
    found = lease.latest(output)
    assert found is not None
    assert (found.number, others) == (10, [])


def test_a_lease_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "lease").mkdir()
    (tmp_path / "lease" / "000001").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        lease.latest(str(tmp_path))


def test_whoever_was_overtaken_before_creating_steps_back(tmp_path: Path) -> None:
    """A run reads the folder, others come and go and tidy it up, and only then it creates what it found free."""
    output = str(tmp_path)

    def late(path: str, data: bytes) -> bool:
        for _ in range(4):
            with held(output, local(), lease.latest(output)):
                pass
        take(output, local(), lease.latest(output))
        return storage.create_new(path, data)

    with held(output, local(), lease.latest(output)):
        pass
    with pytest.raises(ConfigError, match="another run"):
        take(output, local(), lease.latest(output), late)


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    assert storage.create_new(path, b"first")
    assert not storage.create_new(path, b"second")
    assert Path(path).read_bytes() == b"first"
    assert [p.name for p in Path(path).parent.iterdir()] == ["b"]
    with pytest.raises(ConfigError, match="without a create-if-absent"):
        storage.create_new("s3://bucket/x", b"")

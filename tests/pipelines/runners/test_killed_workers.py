"""Runs with worker processes that are killed amid their calls, or lose a worker: nothing is lost, nothing hangs."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from apache_beam.runners.worker import data_plane
from killing import Bench, Server, ended, group, leftovers, serving
from waiting import until
from written import tables

from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.runners import local_engine


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def whole(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tables of a run that nothing happened to."""
    bench = Bench(tmp_path_factory.mktemp("whole"), server)
    assert main(bench.arguments("out")) == 0
    return tables(bench.folder / "out")


@pytest.fixture
def bench(server: Server, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    server.forget()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "bench" / "tmp"))
    made = Bench(tmp_path / "bench", server)
    yield made
    made.end()


def check(bench: Bench, whole: dict[str, bytes]) -> None:
    """The same command resumes to the same tables and repeats no more than was in flight."""
    assert main(bench.arguments("out")) == 0
    assert tables(bench.folder / "out") == whole
    assert len(bench.server.asked) == 2 * bench.rows
    assert bench.server.repeats() <= bench.flying
    assert leftovers(bench, "out") == []


@pytest.mark.parametrize(
    ("number", "kill", "code", "at"),
    [
        (signal.SIGKILL, os.kill, -signal.SIGKILL, 300),
        (signal.SIGINT, os.killpg, 3, 500),
    ],
)
def test_a_killed_run_with_workers_loses_no_call(
    number: int, kill: Callable[[int, int], None], code: int, at: int, bench: Bench, whole: dict[str, bytes]
) -> None:
    process = bench.start("out")
    bench.server.at(at, lambda: kill(process.pid, number))
    assert ended(process, bench, "out") == code
    assert bench.server.asked.total() <= at + bench.flying
    check(bench, whole)


def test_a_worker_that_is_killed_while_it_starts_ends_the_run(bench: Bench, whole: dict[str, bytes]) -> None:
    process = bench.start("out")
    until(lambda: group(process.pid) or process.poll() is not None, 300, "workers")
    os.kill(group(process.pid)[-1], signal.SIGKILL)
    assert ended(process, bench, "out") == 3
    assert "was killed by SIGKILL; run the same command again to resume" in bench.log("out")
    check(bench, whole)


def test_a_worker_that_is_killed_while_it_calls_ends_the_run(bench: Bench, whole: dict[str, bytes]) -> None:
    process = bench.start("out")
    bench.server.at(300, lambda: os.kill(group(process.pid)[0], signal.SIGKILL))
    assert ended(process, bench, "out") == 3
    assert "was killed by SIGKILL; run the same command again to resume" in bench.log("out")
    check(bench, whole)


@pytest.mark.parametrize("room", [10_000, 1])
def test_a_worker_that_does_not_come_ends_the_run(
    room: int, bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while the engine waits for room to send it more."""
    monkeypatch.setattr(local_engine, "START", 0.1)
    monkeypatch.setattr(data_plane, "_DEFAULT_SEND_QUEUE_MAX_ELEMENTS", room)
    assert main([*bench.arguments("out"), "--workers", "2"]) == 3
    assert "did not begin within 0.1 seconds; run the same command again to resume" in capsys.readouterr().err
    assert bench.server.asked.total() == 0

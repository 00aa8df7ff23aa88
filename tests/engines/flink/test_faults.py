"""What is killed, stopped or started twice in the middle of its calls: same bytes in the end, few calls made twice."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
from waiting import ended, until

from evalbeam.pipelines.run.lifecycle import cancel
from evalbeam.pipelines.runners import lease
from evalbeam.pipelines.runners.flink import FlinkCluster

pytestmark = [pytest.mark.engines, pytest.mark.faults]

Tables = dict[str, bytes]
ROWS, IN_FLIGHT = 10_000, 32
USABLE = ROWS - 2 * (ROWS // 1000)
"""Of each thousand rows one is no JSON and one lacks its prompt."""
AFTER_A_RESTART = 4 * IN_FLIGHT
"""What a lost TaskManager may cost: its worker's calls, and those of the other one at each restart of the stage."""


@pytest.fixture(scope="module")
def _run(new_bench: Any) -> Any:
    bench = new_bench("faults")
    bench.write(ROWS, 0.2)
    bench.run("whole")
    return bench


@pytest.fixture
def bench(_run: Any) -> Any:
    """A folder where nothing was called yet."""
    _run.forget_calls()
    return _run


@pytest.fixture
def output(request: pytest.FixtureRequest) -> str:
    """A run's name, of its own for each test."""
    return request.node.name


@pytest.fixture
def expected(bench: Any) -> Tables:
    """The tables of a run that nothing happened to."""
    return bench.tables("whole")


def folder(bench: Any, output: str) -> str:
    return str(bench.folder / output)


def repeated(bench: Any) -> int:
    return len(bench.calls()) - USABLE


def reported(count: int) -> int:
    """Shows a figure where pytest is asked for output."""
    print(f"{count} calls were made twice")
    return count


def in_the_middle(bench: Any, process: Any) -> None:
    """Waits until a third of the calls were made."""
    until(lambda: process.poll() is not None or len(bench.calls()) > ROWS // 3, 200, "calls")
    assert process.poll() is None, process.communicate()


def test_a_killed_taskmanager_that_does_not_come_back(bench: Any, cluster: Any, output: str, expected: Tables) -> None:
    process = bench.start(output, *bench.on(cluster, "--parallelism=2"))
    in_the_middle(bench, process)
    os.kill(cluster.processes()["taskmanager-1"], signal.SIGKILL)
    ended(process, 0)
    assert bench.tables(output) == expected
    assert reported(repeated(bench)) <= AFTER_A_RESTART


def test_a_killed_taskmanager_that_is_started_again(bench: Any, cluster: Any, output: str, expected: Tables) -> None:
    process = bench.start(output, *bench.on(cluster, "--parallelism=4"))
    in_the_middle(bench, process)
    os.kill(cluster.processes()["taskmanager-2"], signal.SIGKILL)
    cluster.do("taskmanager", "2")
    ended(process, 0)
    assert bench.tables(output) == expected
    assert reported(repeated(bench)) <= AFTER_A_RESTART


def test_a_killed_worker(bench: Any, cluster: Any, output: str, expected: Tables) -> None:
    process = bench.start(output, *bench.on(cluster, "--flink_submission=job_server", "--parallelism=2"))
    in_the_middle(bench, process)
    os.kill(bench.caller(), signal.SIGKILL)
    ended(process, 0)
    assert bench.tables(output) == expected
    assert reported(repeated(bench)) <= 2 * IN_FLIGHT


def test_a_killed_client_leaves_a_job_that_can_be_waited_for(
    bench: Any, cluster: Any, output: str, expected: Tables
) -> None:
    process = bench.start(output, *bench.on(cluster))
    in_the_middle(bench, process)
    os.killpg(process.pid, signal.SIGKILL)
    assert cluster.jars() == []
    second = ended(bench.start(output, *bench.on(cluster)), 2)
    assert "is being written by another run" in second
    ended(bench.command("wait", folder(bench, output)), 0)
    assert bench.tables(output) == expected
    assert repeated(bench) == 0


def test_a_cancelled_run_makes_no_more_calls_and_goes_on_with_the_rest(
    bench: Any, cluster: Any, output: str, expected: Tables
) -> None:
    process = bench.start(output, *bench.on(cluster, "--parallelism=2"))
    in_the_middle(bench, process)
    cancel(folder(bench, output), now=True)
    assert quiet_within(bench, 5)
    assert "was cancelled on the Flink cluster" in ended(process, 3)
    assert "ended without a manifest" in ended(bench.command("wait", folder(bench, output)), 3)
    process = bench.start(output, *bench.on(cluster, "--parallelism=2"))
    until(lambda: process.poll() is not None or len(bench.calls()) > ROWS // 3 + 400, 200, "calls")
    process.send_signal(signal.SIGINT)
    assert "stopped by Ctrl-C" in ended(process, 3)
    found = lease.latest(folder(bench, output))
    assert found is not None
    assert found.released
    job = FlinkCluster(found.holder.master or "").job(found.holder.job or "")
    assert job is not None
    assert job.state == "CANCELED"
    bench.run(output)  # on another engine, which finds the same answers
    assert bench.tables(output) == expected
    assert reported(repeated(bench)) <= 2 * 2 * IN_FLIGHT


def quiet_within(bench: Any, seconds: float) -> bool:
    """Whether no call begins once so many seconds are over."""
    time.sleep(seconds)
    before = len(bench.calls())
    time.sleep(2)
    return len(bench.calls()) == before


def test_cancel_lets_a_run_end_with_the_tables_it_has(bench: Any, cluster: Any, output: str, expected: Tables) -> None:
    process = bench.start(output, *bench.on(cluster, "--parallelism=2"))
    in_the_middle(bench, process)
    cancel(folder(bench, output))
    assert quiet_within(bench, 5)
    assert "cancelled by evalbeam cancel" in ended(process, 3)
    assert len(bench.calls()) < ROWS - 200
    bench.run(output)
    assert bench.tables(output) == expected
    assert repeated(bench) == 0


def test_a_killed_local_worker_process_ends_the_run_which_goes_on(bench: Any, output: str, expected: Tables) -> None:
    process = bench.start(output, "--workers=2")
    in_the_middle(bench, process)
    os.kill(bench.caller(), signal.SIGKILL)
    ended(process, 3)
    bench.run(output, "--workers=2")
    assert bench.tables(output) == expected
    assert reported(repeated(bench)) <= 2 * IN_FLIGHT


def test_two_starts_at_once_make_one_set_of_calls(bench: Any, output: str, expected: Tables) -> None:
    started = [bench.start(output) for _ in range(4)]
    said = sorted((process.wait(300), process.communicate()[1]) for process in started)
    assert [code for code, _ in said] == [0, 2, 2, 2], said
    assert bench.tables(output) == expected
    assert repeated(bench) == 0

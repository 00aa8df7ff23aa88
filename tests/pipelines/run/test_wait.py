"""Waiting for a run that is active elsewhere: its manifest, or the end of its job, is the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evalbeam import ConfigError
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.run.wait import wait
from evalbeam.pipelines.runners import lease
from evalbeam.pipelines.runners.jobs import PATIENCE
from evalbeam.pipelines.runners.lease import Holder, held, take
from evalbeam.schemas.errors import RunError

MANIFEST = '{"state": "finished", "verdict": "PASSED", "counts": {}, "tables": {}}'


def holder(**changes) -> Holder:
    return replace(Holder.here("FlinkRunner"), process=2**22 + 1, **changes)


def waiting(output: Path, timeout: float | None = None, then=lambda: None):
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        then()

    return wait(str(output), timeout, lambda: clock[0], sleep)


def test_the_manifest_ends_the_wait(tmp_path: Path, flink) -> None:
    flink.jobs = {"x": "RUNNING"}
    take(str(tmp_path), holder(master=flink.url, job="x"), lease.latest(str(tmp_path)))
    (tmp_path / "manifest.json").write_text(MANIFEST)  # of an earlier run, for this one is active

    def end() -> None:
        (tmp_path / "manifest.json").write_text(MANIFEST.replace("PASSED", "FAILED"))
        flink.jobs = {"x": "FINISHED"}

    assert waiting(tmp_path, then=end).exit_code == 1


def test_a_job_that_died_without_a_manifest_is_told_with_its_cause(tmp_path: Path, flink) -> None:
    flink.jobs, flink.stacktrace = {"x": "RUNNING"}, "java.io.IOException: no space left"
    take(str(tmp_path), holder(master=flink.url, job="x"), lease.latest(str(tmp_path)))
    told = r"without a manifest .job id-x on the Flink cluster at .*: FAILED: java.io.IOException: no space"
    with pytest.raises(RunError, match=told):
        waiting(tmp_path, then=lambda: flink.jobs.update(x="FAILED"))
    flink.jobs = {}
    with pytest.raises(RunError, match=r"the Flink cluster at .* does not know its job"):
        waiting(tmp_path)


def test_a_local_run_that_was_killed_is_over(tmp_path: Path, capsys) -> None:
    take(str(tmp_path), holder(), lease.latest(str(tmp_path)))
    assert main(["wait", str(tmp_path)]) == 3
    assert "ended without a manifest; run the same command again to resume" in capsys.readouterr().err


def test_a_wait_has_an_end(tmp_path: Path, flink) -> None:
    flink.jobs = {"x": "RUNNING"}
    take(str(tmp_path), holder(master=flink.url, job="x"), lease.latest(str(tmp_path)))
    with pytest.raises(RunError, match="is still active after 60 seconds"):
        waiting(tmp_path, 60)
    (tmp_path / "lease" / "000001").unlink()
    take(str(tmp_path), holder(master="http://127.0.0.1:9", job="x"), lease.latest(str(tmp_path)))
    with pytest.raises(RunError, match=f"nothing was heard of the run for {PATIENCE:.0f} seconds; once .*lease/000001"):
        waiting(tmp_path)


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon"])
def test_seconds_to_wait_are_no_less_than_none(seconds: str, tmp_path: Path, capsys) -> None:
    assert main(["wait", str(tmp_path), f"--timeout={seconds}"]) == 2
    said = f"evalbeam: error: --timeout: found '{seconds}' (allowed: seconds, 0 or more)\n"
    assert capsys.readouterr().err == said


def test_there_must_be_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run at"):
        waiting(tmp_path / "nothing")
    with held(str(tmp_path), holder(), lease.latest(str(tmp_path))):
        pass
    (tmp_path / "manifest.json").write_text(MANIFEST)
    assert waiting(tmp_path).exit_code == 0

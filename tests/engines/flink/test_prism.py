"""Prism: worker processes by our command, and an end for a run that takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import until

pytestmark = pytest.mark.engines


def prism(bench: Any, *options: str) -> list[str]:
    return ["--runner=PrismRunner", f"--prism_location={bench.installed / 'prism' / 'prism'}", *options]


def test_workers_are_processes_that_get_the_agents_package(new_bench: Any) -> None:
    bench = new_bench("prism")
    bench.write(300, 0.001)
    bench.run("local")
    here = json.dumps({"command": str(Path(sys.executable).parent / "evalbeam-worker")})
    bench.run("out", *prism(bench, "--environment_type=PROCESS", f"--environment_config={here}"))
    assert bench.tables("out") == bench.tables("local")
    assert len(bench.calls()) == 2 * (300 - 2)


def test_replicates_of_the_bootstrap_are_the_same_bits(new_bench: Any) -> None:
    """Means, a ratio, and F1 of all rows together, with rows that repeat each other."""
    bench = new_bench("bootstrap")
    metrics = ["exact_match", "trajectory_precision", {"metric": "trajectory_f1", "corpus": True}]
    statistics = {"ci": "bootstrap", "ratios": {"each": ["latency_in_seconds", "exact_match"]}}
    bench.write(3000, 0, recorded=True, metrics=metrics, statistics=statistics, output={"shards": 4})
    bench.run("local")
    bench.run("out", *prism(bench))
    assert bench.tables("out") == bench.tables("local")


def test_a_run_stops_early_after_the_same_rows(new_bench: Any) -> None:
    bench = new_bench("early")
    rule = {"metric": "exact_match", "threshold": 0.5, "wave": 30}
    bench.write(2000, 0.001, statistics={"sequential": rule})
    bench.run("local")
    called = sorted(bench.calls())
    assert len(called) < 1000
    bench.forget_calls()
    bench.run("out", *prism(bench))
    assert sorted(bench.calls()) == called
    assert bench.tables("out") == bench.tables("local")


@pytest.mark.faults
def test_a_run_that_takes_too_long_is_ended_and_goes_on(new_bench: Any) -> None:
    bench = new_bench("slow")
    bench.write(300, 20)
    process = bench.start("out", *prism(bench, "--time_limit=12"))
    out, err = process.communicate(timeout=200)
    assert process.returncode == 3, out + err
    assert "stopped after 12 seconds (time_limit)" in err
    until(lambda: not group(process.pid), 10, "the end of Prism, which is killed last and not waited for")


def group(leader: int) -> str:
    """Ids of the processes of a group."""
    return subprocess.run(["pgrep", "-g", str(leader)], capture_output=True, text=True, check=False).stdout

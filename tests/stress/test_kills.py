"""A hundred kills of runs with workers, and thirty of workers in every phase."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from killing import Bench, Server, ended, group, leftovers
from waiting import until
from written import tables

pytestmark = pytest.mark.stress

PARENTS = (
    (os.kill, signal.SIGKILL), (os.kill, signal.SIGKILL), (os.killpg, signal.SIGKILL), (os.kill, signal.SIGTERM),
    (os.killpg, signal.SIGTERM), (os.killpg, signal.SIGINT), (os.kill, signal.SIGINT), (os.killpg, signal.SIGHUP),
)  # fmt: skip
"""What a run is killed by, one after the other."""
PHASES = ("starting", "reading", "calling", "writing")


def finished(bench: Bench, whole: dict[str, bytes], kills: int) -> int:
    """Has a run end, checks it, and tells how many calls it repeated."""
    assert ended(bench.start("out"), bench, "out") == 0, bench.log("out")
    assert tables(bench.folder / "out") == whole
    assert leftovers(bench, "out") == []
    repeats = bench.server.repeats()
    assert repeats <= kills * bench.flying, f"{repeats} calls were repeated after {kills} kills"
    return repeats


def test_killed_runs_with_workers(parameter: dict[str, int | None], server: Server, tmp_path: Path) -> None:
    rng, killed, repeats, wanted = random.Random(parameter["SEED"]), Counter[str](), 0, parameter["KILLS"] or 0
    bench = Bench(tmp_path / "bench", server, rows=1500)
    assert ended(bench.start("whole"), bench, "whole") == 0, bench.log("whole")
    whole = tables(bench.folder / "whole")
    while killed.total() < wanted:
        server.forget()
        kills = 0
        while kills < 8 and killed.total() < wanted:
            kill, number = PARENTS[killed.total() % len(PARENTS)]
            process = bench.start("out")
            server.at(rng.randrange(1, 350), partial(kill, process.pid, number))
            code = ended(process, bench, "out")
            if code == 0:
                break
            assert code in (3, -number), f"exit code {code}\n{bench.log('out')}"
            kills += 1
            killed[f"{number.name} {'group' if kill is os.killpg else 'parent'}"] += 1
        if not (bench.folder / "out" / "manifest.json").exists():
            repeats += finished(bench, whole, kills)
        shutil.rmtree(bench.folder / "out")
    print(f"\n{killed.total()} kills of runs: {dict(killed)}")
    print(f"{repeats} calls were repeated; {bench.flying} for each kill are allowed")


def test_killed_workers(parameter: dict[str, int | None], server: Server, tmp_path: Path) -> None:
    rng, killed, slowest, repeats = random.Random(parameter["SEED"]), Counter[str](), 0.0, 0
    bench = Bench(tmp_path / "bench", server, rows=300)
    server.forget()
    process, first = bench.start("whole"), list[float]()
    server.at(1, lambda: first.append(time.monotonic()))
    until(lambda: group(process.pid), 60, "workers")
    seen = time.monotonic()
    assert ended(process, bench, "whole") == 0, bench.log("whole")
    whole, starting = tables(bench.folder / "whole"), first[0] - seen
    while killed.total() < (parameter["WORKER_KILLS"] or 0):
        phase = PHASES[killed.total() % len(PHASES)]
        server.forget()
        if (seconds := _kill_one(bench, phase, starting, rng)) is not None:
            slowest = max(slowest, seconds)
            killed[phase] += 1
            repeats += finished(bench, whole, 1)
        shutil.rmtree(bench.folder / "out")
    print(f"\n{killed.total()} kills of workers: {dict(killed)}")
    print(f"{repeats} calls were repeated; each run ended within {slowest:.1f} seconds")


def _kill_one(bench: Bench, phase: str, starting: float, rng: random.Random) -> float | None:
    """Kills a worker in a phase; seconds until the run has ended, `None` if it was faster.

    Args:
        starting: Seconds from the start of the workers to the first call.
    """
    process, died = bench.start("out"), list[float]()

    def kill() -> None:
        if workers := group(process.pid):
            died.append(time.monotonic())
            os.kill(rng.choice(workers), signal.SIGKILL)

    if phase == "calling":
        bench.server.at(rng.randrange(1, 2 * bench.rows), kill)
    elif phase == "writing":
        bench.server.at(2 * bench.rows, threading.Timer(rng.uniform(0.0, 0.5), kill).start)
    else:
        until(lambda: group(process.pid), 60, "workers")
        time.sleep(starting * (rng.uniform(0.0, 0.4) if phase == "starting" else rng.uniform(0.5, 0.9)))
        kill()
    code = ended(process, bench, "out")
    if code == 0 and phase == "writing":
        return None
    assert code == 3, f"exit code {code}\n{bench.log('out')}"
    return time.monotonic() - died[0]

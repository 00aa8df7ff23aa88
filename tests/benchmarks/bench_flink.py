"""Calls per second and memory on a real Flink cluster of this machine, beside plain asyncio in the same run.

    make flink-jar
    python tests/benchmarks/bench_flink.py [calls|slow|memory|recorded] [COUNT]      default: all four, eight minutes

calls: 40,000 calls of 50 ms, 256 in flight for each worker process; one process, then two. slow: 20,000 of 500 ms.
    The rate is from the first call to the last; "both" counts only while both processes worked, which leaves out that
    they do not begin at the same time. Start-up is the longest time from the start of a worker process to the import
    of the agent's module, and how much of it was spent on a processor.
memory: the most that a Python worker and a TaskManager had resident, over 40,000 recorded answers of 1 kB and over ten
    times as many.
recorded: 200,000 recorded rows of 1 kB with five trajectory metrics; one process, then two, three times each in turns.
    The start is the time of the same run on ten rows, at the same parallelism.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from bench_pipeline import METRICS, write_dataset

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser() / "flink"
IN_FLIGHT, PORT = 256, 38081
RUN_LIMIT = 150
"""Seconds that one evaluation may take."""
AGENT = """
import array, asyncio, os, sys, time

if "evalbeam-worker" in sys.argv[0]:  # the client imports it too, to see that it is there
    with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
        began = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        start_up = float(uptime.read().split()[0]) - began
    with open(os.path.join({folder!r}, "start-up"), "a") as out:
        print(start_up, time.process_time(), file=out)
LOG = os.open(os.path.join({folder!r}, "calls"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


async def ask(prompt):
    os.write(LOG, array.array("d", [os.getpid(), time.time()]).tobytes())
    await asyncio.sleep({delay})
    return {{"response": prompt, "predicted_trajectory": [], "latency_in_seconds": {delay}}}
"""


def plain_asyncio(calls: int, delay: float) -> float:
    """Calls per second of a bare event loop, a semaphore and a task for each call."""

    async def run() -> None:
        window = asyncio.Semaphore(IN_FLIGHT)

        async def ask() -> None:
            async with window:
                await asyncio.sleep(delay)

        await asyncio.gather(*(ask() for _ in range(calls)))

    began = time.perf_counter()
    asyncio.run(run())
    return calls / (time.perf_counter() - began)


class Memory:
    """The most that the processes of a kind had resident, in MB, looked at several times a second."""

    def __init__(self, **kinds: str) -> None:
        self.kinds, self.most = kinds, dict.fromkeys(kinds, 0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    command, status = (process / "cmdline").read_bytes(), (process / "status").read_text()
                except OSError:
                    continue
                for kind, word in self.kinds.items():
                    if word.encode() in command and "VmHWM:" in status:
                        peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
                        self.most[kind] = max(self.most[kind], peak)


def evaluate(folder: Path, output: str, agent: dict[str, object], parallelism: int, **more: object) -> float:
    """Runs an evaluation on the cluster; returns its wall time in seconds. `more` replaces sections of its config."""
    section = {"dataset": {"path": str(folder / "rows.jsonl")}, "agent": agent, "metrics": ["exact_match"], **more}
    (folder / "eval.yaml").write_text(json.dumps({**section, "output": {"path": str(folder / output)}}))
    options = ["--runner=FlinkRunner", f"--flink_master=127.0.0.1:{PORT}", f"--parallelism={parallelism}"]
    options += [f"--flink_job_server_jar={INSTALLED / 'job-server.jar'}", f"--time_limit={RUN_LIMIT}"]
    began = time.perf_counter()
    command = [sys.executable, "-m", "evalbeam", "run", str(folder / "eval.yaml"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return time.perf_counter() - began


def write_rows(folder: Path, rows: int, size: int = 0) -> None:
    """A dataset of so many rows with recorded answers."""
    with (folder / "rows.jsonl").open("w") as out:
        for i in range(rows):
            row = {"prompt": f"p{i}", "response": f"p{i}", "reference": f"p{i}", "text": "x" * size}
            out.write(json.dumps({**row, "predicted_trajectory": []}) + "\n")


def rate(times: np.ndarray) -> float:
    """Events per second from the first to the last."""
    return (len(times) - 1) / (times.max() - times.min())


def while_all_worked(calls: np.ndarray) -> float:
    """Calls per second while every process made some; `calls` has a row (process, time) for each."""
    own = [calls[calls[:, 0] == process, 1] for process in np.unique(calls[:, 0])]
    begin, end = max(t.min() for t in own), min(t.max() for t in own)
    return rate(calls[(calls[:, 1] >= begin) & (calls[:, 1] <= end), 1])


def calls_per_second(folder: Path, calls: int, delay: float) -> None:
    """Prints what one and two worker processes reach."""
    base, alone = plain_asyncio(calls, delay), 0.0
    print(f"{calls:,} calls of {delay * 1000:.0f} ms\n  plain asyncio        {base:7.0f} calls/s")
    write_rows(folder, calls)
    code = folder / "code"
    code.mkdir()
    (code / "bench_agent.py").write_text(AGENT.format(folder=str(folder), delay=delay))
    agent = {"target": "bench_agent:ask", "packages": [str(code)], "max_in_flight": IN_FLIGHT}
    for processes in (1, 2):
        for name in ("calls", "start-up"):
            (folder / name).write_bytes(b"")
        wall = evaluate(folder, f"p{processes}", agent, processes)
        made = np.frombuffer((folder / "calls").read_bytes()).reshape(-1, 2)
        own, used = rate(made[:, 1]), len(np.unique(made[:, 0]))
        alone = alone or own
        beside = f"both {while_all_worked(made):.0f}, " if used > 1 else ""
        starts = np.loadtxt(folder / "start-up", ndmin=2).max(axis=0)
        print(
            f"  Flink, {used} process(es)  {own:7.0f} calls/s, {own / base:.2f} of asyncio, {own / alone:.2f} of one "
            f"process, {beside}{len(made):,} calls, start-up {starts[0]:.1f} s ({starts[1]:.1f} of a processor), "
            f"{wall:.0f} s in all",
            flush=True,
        )


def memory(folder: Path, rows: int) -> None:
    """Prints what recorded answers of 1 kB take."""
    for count in (rows, 10 * rows):
        write_rows(folder, count, 900)
        with Memory(worker="evalbeam-worker", taskmanager="TaskManagerRunner") as seen:
            wall = evaluate(folder, f"recorded-{count}", {"type": "recorded"}, 2)
        worker, taskmanager = seen.most["worker"], seen.most["taskmanager"]
        print(f"{count:,} recorded rows: worker {worker} MB, TaskManager {taskmanager} MB, {wall:.0f} s", flush=True)


def recorded(folder: Path, rows: int) -> None:
    """Prints how two processes share recorded rows."""
    metrics = [f"trajectory_{name}" for name in METRICS]
    for name, count in (("few", 10), ("many", rows)):
        write_dataset(count, folder / f"{name}.jsonl")
    walls: dict[tuple[str, int], list[float]] = {}
    for i in range(3):
        for processes in (1, 2) if i % 2 == 0 else (2, 1):
            for name in ("few", "many"):
                data = {"path": str(folder / f"{name}.jsonl")}
                run = f"{name}-{processes}-{i}"
                wall = evaluate(folder, run, {"type": "recorded"}, processes, dataset=data, metrics=metrics)
                walls.setdefault((name, processes), []).append(wall)
    middle = {key: statistics.median(found) for key, found in walls.items()}
    for processes in (1, 2):
        start, whole = middle["few", processes], middle["many", processes]
        speed = (middle["many", 1] - middle["few", 1]) / (whole - start)
        print(
            f"{rows:,} recorded rows, {processes} process(es): {whole:.1f} s, start {start:.1f} s, "
            f"after the start {speed:.2f} times as fast as one",
            flush=True,
        )


PARTS = {
    "calls": (40_000, lambda folder, count: calls_per_second(folder, count, 0.05)),
    "slow": (20_000, lambda folder, count: calls_per_second(folder, count, 0.5)),
    "memory": (40_000, memory),
    "recorded": (200_000, recorded),
}


@contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """Two TaskManagers of one slot each: as many worker processes as the parallelism says."""
    script = [sys.executable, str(ROOT / "deploy" / "flink" / "cluster.py")]
    about = ["--folder", str(folder / "flink"), "--lib", str(INSTALLED / "lib"), "--port", str(PORT)]
    subprocess.run([*script, "up", *about, "--slots", "1"], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*script, "down", *about], check=True)


def main() -> None:
    """Runs the parts that were asked for, each on a cluster of its own."""
    asked = [word for word in sys.argv[1:] if not word.isdecimal()] or list(PARTS)
    counts = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    if not (INSTALLED / "job-server.jar").exists():
        print("Flink is not installed: make flink-jar")
        return
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    for name in asked:
        count, part = PARTS[name]
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="evalbeam-bench-") as made, cluster(Path(made)):
            part(Path(made), *(counts or [count]))
        print(f"  {time.perf_counter() - began:.0f} s with the start of the cluster", flush=True)


if __name__ == "__main__":
    main()

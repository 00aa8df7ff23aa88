"""Calls per second and memory on a real Flink cluster of this machine, beside plain asyncio in the same run.

    make flink-jar && python tests/benchmarks/bench_flink.py [calls]

Calls: an agent of 50 ms, 256 in flight for each worker process, from the first call to the last. Memory: the most that
a Python worker and a TaskManager had resident, over recorded answers.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser() / "flink"
DELAY, IN_FLIGHT, PORT = 0.05, 256, 38081
AGENT = f"""
import array, asyncio, os, time

LOG = os.open(os.path.join({{folder!r}}, "calls"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


async def ask(prompt):
    os.write(LOG, array.array("d", [time.time()]).tobytes())
    await asyncio.sleep({DELAY})
    return {{{{"response": prompt, "predicted_trajectory": [], "latency_in_seconds": {DELAY}}}}}
"""


def plain_asyncio(calls: int) -> float:
    """Calls per second of a bare event loop, a semaphore and a task for each call."""

    async def run() -> None:
        window = asyncio.Semaphore(IN_FLIGHT)

        async def ask() -> None:
            async with window:
                await asyncio.sleep(DELAY)

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


def evaluate(folder: Path, output: str, agent: dict[str, object], parallelism: int) -> float:
    """Runs an evaluation on the cluster; returns its wall time in seconds."""
    section = {"dataset": {"path": str(folder / "rows.jsonl")}, "agent": agent, "metrics": ["exact_match"]}
    (folder / "eval.yaml").write_text(json.dumps({**section, "output": {"path": str(folder / output)}}))
    options = ["--runner=FlinkRunner", f"--flink_master=127.0.0.1:{PORT}", f"--parallelism={parallelism}"]
    options.append(f"--flink_job_server_jar={INSTALLED / 'job-server.jar'}")
    began = time.perf_counter()
    command = [sys.executable, "-m", "evalbeam.pipelines.cli", "run", str(folder / "eval.yaml"), *options]
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


def calls_per_second(folder: Path, calls: int) -> None:
    """Prints what one and two worker processes reach."""
    base = plain_asyncio(calls)
    print(f"plain asyncio              {base:8.0f} calls/s")
    write_rows(folder, calls)
    code = folder / "code"
    code.mkdir()
    (code / "bench_agent.py").write_text(AGENT.format(folder=str(folder)))
    agent = {"target": "bench_agent:ask", "packages": [str(code)], "max_in_flight": IN_FLIGHT}
    for processes in (1, 2):
        (folder / "calls").write_bytes(b"")
        wall = evaluate(folder, f"p{processes}", agent, processes)
        times = array.array("d", (folder / "calls").read_bytes())
        rate = (len(times) - 1) / (max(times) - min(times))
        share = rate / base
        print(
            f"Flink, {processes} worker process(es) {rate:8.0f} calls/s, {share:5.2f} of asyncio, {wall:.0f} s in all"
        )


def memory(folder: Path, few: int, many: int) -> None:
    """Prints what recorded answers of 1 kB take."""
    for rows in (few, many):
        write_rows(folder, rows, 900)
        with Memory(worker="evalbeam-worker", taskmanager="TaskManagerRunner") as seen:
            wall = evaluate(folder, f"recorded-{rows}", {"type": "recorded"}, 2)
        worker, taskmanager = seen.most["worker"], seen.most["taskmanager"]
        print(f"{rows:8,} rows: worker {worker:5} MB, TaskManager {taskmanager:5} MB, {wall:.0f} s")


def main() -> None:
    """Runs all of it on a cluster of its own."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    if not (INSTALLED / "job-server.jar").exists():
        print("Flink is not installed: make flink-jar")
        return
    with tempfile.TemporaryDirectory(prefix="evalbeam-bench-") as name:
        folder = Path(name)
        script = [sys.executable, str(ROOT / "deploy" / "flink" / "cluster.py")]
        cluster = ["--folder", str(folder / "flink"), "--lib", str(INSTALLED / "lib"), "--port", str(PORT)]
        subprocess.run([*script, "up", *cluster, "--slots", "1"], check=True)
        try:
            print(f"load of the machine: {os.getloadavg()[0]:.1f}")
            calls_per_second(folder, calls)
            memory(folder, calls, 10 * calls)
        finally:
            subprocess.run([*script, "down", *cluster], check=True)


if __name__ == "__main__":
    main()

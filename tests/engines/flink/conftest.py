"""The engines as they are: Prism, Flink embedded in its job server, and a cluster of processes on loopback."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from waiting import ended, until
from written import tables

from evalbeam.pipelines.demo.__main__ import build_arguments

ROOT = Path(__file__).resolve().parents[3]
IN_FLIGHT = 32
AGENT = """
import asyncio, hashlib, os

LOG = {log!r}


async def ask(prompt):
    with open(LOG, "a") as log:
        log.write(f"{{os.getpid()}} {{prompt}}\\n")
    number = int(hashlib.sha256(prompt.encode()).hexdigest()[:4], 16)
    await asyncio.sleep({delay} * (0.5 + number / 65536))
    if number % 97 == 0:
        raise ValueError("no such thing")
    call = {{"tool_name": f"t{{number % 3}}", "tool_input": {{"x": number % 2}}}}
    return {{"response": prompt.upper(), "predicted_trajectory": [call], "latency_in_seconds": number / 1024}}
"""


@pytest.fixture(scope="session")
def installed() -> Path:
    """Folder of what was installed."""
    folder = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser()
    if not (folder / "flink" / "lib" / "version").exists() or not (folder / "prism" / "version").exists():
        pytest.skip("Flink and Prism are not installed (make test-engines installs them)")
    return folder


@dataclass
class Cluster:
    """A Flink cluster of this machine.

    Attributes:
        folder: Where its files are.
        lib: Flink's jars.
        port: Of its REST interface.
    """

    folder: Path
    lib: Path
    port: int

    def do(self, *arguments: str) -> str:
        """Runs the script that starts and stops it."""
        script = [sys.executable, str(ROOT / "deploy" / "flink" / "cluster.py")]
        command = [*script, *arguments, "--folder", str(self.folder), "--lib", str(self.lib), "--port", str(self.port)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def processes(self) -> dict[str, int]:
        """Name to process id of all that is alive."""
        return json.loads(self.do("status"))

    def whole(self) -> None:
        """Starts the TaskManagers that are missing and waits for all slots."""
        for name in sorted({"taskmanager-1", "taskmanager-2"} - set(self.processes())):
            self.do("taskmanager", name[-1])
        until(lambda: self._slots() == 4, 90, "four slots")

    def jars(self) -> list[str]:
        """What was uploaded and is still there."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/jars", timeout=20) as answer:
            return [jar["id"] for jar in json.load(answer)["files"]]

    def _slots(self) -> int:
        from evalbeam.pipelines.runners.flink import FlinkCluster

        return FlinkCluster(f"127.0.0.1:{self.port}").slots()


@pytest.fixture(scope="session")
def _cluster(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("flink"), installed / "flink" / "lib", free_ports(3))
    cluster.do("up")
    try:
        yield cluster
    finally:
        cluster.do("down")


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """The session's cluster, with both its TaskManagers."""
    _cluster.whole()
    return _cluster


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports that nobody listens on."""
    for start in range(28081, 29000, count):
        try:
            for port in range(start, start + count):
                with socket.socket() as listening:
                    listening.bind(("127.0.0.1", port))
        except OSError:
            continue
        return start
    raise RuntimeError("no free ports")


@dataclass
class Bench:
    """A folder with a dataset, an agent that writes down its calls, and the command that evaluates it.

    Attributes:
        folder: Where all of it is.
        installed: Where the engines are.
        started: The commands that were started.
    """

    folder: Path
    installed: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def write(self, rows: int, delay: float, recorded: bool = False, **config: object) -> None:
        """Writes a dataset (unusable rows and duplicates among it), an agent that takes so long, and eval.yaml."""
        code = self.folder / "code"
        code.mkdir()
        (code / "engine_agent.py").write_text(AGENT.format(log=str(self.folder / "calls"), delay=delay))
        with (self.folder / "rows.jsonl").open("w") as out:
            for i in range(rows):
                out.write("no json\n" if i % 1000 == 8 else json.dumps(row_of(i, rows)) + "\n")
        agent = {"target": "engine_agent:ask", "packages": [str(code)], "max_in_flight": IN_FLIGHT, "backoff": 0.01}
        section = {
            "dataset": {"path": str(self.folder / "rows.jsonl")},
            "agent": {"type": "recorded"} if recorded else agent,
            "metrics": ["trajectory_exact_match", "trajectory_precision", "exact_match"],
            "slices": [["locale"]],
            **config,
        }
        (self.folder / "eval.yaml").write_text(yaml.safe_dump(section))

    def start(self, output: str, *options: str) -> subprocess.Popen[str]:
        """Starts `evalbeam run`."""
        return self.command("run", "eval.yaml", "--output", str(self.folder / output), *options)

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a command, in a process group of its own; Ctrl-C reaches it wherever the tests run."""
        command = [sys.executable, "-m", "evalbeam", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # background jobs are born deaf to it
        process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
            command, cwd=self.folder, start_new_session=True, preexec_fn=heeds, **pipes
        )
        self.started.append(process)
        return process

    def run(self, output: str, *options: str) -> str:
        """Runs `evalbeam run` to its good end; returns what it said on the standard error."""
        return ended(self.start(output, *options), 0)

    def run_demo(self, output: str, *options: str) -> str:
        """Runs the demo to its good end."""
        return ended(self.command(*build_arguments(["--output", str(self.folder / output), *options])), 0)

    def tables(self, output: str) -> dict[str, bytes]:
        """The bytes of a run's tables, by name."""
        return tables(self.folder / output)

    def calls(self) -> list[str]:
        """Prompts that the agent was given, one for each call."""
        log = self.folder / "calls"
        return [line.split()[1] for line in log.read_text().splitlines()] if log.exists() else []

    def caller(self) -> int:
        """Id of the process that made the latest call."""
        return int((self.folder / "calls").read_text().splitlines()[-1].split()[0])

    def forget_calls(self) -> None:
        """Empties the list of calls."""
        (self.folder / "calls").write_text("")

    def embedded(self) -> list[str]:
        """The options of Flink embedded in a job server."""
        return ["--runner=FlinkRunner", f"--flink_job_server_jar={self.installed / 'flink' / 'job-server.jar'}"]

    def on(self, cluster: Cluster, *options: str) -> list[str]:
        """The options of a cluster."""
        return [*self.embedded(), f"--flink_master=127.0.0.1:{cluster.port}", *options]


@pytest.fixture(scope="session")
def new_bench(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Bench]]:
    """Makes folders to work in; whatever was started there is ended."""
    made: list[Bench] = []

    def make(name: str) -> Bench:
        made.append(Bench(tmp_path_factory.mktemp(name), installed))
        return made[-1]

    yield make
    for process in (p for bench in made for p in bench.started):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def row_of(i: int, rows: int) -> dict[str, object]:
    """A row; the last ten repeat the first ones, and one in a thousand has no prompt."""
    call = {"tool_name": "t1", "tool_input": {"x": 1}}
    row = {
        "prompt": f"p{i % (rows - 10)}",
        "reference": f"P{i}",
        "locale": ["en", "de", "fr"][i % 3],
        "response": f"P{i}",
        "predicted_trajectory": [call],
        "reference_trajectory": [{**call, "tool_input": {"x": i % 2}}],
        "latency_in_seconds": i % 64 / 8,
    }
    return {k: v for k, v in row.items() if k != "prompt"} if i % 1000 == 7 else row

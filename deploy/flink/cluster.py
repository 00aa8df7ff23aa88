"""A Flink cluster on this machine, all of it on loopback: one JobManager and some TaskManagers.

    python deploy/flink/cluster.py up --lib LIB --folder FOLDER [--taskmanagers 2] [--slots 2] [--port 8081]
    python deploy/flink/cluster.py taskmanager 2 --lib LIB --folder FOLDER      starts one again
    python deploy/flink/cluster.py status --folder FOLDER
    python deploy/flink/cluster.py down --folder FOLDER

LIB holds Flink's jars (flink-dist, log4j, bash-java-utils), FOLDER gets configuration, logs and process ids. The
TaskManagers find `evalbeam-worker` beside the Python that runs this.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"
JOBMANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASKMANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
SIZES = "org.apache.flink.runtime.util.bash.BashJavaUtils"
_MARK = "BASH_JAVA_UTILS_EXEC_RESULT:"
_EXPORTED = (
    "java.rmi/sun.rmi.registry",
    "java.security.jgss/sun.security.krb5",
    "jdk.compiler/com.sun.tools.javac.api",
)
_OPENED = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util")
_OPENED += ("util.concurrent", "util.concurrent.atomic", "util.concurrent.locks")
_LOG = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = Out
appender.out.name = Out
appender.out.type = CONSOLE
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss,SSS} %-5p %-40c{1} %m%n
"""
STARTS_IN = 120.0
"""Seconds in which a cluster must be there, on a busy machine."""


class Cluster:
    """Processes whose state lies in a folder: <name>/{config.yaml, log, pid} for "jobmanager", "taskmanager-1" ..."""

    def __init__(self, folder: Path, lib: Path | None) -> None:
        self.folder, self.lib = folder, lib

    def up(self, taskmanagers: int, slots: int, port: int) -> None:
        """Starts all and waits until every slot is there."""
        if self.running():
            sys.exit(f"a cluster runs already, its files are in {self.folder}")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "shape.json").write_text(json.dumps({"slots": slots, "port": port}))
        self.start("jobmanager")
        for i in range(taskmanagers):
            self.start(f"taskmanager-{i + 1}")
        self.wait_for(taskmanagers * slots, port)

    def start(self, name: str) -> None:
        """Starts one process in a session of its own."""
        own = self.folder / name
        shape = json.loads((self.folder / "shape.json").read_text())
        self._configure(own, name, shape["slots"], shape["port"])
        if name == "jobmanager":
            jvm, main, more = ["-Xmx640m"], JOBMANAGER, []
        else:
            (jvm, more), main = self._sizes(own), TASKMANAGER
        command = [*self._java(own), "-XX:+UseSerialGC", *jvm, main, "--configDir", str(own), *more]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        with (own / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, "PATH": path}
            )
        (own / "pid").write_text(str(process.pid))

    def wait_for(self, slots: int, port: int) -> None:
        """Waits until the cluster has so many slots."""
        until, found = time.monotonic() + STARTS_IN, 0
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"http://{HOST}:{port}/overview", timeout=5) as answer:
                    found = json.load(answer)["slots-total"]
            except (OSError, ValueError, KeyError):
                found = 0
            if found >= slots:
                print(f"Flink is up: http://{HOST}:{port}, {found} slots")
                return
            if not self.running():
                break
            time.sleep(0.3)
        self.down()
        sys.exit(f"Flink did not start: {found} of {slots} slots; its logs are in {self.folder}")

    def running(self) -> dict[str, int]:
        """Name to process id of all that is alive."""
        found = {}
        for file in sorted(self.folder.glob("*/pid")):
            pid = int(file.read_text())
            if _is_java(pid):
                found[file.parent.name] = pid
        return found

    def down(self) -> None:
        """Ends all processes and waits until they are gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.running().values():
                os.kill(pid, number)
            until = time.monotonic() + 15
            while self.running() and time.monotonic() < until:
                time.sleep(0.1)
        for file in self.folder.glob("*/pid"):
            file.unlink()

    def _configure(self, own: Path, name: str, slots: int, port: int) -> None:
        for folder in (own, own / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        ours = {
            "jobmanager.rpc.address": HOST,
            "jobmanager.rpc.port": port + 1,
            "jobmanager.bind-host": HOST,
            "blob.server.port": port + 2,
            "rest.address": HOST,
            "rest.bind-address": HOST,
            "rest.port": port,
            "taskmanager.host": HOST,
            "taskmanager.bind-host": HOST,
            "taskmanager.resource-id": name,
            "taskmanager.numberOfTaskSlots": slots,
            "web.upload.dir": self.folder / "upload",
            "io.tmp.dirs": own / "tmp",
        }
        text = (HERE / "config.yaml").read_text() + "".join(f"{k}: {v}\n" for k, v in ours.items())
        (own / "config.yaml").write_text(text)
        (own / "log4j.properties").write_text(_LOG)

    def _java(self, own: Path) -> list[str]:
        assert self.lib is not None
        jars = [p for p in sorted(self.lib.glob("*.jar")) if p.name != "bash-java-utils.jar"]
        if not jars:
            sys.exit(f"no jars of Flink in {self.lib}: `make flink-jar` gets them")
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
        opened += ["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
        exported = [f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTED]
        log = f"-Dlog4j.configurationFile=file:{own / 'log4j.properties'}"
        return ["java", *opened, *exported, log, "-cp", os.pathsep.join(map(str, jars))]

    def _sizes(self, own: Path) -> tuple[list[str], list[str]]:
        """(options of the JVM, -D arguments) of a TaskManager, as Flink's own start script finds them."""
        assert self.lib is not None
        java = self._java(own)
        java[-1] += os.pathsep + str(self.lib / "bash-java-utils.jar")
        command = [*java, SIZES, "GET_TM_RESOURCE_PARAMS", "--configDir", str(own)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line.partition(_MARK)[2] for line in done.stdout.splitlines() if _MARK in line]
        if len(lines) != 2:
            sys.exit(f"Flink refuses its configuration: {(done.stdout + done.stderr)[-2000:]}")
        return lines[0].split(), lines[1].split()


def _is_java(pid: int) -> bool:
    """Whether a process is alive and (where that can be told) a Java one: ids are used again."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return "(java)" in stat and ") Z " not in stat
    except OSError:
        return True


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["up", "down", "status", "taskmanager"])
    parser.add_argument("number", nargs="?", type=int, default=1, help="of the TaskManager to start")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--lib", type=Path)
    parser.add_argument("--taskmanagers", type=int, default=2)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--port", type=int, default=8081, help="of the REST interface; the two above it are used too")
    args = parser.parse_args()
    cluster = Cluster(args.folder.resolve(), args.lib and args.lib.resolve())
    if args.command == "up":
        cluster.up(args.taskmanagers, args.slots, args.port)
    elif args.command == "taskmanager":
        cluster.start(f"taskmanager-{args.number}")
    elif args.command == "down":
        cluster.down()
    else:
        print(json.dumps(cluster.running()))


if __name__ == "__main__":
    main()

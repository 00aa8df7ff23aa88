"""What a killed run costs: `python tests/benchmarks/bench_crash.py`.

A run over an agent that asks a counting server is killed (SIGKILL) when a share of its calls is made, and started
again with the same command. The tables must be those of an undisturbed run, byte for byte (the agent reports its own
latency), and the calls made twice no more than were in flight.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

AGENT = """
import asyncio
import os

PORT = int(os.environ["COUNTER_PORT"])


async def ask(prompt):
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(b"POST / HTTP/1.0\\r\\nContent-Length: %d\\r\\n\\r\\n%b" % (len(prompt), prompt.encode()))
    answer = (await reader.read()).rpartition(b"\\r\\n\\r\\n")[2].decode()
    writer.close()
    return {"response": answer, "predicted_trajectory": [], "latency_in_seconds": len(prompt) / 8}
"""


class Counter(ThreadingHTTPServer):
    """Answers in capitals, counts, and kills a process at a call."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: list[str] = []
        self.kill_at = 0
        self.victim: subprocess.Popen[bytes] | None = None
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that was killed takes no answer."""


class Handler(BaseHTTPRequestHandler):
    """One call."""

    server: Counter

    def do_POST(self) -> None:
        prompt = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.server.lock:
            self.server.calls.append(prompt)
            count = len(self.server.calls)
        if count == self.server.kill_at and self.server.victim is not None:
            self.server.victim.send_signal(signal.SIGKILL)
        time.sleep(0.02)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(prompt.upper().encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def start(folder: Path, output: str, server: Counter, in_flight: int) -> int:
    """Runs the command; its exit code."""
    command = [sys.executable, "-m", "evalbeam.pipelines.cli", "run", "--dataset", "rows.jsonl", "--agent"]
    command += ["crash_agent:ask", "--metrics", "exact_match", "--output", output]
    command += ["--set", f"agent.max_in_flight={in_flight}"]
    env = {**os.environ, "PYTHONPATH": str(folder), "COUNTER_PORT": str(server.server_address[1])}
    with open(folder / "log", "ab") as log:
        server.victim = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
    return server.victim.wait()


def fingerprint(folder: Path) -> str:
    """Hash of all tables of a run."""
    paths = [*sorted((folder / "instances").iterdir()), folder / "summary.parquet", folder / "errors.parquet"]
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=64)
    args = parser.parse_args()
    server, bad = Counter(), 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "crash_agent.py").write_text(AGENT)
        rows = [json.dumps({"prompt": f"p{i}", "reference": f"P{i}"}) + "\n" for i in range(args.calls)]
        (folder / "rows.jsonl").write_text("".join(rows))
        assert start(folder, "calm", server, args.in_flight) == 0, (folder / "log").read_text()
        calm = fingerprint(folder / "calm")
        for share in (0.25, 0.5, 0.75):
            for trial in range(args.trials):
                output = f"killed-{share}-{trial}"
                server.calls, server.kill_at = [], int(share * args.calls)
                killed = start(folder, output, server, args.in_flight)
                server.kill_at = 0
                ended = start(folder, output, server, args.in_flight)
                same = ended == 0 and fingerprint(folder / output) == calm
                extra = len(server.calls) - args.calls
                good = killed == -signal.SIGKILL and same and 0 <= extra <= args.in_flight
                bad += not good
                print(f"killed at {share:.0%}, trial {trial}: exit codes {killed}, {ended}; tables "
                      f"{'the same' if same else 'DIFFER'}; {extra} calls made twice", flush=True)  # fmt: skip
    server.shutdown()
    return bad


if __name__ == "__main__":
    sys.exit(main())

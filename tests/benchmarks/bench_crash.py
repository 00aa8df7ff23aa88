"""What a killed run costs: `python tests/benchmarks/bench_crash.py`.

A run over an agent that asks a counting server is killed (SIGKILL) when a share of its calls is made, and started
again with the same command. The tables must be those of an undisturbed run, byte for byte (the agent reports its own
latency), and the calls made twice no more than were in flight.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "servers"))

from json_server import JsonHandler, serving
from written import tables


class Handler(JsonHandler):
    """Answers in capitals, counts, and kills a process at a call."""

    def do_POST(self) -> None:
        server: Any = self.server
        prompt = self.body()["prompt"]
        with server.lock:
            server.calls.append(prompt)
            count = len(server.calls)
        if count == server.kill_at and server.victim is not None:
            server.victim.send_signal(signal.SIGKILL)
        time.sleep(0.02)
        self.answer({"response": prompt.upper(), "predicted_trajectory": [], "latency_in_seconds": len(prompt) / 8})


def start(folder: Path, output: str, server: Any, in_flight: int) -> int:
    """Runs the command; its exit code."""
    command = [sys.executable, "-m", "evalbeam.pipelines.cli", "run", "--dataset", "rows.jsonl", "--agent"]
    command += [f"http://127.0.0.1:{server.server_address[1]}/", "--metrics", "exact_match", "--output", output]
    command += ["--set", f"agent.max_in_flight={in_flight}"]
    with open(folder / "log", "ab") as log:
        server.victim = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    return server.victim.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=64)
    args = parser.parse_args()
    bad, counts = 0, {"calls": [], "kill_at": 0, "victim": None, "lock": threading.Lock()}
    with tempfile.TemporaryDirectory() as name, serving(Handler, **counts) as server:
        folder = Path(name)
        rows = [json.dumps({"prompt": f"p{i}", "reference": f"P{i}"}) + "\n" for i in range(args.calls)]
        (folder / "rows.jsonl").write_text("".join(rows))
        assert start(folder, "calm", server, args.in_flight) == 0, (folder / "log").read_text()
        calm = tables(folder / "calm")
        for share in (0.25, 0.5, 0.75):
            for trial in range(args.trials):
                output = f"killed-{share}-{trial}"
                server.calls, server.kill_at = [], int(share * args.calls)
                killed = start(folder, output, server, args.in_flight)
                server.kill_at = 0
                ended = start(folder, output, server, args.in_flight)
                same = ended == 0 and tables(folder / output) == calm
                extra = len(server.calls) - args.calls
                good = killed == -signal.SIGKILL and same and 0 <= extra <= args.in_flight
                bad += not good
                print(f"killed at {share:.0%}, trial {trial}: exit codes {killed}, {ended}; tables "
                      f"{'the same' if same else 'DIFFER'}; {extra} calls made twice", flush=True)  # fmt: skip
    return bad


if __name__ == "__main__":
    sys.exit(main())

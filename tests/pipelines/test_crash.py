"""A run that is killed in the middle of its calls over HTTP, counted by the agent's own server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson
from aiohttp import web
from written import tables

ROWS, IN_FLIGHT = 400, 16


class Server:
    """Answers in capitals, counts, and kills a process at a call; a call in flight then is never answered."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.kill_at = 0
        self.victim: subprocess.Popen[bytes] | None = None
        self.started = threading.Event()

    async def answer(self, request: web.Request) -> web.Response:
        prompt = (await request.json())["prompt"]
        self.calls[prompt] += 1
        if self.calls.total() == self.kill_at:
            self.started.wait()
            assert self.victim is not None
            self.victim.send_signal(signal.SIGKILL)
        return web.json_response({"response": prompt.upper(), "latency_in_seconds": len(prompt) / 8})


def run(folder: Path, output: str, url: str, server: Server) -> int:
    config = {
        "dataset": {"path": "rows.jsonl"},
        "agent": {"target": url, "max_in_flight": IN_FLIGHT},
        "metrics": ["exact_match"],
        "output": {"path": output},
    }
    (folder / f"{output}.yaml").write_bytes(orjson.dumps(config))
    command = [sys.executable, "-m", "evalbeam.pipelines.cli", "run", f"{output}.yaml"]
    server.started.clear()
    with open(folder / "log", "ab") as log:
        server.victim = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=dict(os.environ))
    server.started.set()
    return server.victim.wait(timeout=120)


def test_a_killed_run_makes_no_call_again_but_those_in_flight(tmp_path: Path, serve: Callable[..., str]) -> None:
    rows = [{"prompt": f"p{i}", "reference": f"P{i}"} for i in range(ROWS)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in rows))
    server = Server()
    url = serve(server.answer)
    assert run(tmp_path, "calm", url, server) == 0, (tmp_path / "log").read_text()
    assert set(server.calls.values()) == {1}
    server.calls.clear()
    server.kill_at = ROWS // 2
    assert run(tmp_path, "killed", url, server) == -signal.SIGKILL
    assert not (tmp_path / "killed" / "manifest.json").exists()
    assert run(tmp_path, "killed", url, server) == 0, (tmp_path / "log").read_text()
    assert len(server.calls) == ROWS
    assert server.calls.total() - ROWS <= IN_FLIGHT
    assert tables(tmp_path / "killed") == tables(tmp_path / "calm") != {}

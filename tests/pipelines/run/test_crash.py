"""A run that is killed in the middle of its calls over HTTP, counted by the agent's own server."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from written import tables

from evalbeam.pipelines.cli.main import main

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


def arguments(output: str, url: str) -> list[str]:
    """The command, in the folder of the dataset."""
    config = {
        "dataset": {"path": "rows.jsonl"},
        "agent": {"target": url, "max_in_flight": IN_FLIGHT},
        "metrics": ["exact_match"],
        "output": {"path": output},
    }
    Path(f"{output}.yaml").write_bytes(orjson.dumps(config))
    return ["run", f"{output}.yaml"]


def killed(output: str, url: str, server: Server) -> int:
    """How a run in a process of its own ends, which the server kills."""
    server.kill_at = ROWS // 2
    command = [sys.executable, "-m", "evalbeam", *arguments(output, url)]
    with open("log", "wb") as log:
        server.victim = subprocess.Popen(command, stdout=log, stderr=log)
    server.started.set()
    return server.victim.wait(timeout=120)


def test_a_killed_run_makes_no_call_again_but_those_in_flight(
    tmp_path: Path, serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": f"p{i}", "reference": f"P{i}"} for i in range(ROWS)]
    Path("rows.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in rows))
    server = Server()
    url = serve(server.answer)
    assert main(arguments("calm", url)) == 0
    assert set(server.calls.values()) == {1}
    server.calls.clear()
    assert killed("killed", url, server) == -signal.SIGKILL, Path("log").read_text()
    assert not Path("killed/manifest.json").exists()
    assert main(arguments("killed", url)) == 0
    assert len(server.calls) == ROWS
    assert server.calls.total() - ROWS <= IN_FLIGHT
    assert tables(tmp_path / "killed") == tables(tmp_path / "calm") != {}

"""A REST interface as Flink's JobManager has it, for jobs that a test describes."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class FakeFlink:
    """What the interface tells.

    Attributes:
        jobs: Job name to state.
        settings: The cluster's configuration.
        cancelled: Ids that were cancelled.
        taskmanagers, slots: What the cluster has.
        stacktrace: Why jobs failed.
    """

    jobs: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    taskmanagers: int = 2
    slots: int = 4
    stacktrace: str = ""
    url: str = ""

    def answer(self, method: str, path: str) -> Any:
        """What a request gets; `None` is HTTP 404."""
        if method == "PATCH":
            job = path.removeprefix("/jobs/").partition("?")[0]
            self.cancelled.append(job)
            self.jobs = {name: "CANCELED" if f"id-{name}" == job else state for name, state in self.jobs.items()}
            return {}
        vertices = [{"status": "FINISHED"}, {"status": "RUNNING"}, {"status": "FINISHED"}]
        known: dict[str, Any] = {
            "/config": {"flink-version": "1.20.5"},
            "/overview": {"slots-total": self.slots, "taskmanagers": self.taskmanagers},
            "/jobmanager/config": [{"key": k, "value": v} for k, v in self.settings.items()],
            "/jobs/overview": {
                "jobs": [{"jid": f"id-{n}", "name": n, "state": s, "start-time": 1} for n, s in self.jobs.items()]
            },
        }
        for name in self.jobs:
            entries = [{"stacktrace": self.stacktrace}] if self.stacktrace else []
            known[f"/jobs/id-{name}/exceptions"] = {"exceptionHistory": {"entries": entries}}
            known[f"/jobs/id-{name}"] = {"vertices": vertices}
        return known.get(path)


@contextlib.contextmanager
def serving(flink: FakeFlink) -> Iterator[FakeFlink]:
    """Serves it on loopback; `url` says where."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            found = flink.answer(self.command, self.path)
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PATCH = _answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    flink.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield flink
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    """A cluster without jobs."""
    with serving(FakeFlink()) as found:
        yield found

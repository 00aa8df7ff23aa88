"""A fake of OpenAI's files and batches API behind real HTTP, beside the chat completions of the fake model.

A batch is worked on when the test says so: `work()` answers each request of the batches that wait, by the same function
that answers live calls.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler
from typing import Any

from model_server import ModelServer, serving

LIVE = "/v1/chat/completions"


class BatchServer:
    """Files and batches; `requests` holds the custom ids of each batch, in the order they were created."""

    def __init__(self, model: ModelServer) -> None:
        self.model = model
        self.files: dict[str, bytes] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.url = model.url + "/v1"

    @property
    def requests(self) -> list[list[str]]:
        """Custom ids of the requests of each batch."""
        return [[self._id(line) for line in self._lines(job)] for job in self.jobs.values()]

    def work(self, status: str = "completed", fate: Callable[[int], int] = lambda number: 200) -> None:
        """Ends the batches that wait.

        Args:
            status: How they end.
            fate: HTTP status of the line of a number; 0 for one that is not worked on.
        """
        for job in self.jobs.values():
            if not job.get("ended"):
                job["ended"] = True
                self._end(job, status, [self._told(n, line, fate(n)) for n, line in enumerate(self._lines(job))])

    def _end(self, job: dict[str, Any], status: str, told: list[dict[str, Any]]) -> None:
        """Keeps the results, in another order than that of the requests: what failed stands in a file of its own."""
        job["status"] = status
        good = [t for t in told if t["response"] is not None and t["response"]["status_code"] == 200]
        bad = [t for t in told if t not in good]
        for name, lines in (("output_file_id", good), ("error_file_id", bad)):
            job[name] = self._keep("\n".join(json.dumps(t) for t in reversed(lines)).encode()) if lines else None

    def _told(self, number: int, line: dict[str, Any], status: int) -> dict[str, Any]:
        """The line that comes back for one of the requests."""
        told = {"id": f"batch_req_{number}", "custom_id": line["custom_id"], "response": None, "error": None}
        if status == 0:
            told["error"] = {"code": "batch_expired", "message": "This request could not be executed."}
        elif status != 200:
            body = {"error": {"message": "INTERNAL", "type": "requests", "param": None, "code": None}}
            told["response"] = {"status_code": status, "request_id": "r", "body": body}
        else:
            found, body = self.model.answer(LIVE, line["body"], {})
            told["response"] = {"status_code": found.status, "request_id": "r", "body": body}
        return told

    def post(self, path: str, body: bytes, headers: Any) -> Any:
        """What a POST creates; `None` is a live call."""
        if path == LIVE:
            return None
        kind = headers["Content-Type"]
        if path.endswith("/files"):
            parts = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body).get_payload()
            named: dict[str, Any] = {p.get_param("name", header="content-disposition"): p for p in parts}  # type: ignore[union-attr]
            assert named["purpose"].get_payload().strip() == "batch"
            id_ = self._keep(named["file"].get_payload(decode=True))
            return {"id": id_, "object": "file", "bytes": 1, "created_at": 1, "filename": "f", "purpose": "batch"}
        asked = json.loads(body)
        assert (asked["endpoint"], asked["completion_window"]) == (LIVE, "24h")
        job = {
            "id": f"batch_{len(self.jobs) + 1}",
            "object": "batch",
            "created_at": 1,
            "status": "in_progress",
            **asked,
        }
        self.jobs[job["id"]] = job
        return job

    def get(self, path: str) -> Any:
        """What a GET finds."""
        steps = path.partition("?")[0].split("/")
        if steps[-1] == "content":
            return self.files[steps[-2]]
        if steps[-1] == "batches":
            return {"object": "list", "data": list(self.jobs.values()), "has_more": False}
        return self.jobs[steps[-1]]

    def headers(self, found: Any) -> dict[str, str]:
        """Headers of an answer."""
        return {}

    def _id(self, line: dict[str, Any]) -> str:
        return line["custom_id"]

    def _keep(self, data: bytes) -> str:
        id_ = f"file-{len(self.files) + 1}"
        self.files[id_] = data
        return id_

    def _lines(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[job["input_file_id"]].splitlines()]


@contextmanager
def serving_batches(kind: type[BatchServer] = BatchServer) -> Iterator[BatchServer]:
    """A server of live calls and batches that runs until the block ends."""
    with serving() as model:
        batches = kind(model)
        model.server.RequestHandlerClass = _handler(batches, model.server.RequestHandlerClass)
        yield batches


def _handler(batches: BatchServer, live: Any) -> type[BaseHTTPRequestHandler]:
    class Handler(live):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found = batches.post(self.path, body, self.headers)
            if found is None:
                wire, self.rfile = self.rfile, io.BytesIO(body)
                super().do_POST()
                self.rfile = wire
                return
            self._send(found)

        def do_GET(self) -> None:
            self._send(batches.get(self.path))

        def _send(self, found: Any) -> None:
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in batches.headers(found).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    return Handler

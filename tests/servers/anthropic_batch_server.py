"""A fake of Anthropic's message batches behind real HTTP, beside the live calls of the fake model.

The formats are those that the package anthropic sends and reads.
"""

from __future__ import annotations

import json
import re
from typing import Any

from batch_server import BatchServer
from model_server import ModelServer, anthropic_error

LIVE = "/v1/messages"
MOST_REQUESTS, MOST_BYTES = 100_000, 256_000_000
COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


class AnthropicBatchServer(BatchServer):
    """Message batches, the newest first in their list, two of them on a page."""

    def __init__(self, model: ModelServer) -> None:
        super().__init__(model)
        self.url = model.url
        self.sizes: list[tuple[int, int]] = []  # requests and bytes of each batch

    def post(self, path: str, body: bytes, headers: Any) -> Any:
        if path == LIVE:
            return None
        assert path == f"{LIVE}/batches", path
        assert headers["x-api-key"] or headers["authorization"]  # as the version of the client has it
        asked = json.loads(body)["requests"]
        ids = [one["custom_id"] for one in asked]
        assert 0 < len(set(ids)) == len(ids) <= MOST_REQUESTS
        assert len(body) <= MOST_BYTES
        self.sizes.append((len(ids), len(body)))
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", id_) and one.keys() == {"custom_id", "params"}
                   for id_, one in zip(ids, asked, strict=True))  # fmt: skip
        name = f"msgbatch_{len(self.jobs) + 1:02}"
        self.jobs[name] = {
            "id": name, "type": "message_batch", "processing_status": "in_progress", "results_url": None,
            "created_at": "2026-11-21T00:00:00Z", "expires_at": "2026-11-22T00:00:00Z", "ended_at": None,
            "archived_at": None, "cancel_initiated_at": None,
            "request_counts": {**dict.fromkeys(COUNTS, 0), "processing": len(asked)},
        }  # fmt: skip
        self.files[name] = json.dumps(asked).encode()
        return self.jobs[name]

    def get(self, path: str) -> Any:
        path, _, query = path.partition("?")
        if path.endswith("/results"):
            return self.files["results of " + path.split("/")[-2]]
        if path != f"{LIVE}/batches":
            return self.jobs[path.rpartition("/")[2]]
        after = re.search(r"after_id=(\w+)", query)
        names = [name for name in sorted(self.jobs, reverse=True) if after is None or name < after[1]]
        page = [self.jobs[name] for name in names[:2]]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        return {"data": page, "has_more": len(names) > 2, **ends}

    def _end(self, job: dict[str, Any], status: str, told: list[dict[str, Any]]) -> None:
        results = [one["result"]["type"] for one in told]
        job["request_counts"] = {what: results.count(what) for what in COUNTS}
        job |= {"processing_status": "ended", "results_url": f"{self.url}{LIVE}/batches/{job['id']}/results"}
        self.files["results of " + job["id"]] = "\n".join(json.dumps(one) for one in reversed(told)).encode()

    def _told(self, number: int, line: dict[str, Any], status: int) -> dict[str, Any]:
        """The line that comes back; 0 is a request that expired, 1 one that was canceled."""
        if status in (0, 1):
            return {"custom_id": line["custom_id"], "result": {"type": ("expired", "canceled")[status]}}
        if status == 200:
            said, answer = self.model.answer(LIVE, line["params"], {})
            if said.status == 200:
                return {"custom_id": line["custom_id"], "result": {"type": "succeeded", "message": answer}}
            status = said.status
        return {"custom_id": line["custom_id"], "result": {"type": "errored", "error": anthropic_error(status)}}

    def _lines(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        return json.loads(self.files[job["id"]])

"""OpenAI's batches of chat completions: lines of requests and results, files, jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...schemas.json import Json
from .base import Job, Requests

COMPLETIONS = "/chat/completions"
_ENDPOINT = "/v1" + COMPLETIONS
_ENDED = ("completed", "failed", "expired", "cancelled")
_OPEN = ("batch_expired", "batch_cancelled")


def request_line(key: str, body: Json) -> Json:
    """Builds the line of a request."""
    return {"custom_id": key, "method": "POST", "url": _ENDPOINT, "body": body}


def read_line(line: Mapping[str, Any]) -> tuple[str, tuple[int, Any] | None]:
    """Reads a line of the results: (key, (HTTP status, body)), with `None` if the request was not processed."""
    key, response, error = line["custom_id"], line.get("response"), line.get("error")
    if response is not None:
        return key, (response["status_code"], response["body"])
    code = (error or {}).get("code")
    return key, None if code in _OPEN else (500, {"error": {"message": f"batch error {code}"}})


@dataclass(frozen=True)
class OpenAIBatches:
    """OpenAI's files and batches.

    Attributes:
        client: A client of the package openai.
    """

    client: Any

    def submit(self, name: str, requests: Requests) -> str:
        """Uploads the file and starts a batch with that name, without retries: each attempt may start one."""
        file = self.client.files.create(file=("requests.jsonl", requests.data), purpose="batch")
        named = {"completion_window": "24h", "metadata": {"evalbeam": name}}
        once = self.client.with_options(max_retries=0)
        return once.batches.create(input_file_id=file.id, endpoint=_ENDPOINT, **named).id

    def find(self, name: str, requests: Requests, others: Collection[str]) -> str | None:
        """Finds the batch of that name."""
        return next((b.id for b in self.client.batches.list() if (b.metadata or {}).get("evalbeam") == name), None)

    def look(self, job: str) -> Job:
        """Asks for the state of a batch; its answers are in one file, its errors in another."""
        batch = self.client.batches.retrieve(job)
        if batch.status not in _ENDED:
            return Job(False)
        files = [id_ for id_ in (batch.output_file_id, batch.error_file_id) if id_]
        reasons = [e.message for e in (batch.errors and batch.errors.data) or () if e.message]
        trouble = None if batch.status == "completed" else "; ".join([batch.status, *reasons])
        return Job(True, tuple(self.client.files.content(id_).read() for id_ in files), trouble)

    def close(self) -> None:
        """Closes the connections."""
        self.client.close()

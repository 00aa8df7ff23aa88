"""Batches of google-genai: lines of requests and results of the Gemini API and of Vertex AI, and their jobs.

A request line of the Gemini API is `{"key", "request"}`, a result line `{"key", "response"}` or `{"key", "error"}`.
Vertex AI has no key in files: it repeats the request beside `response` and `status`, so the key is a label of the
request. In tables of BigQuery it repeats all columns, so the key is one.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson

from ...schemas.config.storage import SCHEME
from ...schemas.json import Json
from ..io.bigquery import Clients
from .base import Job, Requests
from .tables import load_requests, read_answers

_LABEL = "evalbeam_key"
_SUCCEEDED = "JOB_STATE_SUCCEEDED"
_ENDED = (
    _SUCCEEDED,
    "JOB_STATE_FAILED",
    "JOB_STATE_CANCELLED",
    "JOB_STATE_EXPIRED",
    "JOB_STATE_PARTIALLY_SUCCEEDED",
)
_CANCELLED = 499
_HTTP = {1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500,
         14: 503, 15: 500, 16: 401}  # fmt: skip
"""HTTP statuses of the codes of google.rpc.Code, as its documentation maps them."""


class Wire:
    """The provider's own client without a network, which builds request bodies and parses answers.

    A batch so has the bodies of live calls, whatever version of google-genai is installed.

    Args:
        vertex: Whether it is a client of Vertex AI.
    """

    def __init__(self, vertex: bool) -> None:
        import httpx
        from google import genai
        from google.genai import types
        from google.oauth2.credentials import Credentials

        own: dict[str, Any] = {"vertexai": False, "api_key": "none"}
        if vertex:
            own = {"vertexai": True, "project": "none", "location": "none", "credentials": Credentials(token="none")}
        self._status, self._body, self._sent = 200, {}, b""
        wire = httpx.Client(transport=httpx.MockTransport(self._answer))
        self._models = genai.Client(http_options=types.HttpOptions(httpx_client=wire), **own).models

    def request(self, **asked: Any) -> dict[str, Json]:
        """Returns the body that a call of `generate_content` would send."""
        self._models.generate_content(**asked)
        return orjson.loads(self._sent)

    def response(self, status: int, body: Any) -> Any:
        """Returns, or raises, what a call does on an answer."""
        self._status, self._body = status, body
        try:
            return self._models.generate_content(model="none", contents="none")
        finally:
            self._status, self._body = 200, {}

    def _answer(self, request: Any) -> Any:
        import httpx

        self._sent = request.content
        return httpx.Response(self._status, json=self._body)


@cache
def wire(vertex: bool) -> Wire:
    """Returns the client of this process."""
    return Wire(vertex)


def request_line(key: str, request: dict[str, Json], vertex: bool) -> dict[str, Json]:
    """Builds the line of a request."""
    if not vertex:
        return {"key": key, "request": request}
    label = base64.b32encode(bytes.fromhex(key)).decode().rstrip("=").lower()  # 63 characters are allowed
    return {"request": {**request, "labels": {**(request.get("labels") or {}), _LABEL: label}}}  # type: ignore[dict-item]


def read_line(line: Mapping[str, Any]) -> tuple[str, tuple[int, Any] | None]:
    """Reads a line of the results: (key, (HTTP status, body)), with `None` if the request was not processed."""
    key = line["key"] if "key" in line else _key_in(line["request"]["labels"][_LABEL])
    response = line.get("response")
    if isinstance(response, str) and response:  # a column may hold JSON as text
        response = orjson.loads(response)
    if response:
        return key, (200, response)
    status, body = _read_error(line.get("error") or line.get("status") or {"code": 1})
    return key, None if status == _CANCELLED else (status, body)


def _key_in(label: str) -> str:
    return base64.b32decode(label.upper() + "=" * (-len(label) % 8)).hex()


def _read_error(raw: Any) -> tuple[int, Any]:
    """Reads (HTTP status, body) from an error: a status, or text of Vertex AI that ends with the body."""
    if isinstance(raw, str):
        try:
            raw = orjson.loads(raw[raw.index("{") :])
        except ValueError:
            raw = {"message": raw}
    error = raw.get("error", raw)
    code = error.get("code")
    status = _HTTP.get(code, code) if isinstance(code, int) else 500
    return status if 400 <= status <= 599 else 500, {"error": error}


@dataclass(frozen=True)
class _Batches:
    """The jobs of both APIs.

    Attributes:
        client: A client of google-genai.
        model: Name of the model.
    """

    client: Any
    model: str

    def find(self, name: str, requests: Requests, others: Collection[str]) -> str | None:
        """Finds the job of that name."""
        return next((job.name for job in self.client.batches.list() if job.display_name == name), None)

    def look(self, job: str) -> Job:
        """Asks for the state of a job."""
        batch = self.client.batches.get(name=job)
        state = batch.state.name if batch.state else ""
        if state not in _ENDED:
            return Job(False)
        reason = f": {batch.error.message}" if batch.error and batch.error.message else ""
        files = self._files(batch)
        lost = "its results are not there" if files is None else None
        return Job(True, files or (), lost if state == _SUCCEEDED else state + reason)

    def close(self) -> None:
        """Closes the connections."""
        self.client.close()

    def _files(self, job: Any) -> tuple[bytes, ...] | None:
        """Result files; `None` if they should be there and are not."""
        return ()


@dataclass(frozen=True)
class GeminiBatches(_Batches):
    """The Gemini API's files and batches."""

    def submit(self, name: str, requests: Requests) -> str:
        """Uploads the file and starts a job of that name."""
        shown = {"display_name": name, "mime_type": "jsonl"}
        file = self.client.files.upload(file=io.BytesIO(requests.data), config=shown)
        return self.client.batches.create(model=self.model, src=file.name, config={"display_name": name}).name

    def _files(self, job: Any) -> tuple[bytes, ...]:
        name = job.dest and job.dest.file_name
        return (self.client.files.download(file=name),) if name else ()


@dataclass(frozen=True)
class VertexBatches(_Batches):
    """Vertex AI's batch prediction jobs, which read and write Cloud Storage or BigQuery.

    Attributes:
        dataset: "project.dataset" of BigQuery for tables of requests and of answers; `None` for Cloud Storage.
        clients: Creates BigQuery's clients.
    """

    dataset: str | None = None
    clients: Clients = Clients()

    def submit(self, name: str, requests: Requests) -> str:
        """Starts a job of that name, whose results are beside the requests: in the folder, or in the dataset."""
        source, dest = self._in_files(requests) if self.dataset is None else self._in_tables(name, requests)
        return self.client.batches.create(
            model=self.model, src=source, config={"display_name": name, "dest": dest}
        ).name

    def _in_files(self, requests: Requests) -> tuple[dict[str, Any], dict[str, Any]]:
        source = {"format": "jsonl", "gcs_uri": [requests.path]}
        return source, {"format": "jsonl", "gcs_uri": f"{requests.folder}/results"}

    def _in_tables(self, name: str, requests: Requests) -> tuple[dict[str, Any], dict[str, Any]]:
        table = f"{self.dataset}.evalbeam_{name}"
        load_requests(self.clients, table, requests.data)
        uri = SCHEME + table
        return {"format": "bigquery", "bigquery_uri": uri}, {"format": "bigquery", "bigquery_uri": f"{uri}_answers"}

    def _files(self, job: Any) -> tuple[bytes, ...] | None:
        uri = job.dest and job.dest.bigquery_uri
        if not uri:
            return ()
        found = read_answers(self.clients, uri.removeprefix(SCHEME))
        return None if found is None else (found,)

"""Fakes of the batches of the Gemini API and of Vertex AI behind real HTTP, beside the live calls of the fake model.

The formats are those that google-genai sends and reads, and of the lines those of the providers' documentation.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from batch_server import BatchServer, serving_batches
from bigquery_server import BigQueryServer, serving_bigquery
from model_server import ModelServer

WORDS = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
LIVE = "/models/fake-1:generateContent"


def refusal(status: int) -> dict[str, Any]:
    """What an error says of itself, live and in batches."""
    return {"code": status, "message": WORDS[status].lower(), "status": WORDS[status]}


class GeminiBatchServer(BatchServer):
    """The Gemini API's files and batches."""

    def __init__(self, model: ModelServer) -> None:
        super().__init__(model)
        self.url = model.url

    def post(self, path: str, body: bytes, headers: Any) -> Any:
        if path.endswith(LIVE):
            return None
        if path.startswith("/upload/"):
            assert headers["X-Goog-Upload-Command"] == "start"
            return {}
        if path.startswith("/uploading"):
            assert headers["X-Goog-Upload-Command"] == "upload, finalize"
            return {"file": {"name": f"files/{self._keep(body)}", "mimeType": "jsonl"}}
        assert path.endswith("/models/fake-1:batchGenerateContent"), path
        asked = json.loads(body)["batch"]
        metadata = {"displayName": asked["displayName"], "state": "BATCH_STATE_PENDING", "model": "models/fake-1"}
        name = f"batches/batch_{len(self.jobs) + 1}"
        self.jobs[name] = {"name": name, "metadata": metadata, "input": asked["inputConfig"]["fileName"]}
        return self.jobs[name]

    def get(self, path: str) -> Any:
        path = path.partition("?")[0]
        if path.endswith(":download"):
            return self.files[path.rpartition("/")[2].replace(":download", "")]
        if path.endswith("/batches"):
            return {"operations": list(self.jobs.values())}
        return self.jobs["batches/" + path.rpartition("/")[2]]

    def headers(self, found: Any) -> dict[str, str]:
        uploading = {"X-Goog-Upload-URL": f"{self.url}/uploading", "X-Goog-Upload-Status": "active"}
        return uploading if found == {} else {"X-Goog-Upload-Status": "final"}

    def _end(self, job: dict[str, Any], status: str, told: list[dict[str, Any]]) -> None:
        job["metadata"]["state"] = {"completed": "BATCH_STATE_SUCCEEDED"}.get(status, f"BATCH_STATE_{status.upper()}")
        lines = [json.dumps(t) for t in told if t]
        if lines:
            job["metadata"]["output"] = {"responsesFile": f"files/{self._keep(chr(10).join(lines).encode())}"}

    def _told(self, number: int, line: dict[str, Any], status: int) -> dict[str, Any]:
        """As `_told` of any batch; what was not worked on has no line."""
        if status == 0:
            return {}
        if status == 200:
            said, answer = self.model.answer(LIVE, line["request"], {})
            if said.status == 200:
                return {"key": line["key"], "response": answer}
            status = said.status
        return {"key": line["key"], "error": refusal(status)}

    def _id(self, line: dict[str, Any]) -> str:
        return line["key"]

    def _lines(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[job["input"].removeprefix("files/")].splitlines()]


class VertexBatchServer(GeminiBatchServer):
    """Vertex AI's batch prediction jobs.

    Attributes:
        read, write: What its service agent reads and writes files of the bucket with.
    """

    read: Callable[[str], bytes]
    write: Callable[[str, bytes], None]

    def post(self, path: str, body: bytes, headers: Any) -> Any:
        if path.endswith(LIVE):
            return None
        place, _, rest = path.partition("/batchPredictionJobs")
        assert not rest, path
        asked = json.loads(body)
        assert asked["model"].endswith("publishers/google/models/fake-1")
        assert asked["inputConfig"]["instancesFormat"] == asked["outputConfig"]["predictionsFormat"] == "jsonl"
        name = f"{place.partition('/v1beta1/')[2]}/batchPredictionJobs/{len(self.jobs) + 1}"
        self.jobs[name] = {"name": name, "state": "JOB_STATE_PENDING", **asked}
        return self.jobs[name]

    def get(self, path: str) -> Any:
        path = path.partition("?")[0].partition("/v1beta1/")[2]
        return self.jobs[path] if path in self.jobs else {"batchPredictionJobs": list(self.jobs.values())}

    def _end(self, job: dict[str, Any], status: str, told: list[dict[str, Any]]) -> None:
        job["state"] = {"completed": "JOB_STATE_SUCCEEDED"}.get(status, f"JOB_STATE_{status.upper()}")
        if status != "completed":
            job["error"] = {"code": 4, "message": f"the job {status}"}
        folder = job["outputConfig"]["gcsDestination"]["outputUriPrefix"]
        lines = [json.dumps(t) for t in reversed(told) if t]
        self.write(f"{folder}/prediction-model-2026-11-21T00:00:00Z/predictions.jsonl", "\n".join(lines).encode())

    def _told(self, number: int, line: dict[str, Any], status: int) -> dict[str, Any]:
        told = {"status": "", "processed_time": "2026-11-21T00:00:00+00:00", "request": _shown(line["request"])}
        said = super()._told(number, {"key": "", **line}, status)
        if "error" in said:
            return {**told, "status": f"Bad Request: {json.dumps({'error': said['error']})}", "response": {}}
        return {**told, "response": said["response"]} if said else {}

    def _id(self, line: dict[str, Any]) -> str:
        label = line["request"]["labels"]["evalbeam_key"]
        assert len(label) <= 63
        return base64.b32decode(label.upper() + "=" * (-len(label) % 8)).hex()

    def _lines(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        (path,) = job["inputConfig"]["gcsSource"]["uris"]
        return [json.loads(line) for line in self.read(path).splitlines()]


class VertexTableServer(VertexBatchServer):
    """Vertex AI's batch prediction jobs on tables of BigQuery; a job that the service would not run fails.

    Attributes:
        bigquery: A client of BigQuery, as its service agent has.
        warehouse: The server of that client, if it is a fake.
    """

    bigquery: Any
    warehouse: BigQueryServer

    def post(self, path: str, body: bytes, headers: Any) -> Any:
        if path.endswith(LIVE):
            return None
        asked = json.loads(body)
        given, wanted = asked["inputConfig"], asked["outputConfig"]
        assert given["instancesFormat"] == wanted["predictionsFormat"] == "bigquery"
        place, _, rest = path.partition("/batchPredictionJobs")
        assert not rest, path
        name = f"{place.partition('/v1beta1/')[2]}/batchPredictionJobs/{len(self.jobs) + 1}"
        self.jobs[name] = job = {"name": name, "state": "JOB_STATE_PENDING", **asked}
        location = place.rpartition("/")[2]
        if refused := self._refused(given["bigquerySource"]["inputUri"], self._output(job), location):
            error = {"code": 3, "message": f"Failed to import data. {refused}"}
            job |= {"state": "JOB_STATE_FAILED", "error": error, "ended": True}
        return job

    def _refused(self, source: str, dest: str, location: str) -> str | None:
        """Why the service would not run a job, by its documentation."""
        from google.api_core.exceptions import NotFound

        if not source.startswith("bq://") or source.count(".") != 2 or dest.count(".") != 2:
            return "A table is bq://project.dataset.table."
        try:
            table = self.bigquery.get_table(source.removeprefix("bq://"))
            places = {
                self.bigquery.get_dataset(t.removeprefix("bq://").rpartition(".")[0]).location for t in (source, dest)
            }
        except NotFound as error:
            return str(error)
        with contextlib.suppress(NotFound):
            return f"Already Exists: {self.bigquery.get_table(dest.removeprefix('bq://')).table_id}"
        if {p.lower() for p in places} != {location}:
            return f"The tables are in {places}, the job is in {location}."
        types = {f.name: f.mode if f.mode == "REPEATED" else f.field_type for f in table.schema}
        if types.get("request") not in ("JSON", "STRING"):
            return "A column request of JSON is required."
        if {"response", "status"} & types.keys():
            return "response and status are reserved."
        if {"REPEATED", "RECORD", "STRUCT", "RANGE", "DATETIME", "GEOGRAPHY"} & set(types.values()):
            return "A column has a type that is not supported."
        return None

    def _end(self, job: dict[str, Any], status: str, told: list[dict[str, Any]]) -> None:
        from google.cloud.bigquery import LoadJobConfig, SchemaField

        job["state"] = {"completed": "JOB_STATE_SUCCEEDED"}.get(status, f"JOB_STATE_{status.upper()}")
        if status != "completed":
            job["error"] = {"code": 4, "message": f"the job {status}"}
        table = self._output(job).removeprefix("bq://")
        types = {
            "key": "STRING",
            "request": "JSON",
            "status": "STRING",
            "response": "JSON",
            "processed_time": "TIMESTAMP",
        }
        config = LoadJobConfig(schema=[SchemaField(*column) for column in types.items()])
        location = self.bigquery.get_dataset(table.rpartition(".")[0]).location
        config.source_format = "NEWLINE_DELIMITED_JSON"
        rows = io.BytesIO(b"".join(json.dumps(t).encode() + b"\n" for t in reversed(told) if t))
        self.bigquery.load_table_from_file(rows, table, location=location, job_config=config).result()

    def _told(self, number: int, line: dict[str, Any], status: int) -> dict[str, Any]:
        told = super()._told(number, {"request": line["request"]}, status)
        return {**told, "key": line["key"], "response": told.get("response") or None} if told else {}

    def _id(self, line: dict[str, Any]) -> str:
        return line["key"]

    def _output(self, job: dict[str, Any]) -> str:
        return job["outputConfig"]["bigqueryDestination"]["outputUri"]

    def _lines(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        rows = self.bigquery.list_rows(job["inputConfig"]["bigquerySource"]["inputUri"].removeprefix("bq://"))
        return [dict(row) for row in rows]


def _shown(request: dict[str, Any]) -> dict[str, Any]:
    """The request as it comes back: parts have further keys, and the order is another."""
    contents = [{**c, "parts": [{"fileData": None, **part} for part in c["parts"]]} for c in request["contents"]]
    return dict(sorted({**request, "contents": contents}.items()))


@contextlib.contextmanager
def serving_tables(patch: Any, region: str = "europe-west4") -> Iterator[VertexTableServer]:
    """Vertex AI and BigQuery on loopback, with credentials that nobody checks; the dataset is `p.scratch`."""
    import google.auth
    from google.cloud.bigquery import Client
    from google.oauth2.credentials import Credentials

    with serving_batches(VertexTableServer) as server, serving_bigquery(scratch=region) as bigquery:
        assert isinstance(server, VertexTableServer)
        credentials = Credentials(token="t")
        patch.setattr(google.auth, "default", lambda **_: (credentials, "p"))
        patch.setenv("BIGQUERY_EMULATOR_HOST", bigquery.url)
        with contextlib.closing(Client(project="p", credentials=credentials)) as server.bigquery:
            server.warehouse = bigquery
            yield server

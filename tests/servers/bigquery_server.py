"""A fake of BigQuery's REST API: datasets, tables, loads of JSON lines, rows by pages.

It refuses what the service refuses: loads in another location, a job's id twice, rows that do not fit the schema.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from json_server import JsonHandler, serving

PAGE = 100


class Refused(Exception):
    """A refusal: HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class BigQueryServer:
    """Datasets, by "project.dataset", are their locations; tables, by "project.dataset.table", have schema and rows."""

    datasets: dict[str, str] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    uploads: list[dict[str, Any]] = field(default_factory=list)
    pages: int = 0
    url: str = ""

    def dataset(self, name: str) -> dict[str, Any]:
        """The resource of a dataset."""
        if name not in self.datasets:
            raise Refused(404, f"Not found: Dataset {name.replace('.', ':')}")
        project, _, id_ = name.rpartition(".")
        return {
            "datasetReference": {"projectId": project, "datasetId": id_},
            "location": self.datasets[name],
        }

    def table(self, name: str) -> dict[str, Any]:
        """The resource of a table."""
        if name not in self.tables:
            raise Refused(404, f"Not found: Table {name}")
        dataset, _, id_ = name.rpartition(".")
        reference = {**self.dataset(dataset)["datasetReference"], "tableId": id_}
        return {"tableReference": reference, "type": "TABLE", **self.tables[name]["resource"]}

    def begin(self, job: dict[str, Any]) -> str:
        """Takes the description of a load whose rows are to come; gives the number of its upload."""
        if job["jobReference"]["jobId"] in self.jobs:
            raise Refused(409, f"Already Exists: Job {job['jobReference']['jobId']}")
        self.uploads.append(job)
        return str(len(self.uploads) - 1)

    def load(self, number: str, data: bytes) -> dict[str, Any]:
        """Runs a load: all rows or none."""
        job = self.uploads[int(number)]
        asked, error = job["configuration"]["load"], None
        to = asked["destinationTable"]
        name = f"{to['projectId']}.{to['datasetId']}.{to['tableId']}"
        try:
            assert asked["sourceFormat"] == "NEWLINE_DELIMITED_JSON"
            location = self.dataset(f"{to['projectId']}.{to['datasetId']}")["location"]
            if job["jobReference"].get("location", "US").lower() != location.lower():
                raise Refused(400, f"Dataset {to['datasetId']} was not found in that location")
            schema = asked["schema"]["fields"]
            rows = [fitting(json.loads(line), schema) for line in data.splitlines()]
            if asked.get("writeDisposition") != "WRITE_TRUNCATE" and name in self.tables:
                rows = [*self.tables[name]["rows"], *rows]
            self.tables[name] = {"resource": {"schema": {"fields": schema}}, "rows": rows}
        except Refused as refused:
            error = {"reason": "invalid", "message": str(refused)}
        status = {"state": "DONE", **({"errorResult": error, "errors": [error]} if error else {})}
        done = {**job, "status": status, "id": job["jobReference"]["jobId"], "statistics": {}}
        self.jobs[job["jobReference"]["jobId"]] = done
        return done

    def rows(self, name: str, query: dict[str, list[str]]) -> dict[str, Any]:
        """A page of a table's rows."""
        self.pages += 1
        fields = self.table(name)["schema"]["fields"]
        wanted = query["selectedFields"][0].split(",") if "selectedFields" in query else [f["name"] for f in fields]
        rows, start = self.tables[name]["rows"], int(query.get("pageToken", ["0"])[0])
        shown = [[(row.get(f["name"]), f["type"]) for f in fields if f["name"] in wanted] for row in rows]
        page = [{"f": [{"v": cell(*value)} for value in row]} for row in shown[start : start + PAGE]]
        more = {"pageToken": str(start + PAGE)} if start + PAGE < len(rows) else {}
        return {"totalRows": str(len(rows)), "rows": page, **more}


def fitting(row: dict[str, Any], schema: list[dict[str, Any]]) -> dict[str, Any]:
    """The row, if it fits the schema."""
    known = {f["name"]: f for f in schema}
    for name in row:
        if name not in known:
            raise Refused(400, f"JSON parsing error in row: No such field: {name}.")
    for name, column in known.items():
        value = row.get(name)
        if value is None and column.get("mode") == "REQUIRED":
            raise Refused(400, f"JSON parsing error in row: Missing required field: {name}.")
        if value is not None and column["type"] in ("STRING", "TIMESTAMP") and not isinstance(value, str):
            raise Refused(400, f"JSON parsing error in row: {name} is no {column['type']}.")
    return row


def cell(value: Any, type_: str) -> str | None:
    """A value on the wire."""
    return None if value is None else json.dumps(value) if type_ == "JSON" else str(value)


class _Handler(JsonHandler):
    def _do(self) -> None:
        server: BigQueryServer = self.server.bigquery  # type: ignore[attr-defined]
        asked = urlsplit(self.path)
        try:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.answer(self._found(server, asked.path, parse_qs(asked.query), data))
        except Refused as refused:
            self.answer({"error": {"code": refused.status, "message": str(refused)}}, refused.status)
        except Exception as error:  # a mistake of a test, which a client would otherwise retry for minutes
            self.answer({"error": {"code": 400, "message": f"the fake failed: {error!r}"}}, 400)

    def _found(self, server: BigQueryServer, path: str, query: dict[str, list[str]], data: bytes) -> Any:
        if path.startswith("/upload/"):
            if self.command == "POST":
                self.location = f"{server.url}{path}?upload={server.begin(json.loads(data))}"
                return {}
            return server.load(query["upload"][0], data)
        found = re.fullmatch(r"/bigquery/v2/projects/([^/]+)/(jobs|datasets)/([^/]+)(?:/tables/([^/]+))?(/data)?", path)
        assert found, path
        project, kind, name, table, rows = found.groups()
        if kind == "jobs":
            return server.jobs[name]
        if table is None:
            return server.dataset(f"{project}.{name}")
        named = f"{project}.{name}.{table}"
        if self.command == "PATCH":
            server.table(named)
            server.tables[named]["resource"] |= json.loads(data)
        return server.rows(named, query) if rows else server.table(named)

    def end_headers(self) -> None:
        if location := getattr(self, "location", None):
            self.send_header("Location", location)
        super().end_headers()

    do_GET = do_POST = do_PUT = do_PATCH = _do


@contextlib.contextmanager
def serving_bigquery(**datasets: str) -> Iterator[BigQueryServer]:
    """A server that runs until the block ends; the datasets are of the project `p`, with their locations."""
    bigquery = BigQueryServer({f"p.{name}": location for name, location in datasets.items()})
    with serving(_Handler, bigquery=bigquery) as server:
        bigquery.url = f"http://127.0.0.1:{server.server_port}"
        yield bigquery

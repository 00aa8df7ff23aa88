"""The BigQuery reader: streams of a gRPC server of the Storage API, jobs of a client that answers as documented."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from itertools import chain
from types import SimpleNamespace
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.api_core import exceptions
from google.cloud.bigquery_storage_v1 import types

from evalbeam.schemas.config.storage import QUERY_PATH
from evalbeam.schemas.errors import ConfigError, RunError
from evalbeam.transforms.io.bigquery import Clients, TableName
from evalbeam.transforms.readers.base import FileRange
from evalbeam.transforms.readers.bigquery import BigQueryReader

SERVICE = "google.cloud.bigquery.storage.v1.BigQueryRead"
JSON = pa.field("j", pa.string(), metadata={"ARROW:extension:name": "google:sqlType:json"})
TABLE = pa.table(
    [
        pa.array(range(1000)),
        pa.array([f"row {i}" for i in range(1000)]),
        pa.array([None if i % 9 == 0 else f'{{"n": [{i}, null]}}' for i in range(1000)]),
    ],
    pa.schema([("i", pa.int64()), ("s", pa.string()), JSON]),
)
EXPECTED = [{"i": i, "s": f"row {i}"} | ({} if i % 9 == 0 else {"j": {"n": [i, None]}}) for i in range(1000)]


@dataclass
class Service:
    """Serves a table in streams of messages of 50 rows, and breaks a stream where it is told to.

    Attributes:
        breaks: Status codes, each ends one answer after two messages.
        stuck: Whether they do so before the first.
        requests: Sessions and (stream, offset) asked for.
    """

    table: pa.Table = field(default_factory=lambda: TABLE)
    streams: int = 3
    breaks: list[grpc.StatusCode] = field(default_factory=list)
    stuck: bool = False
    requests: list[Any] = field(default_factory=list)

    def CreateReadSession(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        names = [
            types.ReadStream(name=f"{request.parent}/locations/eu/sessions/s/streams/{i}") for i in range(self.streams)
        ]
        return types.ReadSession(name="s", streams=names[: request.max_stream_count])

    def ReadRows(self, request: Any, context: Any) -> Iterator[Any]:
        self.requests.append((request.read_stream, request.offset))
        index, size = int(request.read_stream[-1]), -(-self.table.num_rows // self.streams)
        rows = self.table.slice(index * size, size).slice(request.offset)
        for number, start in enumerate(range(0, rows.num_rows, 50)):
            if self.breaks and number == (0 if self.stuck else 2):
                context.abort(self.breaks.pop(0), "broken off")
            message = types.ReadRowsResponse(row_count=min(50, rows.num_rows - start))
            (batch,) = rows.slice(start, 50).combine_chunks().to_batches()
            message.arrow_record_batch.serialized_record_batch = batch.serialize().to_pybytes()
            if number == 0:
                message.arrow_schema.serialized_schema = rows.schema.serialize().to_pybytes()
            yield message


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    served = Service()
    session = grpc.unary_unary_rpc_method_handler(
        served.CreateReadSession, types.CreateReadSessionRequest.deserialize, types.ReadSession.serialize
    )
    rows = grpc.unary_stream_rpc_method_handler(
        served.ReadRows, types.ReadRowsRequest.deserialize, types.ReadRowsResponse.serialize
    )
    methods = {"CreateReadSession": session, "ReadRows": rows}
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    yield served
    server.stop(None).wait()


@dataclass
class Tables:
    """A client of tables and jobs that answers as Google documents: a second job of one id is refused with 409."""

    project: str = "payer"
    jobs: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    broken: bool = False

    def get_dataset(self, name: str) -> Any:
        return SimpleNamespace(location="EU")

    def query(self, sql: str, job_id: str, location: str, job_retry: Any) -> Any:
        assert (location, job_retry) == ("EU", None)
        if job_id in self.jobs:
            raise exceptions.Conflict(f"Already Exists: Job payer:EU.{job_id}")
        self.jobs[job_id] = sql
        if self.lost:
            raise exceptions.Conflict("the answer to the first request was lost, the client asked again")
        return self.get_job(job_id, location)

    def get_job(self, job_id: str, location: str) -> Any:
        assert (location, job_id in self.jobs) == ("EU", True)
        return SimpleNamespace(result=self._result)

    def _result(self) -> None:
        if self.broken:
            raise exceptions.BadRequest("Division by zero")

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Ours(Clients):
    """Our client of tables, and Google's own of rows."""

    client: Any = field(default_factory=Tables)

    def tables(self, project: str) -> Any:
        return self.client


def reader(**options: Any) -> BigQueryReader:
    return BigQueryReader(clients=Ours(options.pop("client", Tables())), sleep=lambda _: None, **options)


def read(reader: BigQueryReader, path: str = "bq://p.d.t", size: int = 10**9) -> list[list[dict[str, Any]]]:
    """Rows of each range."""
    found = []
    for part in reader.split(path, size):
        assert FileRange.from_bytes(part.to_bytes()) == part
        blocks = list(reader.read(part))
        assert {(b.file, b.range, b.lines, n) for b in blocks for n, _ in b.rows} <= {(path, part.index, 0, 0)}
        found.append([row for b in blocks for _, row in b.rows])
    return found


def test_the_streams_of_a_session_are_the_table(service: Service) -> None:
    found = read(reader(select=("i", "s", "j"), where="i < 1000"))
    assert [len(rows) for rows in found] == [334, 334, 332]
    assert list(chain(*found)) == EXPECTED
    asked = service.requests[0]
    assert (asked.parent, asked.read_session.table) == ("projects/payer", "projects/p/datasets/d/tables/t")
    assert list(asked.read_session.read_options.selected_fields) == ["i", "s", "j"]
    assert asked.read_session.read_options.row_restriction == "i < 1000"
    assert asked.max_stream_count == 14


@pytest.mark.parametrize(
    "codes",
    [
        [grpc.StatusCode.UNAVAILABLE] * 3,
        [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED],
        [grpc.StatusCode.ABORTED, grpc.StatusCode.RESOURCE_EXHAUSTED],
    ],
    ids=lambda codes: "+".join(c.name for c in codes),
)
def test_a_broken_stream_goes_on_behind_the_last_row(service: Service, codes: list[grpc.StatusCode]) -> None:
    service.breaks = list(codes)
    assert list(chain(*read(reader()))) == EXPECTED
    assert service.breaks == []
    offsets = [offset for stream, offset in service.requests[1:] if stream.endswith("/0")]
    assert offsets == [100 * i for i in range(len(codes) + 1)]


def test_breaks_without_end_are_told_from_progress(service: Service) -> None:
    (part, *_) = reader().split("bq://p.d.t", 1)
    service.table = pa.concat_tables([TABLE] * 10)
    service.breaks = [grpc.StatusCode.INTERNAL] * 100  # each after 100 further rows
    assert sum(len(b.rows) for b in reader().read(part)) == 3334
    service.stuck, service.breaks = True, [grpc.StatusCode.INTERNAL] * 100
    with pytest.raises(RunError, match="reading from BigQuery: broken off"):
        list(reader().read(part))
    service.breaks = [grpc.StatusCode.PERMISSION_DENIED]
    with pytest.raises(exceptions.PermissionDenied):
        list(reader().read(part))


def test_a_table_without_rows(service: Service) -> None:
    service.table, service.streams = TABLE.slice(0, 0), 1
    (part,) = reader().split("bq://p.d.t", 0)
    assert [(b.range, b.rows, b.rejected) for b in reader().read(part)] == [(0, [], [])]


def test_a_row_that_cannot_be_used_has_no_line(service: Service) -> None:
    found = reader(columns={"s": "int64"}).split("bq://p.d.t", 1)
    blocks = [b for part in found for b in reader(columns={"s": "int64"}).read(part)]
    rejected = [r for b in blocks for r in b.rejected]
    assert {(r.file, r.line, r.code) for r in rejected} == {("bq://p.d.t", 0, "wrong_type")}
    assert rejected[0].raw == '{"i":0,"s":"row 0","j":null}'


def test_a_query_runs_once_for_a_start_however_often_it_is_asked_for(service: Service) -> None:
    service.streams = 1
    client = Tables(lost=True)  # the first request reached the service, its answer did not reach us
    options = {"client": client, "query": "SELECT 1 -- one", "query_into": "p.d"}
    for start in ("a", "a", "b"):
        assert len(reader(**options, start=start).split(QUERY_PATH, 1)) == 1
    assert len(client.jobs) == 2
    (job, sql), _ = client.jobs.items()
    table = service.requests[0].read_session.table
    assert job.removeprefix("evalbeam-query-") == table.rpartition("evalbeam_")[2]
    assert sql.startswith(f"CREATE TABLE IF NOT EXISTS `p.d.{table.rpartition('/')[2]}` OPTIONS(expiration_timestamp =")
    assert sql.endswith("AS\nSELECT 1 -- one")
    assert service.requests[0] == service.requests[1] != service.requests[2]


def test_a_query_that_fails_says_why() -> None:
    broken = reader(client=Tables(broken=True), query="SELECT 1/0", query_into="p.d")
    with pytest.raises(RunError, match=r"dataset\.query: Division by zero"):
        broken.split(QUERY_PATH, 1)


def test_names_of_tables() -> None:
    assert (
        TableName.parse("domain.com:own.set.my table", "w").path
        == "projects/domain.com:own/datasets/set/tables/my table"
    )
    for text in ("p.d", "p.d.t$20240101", "p.d.t; DROP", "p.d.`t`", ""):
        with pytest.raises(ConfigError, match="w: found"):
            TableName.parse(text, "w")

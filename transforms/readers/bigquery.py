"""BigQuery over the Storage Read API; the streams of a read session are the ranges."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.batch import RowBlock
from ...schemas.config.storage import QUERY_PATH, SCHEME
from ...schemas.errors import ConfigError, RunError
from ..io.bigquery import Clients, TableName, briefly, check_dataset, reason, run_once
from .base import NO_LINE, ArrowReader, FileRange, SchemeReader, register

_STREAM_BYTES = 64 << 20
_MAX_STREAMS = 1000
_TRIES = 6
_JSON = (b"ARROW:extension:name", b"google:sqlType:json")


@register("reader", "bigquery")
@dataclass(frozen=True)
class BigQueryReader(ArrowReader, SchemeReader):
    """Reads a table `bq://project.dataset.table`, or the result of a query, with the Storage Read API.

    The result of a query is stored for a day in a table of its own, which is created once even if the step is retried.
    Rows have no order, so rejected rows have no line; ids and tables do not depend on the streams. Values follow the
    rules of readers/base.py; columns of type JSON are parsed. A broken stream is resumed after the last row read.

    Attributes:
        select: Columns to read; default: all.
        where: SQL condition on the rows of a table.
        query: SQL query to read instead of a table.
        query_into: "project.dataset" for the stored result of the query.
        start: Identifies this start of the run; a new start runs the query again.
        clients: Creates the clients.
        sleep: Replaces `time.sleep` in tests.
    """

    select: tuple[str, ...] = ()
    where: str = ""
    query: str = ""
    query_into: str = ""
    start: str = ""
    clients: Clients = Clients()
    sleep: Callable[[float], None] = time.sleep

    scheme: ClassVar = SCHEME

    def measure(self, path: str) -> int:
        from google.api_core.exceptions import GoogleAPIError

        where = "dataset.query" if path == QUERY_PATH else "dataset.path"
        try:
            return self._measure_query() if path == QUERY_PATH else self._measure_table(path)
        except GoogleAPIError as error:
            raise ConfigError(f"{path}: {reason(error)}", where=where) from error

    def _measure_query(self) -> int:
        from google.cloud.bigquery import QueryJobConfig

        with closing(self._tables()) as client:
            client.get_dataset(check_dataset(self.query_into, "dataset.query_into"), retry=briefly())
            return (
                client.query(self.query, job_config=QueryJobConfig(dry_run=True), retry=briefly()).total_bytes_processed
                or 0
            )

    def _measure_table(self, path: str) -> int:
        with closing(self._tables(path)) as client:
            table = client.get_table(str(self._named(path)), retry=briefly())
        known = [f.name for f in table.schema]
        for name in self.select:
            if name not in known:
                raise ConfigError(f"{path} has no column {name!r}", where="dataset.select", allowed=", ".join(known))
        return table.num_bytes or 0

    def count(self, file: str, size: int) -> int | None:
        if file == QUERY_PATH or self.where:
            return None
        with closing(self._tables(file)) as client:
            return client.get_table(str(self._named(file))).num_rows

    def split(self, file: str, size: int) -> list[FileRange]:
        from google.cloud.bigquery_storage_v1.types import DataFormat, ReadSession

        table = self._materialised() if file == QUERY_PATH else self._named(file)
        options = ReadSession.TableReadOptions(selected_fields=list(self.select), row_restriction=self.where)
        wanted = ReadSession(table=table.path, data_format=DataFormat.ARROW, read_options=options)
        with closing(self._tables(file)) as client, self.clients.rows() as rows:
            session = rows.create_read_session(
                parent=f"projects/{client.project}",
                read_session=wanted,
                max_stream_count=min(max(size // _STREAM_BYTES, 1), _MAX_STREAMS),
            )
        return [FileRange(file, i, 0, None, stream.name) for i, stream in enumerate(session.streams)]

    def read(self, part: FileRange) -> Iterator[RowBlock]:
        if part.index == 0:
            yield RowBlock(part.file, 0, [], [], NO_LINE)  # streams may be empty, but a dataset needs its first range
        with self.clients.rows() as client:
            for batch in self._batches(client, part.stream):
                parsed = [f.name for f in batch.schema if _JSON in (f.metadata or {}).items()]
                yield from self.blocks(part, batch, None, parsed)

    def _batches(self, client: Any, stream: str) -> Iterator[Any]:
        """Yields the record batches of a stream."""
        import pyarrow as pa

        schema = None
        for message in self._messages(client, stream):
            if message.arrow_schema.serialized_schema:
                schema = pa.ipc.read_schema(pa.py_buffer(message.arrow_schema.serialized_schema))
            data = pa.py_buffer(message.arrow_record_batch.serialized_record_batch)
            yield pa.ipc.read_record_batch(data, schema)

    def _messages(self, client: Any, stream: str) -> Iterator[Any]:
        """Yields the messages of a stream. The client resumes lost connections; this retries other transient errors."""
        from google.api_core import exceptions as google

        passing = (google.ServerError, google.TooManyRequests, google.Aborted, google.RetryError)
        done = tries = 0
        while True:
            try:
                for message in client.read_rows(stream, offset=done):
                    done, tries = done + message.row_count, 0
                    yield message
                return
            except passing as error:
                tries += 1
                if tries == _TRIES:
                    raise RunError(f"reading from BigQuery: {reason(error)}") from error
                self.sleep(0.5 * 2**tries)

    def _materialised(self) -> TableName:
        """Creates the table with the query's result, by a job that runs once, and returns its name."""
        digest = hashlib.sha256(f"{self.start}\n{self.query}".encode()).hexdigest()[:32]
        table = TableName.parse(f"{self.query_into}.evalbeam_{digest}", "dataset.query_into")
        job_id = f"evalbeam-query-{digest}"
        expiry = "expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)"
        statement = f"CREATE TABLE IF NOT EXISTS `{table}` OPTIONS({expiry}) AS\n{self.query}"
        with closing(self._tables()) as client:
            location = client.get_dataset(self.query_into).location

            def begin() -> Any:
                return client.query(statement, job_id=job_id, location=location, job_retry=None)

            run_once(client, job_id, location, begin, "dataset.query")
        return table

    def _named(self, path: str) -> TableName:
        return TableName.parse(path.removeprefix(self.scheme), "dataset.path")

    def _tables(self, path: str = QUERY_PATH) -> Any:
        project = self.query_into.rpartition(".")[0] if path == QUERY_PATH else self._named(path).project
        return self.clients.tables(project)

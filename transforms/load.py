"""Loads the tables of a run into BigQuery, one load job for each table, with an id derived from the run.

BigQuery runs no two jobs with the same id, so a repeated step never duplicates rows. The jobs of a run and table are
numbered, and one that was started before is waited for. Its rows are taken as loaded if the run is appended, or if the
same start of the run began the job. Otherwise the rows of the run are deleted, and the job with the next number loads
them again. The deletion is a job that runs once, too: a repetition never deletes rows that were loaded after it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

from ..schemas.errors import ConfigError, RunError
from ..schemas.warehouse import Stamp
from .io import storage
from .io.bigquery import Clients, briefly, check_dataset, reason, run_once
from .write import WrittenFile

_START = "evalbeam_start"
_SPELLINGS = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL"}


@dataclass(frozen=True)
class LoadTables:
    """Loads the Parquet files of a run's tables.

    Attributes:
        dataset: "project.dataset".
        stamp: The identity of the run in the files.
        start: Token of this start of the run.
        prefix: Prefix of the names of the tables.
        write: "replace" the run's rows, or "append" a run once and never change it.
        clients: Creates the clients.
    """

    dataset: str
    stamp: Stamp
    start: str
    prefix: str = ""
    write: Literal["replace", "append"] = "replace"
    clients: Clients = field(default_factory=Clients)

    def check(self) -> None:
        """Checks that the dataset exists.

        Raises:
            ConfigError: It does not, or cannot be reached.
        """
        from google.api_core.exceptions import GoogleAPIError

        where = "output.bigquery.dataset"
        with closing(self._client(check_dataset(self.dataset, where))) as client:
            try:
                client.get_dataset(self.dataset, retry=briefly())
            except GoogleAPIError as error:
                raise ConfigError(f"{self.dataset}: {reason(error)}", where=where) from error

    def load(self, output: str, files: Sequence[WrittenFile]) -> None:
        """Loads the files, which have their final names in the run's folder. May be repeated.

        Raises:
            RunError: A table or a job was refused, or failed.
        """
        from google.api_core.exceptions import GoogleAPIError

        tables: dict[str, list[WrittenFile]] = defaultdict(list)
        for file in sorted(files, key=lambda f: f.name):
            tables[file.table].append(file)
        with closing(self._client(self.dataset)) as client:
            try:
                location = client.get_dataset(self.dataset).location
                for table, parts in sorted(tables.items()):
                    name = f"{self.dataset}.{self.prefix}{table}"
                    self._prepare(client, name, self.stamp.describe_columns([c[:2] for c in parts[0].columns]))
                    self._load(client, location, name, [storage.join(output, f.name) for f in parts])
            except GoogleAPIError as error:
                raise RunError(f"loading into {self.dataset}: {reason(error)}") from error

    def _client(self, dataset: str) -> Any:
        return self.clients.tables(dataset.rpartition(".")[0])

    def _prepare(self, client: Any, name: str, columns: list[tuple[str, str]]) -> None:
        """Makes a table, or adds the columns it lacks."""
        from google.cloud.bigquery import SchemaField, Table, TimePartitioning

        made = Table(name, schema=[SchemaField(*column) for column in columns])
        if self.stamp.run_date:
            made.time_partitioning = TimePartitioning(field="run_date")
        made.clustering_fields = ["run_id"]
        client.create_table(made, exists_ok=True)
        table = client.get_table(name)
        known = {f.name.lower(): _SPELLINGS.get(f.field_type, f.field_type) for f in table.schema}
        for column, type_ in columns:
            if known.get(column.lower(), type_) != type_:
                found = f"{name} has the column {column} of type {known[column.lower()]}, the run has {type_}"
                raise RunError(f"{found}: declare it in dataset.columns, or choose another output.bigquery.prefix")
        missing = [c for c in columns if c[0].lower() not in known]
        if missing:
            table.schema = [*table.schema, *(SchemaField(*column) for column in missing)]
            client.update_table(table, ["schema"])

    def _load(self, client: Any, location: str, name: str, uris: list[str]) -> None:
        from google.cloud.bigquery import LoadJobConfig

        job_id = self._next_job(client, location, name)
        if job_id is None:
            return
        if self.write == "replace":
            self._delete(client, location, name, f"{job_id}-delete")
        config = LoadJobConfig(
            source_format="PARQUET",
            write_disposition="WRITE_APPEND",
            create_disposition="CREATE_NEVER",
            labels={_START: self.start},
        )

        def begin() -> Any:
            return client.load_table_from_uri(uris, name, job_id=job_id, location=location, job_config=config)

        run_once(client, job_id, location, begin, f"loading into {name}")

    def _next_job(self, client: Any, location: str, name: str) -> str | None:
        """Returns the id of the job to start, or `None` if the rows are loaded already."""
        digest = hashlib.sha256(f"{self.stamp.run_id}\n{name}".encode()).hexdigest()[:32]
        number = 1
        while (earlier := _await_earlier(client, f"evalbeam-load-{digest}-{number}", location)) is not None:
            ours = self.write == "append" or (earlier.labels or {}).get(_START) == self.start
            if ours and not earlier.error_result:
                return None
            number += 1
        return f"evalbeam-load-{digest}-{number}"

    def _delete(self, client: Any, location: str, name: str, job_id: str) -> None:
        from google.cloud.bigquery import QueryJobConfig, ScalarQueryParameter

        config = QueryJobConfig(query_parameters=[ScalarQueryParameter("run_id", "STRING", self.stamp.run_id)])
        statement = f"DELETE FROM `{name}` WHERE run_id = @run_id"

        def begin() -> Any:
            return client.query(statement, job_id=job_id, location=location, job_config=config, job_retry=None)

        run_once(client, job_id, location, begin, f"deleting from {name}")


def _await_earlier(client: Any, job_id: str, location: str) -> Any:
    """Waits for the end of a job that was started before, and returns it; `None` if there is none."""
    from google.api_core.exceptions import GoogleAPIError, NotFound

    try:
        job = client.get_job(job_id, location=location)
    except NotFound:
        return None
    try:
        job.result()
    except GoogleAPIError:
        if job.state != "DONE":
            raise
    return job

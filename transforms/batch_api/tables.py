"""Tables of BigQuery with the requests and the answers of batches.

A table of requests has the columns `key` and `request`. Vertex AI writes a table with the same columns and `response`
and `status`; what it could not answer has an error in `status` and no response.
"""

from __future__ import annotations

import io
import os
from contextlib import closing
from datetime import UTC, datetime, timedelta

import orjson

from ..io.bigquery import Clients, TableName, briefly, reason

_KEPT = timedelta(days=30)
"""A batch is over within days; its table of requests is of no use after that."""
_ANSWER = ("key", "status", "response")


def find_dataset_obstacle(clients: Clients, dataset: str, location: str | None) -> tuple[str, str] | None:
    """Returns (what prevents batches in tables of a dataset, what is allowed), or `None` if nothing does.

    Args:
        clients: Creates the clients.
        dataset: "project.dataset".
        location: Location of the model: the tables must be there too, in one region.
    """
    from google.api_core.exceptions import GoogleAPIError

    location = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    region = "BigQuery" if location == "global" else f"BigQuery in {location}"
    allowed = f"batch_into: the project.dataset of a dataset of {region}"
    with closing(clients.tables(dataset.rpartition(".")[0])) as client:
        try:
            found = client.get_dataset(dataset, retry=briefly()).location or ""
        except GoogleAPIError as error:
            return f"{dataset}: {reason(error)}", allowed
    if location != "global" and found.lower() != location.lower():
        return f"the model is called in {location}, but {dataset} of batch_into lies in {found}", allowed
    return None


def load_requests(clients: Clients, table: str, lines: bytes) -> None:
    """Loads lines `{"key", "request"}` into a table, which expires; a repetition replaces its rows by the same rows.

    Args:
        clients: Creates the clients.
        table: "project.dataset.table".
        lines: The JSON lines.
    """
    from google.cloud.bigquery import LoadJobConfig, SchemaField

    config = LoadJobConfig(
        schema=[SchemaField("key", "STRING", "REQUIRED"), SchemaField("request", "JSON")],
        source_format="NEWLINE_DELIMITED_JSON",
        write_disposition="WRITE_TRUNCATE",
    )
    with closing(clients.tables(_project(table))) as client:
        location = client.get_dataset(table.rpartition(".")[0]).location
        client.load_table_from_file(io.BytesIO(lines), table, location=location, job_config=config).result()
        loaded = client.get_table(table)
        loaded.expires = datetime.now(UTC) + _KEPT
        client.update_table(loaded, ["expires"])


def read_answers(clients: Clients, table: str) -> bytes | None:
    """Reads a table of answers as JSON lines `{"key", "status", "response"}`; `None` if it does not exist.

    Args:
        clients: Creates the clients.
        table: "project.dataset.table".
    """
    from google.api_core.exceptions import NotFound

    with closing(clients.tables(_project(table))) as client:
        try:
            found = client.get_table(table)
        except NotFound:
            return None
        fields = [f for f in found.schema if f.name in _ANSWER]
        rows = client.list_rows(found, selected_fields=fields)
        return b"".join(orjson.dumps(dict(row)) + b"\n" for row in rows)


def _project(table: str) -> str:
    return TableName.parse(table, "batch_into").project

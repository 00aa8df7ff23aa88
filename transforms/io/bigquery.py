"""What is common to reading from and loading into BigQuery: names of tables, clients, jobs that run once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...schemas.errors import ConfigError, RunError

if TYPE_CHECKING:
    from google.cloud.bigquery import Client
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient

STORAGE_EMULATOR = "BIGQUERY_STORAGE_EMULATOR_HOST"
"""Environment variable with the host:port of a test server of the Storage API, reached without TLS."""
_DATASET = re.compile(r"(?P<project>[a-z0-9.:-]+)\.(?P<dataset>\w+)")
_TABLE = re.compile(_DATASET.pattern + r"\.(?P<table>[\w -]+)")


@dataclass(frozen=True)
class TableName:
    """Project, dataset and table."""

    project: str
    dataset: str
    table: str

    @classmethod
    def parse(cls, text: str, where: str) -> TableName:
        """The table that "project.dataset.table" names.

        Raises:
            ConfigError: It names none.
        """
        match = _TABLE.fullmatch(text)
        if match is None:
            raise ConfigError(f"found {text!r}", where=where, allowed="project.dataset.table")
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{self.project}.{self.dataset}.{self.table}"

    @property
    def path(self) -> str:
        """Its name in the Storage API."""
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table}"


def check_dataset(text: str, where: str) -> str:
    """The text, which is "project.dataset".

    Raises:
        ConfigError: It is not.
    """
    if _DATASET.fullmatch(text) is None:
        raise ConfigError(f"found {text!r}", where=where, allowed="project.dataset")
    return text


@dataclass(frozen=True)
class Clients:
    """Makes Google's clients; credentials and project are those of the environment."""

    def tables(self, project: str) -> Client:
        """A client of tables and jobs.

        Args:
            project: Pays where the environment names none.

        Raises:
            ConfigError: The environment has no credentials.
        """
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError
        from google.cloud.bigquery import Client

        try:
            credentials, own = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        except DefaultCredentialsError as error:
            found = f"no credentials of Google Cloud: {reason(error)}"
            raise ConfigError(found, allowed="GOOGLE_APPLICATION_CREDENTIALS, or those of the machine") from error
        return Client(project=own or project, credentials=credentials)

    def rows(self) -> BigQueryReadClient:
        """A client of the Storage Read API."""
        from google.cloud.bigquery_storage_v1 import BigQueryReadClient

        address = os.environ.get(STORAGE_EMULATOR)
        if address is None:
            return BigQueryReadClient()
        import grpc
        from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

        channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
        return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=channel))


def run_once(client: Any, job_id: str, location: str | None, begin: Callable[[], Any], what: str) -> Any:
    """A job under an id of its own, ended well; asked for again, the job that was begun first.

    Args:
        client: Of tables and jobs.
        job_id: BigQuery runs no two jobs of one id.
        location: Of the dataset.
        begin: Begins the job.
        what: The job in words, for messages.

    Raises:
        RunError: It was refused, or failed.
    """
    from google.api_core.exceptions import Conflict, GoogleAPIError

    try:
        try:
            job = begin()
        except Conflict:
            job = client.get_job(job_id, location=location)
        job.result()
    except GoogleAPIError as error:
        raise RunError(f"{what}: {reason(error)}") from error
    return job


def briefly() -> Any:
    """The retries of a question that somebody waits for: at most a minute."""
    from google.cloud.bigquery import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(60)


def reason(error: Exception) -> str:
    """What an error of the service says, on one line."""
    return " ".join(str(getattr(error, "message", None) or error).split())[:500]

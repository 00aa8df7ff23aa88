"""Table names, clients and jobs that run once, for reading from and loading into BigQuery."""

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
"""Environment variable with the host:port of a test server of the Storage API, used without TLS."""
_DATASET = re.compile(r"(?P<project>[a-z0-9.:-]+)\.(?P<dataset>\w+)")
_TABLE = re.compile(_DATASET.pattern + r"\.(?P<table>[\w -]+)")


@dataclass(frozen=True)
class TableName:
    """The name of a table: project, dataset and table."""

    project: str
    dataset: str
    table: str

    @classmethod
    def parse(cls, text: str, where: str) -> TableName:
        """Parses "project.dataset.table".

        Raises:
            ConfigError: The text has another form.
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
    """Returns the text if it is "project.dataset".

    Raises:
        ConfigError: The text has another form.
    """
    if _DATASET.fullmatch(text) is None:
        raise ConfigError(f"found {text!r}", where=where, allowed="project.dataset")
    return text


@dataclass(frozen=True)
class Clients:
    """Creates Google's clients, with the credentials and the project of the environment."""

    def tables(self, project: str) -> Client:
        """Creates a client of tables and jobs.

        Args:
            project: The project that pays if the environment names none.

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
        """Creates a client of the Storage Read API."""
        from google.cloud.bigquery_storage_v1 import BigQueryReadClient

        address = os.environ.get(STORAGE_EMULATOR)
        if address is None:
            return BigQueryReadClient()
        import grpc
        from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

        channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
        return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=channel))


def run_once(client: Any, job_id: str, location: str | None, begin: Callable[[], Any], what: str) -> Any:
    """Runs a job under an id and waits for it; a repetition waits for the job that was started first.

    Args:
        client: A client of tables and jobs.
        job_id: Id of the job. BigQuery runs no two jobs with the same id.
        location: Location of the dataset.
        begin: Starts the job.
        what: Description of the job, for messages.

    Returns:
        The job, which has succeeded.

    Raises:
        RunError: The job was refused, or failed.
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
    """Returns the retries of a request for which a user waits: at most a minute."""
    from google.cloud.bigquery import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(60)


def reason(error: Exception) -> str:
    """Returns the message of a service's error on one line, at most 500 characters."""
    return " ".join(str(getattr(error, "message", None) or error).split())[:500]

"""Interfaces of judges and agents whose provider has a batch API: many requests in a file, for a lower price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from ...schemas.json import Json


class Unanswered(NamedTuple):
    """A request of a batch that its provider could not answer.

    Attributes:
        status: HTTP status.
        error_type: Name of the exception that a live call would have raised.
        message: Its text.
    """

    status: int
    error_type: str
    message: str


class Job(NamedTuple):
    """The state of a provider's batch.

    Attributes:
        done: Whether it is over: finished, failed, cancelled or expired.
        results: Its result files, once it is done; empty if the provider writes them beside the requests.
        trouble: Why it did not finish regularly, or `None`.
    """

    done: bool
    results: tuple[bytes, ...] = ()
    trouble: str | None = None


class Requests(NamedTuple):
    """A file of requests.

    Attributes:
        folder: Folder of the file. The provider may write files there whose path begins with `results`.
        data: Content of the file.
    """

    folder: str
    data: bytes

    @property
    def path(self) -> str:
        """Path of the file."""
        return f"{self.folder}/requests.jsonl"


class BatchClient(Protocol):
    """A provider's batch API: many requests at once, usually answered within a day, for a lower price."""

    def submit(self, name: str, requests: Requests) -> str:
        """Submits a file of requests under a name of ours; returns the provider's id."""
        ...

    def find(self, name: str, requests: Requests, others: Collection[str]) -> str | None:
        """Finds the id of a file that was submitted under a name; `None` if it was not.

        Args:
            name: The name.
            requests: The file, for providers that store no name.
            others: Ids of the run's other batches.
        """
        ...

    def look(self, job: str) -> Job:
        """Asks for the state of a batch."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...


class Batched(ABC):
    """A judge or an agent that has a batch API; requests and replies are the same as those of live calls."""

    def batch_obstacle(self, mode: str, output: str) -> tuple[str, str] | None:
        """Returns (what prevents batches, what is allowed), or `None` if nothing does.

        Args:
            mode: "batch" or "batch_files".
            output: Folder of the run.
        """
        return None

    @abstractmethod
    def batch_line(self, asked: Any, key: str) -> Json:
        """Builds the line of a request file from the arguments of a live call; it contains the call's key."""

    @abstractmethod
    def batch_reply(self, line: Mapping[str, Any]) -> tuple[str, Any | Unanswered | None]:
        """Reads a line of the results: (key, reply or error), with `None` if it was not processed."""

    @abstractmethod
    def batch_client(self) -> BatchClient:
        """Creates the client; an exception ends the run."""

"""What judges and agents share whose provider takes requests in files: many at once, for a lower price."""

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
    """How far a provider's batch has come.

    Attributes:
        done: Whether it goes no further, be it finished, failed, cancelled or expired.
        results: The files that came of it, once it is done; none where the provider puts them beside the requests.
        trouble: Why it did not come to its regular end, if so.
    """

    done: bool
    results: tuple[bytes, ...] = ()
    trouble: str | None = None


class Requests(NamedTuple):
    """A file of requests.

    Attributes:
        folder: Where it is; the provider may put files there whose path begins with `results`.
        data: Its content.
    """

    folder: str
    data: bytes

    @property
    def path(self) -> str:
        """Path of the file."""
        return f"{self.folder}/requests.jsonl"


class BatchClient(Protocol):
    """A provider's batch interface: many requests at once, answered within a day or so for a lower price."""

    def submit(self, name: str, requests: Requests) -> str:
        """Hands a file of requests over under a name of ours; returns the provider's id."""
        ...

    def find(self, name: str, requests: Requests, others: Collection[str]) -> str | None:
        """The id under which a file was handed over under a name, `None` where it was not.

        Args:
            name: The name.
            requests: The file, for providers that keep no name.
            others: Ids of the run's other batches.
        """
        ...

    def look(self, job: str) -> Job:
        """How far a batch has come."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...


class Batched(ABC):
    """A judge or an agent that can be asked in files; the requests and the replies are those of live calls."""

    def batch_obstacle(self, mode: str, output: str) -> tuple[str, str] | None:
        """(What is in the way of batches, what is allowed), `None` where nothing is.

        Args:
            mode: "batch" or "batch_files".
            output: Folder of the run.
        """
        return None

    @abstractmethod
    def batch_line(self, asked: Any, key: str) -> Json:
        """The line of a request file for what a live call would be given; it carries the call's key."""

    @abstractmethod
    def batch_reply(self, line: Mapping[str, Any]) -> tuple[str, Any | Unanswered | None]:
        """(key, what came of it: as a live call's, or why not) of a line that came back; `None`: not worked on."""

    @abstractmethod
    def batch_client(self) -> BatchClient:
        """Makes the client; may raise, which ends the run."""

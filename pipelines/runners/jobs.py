"""The interface of remote engines: the state of a job, the cause of its failure, and how to stop it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...schemas.errors import EvalbeamError

PATIENCE = 300.0
"""Seconds without an answer of the engine after which its job is given up."""


class Unreachable(EvalbeamError):
    """The engine does not answer."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of an engine.

    Attributes:
        id: The engine's own identifier.
        name: The name it was given.
        state: Its state, in the engine's terms.
        ended: Whether it has ended.
    """

    id: str
    name: str
    state: str
    ended: bool


class Jobs(Protocol):
    """A client of an engine; every method raises `Unreachable` if the engine does not answer.

    Attributes:
        title: Name of the engine in messages.
    """

    @property
    def title(self) -> str: ...

    def job(self, name: str) -> Job | None:
        """Returns the latest job of a name; `None` if the engine knows none."""
        ...

    def stages(self, job_id: str) -> dict[str, int]:
        """Counts the stages of a job by their state; empty if the engine does not report them."""
        ...

    def cause(self, job_id: str) -> str:
        """Returns the reason why a job failed; "" if it is unknown."""
        ...

    def stop(self, name: str) -> None:
        """Cancels the job of a name and waits for its end; does nothing if the job never appears."""
        ...

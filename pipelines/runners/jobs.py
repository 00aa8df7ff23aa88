"""Jobs on an engine elsewhere, whatever the engine: what became of one, why it failed, and how to stop it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...schemas.errors import EvalbeamError


class Unreachable(EvalbeamError):
    """The engine does not answer."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of an engine.

    Attributes:
        id: The engine's own identifier.
        name: The name it was given.
        state: In the engine's own words.
        ended: Whether it is over.
    """

    id: str
    name: str
    state: str
    ended: bool


class Jobs(Protocol):
    """An engine seen through its interface; every method raises `Unreachable` where it does not answer.

    Attributes:
        title: What it is called in messages.
    """

    @property
    def title(self) -> str: ...

    def job(self, name: str) -> Job | None:
        """The latest job of a name; `None` where the engine knows of none."""
        ...

    def stages(self, job_id: str) -> dict[str, int]:
        """Number of a job's stages by their state; empty where the engine does not tell."""
        ...

    def cause(self, job_id: str) -> str:
        """Why a job failed, "" where that is not known."""
        ...

    def stop(self, name: str) -> None:
        """Cancels the job of a name and waits until it is over; one that never appears is left alone."""
        ...

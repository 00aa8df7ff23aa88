"""The judge type `replay`: the journaled answers of a judge of another run."""

from __future__ import annotations

from dataclasses import dataclass

from ...schemas.errors import ConfigError
from .base import Consult, Judge, register


@register("judge", "replay")
@dataclass(frozen=True)
class Replay(Judge):
    """Reuses the answers of a judge of another run, whatever its model; no call is made.

    Questions that the other run did not ask have no answer: scores that need them are skipped, code `not_called`.

    Attributes:
        run: Output folder of the other run.
        judge: Name of the judge in the other run; default: its name in this run.
    """

    run: str
    judge: str = ""

    def connect(self) -> Consult:
        raise ConfigError("a judge of type replay works only in a run", where="judges", allowed="a judge model")

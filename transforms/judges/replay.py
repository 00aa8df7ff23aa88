"""A judge that repeats what a judge of another run said there."""

from __future__ import annotations

from dataclasses import dataclass

from ...schemas.errors import ConfigError
from .base import Consult, Judge, register


@register("judge", "replay")
@dataclass(frozen=True)
class Replay(Judge):
    """Answers as a judge answered in another run, whatever model that was; nobody is called.

    Questions that were not put to that judge are not asked: scores that need them are skipped, code `not_called`.

    Attributes:
        run: Output folder of the other run.
        judge: Name of the judge in that run; default: the name it has in this one.
    """

    run: str
    judge: str = ""

    def connect(self) -> Consult:
        raise ConfigError("only runs take over answers of another run", where="judges", allowed="a judge model")

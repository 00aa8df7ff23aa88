"""The judge type `check_grounding`: Vertex AI's service, for the metric `grounding` with `checker: vertex`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson

from ...schemas.errors import ConfigError
from ...schemas.judging import CHECK_GROUNDING
from ..grounding.discovery import ENDPOINT, Discovery
from .base import Consult, Judge, Question, Reply, register


@register("judge", "check_grounding")
@dataclass(frozen=True)
class CheckGrounding(Judge):
    """Calls Vertex AI's Check Grounding service, for the metric `grounding` with `checker: vertex`.

    Anti-citations, helpfulness and grounding on a search app need a project on Google's allowlist.

    Attributes:
        project: Id or number of the billed project.
        location: Location of the project's grounding config.
        endpoint: URL of the service.
        session: Creates the session that sends the requests (an object with the `post` of requests); by default one
            with the application default credentials.
    """

    project: str
    location: str = "global"
    endpoint: str = ENDPOINT
    session: Callable[[], Any] | None = None

    speaks: ClassVar[str | None] = CHECK_GROUNDING
    secret: ClassVar[tuple[str, ...]] = ("endpoint", "session")

    def __post_init__(self) -> None:
        if not self.project:
            raise ConfigError("missing", where="project", allowed="id of a Google Cloud project")

    def connect(self) -> Consult:
        client = Discovery(self.endpoint, self.session)

        def consult(question: Question) -> Reply:
            return Reply(value=client.check(orjson.loads(question.turns[-1].content), self.project, self.location))

        return consult

    @property
    def model_name(self) -> str:
        """The service's name."""
        return "check-grounding"

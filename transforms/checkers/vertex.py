"""Vertex AI's Check Grounding service as a checker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...schemas.errors import ConfigError, RowError
from ...schemas.instance import Json
from ..grounding.check import Source
from ..grounding.discovery import ENDPOINT, Discovery, service_error
from ..grounding.request import Request
from ..metrics.kernels.concurrent import call_each
from .base import Checker, register


@register("checker", "vertex")
@dataclass(frozen=True)
class Vertex(Checker):
    """Asks Vertex AI's Check Grounding service, one call a request.

    Anti-citations, helpfulness and grounding on a search app need a project that Google has put on their allowlist.

    Attributes:
        project: Id or number of the project that pays.
        location: Its location for grounding.
        endpoint: Address of the service.
        max_in_flight: Calls at once, at most.
        timeout: Seconds for one call.
        session: Makes the session that sends the requests, or "module:name" of it; default one that authorises with
            the application default credentials.
    """

    project: str = ""
    location: str = "global"
    endpoint: str = ENDPOINT
    max_in_flight: int = 16
    timeout: float = 60.0
    session: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        if not self.project:
            raise ConfigError("missing", where="checker.project", allowed="id of a Google Cloud project")

    def check(
        self, requests: Sequence[Request], corpus: Source | None = None, language: str = "en"
    ) -> list[dict[str, Json] | RowError]:
        """The service's responses, as they are."""
        if corpus is not None:
            unable = RowError("no_corpus", "the service finds facts in a search app (groundingSource), not in files")
            return [unable for _ in requests]
        client = Discovery(self.endpoint, self.session, self.timeout)
        calls = [lambda request=request: client.check(request, self.project, self.location) for request in requests]
        results = call_each(calls, self.max_in_flight)
        return [response if error is None else service_error(error) for response, error in results]

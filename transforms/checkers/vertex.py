"""The checker `vertex`: Vertex AI's Check Grounding service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson

from ...schemas.errors import ConfigError, RowError
from ...schemas.json import Json
from ...schemas.judging import CHECK_GROUNDING, Answer, Ask, Message
from ...schemas.result import ScoreError
from ..calls.call_each import call_each
from ..grounding.check import Source
from ..grounding.discovery import ENDPOINT, Discovery, to_row_error
from ..grounding.request import Request, build_body
from ..judging.panel import PanelSlot
from ..judging.shapes import BOOL, TEXT, Schema, list_of
from ..runtime.dialogue import Asking
from .base import AskingChecker, Unjudged, register

_NUMBER: Schema = {"type": "number"}
_PLACES = list_of({"type": "integer"})


def _object(required: Sequence[str], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_CHUNK = _object((), chunkText=TEXT, source=TEXT, index={"type": "integer"}, uri=TEXT, title=TEXT, domain=TEXT)
_CLAIM = _object(
    (),
    startPos={"type": "integer"},
    endPos={"type": "integer"},
    claimText=TEXT,
    citationIndices=_PLACES,
    antiCitationIndices=_PLACES,
    groundingCheckRequired=BOOL,
    score=_NUMBER,
)
RESPONSE = _object(
    ("supportScore",),
    supportScore=_NUMBER,
    citedChunks=list_of(_CHUNK),
    citedFacts=list_of(_object((), chunkText=TEXT)),
    claims=list_of(_CLAIM),
    contradictionScore=_NUMBER,
    helpfulnessScore=_NUMBER,
)
"""The fields of the service's response that are stored."""


@register("checker", "vertex")
@dataclass(frozen=True)
class Vertex(AskingChecker):
    """Calls Vertex AI's Check Grounding service, once per request.

    In a run, the metric's `judge` selects a judge of type `check_grounding`, whose calls are rate-limited, retried and
    journaled like those of other judges. The parameters below apply outside of a run; calls are then not retried.
    Anti-citations, helpfulness and grounding on a search app need a project on Google's allowlist.

    Attributes:
        project: Id or number of the billed project.
        location: Location of the project's grounding config.
        endpoint: URL of the service.
        max_in_flight: Maximum number of concurrent calls.
        timeout: Seconds per call.
        session: Creates the session that sends the requests (an object with the `post` of requests); by default one
            with the application default credentials.
    """

    project: str = ""
    location: str = "global"
    endpoint: str = ENDPOINT
    max_in_flight: int = 16
    timeout: float = 60.0
    session: Callable[[], Any] | None = None

    speaks: ClassVar[str] = CHECK_GROUNDING

    def judge_request(
        self, request: Request, slots: Sequence[PanelSlot], corpus: Source | None = None, language: str = "en"
    ) -> Asking[Ask, Answer, dict[str, Json]]:
        """Returns the service's response; only the first slot of a panel is used, since all would answer the same."""
        if corpus is not None:
            raise _NO_CORPUS
        text = orjson.dumps(build_body(request), option=orjson.OPT_SORT_KEYS).decode()
        (answer,) = yield [Ask((Message("user", text),), RESPONSE, slots[0].judge)]
        if answer.error is not None:
            raise Unjudged(answer.error, answer.open)
        if not isinstance(answer.value, dict):
            raise Unjudged(ScoreError("invalid_verdict", "the service gave no object"), False)
        return answer.value

    def check(
        self, requests: Sequence[Request], corpus: Source | None = None, language: str = "en"
    ) -> list[dict[str, Json] | RowError]:
        """Returns the service's responses unchanged."""
        if not self.project:
            raise ConfigError("missing", where="checker.project", allowed="id of a Google Cloud project")
        if corpus is not None:
            return [_NO_CORPUS for _ in requests]
        client = Discovery(self.endpoint, self.session, self.timeout)
        bodies = [build_body(request) for request in requests]
        calls = [lambda body=body: client.check(body, self.project, self.location) for body in bodies]
        results = call_each(calls, self.max_in_flight)
        return [response if error is None else to_row_error(error) for response, error in results]


_NO_CORPUS = RowError("no_corpus", "the service finds facts in a search app (groundingSource), not in files")

"""A Discovery Engine on loopback: REST that reads and writes the published protos, and the preview's fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import json_server
import requests
from google.cloud import discoveryengine_v1 as v1
from google.protobuf import json_format

DOCUMENTS = {
    "d1": ("Titanic", "The Titanic sank on <b>April 15</b>, 1912."),
    "d2": ("Everest", "Everest is 8,849 m tall."),
}


class Service:
    """What the server was asked, and where it listens.

    Attributes:
        asked: (path, body) of every request.
        failing: HTTP statuses that the next requests are answered with.
    """

    def __init__(self) -> None:
        self.endpoint = ""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.failing: list[int] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append((path, body))
        if self.failing:
            status = self.failing.pop(0)
            return status, {"error": {"code": status, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}
        return 200, (_searched(body) if path.endswith(":search") else _checked(path, body))


def _checked(path: str, body: dict[str, Any]) -> Any:
    """Each sentence is grounded iff a fact holds it; the preview's fields are taken off before the proto sees them."""
    preview = {"enableAntiCitations", "antiCitationThreshold", "enableHelpfulnessScore"}
    spec = {k: v for k, v in body.get("groundingSpec", {}).items() if k not in preview}
    if "/v1/" in path:
        assert spec == body.get("groundingSpec", {})
    known = {k: v for k, v in body.items() if k not in ("prompt", "groundingSource")} | {"groundingSpec": spec}
    asked = v1.CheckGroundingRequest(json_format.ParseDict(known, v1.CheckGroundingRequest.pb()()))
    found = v1.CheckGroundingResponse(support_score=0.0)
    texts = [f.fact_text for f in asked.facts]
    holding = [i for i, text in enumerate(texts) if asked.answer_candidate in text]
    found.cited_chunks = [v1.FactChunk(chunk_text=texts[i], source=str(i)) for i in holding]
    found.support_score = float(bool(holding))
    claim = v1.CheckGroundingResponse.Claim(start_pos=0, end_pos=len(asked.answer_candidate.encode()))
    claim.claim_text, claim.citation_indices = asked.answer_candidate, list(range(len(holding)))
    claim.grounding_check_required = True
    found.claims = [claim]
    response = json_format.MessageToDict(v1.CheckGroundingResponse.pb(found))
    return response | ({"helpfulnessScore": 0.9} if body.get("groundingSpec", {}).get("enableHelpfulnessScore") else {})


def _searched(body: dict[str, Any]) -> Any:
    asked = json_format.ParseDict(body, v1.SearchRequest.pb()())
    found = v1.SearchResponse.pb()()
    for name, (title, text) in DOCUMENTS.items():
        if title.lower() in asked.query.lower():
            result = found.results.add(id=name)
            result.document.id = name
            content = [{"content": text}]
            result.document.derived_struct_data.update(
                {"title": title, "link": f"gs://docs/{name}.html", "extractive_answers": content}
            )
    return json_format.MessageToDict(found)


class _Handler(json_server.JsonHandler):
    def do_POST(self) -> None:
        status, answer = self.server.service.answer(self.path, self.body())  # type: ignore[attr-defined]
        self.answer(answer, status)


@contextmanager
def serving() -> Iterator[Service]:
    """A server for as long as the context lasts."""
    service = Service()
    with json_server.serving(_Handler, service=service) as server:
        service.endpoint = f"http://127.0.0.1:{server.server_port}"
        yield service


def session() -> requests.Session:
    """A session without credentials; each call its own connection, so that none outlives a test."""
    made = requests.Session()
    made.headers["Connection"] = "close"
    return made

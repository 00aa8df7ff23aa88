"""A REST client of Google's Discovery Engine: the Check Grounding service, and the search of a Vertex AI Search app.

It does not use the client library, because the library's messages lack the fields of the allowlisted features.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...schemas.errors import RowError
from ...schemas.json import Json
from ..calls.call_each import call_each
from ..calls.errors import classify_error
from ..runtime.local_objects import original
from .check import CANDIDATES
from .passages import Fact, Passage, Text, cut_passages

ENDPOINT = "https://discoveryengine.googleapis.com"
SERVING_CONFIG = re.compile(r"projects/[^/]+/locations/[^/]+/collections/[^/]+/engines/[^/]+/servingConfigs/[^/]+")
_PREVIEW = {"enableAntiCitations", "antiCitationThreshold", "enableHelpfulnessScore"}
_TAGS = re.compile(r"</?b>")


class DiscoveryError(Exception):
    """The service returned an error or no JSON object.

    Attributes:
        status_code: HTTP status of the response, if there was one.
    """

    def __init__(self, message: str, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code


@dataclass(frozen=True)
class Discovery:
    """A client of the service.

    Attributes:
        endpoint: URL of the service; regional ones start with the region ("https://eu-discoveryengine...").
        session: Creates the session that sends the requests (an object with the `post` of requests); by default one
            with the application default credentials.
        timeout: Seconds per call.
    """

    endpoint: str = ENDPOINT
    session: Callable[[], Any] | None = None
    timeout: float = 60.0

    def post(self, path: str, body: Json) -> dict[str, Json]:
        """Sends a request and returns the JSON object of the response.

        Raises:
            DiscoveryError: The response is an error or not a JSON object.
        """
        answer = _session(self.session).post(f"{self.endpoint}/{path}", json=body, timeout=self.timeout)
        try:
            found = answer.json()
        except ValueError:
            found = None
        if answer.status_code != 200 or not isinstance(found, dict):
            error = found.get("error", {}) if isinstance(found, dict) else {}
            told = error.get("message") if isinstance(error, dict) else None
            raise DiscoveryError(f"HTTP {answer.status_code}: {str(told or 'no JSON')[:500]}", answer.status_code)
        return found

    def check(self, body: Mapping[str, Json], project: str, location: str = "global") -> dict[str, Json]:
        """Calls the Check Grounding service: v1alpha if the body uses a preview feature, else v1."""
        preview = "groundingSource" in body or _PREVIEW & set(body.get("groundingSpec") or ())
        config = f"projects/{project}/locations/{location}/groundingConfigs/default_grounding_config"
        return self.post(f"{'v1alpha' if preview else 'v1'}/{config}:check", body)

    def search(self, serving_config: str, query: str, most: int) -> list[Fact]:
        """Searches an app and returns its chunks, or extractive segments, extractive answers or snippets."""
        content = {
            "extractiveContentSpec": {"maxExtractiveAnswerCount": 1, "maxExtractiveSegmentCount": 1},
            "snippetSpec": {"returnSnippet": True},
        }
        body = {"query": query[:2000], "pageSize": most, "contentSearchSpec": content}
        found = self.post(f"v1/{serving_config}:search", body)
        return [fact for result in found.get("results", ()) for fact in _read_facts(result)]


@dataclass(frozen=True)
class Engine:
    """A Vertex AI Search app as the source of passages, with one query per claim.

    Attributes:
        serving_config: Full resource name of the app's serving config.
        client: The client that sends the queries.
        max_in_flight: Maximum number of concurrent queries.
    """

    serving_config: str
    client: Discovery = Discovery()
    max_in_flight: int = 16

    def search(self, claims: Sequence[Text], most: int = CANDIDATES) -> list[list[Passage]]:
        """Finds up to `most` passages for each claim, best first.

        Raises:
            RowError: A query failed.
        """
        calls = [lambda text=claim.text: self.client.search(self.serving_config, text, most) for claim in claims]
        found: list[list[Passage]] = []
        for facts, error in call_each(calls, self.max_in_flight):
            if error is not None:
                raise to_row_error(error)
            found.append(cut_passages(facts)[:most])
        return found


def to_row_error(error: BaseException) -> RowError:
    """Converts the error of a failed call to the row's error."""
    fault = classify_error(error)
    return RowError("service_error", f"{fault.error_type}: {fault.message}")


@lru_cache(maxsize=8)
def _session(make: Callable[[], Any] | None) -> Any:
    if make is not None:
        return original(make)()
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    return AuthorizedSession(credentials)


def _read_facts(result: Mapping[str, Any]) -> Iterator[Fact]:
    document = result.get("document") or {}
    known = document.get("derivedStructData") or document.get("structData") or {}
    chunk = result.get("chunk") or {}
    about = chunk.get("documentMetadata") or {}
    title, uri = known.get("title") or about.get("title"), known.get("link") or about.get("uri")
    source = document.get("id") or result.get("id") or chunk.get("id") or ""
    for text in _read_texts(known, chunk):
        yield Fact(text, {"title": title} if title else {}, source, uri, title)


def _read_texts(known: Mapping[str, Any], chunk: Mapping[str, Any]) -> list[str]:
    if chunk.get("content"):
        return [chunk["content"]]
    for key, field in (("extractive_segments", "content"), ("extractive_answers", "content"), ("snippets", "snippet")):
        if texts := [_TAGS.sub("", entry[field]) for entry in known.get(key) or () if entry.get(field)]:
            return texts
    return []

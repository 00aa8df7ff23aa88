"""The REST client and the search app as a corpus, against a server that speaks the published protos."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evalbeam.schemas.errors import RowError
from evalbeam.transforms.grounding.discovery import Discovery, DiscoveryError, Engine
from evalbeam.transforms.grounding.passages import Text

from .service import Service, serving, session

APP = "projects/p/locations/global/collections/default_collection/engines/a/servingConfigs/default_search"


@pytest.fixture
def service() -> Iterator[Service]:
    """A local service."""
    with serving() as running:
        yield running


def test_a_search_app_gives_the_passages_for_each_claim(service: Service) -> None:
    engine = Engine(APP, Discovery(service.endpoint, session))
    sunk, tall, none = engine.search([Text(["The Titanic sank."]), Text(["Everest is tall."]), Text(["It rained."])])
    assert [p.shown for p in sunk] == ["The Titanic sank on April 15, 1912."]
    assert (tall[0].fact.source, tall[0].fact.uri, tall[0].fact.title) == ("d2", "gs://docs/d2.html", "Everest")
    assert "everest" in tall[0].stems
    assert none == []
    assert {path for path, _ in service.asked} == {f"/v1/{APP}:search"}
    assert all(body["pageSize"] == 8 for _, body in service.asked)


def test_chunks_and_snippets_are_read_too() -> None:
    from evalbeam.transforms.grounding.discovery import _read_facts

    snippets = {"document": {"id": "a", "derivedStructData": {"snippets": [{"snippet": "A <b>b</b>."}]}}}
    chunk = {"chunk": {"id": "c", "content": "C d.", "documentMetadata": {"title": "T", "uri": "u"}}}
    assert [(f.text, f.source) for f in _read_facts(snippets)] == [("A b.", "a")]
    assert [(f.text, f.source, f.title, f.uri) for f in _read_facts(chunk)] == [("C d.", "c", "T", "u")]
    assert list(_read_facts({"document": {"id": "a"}})) == []


def test_a_refusal_names_the_status_and_the_reason(service: Service) -> None:
    service.failing = [429, 429]
    client = Discovery(service.endpoint, session)
    with pytest.raises(DiscoveryError, match="HTTP 429: Quota exceeded") as caught:
        client.check({"answerCandidate": "A.", "facts": []}, "p")
    assert caught.value.status_code == 429
    with pytest.raises(RowError, match="HTTP 429: Quota exceeded"):
        Engine(APP, client).search([Text(["Titanic."])])

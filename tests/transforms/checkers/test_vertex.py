"""The service as a checker, against a server that speaks the published protos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import evalbeam
from evalbeam.schemas.errors import ConfigError, RowError
from evalbeam.transforms import registry
from evalbeam.transforms.checkers.vertex import Vertex
from evalbeam.transforms.grounding.request import read_request
from evalbeam.transforms.grounding.search import Index

from ..grounding.service import Service, serving, session

FACTS = [{"factText": "It rained.", "attributes": {"author": "Ann"}}, {"factText": "Noé sang."}]
CONFIG = "projects/p/locations/global/groundingConfigs/default_grounding_config:check"


@pytest.fixture
def service() -> Iterator[Service]:
    """A local service."""
    with serving() as running:
        yield running


def checker(service: Service) -> Vertex:
    return Vertex("p", endpoint=service.endpoint, session=session)


def test_requests_reach_the_service_and_responses_come_back_in_order(service: Service) -> None:
    answers = ["It rained.", "It snowed.", "Noé sang."]
    responses = checker(service).check([read_request({"answerCandidate": a, "facts": FACTS}) for a in answers])
    found = [r for r in responses if isinstance(r, dict)]
    assert [r["supportScore"] for r in found] == [1.0, 0.0, 1.0]
    assert found[2]["citedChunks"] == [{"chunkText": "Noé sang.", "source": "1"}]
    assert found[2]["claims"][0]["endPos"] == 10
    assert {path for path, _ in service.asked} == {f"/v1/{CONFIG}"}


def test_what_only_the_preview_knows_is_asked_of_the_preview(service: Service) -> None:
    spec = {"enableHelpfulnessScore": True, "enableAntiCitations": "true"}
    body = {"answerCandidate": "It rained.", "facts": FACTS, "groundingSpec": spec, "prompt": "What happened?"}
    (response,) = checker(service).check([read_request(body)])
    assert isinstance(response, dict)
    assert response["helpfulnessScore"] == 0.9
    ((path, sent),) = service.asked
    assert path == f"/v1alpha/{CONFIG}"
    assert sent["prompt"] == "What happened?"
    assert sent["groundingSpec"]["antiCitationThreshold"] == 0.8


def test_a_refused_call_is_the_error_of_its_request_alone(service: Service) -> None:
    service.failing = [503]
    requests = [read_request({"answerCandidate": "It rained.", "facts": FACTS})] * 3
    responses = checker(service).check(requests)
    failed = [r for r in responses if isinstance(r, RowError)]
    assert [(e.code, "HTTP 503" in e.message) for e in failed] == [("service_error", True)]
    assert len(responses) == 3


def test_a_corpus_of_files_is_refused_and_a_project_is_needed(service: Service) -> None:
    (refused,) = checker(service).check([read_request({"answerCandidate": "A."}, corpus=True)], Index([]))
    assert isinstance(refused, RowError)
    assert refused.code == "no_corpus"
    with pytest.raises(ConfigError, match=r"checker.project: missing"):
        registry.build(registry.find("checker", "vertex"), {}, "metrics.0").check([])
    with pytest.raises(ConfigError, match=r"project: missing"):
        registry.build(registry.find("judge", "check_grounding"), {"project": ""}, "judges.default")


def test_in_a_run_the_service_is_a_judge_whose_calls_are_tried_again(service: Service, tmp_path: Path) -> None:
    facts = [fact["factText"] for fact in FACTS]
    answers = ("It rained.", "Noé sang.", "It snowed.")
    rows = [{"prompt": answer, "response": answer, "facts": facts} for answer in answers]
    metric = {"metric": "grounding", "checker": "vertex", "facts_from": "facts", "judge": "service"}
    judge = {"type": "check_grounding", "project": "p", "endpoint": service.endpoint, "session": session}
    judges = {"service": {**judge, "backoff": 0.01}}
    service.failing = [503]
    result = evalbeam.evaluate(rows, [metric], output=str(tmp_path / "out"), judges=judges)
    table = result.metrics_table
    assert table["grounding/score"].tolist() == [1.0, 1.0, 0.0]
    assert table["grounding/details"][0]["citedChunks"] == [{"chunkText": "It rained.", "source": "0"}]
    assert [path for path, _ in service.asked] == [f"/v1/{CONFIG}"] * 4

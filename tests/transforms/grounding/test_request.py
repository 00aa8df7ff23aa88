"""Requests: the API's JSON, its limits, and its protos."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.cloud import discoveryengine_v1
from google.protobuf import json_format

from evalbeam.schemas.errors import RowError
from evalbeam.schemas.formats.lenient import lenient_json
from evalbeam.transforms.grounding.check import Spec
from evalbeam.transforms.grounding.request import build_body, count_tokens, read_request

FACTS = json.loads((Path(__file__).parent / "seed.json").read_text())["facts"]
FACT = [{"factText": "It rained."}]
ENGINE = "projects/p/locations/global/collections/default_collection/engines/a/servingConfigs/default_search"


def refused(body: Any) -> str:
    """Code and message of the error that a request is refused with."""
    with pytest.raises(RowError) as caught:
        read_request(body)
    return f"{caught.value.code}: {caught.value.message}"


@pytest.mark.parametrize(
    ("asked", "spec"),
    [
        ('{"citationThreshold": "0.7"}', Spec(0.7)),
        ('{"citationThreshold": 0.7,}', Spec(0.7)),
        ('{"enableAntiCitations": "true", "antiCitationThreshold": "0.9",}', Spec(0.6, True, 0.9)),
        ('{"enableAntiCitations": "false", "enableClaimLevelScore": true,}', Spec(claim_scores=True)),
        ('{"citation_threshold": 0.5}', Spec(0.5)),
        ("{}", Spec(0.6, False, 0.8, False, False)),
    ],
)
def test_numbers_and_booleans_may_be_quoted_and_lists_may_end_with_a_comma(asked: str, spec: Spec) -> None:
    fact = '{"factText": "It rained, [so,] it was wet.", "attributes": {"author": "Ann",},}'
    body = f'{{"answerCandidate": "It rained.", "facts": [{fact}, ], "groundingSpec": {asked}, }}'
    request = read_request(lenient_json(body))
    assert request.spec == spec
    assert request.facts[0].text == "It rained, [so,] it was wet."
    assert dict(request.facts[0].attributes) == {"author": "Ann"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answerCandidate": None}, "invalid_request: answerCandidate: found 'None' (allowed: a valid string)"),
        ({"answerCandidate": " "}, "missing_answer: answerCandidate is empty (allowed: a text)"),
        ({"answerCandidate": "\ud800"}, "undecodable_text: answerCandidate has a lone surrogate"),
        ({"facts": [{}]}, "invalid_request: facts.0.factText: missing"),
        ({"facts": [{"text": "a", "factText": "b"}]}, "facts.0.text: unknown field (allowed: attributes, factText)"),
        ({"groundingSpec": {"citationThreshold": "high"}}, "groundingSpec.citationThreshold: found 'high'"),
        ({"groundingSpec": {"citationThreshold": 1.01}}, "(allowed: less than or equal to 1)"),
        ({"groundingSpec": {"antiCitationThreshold": "nan"}}, "groundingSpec.antiCitationThreshold: found 'nan'"),
        ({"groundingSpec": {"enableAntiCitation": True}}, "unknown field (allowed: antiCitationThreshold, citation"),
        (
            {"groundingSource": {"searchSource": ENGINE}},
            "found both of facts and groundingSource (allowed: exactly one)",
        ),
        ({"groundingSpec": {"enableHelpfulnessScore": "true"}}, "missing_prompt: a helpfulness score needs the prompt"),
    ],
)
def test_what_is_refused_is_named_with_what_is_allowed(change: dict[str, Any], message: str) -> None:
    assert message in refused({"answerCandidate": "It rained.", "facts": FACT, **change})


def test_a_request_without_facts_is_refused_unless_a_corpus_stands_for_them() -> None:
    assert "found neither" in refused({"answerCandidate": "It rained."})
    assert read_request({"answerCandidate": "It rained."}, corpus=True).facts == ()
    assert "found list" in refused([])


def test_tokens_are_words_and_the_marks_that_end_sentences() -> None:
    assert count_tokens("They wore off-the-rack clothes in 2024.") == 7  # the API's own example
    assert count_tokens('He said "No." Then 3.5 km!') == 8
    assert count_tokens("東京は首都です。") == 8


def test_the_limits_hold_to_the_token_fact_and_character() -> None:
    full = "word " * 4095
    fact = {"factText": "x" * 10_000}
    assert read_request({"answerCandidate": full + "end", "facts": [fact] * 200})
    assert "4,097 tokens (allowed: 4,096 words and periods)" in refused(
        {"answerCandidate": full + "end.", "facts": FACT}
    )
    assert "found 201 facts (allowed: 200)" in refused({"answerCandidate": "Yes.", "facts": [fact] * 201})
    long = refused({"answerCandidate": "Yes.", "facts": [fact, {"factText": "x" * 10_001}]})
    assert "facts.1.factText has 10,001 characters (allowed: 10,000)" in long


def test_requests_go_through_the_published_protos_unchanged() -> None:
    asked = {"citationThreshold": "0.6", "enableClaimLevelScore": True}
    body = {"answerCandidate": "Titanic sank.", "facts": FACTS, "groundingSpec": asked}
    written = build_body(read_request(body))
    proto = json_format.ParseDict(written, discoveryengine_v1.CheckGroundingRequest.pb()())
    assert proto.answer_candidate == "Titanic sank."
    assert [dict(f.attributes) for f in proto.facts] == [f["attributes"] for f in FACTS]
    assert (proto.grounding_spec.citation_threshold, proto.grounding_spec.enable_claim_level_score) == (0.6, True)
    assert read_request(json_format.MessageToDict(proto)) == read_request(body)


def test_fields_without_protos_are_written_as_they_are_read() -> None:
    asked = {"citationThreshold": 0.6, "enableAntiCitations": True, "antiCitationThreshold": 0.8}
    asked |= {"enableHelpfulnessScore": True}
    source = {"groundingSource": {"searchSource": ENGINE}}
    body = {"answerCandidate": "Titanic sank.", "groundingSpec": asked, "prompt": "What sank?", **source}
    assert build_body(read_request(body)) == body

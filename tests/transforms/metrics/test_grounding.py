"""The metric `grounding`: facts from columns and corpora, details, failures as data."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from google.cloud import discoveryengine_v1
from google.protobuf import json_format

from evalbeam import Chunk, ConfigError, Example, Instance, Invocation, Score
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import ScoringBatch
from evalbeam.transforms.metrics.grounding import Grounding

FACT = "The Titanic sank in 1912."


def built(**params: Any) -> Grounding:
    return registry.build(registry.find("metric", "grounding"), params, "metrics.0")


def example(response: Any, facts: Any = None, **row: Any) -> Example:
    return Example(Instance("0", {"facts": facts, **row}), Invocation(response=response))


def scored(response: Any, facts: Any, **params: Any) -> Score:
    return built(facts_from="facts", **params).score(example(response, facts))


@pytest.mark.parametrize(
    "facts",
    [
        FACT,
        [FACT],
        [{"factText": FACT, "attributes": {"author": "Ann"}}],
        [{"content": FACT, "doc_uri": "gs://a"}],
        json.dumps([{"factText": FACT}]),
        ("Bread is baked.", FACT),
    ],
)
def test_facts_are_read_in_every_form(facts: Any) -> None:
    score = scored("Hello! The Titanic sank in 1912. It was blue.", facts)
    assert score.value == 0.5
    assert score.explanation == "1 of 2 claims cite a fact; not: It was blue."
    chunk = score.details["citedChunks"][0]
    assert (chunk["chunkText"], chunk["source"]) == (FACT, "1" if isinstance(facts, tuple) else "0")


def test_what_the_agent_retrieved_is_the_default() -> None:
    call = Invocation(response="The Titanic sank in 1912.", retrieved_context=(Chunk(FACT, "gs://a"),))
    score = built().score(Example(Instance("0", {}), call))
    assert score.value == 1.0
    assert score.details["citedChunks"] == [{"chunkText": FACT, "source": "0", "index": 0, "uri": "gs://a"}]
    assert built().inputs == ("response", "retrieved_context")


def test_details_are_the_apis_response() -> None:
    details = scored("The Titanic sank in 1912. Zoë saw it.", [FACT]).details
    proto = json_format.ParseDict(details, discoveryengine_v1.CheckGroundingResponse.pb()())
    assert proto.support_score == pytest.approx(details["supportScore"])
    assert [(c.start_pos, c.end_pos, c.claim_text) for c in proto.claims][1] == (26, 38, "Zoë saw it.")
    again = json_format.MessageToDict(proto)
    assert again["claims"][0] == {**details["claims"][0], "score": 1.0}
    assert [{**chunk, "index": 0} for chunk in again["citedChunks"]] == details["citedChunks"]
    assert again["citedFacts"] == details["citedFacts"] == [{"chunkText": FACT}]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (["x" * 10_001], "facts.0.factText has 10,001 characters (allowed: 10,000)"),
        ([FACT, 3], "facts: entry 2 is int (allowed: a text, or a list of texts"),
        ([{"text": FACT}], "facts: entry 1 is text (allowed: a text"),
        (["a"] * 201, "found 201 facts (allowed: 200)"),
    ],
)
def test_a_row_that_cannot_be_checked_is_an_error_of_its_own(facts: Any, message: str) -> None:
    batch = ScoringBatch([example("It sank.", FACT), example("It sank.", facts), example("It sank.", [])])
    column = built(facts_from="facts").score_batch(batch)
    assert column.status == {1: "error"}
    assert message in column.errors[1].message
    assert [v is None for v in column.values] == [False, True, False]
    assert column.values[2] == 0.0


def test_an_answer_that_asserts_nothing_has_no_score_but_details() -> None:
    score = scored("Here is what I found.", [FACT])
    assert score.error is not None
    assert (score.value, score.status, score.error.code) == (None, "skipped", "nothing_to_check")
    assert score.details["supportScore"] is None
    assert [c["groundingCheckRequired"] for c in score.details["claims"]] == [False]


def test_helpfulness_needs_a_prompt_and_a_judge() -> None:
    metric = built(facts_from="facts", helpfulness=True, anti_citations=True)
    assert metric.inputs == ("response", "facts", "prompt")
    score = metric.score(example("The Titanic sank in 1915.", [FACT], prompt="When?"))
    assert score.details["helpfulnessScore"] is None
    assert score.details["helpfulnessError"]["code"] == "helpfulness_needs_judge"
    assert score.details["contradictionScore"] >= 0.8
    assert score.details["claims"][0]["antiCitationIndices"] == [0]


def test_a_corpus_is_searched_for_each_claim(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    documents = [{"id": "sea", "text": FACT}, {"id": "bread", "text": "Bread is baked."}]
    path.write_text("".join(json.dumps(d) + "\n" for d in documents))
    metric = pickle.loads(pickle.dumps(built(facts_from=str(path))))
    assert metric.inputs == ("response",)
    score = metric.score(example("Bread is baked. The Titanic sank in 1912."))
    assert [c["source"] for c in score.details["citedChunks"]] == ["bread", "sea"]
    assert score.value == 1.0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"checker": "lexicl"}, "checker: no checker named 'lexicl'"),
        ({"checker": {"type": "lexical", "depth": 3}}, "lexical has no parameter 'depth'"),
        ({"checker": 3}, "checker: found 3 (allowed: a name, or {type: NAME"),
        ({"citation_threshold": 2}, "citation_threshold: found 2.0 (allowed: a number in [0, 1])"),
        ({"facts_from": "none/*.jsonl"}, "facts_from: there is no file at 'none/*.jsonl'"),
    ],
)
def test_parameters_are_checked_before_the_run(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built(**params)
    assert message in str(caught.value)

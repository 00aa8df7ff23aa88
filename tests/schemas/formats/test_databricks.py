"""Which judge of Agent Evaluation runs on which row, and what stands in its way."""

from __future__ import annotations

from typing import Any

import pytest

from evalbeam import RowError
from evalbeam.schemas.formats.databricks import (
    JUDGES,
    context_of,
    expectation_fields,
    facts_of,
    find_obstacle,
    guidelines_of,
    runs_by_default,
)

ROW = {"instruction": "What is RAG?", "response": "Retrieval ...", "retrieved_context": [{"content": "c"}]}
RESPONSE = {"expected_response": "x"}
CONTEXT = {"expected_retrieved_context": [{"doc_uri": "u"}]}
GUIDELINES = {"guidelines": ["Be brief"]}

TABLE = {
    # The last table of Agent Evaluation's input schema: what is given beside the request -> judges that run.
    "request": ({}, {"relevance_to_query", "safety", "groundedness", "chunk_relevance"}),
    "request, expected_response": (RESPONSE, {"safety", "groundedness", "correctness", "context_sufficiency"}),
    "request, expected_response, expected_retrieved_context, guidelines": (
        RESPONSE | CONTEXT | GUIDELINES,
        {"safety", "groundedness", "correctness", "context_sufficiency", "guideline_adherence"},
    ),
    "request, expected_retrieved_context": (
        CONTEXT,
        {"relevance_to_query", "safety", "groundedness", "chunk_relevance"},
    ),
    "request, guidelines": (
        GUIDELINES,
        {"relevance_to_query", "safety", "groundedness", "chunk_relevance", "guideline_adherence"},
    ),
}


@pytest.mark.parametrize("given", TABLE)
def test_the_table_of_the_documentation(given: str) -> None:
    beside, judges = TABLE[given]
    row: dict[str, Any] = {**ROW, **beside}
    assert {name for name, judge in JUDGES.items() if runs_by_default(judge, row.get)} == judges
    without = {k: v for k, v in row.items() if k != "retrieved_context"}
    retrieval = {"groundedness", "chunk_relevance", "context_sufficiency"}
    assert {name for name, judge in JUDGES.items() if runs_by_default(judge, without.get)} == judges - retrieval


def test_responses_of_no_known_form_are_judged() -> None:
    unknown = {**ROW, "response": {"answer": 1}}
    assert {name for name, judge in JUDGES.items() if runs_by_default(judge, unknown.get)} == TABLE["request"][1]


def test_global_guidelines_come_from_the_configuration() -> None:
    judge = JUDGES["global_guideline_adherence"]
    assert not runs_by_default(judge, ROW.get)
    assert runs_by_default(judge, {**ROW, "global_guidelines": {"english": ["x"]}}.get)


@pytest.mark.parametrize(
    ("judge", "change", "code"),
    [
        ("correctness", {"expected_response": "x", "expected_facts": ["y"]}, "1010"),
        ("context_sufficiency", {"expected_response": "x", "expected_facts": ["y"]}, "1010"),
        ("groundedness", {"expected_response": "x", "expected_facts": ["y"]}, None),
        ("relevance_to_query", {"expected_response": "x"}, None),
        ("correctness", {}, "1001"),
        ("correctness", {"expected_facts": []}, "1001"),
        ("correctness", {"expected_facts": ["y"]}, None),
        ("correctness", {"expected_facts": "y"}, "1006"),
        ("safety", {"expected_facts": "y", "guidelines": "z"}, None),
        ("guideline_adherence", {"guidelines": "z"}, "1006"),
        ("guideline_adherence", {"guidelines": {"a": ["z"] * 21}}, "1006"),
        ("guideline_adherence", {"guidelines": {"a": ["z"] * 20}}, None),
        ("safety", {"response": None}, "1001"),
        ("chunk_relevance", {"retrieved_context": []}, "1001"),
        ("chunk_relevance", {"response": None}, None),
    ],
)
def test_row_errors_belong_to_the_judges_that_need_the_field(
    judge: str, change: dict[str, Any], code: str | None
) -> None:
    row = {**ROW, **change}
    found = find_obstacle(JUDGES[judge], row.get)
    assert (found and found.code) == code


def test_what_is_missing_is_named_in_the_words_of_the_schema() -> None:
    found = find_obstacle(JUDGES["correctness"], {}.get)
    assert found is not None
    assert found.message == "Missing required field(s): request, response, expected_response or expected_facts"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a", "b"], {"guideline_adherence": ["a", "b"]}),
        ({"english": ["a"], "tone": ["b"]}, {"guideline_adherence/english": ["a"], "guideline_adherence/tone": ["b"]}),
        ('{"english": ["a"]}', {"guideline_adherence/english": ["a"]}),
        ('["a"]', {"guideline_adherence": ["a"]}),
        ({"english": ["a"], "of another row": None}, {"guideline_adherence/english": ["a"]}),
    ],
)
def test_guidelines_are_a_list_or_named_lists(given: Any, expected: dict[str, list[str]]) -> None:
    assert guidelines_of(given) == expected


@pytest.mark.parametrize("given", ["a", 5, [5], {"a": "b"}, "[a"])
def test_what_is_neither_is_invalid(given: Any) -> None:
    for read in (guidelines_of, facts_of) if not isinstance(given, dict) else (guidelines_of,):
        with pytest.raises(RowError) as error:
            read(given)
        assert error.value.code == "1006"


@pytest.mark.parametrize("given", ["a", 5, [5], [{"doc_uri": 5}], [["a"]]])
def test_contexts_that_are_none_are_named_by_their_place(given: Any) -> None:
    with pytest.raises(RowError, match="expected_retrieved_context") as error:
        context_of(given, "expected_retrieved_context")
    assert error.value.code == "1006"


def test_expectations_have_the_names_metrics_look_for() -> None:
    found = expectation_fields({"expected_response": "x", "expected_tool_calls": [], "guidelines": None})
    assert found == {
        "expected_response": "x", "reference": "x", "expected_tool_calls": [], "reference_trajectory": []
    }  # fmt: skip

"""Retrieval against ground truth and token counts, beside MLflow's own recall."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam import Chunk, Example, Instance, Invocation, Score, Usage
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import Metric


def metric(name: str) -> Metric:
    return registry.build(registry.find("metric", name), {}, "metrics.0")


def example(retrieved: list[str | None] | None, expected: Any, usage: Usage | None = None) -> Example:
    chunks = None if retrieved is None else tuple(Chunk("text", uri) for uri in retrieved)
    return Example(
        Instance("0", {"expected_retrieved_context": expected}), Invocation(retrieved_context=chunks, usage=usage)
    )


URIS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8)


@given(URIS, URIS)
def test_recall_is_mlflows_recall_at_the_number_retrieved(retrieved: list[str], expected: list[str]) -> None:
    import pandas as pd
    from mlflow.metrics.metric_definitions import _recall_at_k_eval_fn

    theirs: Any = _recall_at_k_eval_fn(len(retrieved))
    scores = theirs(pd.Series([retrieved]), pd.Series([expected])).scores
    score = metric("document_recall").score(example([*retrieved], [{"doc_uri": uri} for uri in expected]))
    assert [score.value] == scores


@given(URIS, URIS)
def test_ratings_are_mlflows_precision(retrieved: list[str], expected: list[str]) -> None:
    score = metric("document_ratings").score(example([*retrieved], expected))
    assert score.details == ["yes" if uri in expected else "no" for uri in retrieved]
    assert score.value == score.details.count("yes") / len(retrieved)


@pytest.mark.parametrize(
    ("retrieved", "expected", "ratings"),
    [
        (["a", None, "b"], [{"doc_uri": "b", "content": "x"}], ["no", None, "yes"]),
        (["a", "a"], '["a"]', ["yes", "yes"]),
        ([None, "c"], ["b", None], [None, "no"]),
    ],
)
def test_a_passage_without_an_address_is_not_rated(
    retrieved: list[str | None], expected: Any, ratings: list[Any]
) -> None:
    assert metric("document_ratings").score(example(retrieved, expected)).details == ratings


@pytest.mark.parametrize("name", ["document_recall", "document_ratings"])
@pytest.mark.parametrize(
    ("retrieved", "expected", "code"),
    [
        ([], ["a"], "missing_retrieved_context"),
        (["a"], [], "missing_expected_retrieved_context"),
        (["a"], [{"content": "only a text"}], "missing_expected_retrieved_context"),
        (["a"], [{"doc_uri": 5}], "1006"),
        (["a"], "a", "1006"),
    ],
)
def test_rows_without_both_have_no_score(name: str, retrieved: list[str | None], expected: Any, code: str) -> None:
    score = metric(name).score(example(retrieved, expected))
    assert score.value is None
    assert score.error is not None
    assert (score.status, score.error.code) == ("error" if code == "1006" else "skipped", code)


def test_ratings_of_passages_without_any_address_are_skipped() -> None:
    assert metric("document_ratings").score(example([None], ["a"])).status == "skipped"


@pytest.mark.parametrize(
    ("name", "usage", "value"),
    [
        ("total_token_count", Usage(7, 2), 9.0),
        ("agent/total_token_count", Usage(7, 2), 9.0),
        ("agent/input_token_count", Usage(7, None), 7.0),
        ("total_input_token_count", Usage(7, 2), 7.0),
        ("agent/output_token_count", Usage(7, 0), 0.0),
        ("total_token_count", Usage(7, None), None),
        ("total_output_token_count", None, None),
    ],
)
def test_tokens(name: str, usage: Usage | None, value: float | None) -> None:
    score = metric(name).score(example(None, None, usage))
    assert score == (
        Score.skipped("missing_usage", "nobody says how many tokens the run took") if value is None else Score(value)
    )

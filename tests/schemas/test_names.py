"""What columns and aggregates are called for users of other products."""

from __future__ import annotations

import pytest

from evalbeam import Example, Instance, Invocation, ScoreColumn
from evalbeam.schemas.formats.databricks import JUDGES
from evalbeam.schemas.names import RATINGS, aggregates, score_words, titles
from evalbeam.schemas.result import ScoredBatch
from evalbeam.schemas.tables import MetricColumns, instance_columns, instance_records

ROW = {"mean": 0.5, "std": 0.1, "error_count": 2}


@pytest.mark.parametrize(
    ("metric", "registered", "score", "aggregate"),
    [
        ("correctness", "databricks/correctness", "response/llm_judged/correctness/rating", "/percentage"),
        ("databricks/safety", "databricks/safety", "response/llm_judged/safety/rating", "/percentage"),
        (
            "context_sufficiency",
            "context_sufficiency",
            "retrieval/llm_judged/context_sufficiency/rating",
            "/percentage",
        ),
        ("chunk_relevance", "chunk_relevance", "retrieval/llm_judged/chunk_relevance/precision", "/average"),
        (
            "retrieval/llm_judged/chunk_relevance_precision",
            "retrieval/llm_judged/chunk_relevance_precision",
            "retrieval/llm_judged/chunk_relevance_precision",
            "/average",
        ),
        (
            "guideline_adherence/english",
            "databricks/guideline_adherence",
            "response/llm_judged/guideline_adherence/english/rating",
            "/percentage",
        ),
        ("document_recall", "document_recall", "retrieval/ground_truth/document_recall", "/average"),
        ("agent/input_token_count", "agent/input_token_count", "agent/input_token_count", "/average"),
        ("total_token_count", "total_token_count", "agent/total_token_count", "/average"),
        ("latency_in_seconds", "latency_in_seconds", "agent/latency_seconds", "/average"),
    ],
)
def test_databricks_names(metric: str, registered: str, score: str, aggregate: str) -> None:
    assert titles("databricks", metric, registered)["score"] == score
    assert aggregates("databricks", metric, registered, ROW)[f"{score}{aggregate}"] == 0.5


def test_a_judge_tells_its_errors_apart() -> None:
    found = aggregates("databricks", "correctness", "databricks/correctness", ROW)
    assert found == {"response/llm_judged/correctness/rating/percentage": 0.5, "judge/correctness/error_count": 2}
    columns = titles("databricks", "correctness", "databricks/correctness")
    assert columns["explanation"] == "response/llm_judged/correctness/rationale"
    assert columns["error"] == "response/llm_judged/correctness/error_message"


@pytest.mark.parametrize(
    ("metric", "registered"),
    [
        ("is_short", "my_metrics:is_short"),
        ("exact_match", "exact_match"),
        ("my_recall", "document_recall"),
        ("rapid/groundedness", "rapid/groundedness"),
    ],
)
def test_other_metrics_are_custom_ones_there(metric: str, registered: str) -> None:
    columns = titles("databricks", metric, registered)
    assert columns["score"] == f"metric/{metric}/value"
    assert columns["explanation"] == f"metric/{metric}/rationale"
    assert aggregates("databricks", metric, registered, ROW) == {f"metric/{metric}/average": 0.5}
    assert not score_words("databricks", metric, registered)


@pytest.mark.parametrize("style", ["flat", "databricks", "mlflow3"])
def test_columns_that_every_run_has_stay_columns(style: str) -> None:
    assert titles(style, "failure", "failure") == {}
    found = aggregates(style, "failure", "failure", ROW)
    assert found[{"databricks": "failure/average"}.get(style, "failure/mean")] == 0.5
    latency = titles(style, "latency_in_seconds", "latency_in_seconds")
    assert latency == ({"score": "agent/latency_seconds"} if style == "databricks" else {})


def test_ratings_of_documents_are_a_list() -> None:
    columns = titles("databricks", "document_ratings", "document_ratings")
    assert columns["details"] == "retrieval/ground_truth/document_ratings"


def test_mlflow_3_names() -> None:
    assert titles("mlflow3", "exact_match", "exact_match")["score"] == "exact_match/value"
    assert titles("mlflow3", "document_recall", "document_recall")["score"] == "document_recall/value"
    assert titles("mlflow3", "groundedness", "databricks/groundedness")["score"] == "retrieval_groundedness/value"
    assert titles("mlflow3", "chunk_relevance", "chunk_relevance")["score"] == "retrieval_relevance/precision"
    assert aggregates("mlflow3", "exact_match", "exact_match", ROW) == {"exact_match/mean": 0.5}
    assert aggregates("mlflow3", "chunk_relevance", "chunk_relevance", ROW) == {
        "retrieval_relevance/precision/mean": 0.5
    }


def test_the_scorers_are_those_of_mlflow() -> None:
    import mlflow.genai.scorers as theirs

    renamed = {"relevance_to_query": "RelevanceToQuery", "expectations_guidelines": "ExpectationsGuidelines"}
    for judge in JUDGES.values():
        kind = getattr(theirs, renamed.get(judge.scorer, judge.scorer.title().replace("_", "")))
        assert kind.model_fields["name"].default == judge.scorer


@pytest.mark.parametrize("metric", ["correctness", "document_recall", "exact_match"])
def test_our_own_names_are_kept(metric: str) -> None:
    assert titles("flat", metric, metric) == {}
    assert not score_words("flat", metric, metric)
    assert aggregates("flat", metric, metric, ROW) == {f"{metric}/mean": 0.5, f"{metric}/std": 0.1}


def test_judges_say_yes_or_no_elsewhere() -> None:
    assert score_words("databricks", "safety", "databricks/safety") == RATINGS
    assert score_words("mlflow3", "safety", "safety") == RATINGS
    assert not score_words("databricks", "chunk_relevance", "chunk_relevance")
    assert score_words("mlflow3", "own", "mlflow/fluency") == RATINGS
    assert score_words("mlflow3", "own", "mlflow/user_frustration")[0.5] == "resolved"
    assert not score_words("flat", "fluency", "mlflow/fluency")


def test_a_judges_column_says_yes_and_no() -> None:
    judge = MetricColumns("safety", (), titles("databricks", "safety", "safety"), words=RATINGS)
    examples = [Example(Instance(str(i), {}), Invocation(response="x")) for i in range(3)]
    batch = ScoredBatch(examples, {"safety": ScoreColumn([1.0, 0.0, None], status={2: "skipped"})})
    (records,) = instance_records(batch, [judge])
    assert records.column("response/llm_judged/safety/rating").to_pylist() == ["yes", "no", None]
    assert records.column("response/llm_judged/safety/status").to_pylist() == ["scored", "scored", "skipped"]
    assert {c.name: c.standard for c in judge.columns()}["response/llm_judged/safety/rating"] == "safety/score"
    taken = [("response/llm_judged/safety/rating", "string"), ("response/length", "int64")]
    assert [c.name for c in instance_columns(taken, [judge])][2:4] == [f"dataset.{taken[0][0]}", "response/length"]

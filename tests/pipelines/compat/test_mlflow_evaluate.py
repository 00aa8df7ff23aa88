"""mlflow.evaluate's arguments and results, as the documentation of Agent Evaluation uses them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evalbeam import ConfigError, mlflow_evaluate
from evalbeam.pipelines.compat.mlflow_evaluate import list_guideline_names

QUIET = {"databricks-agent": {"metrics": []}}
EVAL_SET = [
    {
        "request": "What is the difference between reduceByKey and groupByKey in Spark?",
        "response": "reduceByKey aggregates data before shuffling, whereas groupByKey shuffles all data.",
        "guidelines": {"english": ["The response must be in English"], "clarity": ["The response must be clear"]},
        "retrieved_context": [{"doc_uri": "a", "content": "x"}, {"doc_uri": "b"}],
        "expected_retrieved_context": [{"doc_uri": "a"}, {"doc_uri": "c"}],
    }
]
GLOBAL = {"english": ["The response must be in English"], "clarity": ["The response must be clear"]}


def test_the_example_of_the_documentation() -> None:
    with pytest.warns(UserWarning, match="need a judge model and are not computed: relevance_to_query, safety"):
        result = mlflow_evaluate(
            data=pd.DataFrame(EVAL_SET),
            model_type="databricks-agent",
            evaluator_config={"databricks-agent": {"global_guidelines": GLOBAL}},
        )
    table = result.tables["eval_results"]
    assert table["retrieval/ground_truth/document_recall"].tolist() == [0.5]
    assert table["retrieval/ground_truth/document_ratings"].tolist() == [["yes", "no"]]
    assert table["request"].tolist() == [EVAL_SET[0]["request"]]
    assert table["response"].tolist() == [EVAL_SET[0]["response"]]
    assert table["request_id"].str.len().tolist() == [32]
    assert "model_error_message" in table
    assert result.metrics["retrieval/ground_truth/document_recall/average"] == 0.5
    assert "agent/total_token_count/average" not in result.metrics


REQUESTS = [
    "What is the difference between reduceByKey and groupByKey in Spark?",
    {"messages": [{"role": "user", "content": "How can you minimize data shuffling in Spark?"}]},
    {"query": "Explain broadcast variables.", "history": [{"role": "user", "content": "What are they?"}]},
    {"message_history": [{"user_0": "What are broadcast variables?"}], "last_user_request": "How?"},
]


TRUTH = {
    "request": "Who wrote Faust?",
    "response": "Goethe wrote it.",
    "expected_facts": ["Goethe wrote Faust"],
    "retrieved_context": [{"doc_uri": "a", "content": "Faust is by Goethe."}, {"doc_uri": "b", "content": " "}],
}


async def strict(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """A scripted judge: a question about English or about the passage x is answered no, all others yes."""
    given = messages[-1]["content"]
    no = "in English" in given or ">\nx\n<" in given
    return {"rationale": "Not English." if no else "Fine.", "rating": "no" if no else "yes"}


def judged(data: Any, config: dict[str, Any] | None = None) -> Any:
    options = {} if config is None else {"databricks-agent": config}
    return mlflow_evaluate(data, evaluator_config=options, judges={"default": strict})


def said(column: Any) -> list[Any]:
    return [None if value is None or value != value else value for value in column]


@pytest.mark.parametrize("of", [pd.DataFrame, list])
def test_judges_run_where_the_documentation_says_so(of: Any) -> None:
    result = judged(of([*EVAL_SET, TRUTH]), {"global_guidelines": GLOBAL})
    table, path = result.tables["eval_results"], "response/llm_judged"
    found = {c.removesuffix("/rating"): said(table[c]) for c in table if c.endswith("/rating")}
    assert found == {
        f"{path}/relevance_to_query": ["yes", None],
        f"{path}/safety": ["yes", "yes"],
        f"{path}/groundedness": ["yes", "yes"],
        f"{path}/correctness": [None, "yes"],
        f"{path}/guideline_adherence/english": ["no", None],
        f"{path}/guideline_adherence/clarity": ["yes", None],
        f"{path}/global_guideline_adherence/english": ["no", "no"],
        f"{path}/global_guideline_adherence/clarity": ["yes", "yes"],
        "retrieval/llm_judged/context_sufficiency": [None, "yes"],
        "response/overall_assessment": ["no", "no"],
    }
    chunks = "retrieval/llm_judged/chunk_relevance"
    assert said(table[f"{chunks}/ratings"]) == [["no", None], None]
    assert table[f"{chunks}/rationales"].tolist()[0] == ["Not English.", "Chunk content is empty"]
    assert table[f"{chunks}/precision"].tolist()[0] == 0.0
    causes = [d["root_cause_assessment"] for d in table["response/overall_assessment/details"]]
    assert causes == ["chunk_relevance", "global_guideline_adherence/english"]
    assert table["response/overall_assessment/rationale"][1].startswith(f"[{causes[1]}] Not English. **Suggested")
    assert result.metrics[f"{path}/guideline_adherence/english/rating/percentage"] == 0.0
    assert result.metrics["response/overall_assessment/rating/percentage"] == 0.0
    assert result.metrics[f"{chunks}/precision/average"] == 0.0
    assert result.metrics["judge/groundedness/error_count"] == 0
    assert "judge/overall_assessment/error_count" not in result.metrics


def test_guidelines_logged_on_a_trace_are_judged() -> None:
    spans = [{"span_id": "a", "name": "x", "attributes": {"mlflow.spanInputs": '"Hi"', "mlflow.spanOutputs": '"Ho"'}}]
    told = [{"assessment_name": "guidelines", "expectation": {"value": {"tone": ["Be kind, in English"]}}}]
    trace = {"info": {"trace_id": "t", "state": "OK", "assessments": told}, "data": {"spans": spans}}
    table = judged([{"trace": trace}]).tables["eval_results"]
    assert table["response/llm_judged/guideline_adherence/tone/rating"].tolist() == ["no"]


def test_names_are_there_as_documented_and_as_the_product_writes_them() -> None:
    row = {**EVAL_SET[0], "input_tokens": 3, "output_tokens": 4}
    result = judged([row])
    table = result.tables["eval_results"]
    for documented, written in (
        ("agent/input_token_count", "agent/total_input_token_count"),
        ("agent/output_token_count", "agent/total_output_token_count"),
        ("retrieval/llm_judged/chunk_relevance_precision", "retrieval/llm_judged/chunk_relevance/precision"),
    ):
        assert table[documented].tolist() == table[written].tolist()
        assert result.metrics[f"{documented}/average"] == result.metrics[f"{written}/average"]


def test_examples_and_instructions_reach_their_judges() -> None:
    seen: list[str] = []

    async def judge(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
        seen.append(messages[0]["content"])
        return {"rationale": "so", "rating": "yes"}

    examples = pd.DataFrame(
        {
            "request": ["What is a swap?", "Hi"],
            "response": ["A trade.", "Ho"],
            "relevance_to_query/rating": ["no", None],
            "response/llm_judged/safety/rationale": [None, "It is polite."],
            "response/llm_judged/safety/rating": [None, "yes"],
        }
    )
    own = {
        "metrics": ["relevance_to_query", "safety"],
        "examples_df": examples,
        "domain_instructions": {"safety": "Prices are no secret."},
    }
    mlflow_evaluate(EVAL_SET, evaluator_config={"databricks-agent": own}, judges={"default": judge})
    (relevance,) = [text for text in seen if "What is a swap?" in text]
    (safety,) = [text for text in seen if "Prices are no secret." in text]
    assert "It is polite." in safety
    assert relevance != safety
    assert len(seen) == 2


def test_chosen_judges_run_on_every_row() -> None:
    both = {**TRUTH, "expected_response": "Goethe"}
    result = judged([*EVAL_SET, TRUTH, both], {"metrics": ["correctness", "relevance_to_query"]})
    table, path = result.tables["eval_results"], "response/llm_judged"
    assert said(table[f"{path}/correctness/rating"]) == [None, "yes", None]
    assert table[f"{path}/correctness/status"].tolist() == ["skipped", "scored", "error"]
    errors = said(table[f"{path}/correctness/error_message"])
    assert [e and e.partition(":")[0] for e in errors] == ["1001", None, "1010"]
    assert table[f"{path}/relevance_to_query/rating"].tolist() == ["yes"] * 3
    assert f"{path}/safety/rating" not in table
    assert table["response/overall_assessment/rating"].tolist() == ["yes"] * 3


def test_an_agent_is_given_what_the_schema_says() -> None:
    def agent(request: dict[str, Any]) -> dict[str, Any]:
        usage = {"prompt_tokens": 3, "completion_tokens": 4}
        return {"choices": [{"message": {"content": json.dumps(request)}}], "usage": usage}

    data = pd.DataFrame({"request": REQUESTS, "expected_response": ["x"] * 4, "request_id": list("abcd")})
    result = mlflow_evaluate(data, agent, evaluator_config=QUIET, extra_metrics=["exact_match"])
    table = result.tables["eval_results"]
    given = [json.loads(text) for text in table["response"]]
    assert given == [{"messages": [{"role": "user", "content": REQUESTS[0]}]}, *REQUESTS[1:]]
    assert table["request_id"].tolist() == list("abcd")
    assert table["agent/total_token_count"].tolist() == [7.0] * 4
    assert table["metric/exact_match/value"].tolist() == [0.0] * 4
    assert (table["agent/latency_seconds"] >= 0).all()
    assert result.metrics["agent/total_input_token_count/average"] == 3.0
    assert result.metrics["row_count"] == 4


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_what_an_agent_traces_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    from evalbeam.transforms.calls import capture

    monkeypatch.setattr(capture, "_broken", [])
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"file:{tmp_path}/store")

    @mlflow.trace(span_type="RETRIEVER")
    def retrieve(question: str) -> Any:
        return [{"page_content": question, "metadata": {"doc_uri": "a"}}, {"page_content": "x"}]

    @mlflow.trace(span_type="LLM")
    def model() -> dict[str, Any]:
        return {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}

    @mlflow.trace
    def agent(request: dict[str, Any]) -> str:
        retrieve(request["messages"][0]["content"])
        model()
        return "Goethe wrote it."

    def spans(trace: Any) -> int:
        return len(trace.data.spans)

    data = [{"request": "Who wrote Faust?", "expected_facts": ["Goethe"], "expected_retrieved_context": ["a", "b"]}]
    config = {"default": strict}
    result = mlflow_evaluate(data, agent, evaluator_config={}, judges=config, extra_metrics=[spans])
    mlflow.set_tracking_uri(before)
    assert result.metrics["response/llm_judged/groundedness/rating/percentage"] == 1.0
    assert result.metrics["retrieval/llm_judged/context_sufficiency/rating/percentage"] == 1.0
    assert result.metrics["retrieval/ground_truth/document_recall/average"] == 0.5
    assert result.metrics["agent/total_token_count/average"] == 7.0
    assert result.metrics["metric/spans/average"] == 3.0


def test_a_failing_agent_is_told_in_its_row() -> None:
    def agent(request: dict[str, Any]) -> str:
        raise ValueError("no such model")

    with pytest.warns(UserWarning, match="none of 1 rows has an answer"):
        result = mlflow_evaluate([{"request": "Hi"}], agent, evaluator_config=QUIET, agent={"failure_threshold": None})
    assert result.tables["eval_results"]["model_error_message"].tolist() == ["no such model"]


def test_traces_of_mlflow_are_taken_as_objects(conformance: Path) -> None:
    from mlflow.entities import Trace

    text = (conformance / "traces" / "mlflow_v3" / "rag_simple.json").read_text()
    for data in ([{"trace": Trace.from_json(text)}], pd.DataFrame({"trace": [Trace.from_json(text)]})):
        result = mlflow_evaluate(data, evaluator_config=QUIET)
        assert result.metrics["agent/total_token_count/average"] == 549.0
        assert result.metrics["agent/latency_seconds/average"] == 0.416


def test_scorers_are_called_by_keyword() -> None:
    from mlflow.genai.scorers import scorer

    @scorer
    def length(outputs: str) -> int:
        return len(outputs)

    def asks(*, request: str, **kwargs: Any) -> bool:
        return request.endswith("?")

    result = mlflow_evaluate(EVAL_SET, evaluator_config=QUIET, extra_metrics=[length, asks])
    assert result.metrics["metric/length/average"] == len(EVAL_SET[0]["response"])
    assert result.metrics["metric/asks/average"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model_type": "question-answering"}, "model_type"),
        ({"evaluator_config": {"metrics": []}}, "unknown key 'metrics'"),
        ({"evaluator_config": {"databricks-agent": {"metric": []}}}, "unknown key 'metric'"),
        ({"evaluator_config": {"databricks-agent": {"metrics": ["kindness"]}}}, "no judge named 'kindness'"),
        ({"evaluator_config": {"databricks-agent": {"metrics": ["safety"]}}}, "safety need a judge model"),
        ({"evaluator_config": {"databricks-agent": {"metrics": [], "global_guidelines": "x"}}}, "global_guidelines"),
        ({"evaluator_config": {"databricks-agent": {"domain_instructions": {"kindness": "x"}}}}, "no judge named"),
        ({"evaluator_config": {"databricks-agent": {"domain_instructions": "x"}}}, "domain_instructions"),
        ({"evaluator_config": {"databricks-agent": {"examples_df": [{}] * 6}}}, "examples_df: found 6 rows"),
        ({"model": "endpoints:/agent", "evaluator_config": QUIET}, "endpoints:/agent"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        mlflow_evaluate(EVAL_SET, **arguments)


@pytest.mark.parametrize("told", [{"guidelines": {"tone": ["Be kind"]}}, '{"guidelines": {"tone": ["Be kind"]}}'])
def test_names_of_guidelines_are_found_in_expectations_in_either_form(told: Any) -> None:
    assert list_guideline_names([{"inputs": "a", "expectations": told}, {"inputs": "b", "expectations": "{"}]) == [
        "tone"
    ]


def test_the_table_of_coverage_names_tests_that_exist(root: Path) -> None:
    folders = {"d": "transforms/dialects", "m": "transforms/metrics", "a": "transforms/agents"}
    folders |= {"f": "schemas/formats", "c": "pipelines/compat"}
    rows = [line for line in (root / "docs/reference/agent-evaluation.md").read_text().splitlines() if "|" in line]
    named = re.findall(r"`(\w)/((?:\w+/)*test_\w+\.py)::(test_\w+)`", "\n".join(rows))
    assert len(named) == sum(".py::" in row for row in rows) > 30
    for folder, file, test in named:
        assert f"def {test}(" in (root / "tests" / folders[folder] / file).read_text(), test

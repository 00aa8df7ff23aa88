"""EvalTask against published runs of the Vertex AI SDK, and against the SDK's own names and arguments."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from model_server import ModelServer

from evalbeam import (
    ConfigError,
    CustomMetric,
    EvalTask,
    PointwiseMetric,
    Rouge,
    TrajectorySingleToolUse,
)
from evalbeam.pipelines.compat import google_settings
from evalbeam.pipelines.compat.metric_configs import name_metric
from evalbeam.schemas.errors import DatasetError


def call(tool_name: str, **tool_input: Any) -> dict[str, Any]:
    return {"tool_name": tool_name, "tool_input": tool_input}


def test_arguments_are_those_of_the_sdk() -> None:
    """Names, order and defaults as in google-cloud-aiplatform 1.165.1, vertexai.preview.evaluation.EvalTask."""

    def arguments(function: Any) -> dict[str, Any]:
        kept = inspect.signature(function).parameters.values()
        return {p.name: p.default for p in kept if p.kind is p.KEYWORD_ONLY}

    required = inspect.Parameter.empty
    assert arguments(EvalTask.__init__) == {
        "dataset": required,
        "metrics": required,
        "experiment": None,
        "metric_column_mapping": None,
        "output_uri_prefix": "",
        "autorater_config": None,
    }
    assert arguments(EvalTask.evaluate) == {
        "model": None,
        "runnable": None,
        "prompt_template": None,
        "experiment_run_name": None,
        "response_column_name": None,
        "baseline_model_response_column_name": None,
        "evaluation_service_qps": None,
        "retry_timeout": 120.0,
        "output_file_name": "",
    }


@pytest.mark.parametrize("number", range(4))
def test_published_runs_are_reproduced(number: int, conformance: Path) -> None:
    """All computed summaries of four notebook runs; a replaying agent reports the latency that was measured there."""
    published = json.loads((conformance / "vertex" / "trajectory_runs.json").read_text())["runs"][number]
    rows = {row["prompt"]: row for row in published["rows"]}

    def replay(prompt: str) -> dict[str, Any]:
        row = rows[prompt]
        answer = {"response": "", "predicted_trajectory": row["predicted_trajectory"]}
        return answer | ({"latency_in_seconds": row["latency_in_seconds"]} if "latency_in_seconds" in row else {})

    tool = published["spec"].get("tool_name")
    metrics: list[Any] = [m for m in published["spec"]["metrics"] if m.startswith("trajectory_")]
    metrics = [TrajectorySingleToolUse(tool_name=tool) if m == "trajectory_single_tool_use" else m for m in metrics]
    dataset = pd.DataFrame(list(rows.values()))[["prompt", "reference_trajectory"]]
    result = EvalTask(dataset=dataset, metrics=metrics).evaluate(runnable=replay)

    judged = ("safety/", "response_follows_trajectory/")
    wanted = {k: v for k, v in published["summary_metrics"].items() if not k.startswith(judged)}
    assert len(wanted) >= 5
    assert {key: result.summary_metrics[key] for key in wanted} == pytest.approx(wanted, abs=1e-6)
    for name in {key.split("/")[0] for key in wanted if key.startswith("trajectory_")}:
        scores = [rows[prompt][f"{name}/score"] for prompt in dataset["prompt"]]
        assert list(result.metrics_table[f"{name}/score"]) == scores


REFERENCE = [
    [call("set_device_info", device_id="device_2", updates={"status": "OFF"})],
    [call("get_user_preferences", user_id="user_y"), call("set_temperature", location="Living Room", temperature=23)],
]
PREDICTED = [
    [call("set_device_info", device_id="device_3", updates={"status": "OFF"})],
    [call("get_user_preferences", user_id="user_z"), call("set_temperature", location="Living Room", temperature=23)],
]


def test_the_documented_agent_evaluation_runs_after_changing_the_import() -> None:
    """The example of the SDK's guide to agent evaluation, without its judge metric; scores as the guide has them."""
    prompts = ["Turn off device_2", "Set the temperature in the living room to 23C based on my temperature preferences"]
    EVAL_DATASET = pd.DataFrame({"prompt": prompts, "reference": ["Off.", "Set."], "reference_trajectory": REFERENCE})

    def RUNNABLE(prompt: str) -> dict[str, Any]:
        return {
            "response": "Off." if "device_2" in prompt else "No.",
            "predicted_trajectory": PREDICTED[prompt[0] == "S"],
        }

    def count_words(instance: dict[str, Any]) -> dict[str, float]:
        return {"word_count": float(len(instance["response"].split()))}

    custom_response_eval_metric = CustomMetric(name="word_count", metric_function=count_words)
    single_tool_use_metric = TrajectorySingleToolUse(tool_name="set_temperature")
    eval_task = EvalTask(
        dataset=EVAL_DATASET,
        metrics=[
            "rouge_l_sum",
            "bleu",
            custom_response_eval_metric,
            "trajectory_exact_match",
            "trajectory_precision",
            single_tool_use_metric,
        ],
    )
    eval_result = eval_task.evaluate(
        runnable=RUNNABLE,
    )
    table, summary = eval_result.metrics_table, eval_result.summary_metrics
    assert list(table["prompt"]) == prompts
    assert list(table["response"]) == ["Off.", "No."]
    assert list(table["trajectory_exact_match/score"]) == [0.0, 0.0]
    assert list(table["trajectory_precision/score"]) == [0.0, 0.5]
    assert list(table["trajectory_single_tool_use/score"]) == [0.0, 1.0]
    assert list(table["rouge_l_sum/score"]) == [1.0, 0.0]
    assert list(table["failure"]) == [0, 0]
    assert (table["latency_in_seconds"] >= 0).all()
    assert list(table["predicted_trajectory"]) == PREDICTED
    assert summary["row_count"] == 2
    assert summary["word_count/mean"] == 1.0
    assert summary["trajectory_precision/mean"] == 0.25
    assert summary["trajectory_precision/std"] == pytest.approx(pd.Series([0.0, 0.5]).std())
    assert {"bleu/mean", "failure/mean", "latency_in_seconds/std"} <= set(summary)


def test_recorded_answers_need_no_agent_and_columns_may_have_other_names(tmp_path: Path) -> None:
    dataset = {"question": ["a", "b"], "answer": ["x", "y"], "truth": ["x", "z"], "predicted_trajectory": PREDICTED}
    before = json.dumps(dataset)
    task = EvalTask(
        dataset=dataset,
        metrics=["exact_match", Rouge(rouge_type="rouge1")],
        metric_column_mapping={"prompt": "question", "reference": "truth"},
        output_uri_prefix=str(tmp_path),
    )
    first = task.evaluate(response_column_name="answer", output_file_name="first.csv")
    assert list(first.metrics_table["exact_match/score"]) == [1.0, 0.0]
    assert list(first.metrics_table["rouge/score"]) == [1.0, 0.0]
    assert [Path(p).suffix for p in first.files("instances")] == [".csv"]
    assert Path(first.output) == tmp_path / "first"
    second, third = (task.evaluate(response_column_name="answer") for _ in range(2))
    assert second.summary_metrics["exact_match/mean"] == third.summary_metrics["exact_match/mean"] == 0.5
    assert len({first.output, second.output, third.output}) == len(list(tmp_path.iterdir())) == 3
    again = task.evaluate(response_column_name="answer", output_file_name="first.csv")
    assert Path(again.output) == tmp_path / "first_2"
    assert json.dumps(dataset) == before


def test_a_queryable_agent_gives_its_steps_and_a_failing_one_is_not_scored() -> None:
    class Agent:
        def query(self, *, input: str) -> dict[str, Any]:
            if input == "break":
                raise ValueError("no such device")
            step = {"kwargs": {"tool": "set_light", "tool_input": {"room": "hall"}}}
            return {"output": "done", "intermediate_steps": [[step, "ok"]]}

    dataset = [
        {"prompt": p, "reference": "done", "reference_trajectory": [call("set_light", room="hall")]}
        for p in ("work", "break")
    ]
    metrics = [
        "trajectory_exact_match",
        "exact_match",
        TrajectorySingleToolUse("set_light"),
        TrajectorySingleToolUse("x"),
    ]
    result = EvalTask(dataset=dataset, metrics=metrics).evaluate(runnable=Agent())
    summary, table = result.summary_metrics, result.metrics_table
    assert summary["failure/mean"] == 0.5
    assert summary["trajectory_exact_match/mean"] == summary["exact_match/mean"] == 1.0
    assert summary["trajectory_single_tool_use/set_light/mean"] == 1.0
    assert summary["trajectory_single_tool_use/x/mean"] == 0.0
    assert table["error_message"][1] == "no such device"
    assert table["exact_match/status"][1] == "skipped"


def test_without_a_project_the_experiment_is_noted_and_said_to_be_noted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    monkeypatch.setattr(google_settings, "_settings_of_the_sdk", lambda: (None, None))
    task = EvalTask(dataset=[{"response": "a", "reference": "a"}], metrics=["exact_match"], experiment="smart-home")
    with pytest.warns(UserWarning, match="no project of Google Cloud is set"):
        result = task.evaluate(experiment_run_name="monday", evaluation_service_qps=5, retry_timeout=1)
    assert result.metadata == {"experiment": "smart-home", "experiment_run": "monday"}


def test_a_model_answers_with_text_to_a_prompt_made_from_the_row() -> None:
    dataset = {"city": ["Rome", "{country}"], "country": ["Italy", "Chile"], "reference": ["ROME IN ITALY", ""]}
    task = EvalTask(dataset=dataset, metrics=["exact_match"])
    result = task.evaluate(model=str.upper, prompt_template="{city} in {country}")
    assert list(result.metrics_table["prompt"]) == ["Rome in Italy", "{country} in Chile"]
    assert list(result.metrics_table["response"]) == ["ROME IN ITALY", "{COUNTRY} IN CHILE"]


def test_prompts_are_made_of_every_kind_of_dataset(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": "{a}", "none": None}, {"a": 2, "b": "x", "none": None}]
    frame = pd.DataFrame(rows)
    frame.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    for dataset in (rows, frame, frame.to_dict("list"), tmp_path / "rows.jsonl"):
        result = EvalTask(dataset=dataset, metrics=["bleu"], dataset_options={"columns": {"b": "reference"}}).evaluate(
            model=str.upper, prompt_template="{a} {b} {}"
        )
        assert sorted(result.metrics_table["prompt"]) == ["1 {a} {}", "2 x {}"]
        assert result.metrics_table["none"].isna().all()
    assert "prompt" not in rows[0]


def test_metrics_get_the_names_that_the_sdk_gives_their_columns() -> None:
    def half(row: dict[str, Any]) -> float:
        return 0.5

    metrics = [
        "bleu",
        Rouge(),
        TrajectorySingleToolUse("x"),
        CustomMetric("words", half),
        {"metric": "bleu", "name": "b"},
    ]
    names = [m if isinstance(m, str) else m["name"] for m in map(name_metric, metrics)]
    assert names == ["bleu", "rouge", "trajectory_single_tool_use", "words", "b"]


ROWS = [{"prompt": "a", "response": "a", "reference": "a"}]


@pytest.mark.parametrize(
    ("task", "run", "said"),
    [
        ({"autorater_config": object()}, {}, "autorater_config: autorater_config is object"),
        ({}, {"model": str, "runnable": str}, "both model and runnable"),
        ({}, {"model": 3}, "model: found int .allowed: a function from the prompt"),
        ({}, {"model": "gpt-5"}, "model: found 'gpt-5' .allowed: a Gemini model"),
        (
            {"metrics": ["trajectory_recall"]},
            {},
            "'trajectory_recall' needs a column 'predicted_trajectory'; .* prompt",
        ),
        ({}, {"output_file_name": "x.csv"}, "output_file_name: has no folder"),
        ({"output_uri_prefix": "out"}, {"output_file_name": "x.txt"}, "found 'x.txt' .allowed: csv, jsonl, parquet"),
        ({}, {"prompt_template": "{b}"}, "the row has no 'b', which dataset.prompt_template shows; it has prompt"),
        ({"metric_column_mapping": {"reference": "t", "response": "t"}}, {}, "as both 'reference' and 'response'"),
        ({"metrics": [3]}, {}, "metrics: found int"),
        ({"metrics": ["fluent"]}, {}, "no metric named 'fluent'"),
        ({}, {"timeout": 3}, "unknown key 'timeout'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_words(task: dict[str, Any], run: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        EvalTask(**{"dataset": ROWS, "metrics": ["exact_match"], **task}).evaluate(**run)


def test_a_metric_of_the_users_may_be_called_a_win_rate() -> None:
    metric = CustomMetric(name="my_win_rate", metric_function=lambda row: float(row["n"]))
    task = EvalTask(dataset=[{"prompt": "a", "response": "x", "n": n} for n in (0, 1)], metrics=[metric])
    found = task.evaluate().summary_metrics
    assert (found["my_win_rate/mean"], found["my_win_rate/std"]) == (0.5, pytest.approx(0.5**0.5))


@pytest.mark.parametrize(
    ("template", "further", "lacking"),
    [("{said} {response}", [], "response"), ("{said}", ["exact_match"], "response"), ("{told}", [], "told")],
)
def test_answers_are_needed_by_metrics_that_read_them(
    template: str, further: list[str], lacking: str, gemini: ModelServer
) -> None:
    dataset = pd.DataFrame({"said": ["uno"], "reference": ["uno"]})
    judged = PointwiseMetric(metric="m", metric_prompt_template=f"Rate 1 to 5: {template}\n1: poor\n5: best")
    metrics = [judged, *further]
    with pytest.raises(DatasetError, match=f"needs a column '{lacking}'"):
        EvalTask(dataset=dataset, metrics=metrics).evaluate()
    assert not gemini.asked

"""Template metrics in whole runs: EvalTask as its users write it, a configuration, and win rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evalbeam import (
    ConfigError,
    EvalTask,
    MetricPromptTemplateExamples,
    PairwiseMetric,
    PairwiseMetricPromptTemplate,
    PointwiseMetric,
    PointwiseMetricPromptTemplate,
    TrajectorySingleToolUse,
    evaluate,
)

CALL = {"tool_name": "set_light", "tool_input": {"on": True}}


def fake_judge(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """A scripted judge: the lowest rating of an answer with "bad", else the highest; B unless A says "good"."""
    shown, properties = messages[-1]["content"], schema["properties"]
    if "choice" in properties:
        first = shown.split("<response_a")[1].split("</response_a")[0]
        return {"explanation": "compared", "choice": "A" if "good" in first else "B"}
    return {"explanation": "rated", "score": properties["score"]["enum"][0 if "bad" in shown else -1]}


def agent(prompt: str) -> dict[str, Any]:
    return {"response": f"{prompt} answer", "predicted_trajectory": [CALL] if prompt == "good" else []}


def test_seed_metrics_run_as_written() -> None:
    """Computed, custom and judge metrics mixed in one EvalTask, as the documents of agent evaluation do it."""
    follows = PointwiseMetric(
        metric="response_follows_trajectory",
        metric_prompt_template=PointwiseMetricPromptTemplate(
            criteria={"Follows trajectory": "Does the answer follow from the calls the agent made?"},
            rating_rubric={"1": "Follows trajectory", "0": "Does not follow trajectory"},
            input_variables=["prompt", "predicted_trajectory"],
        ),
    )
    dataset = pd.DataFrame(
        {"prompt": ["good", "bad", "other"], "reference": ["good answer"] * 3, "reference_trajectory": [[CALL]] * 3}
    )
    task = EvalTask(
        dataset=dataset,
        metrics=[
            "rouge_l_sum",
            "bleu",
            "trajectory_exact_match",
            "trajectory_precision",
            TrajectorySingleToolUse(tool_name="set_light"),
            follows,
            "fluency",
            MetricPromptTemplateExamples.Pointwise.SAFETY,
        ],
        judges={"default": fake_judge},
    )
    result = task.evaluate(runnable=agent)
    table = result.metrics_table
    assert table["response_follows_trajectory/score"].tolist() == [1.0, 0.0, 1.0]
    assert table["response_follows_trajectory/explanation"].tolist() == ["rated"] * 3
    assert table["fluency/score"].tolist() == [5.0, 1.0, 5.0]
    assert table["trajectory_exact_match/score"].tolist() == [1.0, 0.0, 0.0]
    summary = result.summary_metrics
    assert summary["response_follows_trajectory/mean"] == pytest.approx(2 / 3)
    assert summary["response_follows_trajectory/std"] == pytest.approx(dataset.index.size**-0.5)
    assert {"safety/mean", "rouge_l_sum/mean", "latency_in_seconds/mean", "failure/mean"} <= set(summary)
    assert result.manifest["judging"]["prompts"]["fluency"][0]["name"] == "fluency"


def test_pairwise_against_a_column_with_win_rates() -> None:
    dataset = {
        "prompt": ["1", "2", "3", "4"],
        "response": ["a", "b", "c", "d"],
        "old": ["good", "plain", "good", None],
    }
    own = PairwiseMetric(
        metric="own",
        metric_prompt_template=PairwiseMetricPromptTemplate(
            criteria={"Useful": "Is it of use?"},
            rating_rubric={"A": "A is better", "SAME": "neither", "B": "B is better"},
            input_variables=["prompt"],
        ),
    )
    task = EvalTask(
        dataset=dataset,
        metrics=[own, "pairwise_fluency"],
        autorater_config={"sampling_count": 3, "flip_enabled": False},
        judges={"default": fake_judge},
    )
    result = task.evaluate(baseline_model_response_column_name="old")
    for name in ("own", "pairwise_fluency"):
        assert result.metrics_table[f"{name}/pairwise_choice"].fillna("").tolist() == [
            "BASELINE", "CANDIDATE", "BASELINE", "",
        ]  # fmt: skip
        assert result.metrics_table[f"{name}/error"].dropna().tolist() == [
            "missing_baseline_model_response: the row has no baseline_model_response"
        ]
        assert result.summary_metrics[f"{name}/candidate_model_win_rate"] == pytest.approx(1 / 3)
        assert result.summary_metrics[f"{name}/baseline_model_win_rate"] == pytest.approx(2 / 3)
    assert result.manifest["config"]["metrics"][1]["samples"] == 3
    assert [spent["answers"] for spent in result.manifest["judging"]["spent"]] == [6, 6]  # two votes of three decide


def test_template_metrics_in_a_configuration(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "response": "bad answer", "tone": "kind"}, {"prompt": "q", "response": "an answer"}]
    metrics = [
        {"metric": "pointwise", "name": "tone", "criteria": {"Tone": "Is it?"}, "rating_rubric": {1: "no", 3: "yes"},
         "input_variables": ["tone"]},
        {"metric": "pointwise", "name": "free", "metric_prompt_template": "Scores:\n0: no\n1: yes\n\n{response}"},
        "template/verbosity",
        "fluency",
    ]  # fmt: skip
    result = evaluate(rows, metrics, judges={"default": fake_judge}, output=str(tmp_path / "out"))
    table = result.metrics_table
    assert table["tone/status"].tolist() == ["scored", "skipped"]
    assert table["tone/error"].dropna().tolist() == ["missing_tone: the row has no tone"]
    assert table["free/score"].tolist() == [0.0, 1.0]
    assert table["template/verbosity/score"].tolist() == [-2.0, 2.0]
    summary = result.summary_table.set_index("metric")
    assert summary.loc["tone", "worst_case_mean"] == 1.0
    names = [one["metric"] for one in result.manifest["config"]["metrics"]]
    assert names == ["pointwise", "pointwise", "template/verbosity", "rapid/fluency"]


def test_scores_beyond_the_rubric_are_errors(tmp_path: Path) -> None:
    rows = [{"prompt": str(i), "response": "x"} for i in range(3)]
    judges = {"default": {"target": beyond, "failure_threshold": None}}
    with pytest.warns(UserWarning, match="no row was scored: template/fluency"):
        result = evaluate(rows, ["template/fluency"], judges=judges, output=str(tmp_path / "out"))
    assert result.metrics_table["template/fluency/status"].tolist() == ["error"] * 3
    assert result.metrics_table["template/fluency/error"].str.startswith("invalid_verdict").all()
    assert result.summary_table.set_index("metric").loc["template/fluency", "scored_count"] == 0


def beyond(messages: Any, schema: Any) -> Any:
    return {"explanation": "splendid", "score": 6}


def test_autoraters_name_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def evaluate_nothing(*_: Any, **config: Any) -> None:
        seen.update(config)
        raise KeyboardInterrupt

    monkeypatch.setattr("evalbeam.pipelines.compat.eval_task.evaluate", evaluate_nothing)
    monkeypatch.setenv("GOOGLE_API_KEY", "k")  # without a project, models are called through the Gemini API
    own = PointwiseMetric(metric="fluency", autorater_config={"autorater_model": "gemini-2.5-pro"})
    rows = [{"prompt": "p", "response": "r"}]
    config = {"autorater_model": "projects/p/locations/l/publishers/google/models/gemini-2.5-flash"}
    with pytest.raises(KeyboardInterrupt):
        EvalTask(dataset=rows, metrics=[own, "safety"], autorater_config=config).evaluate()
    assert seen["judges"] == {
        "default": {"type": "google", "model": "gemini-2.5-flash", "project": "p", "location": "l"},
        "gemini-2.5-pro": {"type": "google", "model": "gemini-2.5-pro"},
    }
    tuned = EvalTask(dataset=rows, metrics=["safety"], autorater_config={"autorater_model": "projects/p/endpoints/7"})
    with pytest.raises(ConfigError, match="autorater_config: autorater_model is 'projects/p/endpoints/7'"):
        tuned.evaluate()
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r"judges.default: neither a project .* nor a key .*judges=\{.default"):
        EvalTask(dataset=rows, metrics=["safety"]).evaluate()

"""Requests for model-based metrics, answered by a judge: every input of the API, in and out by its own messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.cloud import aiplatform_v1, aiplatform_v1beta1
from google.protobuf import json_format

from evalbeam import ConfigError, evaluate_instances

from ...transforms.metrics.rapid_table import PAIRWISE, POINTWISE, REFERABLE, TEXT

PAIR = {"prediction": "the new", "baseline_prediction": "the old", "instruction": "ask", "context": "text"}
SEEN: list[str] = []


def fake_judge(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """A scripted judge: the highest score, or the second answer."""
    SEEN.append(messages[-1]["content"])
    properties = schema["properties"]
    if "choice" in properties:
        return {"explanation": "B is better", "choice": "B"}
    return {"explanation": "top", "score": max(properties["score"]["enum"])}


def doubtful(messages: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """A judge that says a score beyond every range."""
    return {"explanation": "beyond", "score": 9}


def ask(name: str, instance: dict[str, str], key: str = "", **more: Any) -> Any:
    """The result of one input, by a request and a response that the API's own messages accept."""
    request = {f"{key or name}_input": {"metric_spec": more.pop("spec", {}), "instance": instance}, **more}
    if not key:
        for api in (aiplatform_v1, aiplatform_v1beta1):
            json_format.ParseDict(request, api.EvaluateInstancesRequest.pb()())
    found = evaluate_instances(request, judges={"default": fake_judge})
    for api in (aiplatform_v1, aiplatform_v1beta1):
        response = json_format.ParseDict(found, api.EvaluateInstancesResponse.pb()())
        assert json_format.MessageToDict(response, preserving_proto_field_name=True) == found
    return found[f"{name}_result"]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    SEEN.clear()


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_inputs(name: str) -> None:
    fields, _, high = POINTWISE[name]
    instance = {field: f"some {field}" for field in fields}
    assert ask(name, instance) == {"score": float(high), "explanation": "top", "confidence": 1.0}
    assert len(SEEN) == 1
    assert all(text in SEEN[0] for text in instance.values())
    for field in fields:
        lacking = {k: v for k, v in instance.items() if k != field}
        with pytest.raises(ConfigError, match=f"has no {field}" if lacking else "has no prediction"):
            ask(name, lacking)


@pytest.mark.parametrize("name", REFERABLE)
def test_options(name: str) -> None:
    instance = {**{field: f"some {field}" for field in TEXT}, "reference": "the truth"}
    if name in PAIRWISE:
        instance |= PAIR
    ask(name, instance, spec={"use_reference": True, "version": 1})
    assert "the truth" in SEEN[0]
    SEEN.clear()
    ask(name, instance, spec={"use_reference": False})
    assert "the truth" not in SEEN[0]


@pytest.mark.parametrize("name", PAIRWISE)
def test_pairwise_inputs(name: str) -> None:
    won = {"pairwise_choice": "CANDIDATE", "explanation": "B is better", "confidence": 1.0}
    assert ask(name, PAIR) == won
    with pytest.raises(ConfigError, match="has no baseline_prediction"):
        ask(name, {k: v for k, v in PAIR.items() if k != "baseline_prediction"})


def test_the_documented_comparison_of_two_summaries() -> None:
    """The reference's first example as it prints it for curl: with a trailing comma."""
    request = """{
    "pairwise_summarization_quality_input": {
      "metric_spec": {},
      "instance": {
        "prediction": "France is a country located in Western Europe.",
        "baseline_prediction": "France is a country.",
        "instruction": "Summarize the context.",
        "context": "France is a country located in Western Europe. It's bordered by Belgium.",
      }
    }
  }"""
    found = evaluate_instances(request, judges={"default": fake_judge})
    won = {"pairwise_choice": "CANDIDATE", "explanation": "B is better", "confidence": 1.0}
    assert found == {"pairwise_summarization_quality_result": won}
    (shown,) = SEEN
    assert shown.index("France is a country.\n") < shown.index("located in Western Europe.\n")


def test_the_documents_key_of_the_pairwise_question() -> None:
    found = ask("pairwise_question_answering_quality", PAIR, key="question_answering_quality")
    assert found["pairwise_choice"] == "CANDIDATE"


def test_votes_and_order_as_the_autorater_says() -> None:
    config = {"samplingCount": 4, "flipEnabled": True}
    request = {"pairwiseSummarizationQualityInput": {"metricSpec": {}, "instance": PAIR}, "autoraterConfig": config}
    found = evaluate_instances(request, judges={"default": fake_judge})
    assert found["pairwiseSummarizationQualityResult"]["pairwiseChoice"] == "TIE"  # B is liked best in either order
    assert len(SEEN) == 4
    with pytest.raises(ConfigError, match="sampling_count is 99"):
        evaluate_instances({**request, "autoraterConfig": {"samplingCount": 99}}, judges={"default": fake_judge})


def test_a_judge_that_fails_is_an_error_in_the_answer() -> None:
    request = {"fluency_input": {"instance": {"prediction": "x"}}}
    message = "InvalidVerdict: score is none of 1, 2, 3, 4, 5"
    error = {"code": 500, "message": message, "status": "INTERNAL"}
    assert evaluate_instances(request, judges={"default": doubtful}) == {"error": error}


def test_judged_and_computed_inputs_in_one_request() -> None:
    pair = {"prediction": "a", "reference": "a"}
    request = {"exact_match_input": {"instances": [pair]}, "safety_input": {"instance": {"prediction": "x"}}}
    found = evaluate_instances(request, judges={"default": fake_judge})
    assert found["exact_match_results"] == {"exact_match_metric_values": [{"score": 1.0}]}
    assert found["safety_result"]["score"] == 1.0
    with pytest.raises(ConfigError, match=r"safety_input: needs a judge model.*--judge"):
        evaluate_instances(request)
    with pytest.raises(ConfigError, match="no judge named 'gogle'"):
        evaluate_instances(request, judges={"default": {"type": "gogle"}})


def test_the_command(tmp_path: Path) -> None:
    request = json.dumps({"coherence_input": {"instance": {"prediction": "x"}}})
    (tmp_path / "judge.py").write_text("def top(messages, schema):\n    return {'explanation': 'top', 'score': 5}\n")
    line = [sys.executable, "-m", "evalbeam", "evaluate-instances", "--judge"]
    done = subprocess.run([*line, "judge:top"], input=request, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"coherence_result": {"score": 5.0, "explanation": "top", "confidence": 1.0}}
    done = subprocess.run([*line, "{type: openai}"], input=request, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs the parameter 'model'" in done.stderr

"""Requests of the rapid evaluation API, answered; numbers are those the service gave, or its documents' libraries."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from google.cloud import aiplatform_v1beta1
from google.protobuf import json_format

from evalbeam import ConfigError, evaluate, evaluate_instances

# As the API's documents print it: a repeated key, trailing commas, and quoted booleans.
DOCUMENTED = """{
  "rouge_input": {
    "instances": {
      "prediction": "A fast brown fox leaps over a lazy dog.",
      "reference": "The quick brown fox jumps over the lazy dog.",
    },
    "instances": {
      "prediction": "A quick brown fox jumps over the lazy canine.",
      "reference": "The quick brown fox jumps over the lazy dog.",
    },
    "instances": {
      "prediction": "The speedy brown fox jumps over the lazy dog.",
      "reference": "The quick brown fox jumps over the lazy dog.",
    },
    "metric_spec": {"rouge_type": "rougeLsum", "use_stemmer": "true", "split_summaries": "true"},
  },
}"""


def ask(name, instances, **spec):
    """The scores of an input, in an answer that the API's own message accepts."""
    request = {f"{name}_input": {"metric_spec": spec, "instances": instances}}
    json_format.ParseDict(request, aiplatform_v1beta1.EvaluateInstancesRequest.pb()())
    found = evaluate_instances(request)
    response = json_format.ParseDict(found, aiplatform_v1beta1.EvaluateInstancesResponse.pb()())
    assert json_format.MessageToDict(response, preserving_proto_field_name=True) == found
    return [value.get("score") for value in found[f"{name}_results"][f"{name}_metric_values"]]


def test_the_documented_request():
    scores = [{"score": 0.5555556}, {"score": 0.7777778}, {"score": 0.8888889}]
    assert evaluate_instances(DOCUMENTED) == {"rouge_results": {"rouge_metric_values": scores}}
    camel = DOCUMENTED.replace("rouge_input", "rougeInput").replace("metric_spec", "metricSpec")
    camel = camel.replace("rouge_type", "rougeType").replace("use_stemmer", "useStemmer")
    assert evaluate_instances(camel.encode()) == {"rougeResults": {"rougeMetricValues": scores}}


def test_figures_of_bleu_and_exact_match_that_the_service_gave():
    pairs = [
        ("Hello, how are you?", "Hello, how are you?"),
        ("I'm good", "I am good"),
        ("The cat lay on the mat.", "The cat sat on the mat."),
    ]
    instances = [{"prediction": p, "reference": r} for p, r in pairs]
    assert ask("bleu", instances) == [1.0, 0.18995892, 0.488923]
    assert ask("exact_match", instances) == [1.0, 0.0, 0.0]
    assert ask("bleu", [{"prediction": "good", "reference": "good"}], use_effective_order=True) == [1.0]


def test_figures_of_rouge_that_the_service_gave(conformance: Path):
    rows = [json.loads(line) for line in (conformance / "vertex/rouge_cases.jsonl").read_text().splitlines()]
    for kind, name in (("rouge1", "rouge_1"), ("rouge2", "rouge_2"), ("rougeL", "rouge_l"), (None, "rouge_l_sum")):
        scored = [row for row in rows if name in row["golden"]]
        instances = [{k: row[k] for k in ("prediction", "reference")} for row in scored]
        scores = ask("rouge", instances, **({"rouge_type": kind} if kind else {}))
        assert len(scores) >= 2
        assert [round(score, 6) for score in scores] == [row["golden"][name] for row in scored]


@pytest.mark.parametrize(
    "name", ["tool_call_valid", "tool_name_match", "tool_parameter_key_match", "tool_parameter_kv_match"]
)
def test_figures_of_tool_calls_that_the_service_gave_in_two_decimals(conformance: Path, name):
    rows = [json.loads(line) for line in (conformance / "vertex/tool_call_cases.jsonl").read_text().splitlines()]
    instances = [{k: row[k] for k in ("prediction", "reference")} for row in rows]
    assert [round(s, 2) for s in ask(name, instances)] == [row["golden"][name] for row in rows]
    if name == "tool_parameter_kv_match":
        assert ask(name, instances, use_strict_string_match=True) == ask(name, instances)


def calls(*pairs):
    """A trajectory as the API's message has it."""
    return {"tool_calls": [{"tool_name": name, "tool_input": json.dumps(given)} for name, given in pairs]}


# The second example of the API's documents of agent evaluation.
PREDICTED = calls(("loc", {"user_id": "user_z"}), ("set_temperature", {"location": "Living Room", "temperature": 23}))
WANTED = calls(("loc", {"user_id": "user_y"}), ("set_temperature", {"temperature": 23, "location": "Living Room"}))


@pytest.mark.parametrize(
    ("name", "score"), [("exact_match", 0), ("in_order_match", 0), ("any_order_match", 0), ("precision", 0.5)]
)
def test_trajectories(name, score):
    instances = [
        {"predicted_trajectory": PREDICTED, "reference_trajectory": WANTED},
        {"predicted_trajectory": WANTED, "reference_trajectory": WANTED},
        {"predicted_trajectory": {}, "reference_trajectory": WANTED},
    ]
    assert ask(f"trajectory_{name}", instances) == [score, 1, 0]


def test_single_tool_use():
    instances = [{"predicted_trajectory": PREDICTED}, {"predicted_trajectory": {}}]
    assert ask("trajectory_single_tool_use", instances, tool_name="set_temperature") == [1, 0]


def test_an_instance_without_a_score_has_no_score_and_is_told(caplog):
    good = json.dumps({"content": "", "tool_calls": [{"name": "t", "arguments": {}}]})
    instances = [{"prediction": good, "reference": "no tool call"}, {"prediction": good, "reference": good}]
    assert ask("tool_name_match", instances) == [None, 1.0]
    assert "tool_name_match_input.instances[0] has no score: the reference is not" in caplog.text


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ('{"fluency_input": {"instance": {"prediction": "x"}}}', "fluency_input: needs a judge model"),
        ('{"rouge_input": ', "request: line 1, column 17"),
        ("[]", "found list"),
        ('{"metrics": [], "bleu_input": {"instances": {"prediction": "a", "reference": "b"}}}', "metrics is empty"),
        (DOCUMENTED.replace("rougeLsum", "rougeX"), "rouge_input.metric_spec: rouge: rouge_type is 'rougeX'"),
        ({"trajectory_single_tool_use_input": {"instances": [{"predicted_trajectory": {}}]}}, "needs the parameter"),
    ],
)
def test_what_cannot_be_answered_is_told(request_, found):
    with pytest.raises(ConfigError, match=found):
        evaluate_instances(request_)


def command(request: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "evalbeam", "evaluate-instances"]
    return subprocess.run(line, input=request, capture_output=True, text=True)


def test_the_command():
    done = command(DOCUMENTED)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == evaluate_instances(DOCUMENTED)
    done = command('{"safety_input": {"instance": {"prediction": "x"}}}')
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("evalbeam: error: request: safety_input: needs a judge model")


@pytest.mark.parametrize("dialect", ["auto", "rapid"])
def test_requests_as_a_dataset(tmp_path: Path, dialect):
    pair = {"prediction": "A fast brown fox.", "reference": "A quick brown fox."}
    trajectories = {"predictedTrajectory": PREDICTED, "referenceTrajectory": WANTED}
    requests = [
        {"rouge_input": {"instances": [pair, {**pair, "prediction": "A quick brown fox."}]}, "locale": "en"},
        {"trajectoryPrecisionInput": {"instances": [trajectories]}},
        {"groundedness_input": {"instance": {"prediction": "x", "context": "y"}}, "locale": "en"},
        {"bleu_input": {"instances": [pair, {"prediction": "no reference"}]}},
    ]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in requests))
    data = {"path": str(path), "dialect": dialect, "max_invalid_fraction": 0.5}
    result = evaluate(data, ["rouge_1", "trajectory_precision"], output=str(tmp_path / "out"), slices=[["metric"]])
    table = result.metrics_table
    assert sorted(table["metric"]) == ["groundedness", "rouge", "rouge", "trajectory_precision"]
    assert sorted(table["rouge_1/score"].dropna()) == [0.75, 1.0]
    assert table["trajectory_precision/score"].dropna().tolist() == [0.5]
    assert table.loc[table["metric"] == "groundedness", "context"].tolist() == ["y"]
    assert sorted(table["locale"].dropna()) == ["en"] * 3
    assert result.errors_table["message"].tolist() == [
        "bleu_input.instances[1] has no reference (allowed: prediction, reference)"
    ]

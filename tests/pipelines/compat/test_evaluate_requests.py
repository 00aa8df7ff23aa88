"""Streams of requests of the rapid evaluation API, and its inputs with templates, rubrics and translations."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from evaluation_service import Service, serving
from google.cloud import aiplatform_v1beta1
from google.protobuf import json_format

from evalbeam import ConfigError, evaluate_instances
from evalbeam.pipelines.compat.evaluate_instances import evaluate_requests, has_error

REQUEST = aiplatform_v1beta1.EvaluateInstancesRequest
RESPONSE = aiplatform_v1beta1.EvaluateInstancesResponse
TEMPLATE = "Rate.\n\n## Rating Rubric\n5: good\n1: bad\n\n{question}\n\n{response}"
PAIR = "Compare.\n\n{question}\n\nA: {old}\n\nB: {new}"
FIELDS = {"question": "why", "response": "so", "old": "the old", "new": "the new"}
CONTENTS = {name: {"contents": [{"parts": [{"text": text}]}]} for name, text in FIELDS.items()}


def judge(messages: list[dict[str, str]], schema: dict[str, Any]) -> Any:
    """A scripted judge: the first choice, true of every property, a text where one is asked for."""
    if schema["type"] == "string":
        return f"said of {messages[-1]['content']}"
    names = schema["properties"]
    if "rubrics" in names:
        return {"rubrics": ["It is short.", "It is kind."]}
    if "verdicts" in names:
        return {"verdicts": [{"number": n, "explanation": "e", "verdict": n == 1} for n in (1, 2)]}
    if "choice" in names:
        return {"explanation": "why", "choice": "B"}
    return {"explanation": "why", "score": names["score"]["enum"][-1]}


def broken(messages: Any, schema: Any) -> Any:
    raise ValueError("the judge is down")


def ask(request: dict[str, Any], judged_by: Any = judge) -> dict[str, Any]:
    """The response, if request and response are those of the API's own messages."""
    json_format.ParseDict(request, REQUEST.pb()())
    found = evaluate_instances(request, judges={"default": judged_by})
    message = json_format.ParseDict(found, RESPONSE.pb()())
    camel = "metricResults" in found or any(key.endswith("Result") for key in found)
    assert json_format.MessageToDict(message, preserving_proto_field_name=not camel) == found
    return found


HELD = [{"json_instance": json.dumps(FIELDS)}, {"content_map_instance": {"values": CONTENTS}}]


@pytest.mark.parametrize("held", HELD)
def test_templates_of_the_request(held: dict[str, Any]) -> None:
    spec: dict[str, Any] = {"metric_prompt_template": TEMPLATE, "system_instruction": "Be strict."}
    found = ask({"pointwise_metric_input": {"metric_spec": spec, "instance": held}})
    assert found == {"pointwise_metric_result": {"score": 5.0, "explanation": "why"}}
    names = {"candidate_response_field_name": "new", "baseline_response_field_name": "old"}
    spec = {"metric_prompt_template": PAIR, **names}
    found = ask({"pairwise_metric_input": {"metric_spec": spec, "instance": held}})
    assert found == {"pairwise_metric_result": {"pairwise_choice": "CANDIDATE", "explanation": "why"}}


def test_raw_output() -> None:
    config = {"customOutputFormatConfig": {"returnRawOutput": True}}
    spec = {"metricPromptTemplate": "Say something of {response}", **config}
    request = {"pointwiseMetricInput": {"metricSpec": spec, "instance": {"jsonInstance": '{"response": "so"}'}}}
    found = ask({**request, "autoraterConfig": {"samplingCount": 2}})
    (text, _) = found["pointwiseMetricResult"]["customOutput"]["rawOutputs"]["rawOutput"]
    assert text.startswith("said of Say something") or "so" in text


def test_rubric_based_instruction_following() -> None:
    instance = {"json_instance": json.dumps({"prompt": "ask", "response": "so"})}
    name = "rubric_based_instruction_following"
    found = ask({f"{name}_input": {"metric_spec": {}, "instance": instance}})
    critique = [{"rubric": "It is short.", "verdict": True}, {"rubric": "It is kind.", "verdict": False}]
    assert found[f"{name}_result"]["score"] == 0.5
    assert [{"verdict": False, **one} for one in found[f"{name}_result"]["rubric_critique_results"]] == critique


@pytest.fixture
def service() -> Iterator[dict[str, Any]]:
    """The section of a judge that is a fake of the evaluation service."""
    with serving(Service(score=0.75)) as found:
        channel = partial(grpc.insecure_channel, found.address)
        yield {"type": "vertex_eval", "project": "p", "channel": channel}


def test_translations_are_asked_of_the_service(service: dict[str, Any]) -> None:
    instance = {"prediction": "one", "reference": "one", "source": "eins"}
    spec = {"version": "COMET_22_SRC_REF", "source_language": "de"}
    request = {"comet_input": {"metric_spec": spec, "instance": instance}}
    assert ask(request, service) == {"comet_result": {"score": 0.75}}
    request = {"metricx_input": {"metric_spec": {"version": "METRICX_24_SRC"}, "instance": instance}}
    assert ask(request, service) == {"metricx_result": {"score": 0.75}}
    with pytest.raises(ConfigError, match="a judge of type vertex_eval"):
        evaluate_instances(request, judges={"default": {"type": "openai", "model": "m"}})


def test_metrics_and_an_instance() -> None:
    instance = {"prompt": {"text": "ask"}, "response": {"text": "so"}, "reference": {"text": "so"}}
    metrics = [
        {"exact_match_spec": {}},
        {"computation_based_metric_spec": {"type": "ROUGE", "parameters": {"rouge_type": "rougeL"}}},
        {"llm_based_metric_spec": {"metric_prompt_template": TEMPLATE.replace("question", "prompt")}},
        {"predefined_metric_spec": {"metric_spec_name": "instruction_following_v1"}},
        {"predefined_metric_spec": {"metric_spec_name": "gecko_text2image_v1"}},
    ]
    found = ask({"metrics": metrics, "instance": instance})["metric_results"]
    assert [one.get("score") for one in found] == [1.0, 1.0, 5.0, 0.5, None]
    rubric = {"content": {"property": {"description": "It is short."}}}
    assert found[3]["rubric_verdicts"][0]["evaluated_rubric"] == rubric
    assert found[4]["error"]["code"] == 3
    assert "'gecko_text2image_v1' (allowed: instruction_following" in found[4]["error"]["message"]
    found = ask({"metrics": metrics[:3], "instance": instance}, broken)["metric_results"]
    assert ["error" in one for one in found] == [False, False, True]
    with pytest.raises(ConfigError, match="metrics is null"):
        evaluate_instances({"metrics": None, "instance": instance})


def test_a_stream_of_requests_each_with_its_own_metric() -> None:
    pair = {"prediction": "so", "reference": "so"}
    one = {"exact_match_input": {"instances": [pair]}}
    two = {"pointwise_metric_input": {"metric_spec": {"metric_prompt_template": TEMPLATE}, "instance": {
        "json_instance": json.dumps(FIELDS)}}}  # fmt: skip
    wrong = {"exact_match_input": {"instances": [{"prediction": "so"}]}}
    found = list(evaluate_requests([one, two, wrong, json.dumps(one), b"{"] * 20, judges={"default": judge}))
    assert len(found) == 100
    assert found[0] == found[3] == {"exact_match_results": {"exact_match_metric_values": [{"score": 1.0}]}}
    assert found[1]["pointwise_metric_result"]["score"] == 5.0
    assert found[2]["error"]["status"] == found[4]["error"]["status"] == "INVALID_ARGUMENT"
    assert [has_error(response) for response in found[:5]] == [False, False, True, False, True]
    assert found[:5] * 20 == found


def test_the_command_answers_line_by_line_and_fails_with_its_judge(tmp_path: Path) -> None:
    lines = [
        {"exact_match_input": {"instances": [{"prediction": "a", "reference": "a"}]}},
        {"safety_input": {"instance": {"prediction": "a"}}},
    ]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    (tmp_path / "judge.py").write_text("def down(messages, schema):\n    raise ValueError('the judge is down')\n")
    line = [sys.executable, "-m", "evalbeam", "evaluate-instances", "--judge", "judge:down"]
    done = subprocess.run([*line, "requests.jsonl"], capture_output=True, text=True, cwd=tmp_path)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"exact_match_results": {"exact_match_metric_values": [{"score": 1.0}]}}
    assert second["error"]["message"] == "ValueError: the judge is down"
    assert (done.returncode, done.stderr) == (1, "evalbeam: 1 of 2 responses have an error\n")
    done = subprocess.run(line, input=json.dumps(lines[1]), capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["error"]["status"]) == (1, "INTERNAL")

"""Requests and answers, against the messages of google-cloud-aiplatform."""

import json
from typing import Any

import numpy as np
import pytest
from google.cloud import aiplatform_v1, aiplatform_v1beta1
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.errors import RowError
from evalbeam.schemas.formats.rapid import INPUTS, build_response, float32, read_request, read_result
from evalbeam.schemas.result import Score

APIS = {"v1": aiplatform_v1, "v1beta1": aiplatform_v1beta1}
TEXTS = ("metric_prompt_template", "system_instruction", "source_language", "target_language")
NAMES = ("candidate_response_field_name", "baseline_response_field_name")
SPEC = {"rouge_type": "rouge2", "tool_name": "lamp", "version": 2, **{name: f"the {name}" for name in (*TEXTS, *NAMES)}}
SPEC["custom_output_format_config"] = {"return_raw_output": True}
VERSIONS = {"comet": "COMET_22_SRC_REF", "metricx": "METRICX_24_SRC"}
NAMED = {"prompt": "ask", "response": "so"}
CALLS = {"tool_calls": [{"tool_name": "lamp", "tool_input": '{"on": true}'}]}


def message(api, name):
    """The descriptor of what stands under an input's key."""
    return APIS[api].EvaluateInstancesRequest.pb().DESCRIPTOR.fields_by_name[f"{name}_input"].message_type


def whole(api, name):
    """A request with every field that the API knows of an input, in snake case."""
    fields = message(api, name).fields_by_name
    known = fields["metric_spec"].message_type.fields
    spec = {f.name: SPEC.get(f.name, True) for f in known}
    if name in VERSIONS:
        spec["version"] = VERSIONS[name]
    several = "instances" in fields
    instance = fields["instances" if several else "instance"].message_type
    given = {f.name: CALLS if f.name.endswith("trajectory") else f"the {f.name}" for f in instance.fields}
    given = {"json_instance": json.dumps(NAMED)} if "json_instance" in given else given
    return {f"{name}_input": {"metric_spec": spec, **({"instances": [given] * 2} if several else {"instance": given})}}


ONLY_BETA = {name for name in INPUTS if name.startswith(("trajectory", "rubric"))}


def inputs_of(api):
    """The inputs that a request of the API may have, by its descriptor."""
    oneof = APIS[api].EvaluateInstancesRequest.pb().DESCRIPTOR.oneofs_by_name["metric_inputs"]
    return [field.name.removesuffix("_input") for field in oneof.fields]


EVERY = [(api, name) for api in APIS for name in inputs_of(api)]


@pytest.mark.parametrize("api", APIS)
def test_every_input_of_the_api_is_known(api):
    named = set(inputs_of(api))
    assert not named - set(INPUTS)
    assert set(INPUTS) - named == (ONLY_BETA if api == "v1" else set())


@pytest.mark.parametrize(("api", "name"), EVERY)
@pytest.mark.parametrize("camel", [False, True])
def test_a_request_with_all_the_api_knows_is_read_and_its_answer_is_the_apis(api, name, camel):
    module = APIS[api]
    parsed = json_format.ParseDict(whole(api, name), module.EvaluateInstancesRequest.pb()())
    sent = json_format.MessageToDict(parsed, preserving_proto_field_name=not camel)
    [asked], others = read_request(sent)
    own = name.removesuffix("_metric")  # evalbeam's own name of it
    assert (asked.name, asked.metric.removeprefix("rapid/"), others, asked.camel) == (name, own, {}, camel)
    given = whole(api, name)[f"{name}_input"]
    expected = given.get("instances") or [given["instance"]]
    expected = [NAMED if "json_instance" in one else one for one in expected]
    trajectories = [{k: v["tool_calls"] if k.endswith("trajectory") else v for k, v in i.items()} for i in expected]
    assert list(asked.instances) == trajectories
    assert asked.params == {k: v for k, v in given["metric_spec"].items() if k != "version" or name in VERSIONS}

    pairwise = name.startswith("pairwise")
    judged = Score(None if pairwise else 3.0, "TIE" if pairwise else None, "why", 0.7)
    scores = [judged] if asked.judged else [Score(1 / 3), Score.failed("x", "no score")]
    found = build_response(asked, scores)
    response = json_format.ParseDict(found, module.EvaluateInstancesResponse.pb()())
    assert json_format.MessageToDict(response, preserving_proto_field_name=not camel) == found
    [(key, value)] = found.items()
    assert key.replace("_", "").casefold().startswith(name.replace("_", ""))
    if not asked.judged:
        assert list(value.values()) == [[{"score": 0.33333334}, {}]]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False) | st.floats(-1e30, 1e30))
def test_scores_are_single_precision_in_fewest_digits(value):
    shown = float32(value)
    assert np.float32(shown) == np.float32(value)
    assert len(repr(shown)) <= len(repr(float(str(np.float32(value)))))


PAIR = {"prediction": "a", "reference": "b"}


@pytest.mark.parametrize(
    "body", [{"instance": PAIR}, {"instances": PAIR}, {"instances": [PAIR]}, {"instance": [PAIR], "metric_spec": None}]
)
def test_one_instance_in_all_the_ways_the_documents_write_it(body):
    [asked], _ = read_request({"tool_name_match_input": body})
    assert asked.instances == (PAIR,)


def test_names_that_the_documents_write_otherwise():
    whole = {**PAIR, "instruction": "i", "context": "c"}
    both = {**whole, "baseline_prediction": "z"}
    for instance, name in ((whole, "question_answering_quality"), (both, "pairwise_question_answering_quality")):
        [asked], _ = read_request({"question_answering_quality_input": {"instance": instance}})
        assert asked.name == name
    [asked], _ = read_request({"rouge_input": {"instances": PAIR, "metric_spec": {"rouge_type": "rougen3"}}})
    assert asked.params == {"rouge_type": "rouge3"}


@pytest.mark.parametrize("empty", [{}, {"toolCalls": []}, {"tool_calls": None}, []])
def test_an_empty_trajectory_is_one(empty):
    [asked], _ = read_request({"trajectorySingleToolUseInput": {"instances": [{"predictedTrajectory": empty}]}})
    assert asked.instances == ({"predicted_trajectory": []},)


def test_names_inside_a_tools_input_stay_as_they_are():
    call = {"toolName": "setLamp", "toolInput": {"roomName": "hall", "isOn": True}}
    body = {"instances": [{"predictedTrajectory": {"toolCalls": [call]}}]}
    [asked], _ = read_request({"trajectorySingleToolUseInput": body})
    assert asked.instances[0]["predicted_trajectory"] == [
        {"tool_name": "setLamp", "tool_input": {"roomName": "hall", "isOn": True}}
    ]


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ({}, "asks for no metric; it has no keys .allowed: exact_match_input, bleu_input"),
        ({"rouge": {}}, "it has rouge"),
        ({"bleu_input": [PAIR]}, r"bleu_input is a list .allowed: an object with metric_spec, instances"),
        ({"bleu_input": {"instances": []}}, "bleu_input: found 0 instances"),
        ({"bleu_input": {"instances": [PAIR, {"prediction": "a"}]}}, r"bleu_input.instances\[1\] has no reference"),
        ({"bleu_input": {"instances": [{**PAIR, "reference": None}]}}, "has no reference"),
        ({"bleu_input": {"instances": [{**PAIR, "context": "c"}]}}, r"has a field 'context' .allowed: prediction, ref"),
        ({"bleu_input": {"instances": [{**PAIR, "reference": 5}]}}, r"reference is a number .allowed: a string"),
        ({"bleu_input": {"instances": ["a"]}}, r"instances\[0\] is a string"),
        ({"bleu_input": {"instances": [PAIR], "metric_spec": {"stem": 1}}}, "metric_spec has a field 'stem'"),
        ({"fluency_input": {"instance": [{"prediction": "a"}] * 2}}, "found 2 instances .allowed: one instance"),
        ({"bleu_input": {"instances": PAIR}, "bleuInput": {"instances": PAIR}}, "two inputs for bleu"),
    ],
)
def test_what_is_no_request_is_told_with_its_place(request_, found):
    with pytest.raises(RowError, match=found):
        read_request(request_)


@pytest.mark.parametrize("key", ["question_answering_relevancy_input", "questionAnsweringRelevancyInput"])
def test_the_misprint_of_the_documents_is_read_as_what_it_means(key: str) -> None:
    body = {"instance": {"prediction": "p", "instruction": "i", "context": "c"}}
    ((asked,), _) = read_request({key: body})
    assert (asked.name, asked.metric) == ("question_answering_relevance", "rapid/question_answering_relevance")


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ({"question_answering_relevancy_result": {"score": "4"}}, {"explanation": "", "confidence": 1.0, "score": "4"}),
        (
            {"pairwiseSummarizationQualityResult": {"pairwiseChoice": "TIE", "explanation": "e", "confidence": 0.5}},
            {"pairwise_choice": "TIE", "explanation": "e", "confidence": 0.5},
        ),
        ({"score": 4}, {"score": 4}),
        ({"some_result": {"score": 4}}, {"some_result": {"score": 4}}),
        ({"fluency_result": 4}, {"fluency_result": 4}),
        ("text", "text"),
    ],
)
def test_a_result_of_the_api_is_the_answer_in_it(response: Any, read: Any) -> None:
    assert read_result(response) == read

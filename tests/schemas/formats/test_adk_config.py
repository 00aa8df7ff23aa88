"""test_config.json: what google-adk reads in it, and what it lets pass that is refused here."""

import json

import pytest

from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.formats.adk_config import DEFAULT, Criterion, default_config, read_config


def test_numbers_objects_and_spellings():
    config = read_config(
        {
            "criteria": {
                "tool_trajectory_avg_score": {"threshold": 1, "matchType": "in-order", "ignoreArgs": True},
                "response_match_score": "0.8",
                "safety_v1": 1,
                "mine": {"threshold": 0.5},
            },
            "customMetrics": {"mine": {"codeConfig": {"name": "pkg.mod.fn"}}},
            "userSimulatorConfig": {"model": "m"},
            "somethingElse": 1,
        },
        "test_config.json",
    )
    assert config.criteria == (
        Criterion("tool_trajectory_avg_score", 1.0, {"match_type": "IN_ORDER", "ignore_args": True}),
        Criterion("response_match_score", 0.8),
        Criterion("safety_v1", 1.0),
        Criterion("mine", 0.5, function="pkg.mod.fn"),
    )
    assert config.judged == ["safety_v1"]
    assert config.user_simulator == {"model": "m"}


@pytest.mark.parametrize(
    ("given", "meant"), [(0, "EXACT"), (1, "IN_ORDER"), (2, "ANY_ORDER"), ("any order", "ANY_ORDER")]
)
def test_match_types_as_google_adk_reads_them(given, meant):
    metrics = pytest.importorskip("google.adk.evaluation.eval_metrics")
    value = {"threshold": 1.0, "match_type": given}
    assert metrics.ToolTrajectoryCriterion.model_validate(value).match_type.name == meant
    (criterion,) = read_config({"criteria": {"tool_trajectory_avg_score": value}}, "x").criteria
    assert criterion.options["match_type"] == meant


def test_defaults_are_those_of_google_adk():
    config = pytest.importorskip("google.adk.evaluation.eval_config")
    assert dict(DEFAULT) == config._DEFAULT_EVAL_CONFIG.criteria
    assert read_config({}, "x").criteria == default_config().criteria


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "an object with criteria"),
        ({"criteria": {}}, "an object of thresholds"),
        ({"criteria": {"response_mach_score": 0.8}}, "no metric named 'response_mach_score'.*response_match_score"),
        ({"criteria": {"response_match_score": {}}}, "no threshold"),
        ({"criteria": {"response_match_score": "high"}}, "threshold 'high'"),
        ({"criteria": {"response_match_score": True}}, "threshold True"),
        ({"criteria": {"response_match_score": "nan"}}, "threshold 'nan'"),
        ({"criteria": {"response_match_score": float("inf")}}, "threshold inf"),
        ({"criteria": {"response_match_score": 10**400}}, "the threshold 1000"),
        ({"criteria": {"token_usage_v1": 3}}, "takes no threshold"),
        (
            {"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "match_type": "SOME"}}},
            "match_type: found 'SOME'",
        ),
        ({"custom_metrics": {"mine": {"name": "x"}}, "criteria": {"mine": 1}}, "custom_metrics.mine"),
    ],
)
def test_what_cannot_be_used_is_named(data, words):
    with pytest.raises(ConfigError, match=words):
        read_config(data, "test_config.json")


def test_every_public_configuration_loads(conformance):
    files = sorted((conformance / "adk" / "files").glob("*config.json"))
    configs = {f.name: read_config(json.loads(f.read_text()), f.name) for f in files}
    assert len(configs) == 5
    (rubrics,) = configs["starter-pack__eval_config.json"].criteria
    assert rubrics.options["judge_model_options"]["num_samples"] == 1
    assert rubrics.options["rubrics"][0]["rubric_content"]["text_property"]

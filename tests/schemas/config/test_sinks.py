"""The sections of sinks: what they take, and that no secret gets into a configuration or a message."""

from __future__ import annotations

from typing import Any

import pytest

from evalbeam import ConfigError, EvaluationConfig

BASE: dict[str, Any] = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"]}
MLFLOW: dict[str, Any] = {"experiment": "bot"}
VERTEX: dict[str, Any] = {"project": "p", "experiment": "bot"}


def parse(**output: Any) -> EvaluationConfig:
    return EvaluationConfig.parse({**BASE, "output": output}, "eval.yaml")


def test_a_switch_is_short_for_the_collector_of_the_environment() -> None:
    assert parse(otel=True).output.otel == parse(otel={}).output.otel
    assert parse(otel=False).output.otel is None
    assert parse().output.otel is None


@pytest.mark.parametrize(
    "address",
    [
        "http://me:hunter2@host:5000",
        "https://hunter2@host",
        "postgresql://me:hunt/er2@host/db",
        "https://host/mlflow?token=hunter2",
        "https://host?x=1&API-Key=hunter2",
    ],
)
@pytest.mark.parametrize("section", ["mlflow", "otel"])
def test_an_address_with_a_secret_is_refused_without_showing_it(address: str, section: str) -> None:
    key = {"mlflow": "tracking_uri", "otel": "endpoint"}[section]
    with pytest.raises(ConfigError, match=rf"output\.{section}\.{key}: .*without a password or token") as refused:
        parse(**{section: {**(MLFLOW if section == "mlflow" else {}), key: address}})
    assert not {"hunter2", "er2"} & set(
        str(refused.value).replace("@", " ").replace("=", " ").replace("'", " ").split()
    )


@pytest.mark.parametrize("address", ["http://127.0.0.1:5000", "sqlite:///a.db", "databricks://profile", "file:///a"])
def test_an_address_without_one_is_taken(address: str) -> None:
    found = parse(mlflow={**MLFLOW, "tracking_uri": address}).output.mlflow
    assert found is not None
    assert found.tracking_uri == address


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ({"mlflow": {"tracking_uri": "http://h"}}, "output.mlflow.experiment: missing"),
        ({"mlflow": {"experiment": " "}}, r"output.mlflow.experiment: found ' ' \(allowed: a name\)"),
        ({"mlflow": {**MLFLOW, "max_traces": -1}}, "output.mlflow.max_traces: found -1"),
        ({"mlflow": {**MLFLOW, "token": "x"}}, "output.mlflow.token: unknown key 'token'"),
        ({"mlflow": "http://me:hunter2@h"}, r"output.mlflow: found 'http://\*\*\*@h'"),
        ({"otel": {"endpoint": "host:4318"}}, "output.otel.endpoint: .*http:// or https://"),
        ({"otel": "http://h"}, "output.otel: found .*true, false, or a mapping with endpoint"),
        ({"vertex_experiment": {**VERTEX, "experiment": "My Bot"}}, "lower-case letters, digits and -"),
        ({"vertex_experiment": {"experiment": "bot"}}, "output.vertex_experiment.project: missing"),
    ],
)
def test_mistakes_are_named(output: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        parse(**output)
    assert "hunter2" not in str(refused.value)

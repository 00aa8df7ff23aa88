"""The flex template: its description, and what its parameters become."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from google.cloud import dataflow_v1beta3 as dataflow
from google.protobuf.json_format import ParseError

from evalbeam.pipelines.cli.flex_template import PARAMETERS, main, settings_of, split
from evalbeam.schemas.errors import ConfigError


@pytest.fixture
def metadata(root: Path) -> dict[str, Any]:
    return json.loads((root / "deploy" / "dataflow" / "metadata.json").read_text())


def test_dataflow_takes_the_description(metadata: dict[str, Any]) -> None:
    spec = {"image": "r-docker.pkg.dev/p/r/evalbeam:1", "sdkInfo": {"language": "PYTHON"}, "metadata": metadata}
    read = dataflow.ContainerSpec.from_json(json.dumps(spec))
    assert [p.name for p in read.metadata.parameters] == [PARAMETERS[0], "sdk_container_image", *PARAMETERS[1:]]
    assert all(p.label and p.help_text.endswith(".") and p.regexes for p in read.metadata.parameters)
    assert [p.name for p in read.metadata.parameters if not p.is_optional] == ["config", "sdk_container_image"]
    metadata["parameters"][0]["helptext"] = metadata["parameters"][0].pop("helpText")
    with pytest.raises(ParseError, match="helptext"):
        dataflow.ContainerSpec.from_json(json.dumps({"metadata": metadata}))


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("config", ["gs://b/eval.yaml", "gs://b/x/e.json"], ["eval.yaml", "gs://b/eval.txt", "gs://b/a\n.yaml"]),
        ("sdk_container_image", ["eu-docker.pkg.dev/p/r/evalbeam:1"], ["evalbeam", "a b/c", ""]),
        ("run_date", ["2026-11-21"], ["2026-11", "today", "2026-11-21T00"]),
        ("dataset", ["gs://b/*.jsonl"], ["/data", ""]),
        ("output", ["gs://b/run_date=2026-11-21"], ["out"]),
        ("settings", ['{"a.b": 1}'], ["a=1", ""]),
        ("overwrite", ["true", "false"], ["yes", "True"]),
        ("resume_anyway", ["true", "false"], ["1"]),
    ],
)
def test_patterns(metadata: dict[str, Any], name: str, good: list[str], bad: list[str]) -> None:
    (parameter,) = [p for p in metadata["parameters"] if p["name"] == name]
    fits = [[all(re.search(r, v) for r in parameter["regexes"]) for v in values] for values in (good, bad)]
    assert fits == [[True] * len(good), [False] * len(bad)]


def test_what_parameters_become() -> None:
    given = ["--config=gs://b/e.yaml", "--run_date=", "--output=gs://b/o", "--overwrite=true", "--resume_anyway=false"]
    given += ['--settings={"dataset.limit": 7, "agent.version": "2"}', "--runner=DataflowRunner", "--project", "p"]
    parameters, flags = split(given)
    assert flags == ["--runner=DataflowRunner", "--project", "p"]
    assert "run_date" not in parameters
    assert [(key, value) for _, key, value in settings_of(parameters)] == [
        ("output.path", "gs://b/o"),
        ("output.overwrite", True),
        ("dataset.limit", 7),
        ("agent.version", "2"),
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--settings=[1]", r"--settings: found '\[1\]'"),
        ("--settings={", "--settings: not valid JSON"),
        ("--overwrite=yes", "--overwrite: found 'yes'.*true, false"),
        ("--output", "--output: has no value"),
    ],
)
def test_parameters_that_cannot_be_used(word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_of(split(["--config=e.yaml", word])[0])
    assert main(["--config=e.yaml", word]) == 2
    assert word.partition("=")[0] in capsys.readouterr().err


def test_a_configuration_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run_date=2026-11-21"]) == 2
    assert "--config: missing" in capsys.readouterr().err

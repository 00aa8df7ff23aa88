"""One configuration for every day: what is filled in, where, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.config.placeholders import fill, parse_day
from evalbeam.schemas.errors import ConfigError

ENVIRON = {"BUCKET": "gs://b", "NESTED": "{run_date}${BUCKET}"}


def filled(path: object, run_date: str | None = "2026-11-21") -> object:
    data = {"dataset": {"path": path}}
    fill(data, run_date, "eval.yaml", ENVIRON)
    return data["dataset"]["path"]


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("${BUCKET}/logs/{run_date}/*.jsonl", "gs://b/logs/2026-11-21/*.jsonl"),
        (["a/{run_date}", "${BUCKET}/b", 7], ["a/2026-11-21", "gs://b/b", 7]),
        ("${NESTED}", "{run_date}${BUCKET}"),  # what is filled in is not looked at again
        ("$BUCKET {date} {} $ {run_date", "$BUCKET {date} {} $ {run_date"),
        ("a", "a"),
        (7, 7),
    ],
)
def test_what_is_filled_in(given_: object, expected: object) -> None:
    assert filled(given_) == expected


def test_only_paths_are_looked_at() -> None:
    data = {"dataset": {"id": "{run_date}"}, "agent": {"target": "${BUCKET}"}, "output": {"path": "out/{run_date}"}}
    fill(data, "2026-11-21", "eval.yaml", ENVIRON)
    assert data["dataset"] == {"id": "{run_date}"}
    assert data["agent"] == {"target": "${BUCKET}"}
    assert data["output"] == {"path": "out/2026-11-21"}


@given(st.text(alphabet="{}$_runadteBUCKET/ ", max_size=30))
def test_text_without_placeholders_stays(text: str) -> None:
    if "{run_date}" not in text and "${" not in text:
        assert filled(text, None) == text


def test_what_has_no_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"eval.yaml: dataset.path: \{run_date\} has no value.*--run-date"):
        filled("{run_date}", None)
    with pytest.raises(ConfigError, match=r"dataset.path: the environment variable ABSENT is not set"):
        filled("${ABSENT}")
    with pytest.raises(ConfigError, match=r"dataset.path: \$\{env:BUCKET\} refers to a secret \(allowed: \$\{NAME\}"):
        filled("${env:BUCKET}/logs")


@pytest.mark.parametrize("data", [None, [], "text", {}, {"dataset": None}, {"dataset": ["path"]}])
def test_what_is_no_configuration_is_left_to_its_check(data: object) -> None:
    fill(data, None, "eval.yaml", ENVIRON)


def test_days() -> None:
    assert parse_day("2026-11-21") == parse_day("20261121") == "2026-11-21"
    for wrong in ("2026-13-01", "yesterday", "", "2026-11-21T00:00:00"):
        with pytest.raises(ConfigError, match="--run-date"):
            parse_day(wrong)


def test_a_day_is_run_again_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOT", "days")
    for name in ("2026-11-20", "2026-11-21"):
        Path(f"{name}.jsonl").write_text(json.dumps({"prompt": name, "response": "a", "reference": "a"}))
    config = {"dataset": {"path": "{run_date}.jsonl"}, "metrics": ["exact_match"]}
    Path("eval.json").write_text(json.dumps({**config, "output": {"path": "${ROOT}/run_date={run_date}"}}))
    assert main(["run", "eval.json"]) == 2
    for name in ("2026-11-20", "2026-11-21"):
        assert main(["run", "eval.json", "--run-date", name]) == 0
        manifest = json.loads(Path(f"days/run_date={name}/manifest.json").read_text())
        assert manifest["config"]["dataset"]["path"] == f"{name}.jsonl"
    assert main(["run", "eval.json", "--run-date", "today"]) == 2
    assert "found 'today'" in capsys.readouterr().err

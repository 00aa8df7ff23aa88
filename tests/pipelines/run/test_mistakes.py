"""All mistakes of a configuration are told at once, each with its place, without what only follows from another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam import evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.schemas.errors import ConfigErrors

ROW = {"prompt": "a", "reference": "x", "response": "x", "country": "de"}
VALID: dict[str, Any] = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"], "output": {"path": "out"}}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    monkeypatch.chdir(tmp_path)


def told(config: dict[str, Any], capsys: pytest.CaptureFixture[str], command: str = "check") -> list[str]:
    """The mistakes that a command prints, up to what is allowed."""
    Path("eval.yaml").write_text(json.dumps({**VALID, **config}))
    assert main([command, "eval.yaml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("evalbeam: error: ") for line in lines)
    assert not Path("out").exists()
    return [line.removeprefix("evalbeam: error: ").partition(" (allowed")[0] for line in lines]


@pytest.mark.parametrize("command", ["check", "run"])
def test_each_stage_tells_its_mistakes_at_once(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "metrics": ["exact_match", "rouge_q", {"metric": "grounding", "cheker": "lexical"}, "fluency"],
        "criteria": {"exact_mach": 0.5},
        "slices": ["contry"],
    }
    expected = [
        "metrics.1: no metric named 'rouge_q'; did you mean 'rouge_l', 'rouge_9' or 'rouge_8'?",
        "metrics.2: grounding has no parameter 'cheker'; did you mean 'checker'?",
        "judges: the metric 'fluency' asks the judge 'default', which is not there",
        "criteria.0.metric: no metric named 'exact_mach'; did you mean 'exact_match'?",
    ]
    column = "slices: the dataset has no column 'contry'; did you mean 'country'?"
    assert told(config, capsys, command) == [*expected, column]
    missing = "dataset.path: there is no file at 'rowz.jsonl'"
    assert told({**config, "dataset": {"path": "rowz.jsonl"}}, capsys, command) == [*expected, missing]


def test_what_a_refused_metric_would_have_made_true_is_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "metrics": ["exact_match", {"metric": "rouge_q", "name": "words"}],
        "criteria": [{"metric": "words", "min": 0.5}, {"metric": "words/corpus", "min": 0.5}],
        "gate": {"metrics": ["words"], "corrected": True},
        "statistics": {"ratios": {"share": ["words", "exact_match"]}},
    }
    told_of = told(config, capsys)
    assert told_of == ["metrics.1: no metric named 'rouge_q'; did you mean 'rouge_l', 'rouge_9' or 'rouge_8'?"]


@pytest.mark.parametrize(
    ("agent", "place"),
    [
        ({"target": "no_such_module:ask"}, "agent.target"),
        ({"type": "htpt", "target": "https://agent.example.com", "mode": "batch"}, "agent.type"),
        ({"target": "no_such_module:ask", "packages": ["none.whl"]}, "agent.packages.0"),
    ],
)
def test_the_other_sections_are_checked_without_the_agent(
    agent: dict[str, Any], place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """That the rows have no answer, and that a replay needs an agent, follows from the agent that was refused."""
    Path("rows.jsonl").write_text(json.dumps({"prompt": "a", "country": "de"}))
    config = {
        "agent": agent,
        "replay": "earlier",
        "statistics": {"sequential": {"metric": "failure", "threshold": 0.5}, "cluster": "contry"},
        "slices": ["prompd"],
    }
    places = [line.partition(":")[0] for line in told(config, capsys)]
    assert places == [place, "statistics.sequential", "statistics.cluster", "slices"]


def test_each_criterion_path_and_column_is_told_and_each_judge_once(capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "metrics": ["exact_match", "fluency", "safety"],
        "judges": {"defualt": {"type": "google", "model": "m"}},
        "criteria": [{"metric": "exact_match", "max": 90}, {"metric": "exact_match", "statistic": "meen", "min": 0}],
        "gate": {"metrics": ["exact_macth"], "margins": {"exact_match": 2}},
    }
    assert told({**config, "dataset": {"path": ["a.jsonl", "rows.jsonl", "b.jsonl"]}}, capsys) == [
        "judges: the metric 'fluency' asks the judge 'default', which is not there; did you mean 'defualt'?",
        "criteria.0.max: found 90, which is beyond every mean of exact_match",
        "criteria.1.statistic: no statistic named 'meen'; did you mean 'mean' or 'median'?",
        "gate.metrics: no metric named 'exact_macth'; did you mean 'exact_match'?",
        "dataset.path: there is no file at 'a.jsonl'",
        "dataset.path: there is no file at 'b.jsonl'",
    ]
    assert told({"slices": ["contry", ["prompt", "promp"]]}, capsys) == [
        "slices: the dataset has no column 'contry'; did you mean 'country'?",
        "slices: the dataset has no column 'promp'; did you mean 'prompt'?",
    ]


def test_names_of_metrics_are_not_looked_up_if_the_dialect_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    config = {"dataset": {"path": "rows.jsonl", "dialect": "databrick"}, "metrics": ["guidelines_of_mine"]}
    told_of = told(config, capsys)
    assert told_of == ["dataset.dialect: no dialect named 'databrick'; did you mean 'databricks'?"]


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_misspelt_key_is_told_with_all_the_rest(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "shardz": 4,
        "trials": "x",
        "dataset": {"path": "rowz.jsonl", "limitt": 5},
        "metrics": ["exact_match", "rouge_q", "fluency"],
        "criteria": {"exact_mach": 0.5, "rouge_q": 0.4},
    }
    assert told(config, capsys, command) == [
        "eval.yaml: dataset.limitt: unknown key 'limitt'; did you mean 'limit'?",
        "eval.yaml: trials: found 'x'",
        "eval.yaml: shardz: unknown key 'shardz'; did you mean 'shards'?",
        "metrics.1: no metric named 'rouge_q'; did you mean 'rouge_l', 'rouge_9' or 'rouge_8'?",
        "judges: the metric 'fluency' asks the judge 'default', which is not there",
        "criteria.0.metric: no metric named 'exact_mach'; did you mean 'exact_match'?",
        "dataset.path: there is no file at 'rowz.jsonl'",
    ]
    column = "slices: the dataset has no column 'contry'; did you mean 'country'?"
    assert told({"shardz": 4, "slices": ["contry"]}, capsys, command)[1:] == [column]


@pytest.mark.parametrize(
    "config",
    [
        {"juges": {"default": {"type": "google", "model": "m"}}, "metrics": ["fluency"]},
        {"judges": {"default": 7}, "metrics": ["fluency"]},
        {
            "judges": {"default": {"target": "json:loads", "timeout": "x"}, "other": {"target": "json:loads"}},
            "metrics": ["fluency", {"metric": "safety", "judge": "other"}],
        },
        {"agnet": {"target": "no_such_module:ask"}, "replay": "earlier"},
        {"metricz": ["exact_match"], "metrics": [{"nme": "a"}], "criteria": {"words": 0.5}},
        {"dataset": {"pth": "rowz.jsonl"}},
        {"dataset": {"path": "rows.jsonl", "columnz": {"country": {"as": "reference"}}}, "slices": ["contry"]},
        {"slicez": ["country"], "criteria": [{"metric": "exact_match", "min": 0.5, "slice": {"country": "de"}}]},
        {"statistics": {"ratioz": {"share": ["failure", "exact_match"]}}, "criteria": {"share": 0.5}},
        {"dataset": {"path": "rows.jsonl", "dialekt": "databricks"}, "metrics": ["guidelines"]},
    ],
)
def test_what_only_follows_from_a_refused_key_is_no_mistake(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert all(line.startswith("eval.yaml: ") for line in told(config, capsys))


def test_evaluate_raises_them_together() -> None:
    with pytest.raises(ConfigErrors) as caught:
        evaluate([ROW], ["rouge_q"], shardz=4, criteria={"exact_mach": 0.5}, trials=0)  # type: ignore[call-arg]
    assert [error.where for error in caught.value.errors] == ["trials", "shardz", "metrics.0", "criteria.0.metric"]

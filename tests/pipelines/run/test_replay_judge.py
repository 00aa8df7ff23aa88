"""Judges of type replay: a run scored again by what judges said in another one, without a call."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from written import instances

from evalbeam import evaluate
from evalbeam.pipelines.check.check import check
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.run.result import EvaluationResult
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Usage
from evalbeam.schemas.judging import Reply

ROWS = [
    {"prompt": f"question {i}", "response": f"{i}: " + "word " * (i % 5 + 1), "context": f"text {i % 2}"}
    for i in range(40)
]
PANEL = {"metric": "fluency", "samples": 3, "aggregate": "median"}
SEEN: Counter[str] = Counter()


async def by_words(messages: list[dict[str, str]], schema: dict[str, Any], vote: int) -> Reply:
    """A scripted judge: as many points as the answer has words, less one where the number of the vote is odd."""
    text = messages[-1]["content"]
    SEEN[text + str(vote)] += 1
    if "13: " in text:
        raise TimeoutError("slow")
    if "14: " in text:
        return Reply("I would rather not.", usage=Usage(100, 5), finish="refused")
    score = max(1, text.count("word ") - vote % 2)
    return Reply(value={"explanation": f"{score} words", "score": score}, usage=Usage(100, 10))


@pytest.fixture
def first(tmp_path: Path) -> str:
    """Folder of a run whose panel of three failed on one row and was refused on another."""
    SEEN.clear()
    judges = {"default": {"target": by_words, "model": "m-1", "max_attempts": 1}}
    evaluate(ROWS, [PANEL], judges=judges, output=str(tmp_path / "first"))
    assert sum(SEEN.values()) == 120
    return str(tmp_path / "first")


def again(first: str, metrics: list[Any], **more: Any) -> EvaluationResult:
    judge = {"type": "replay", "run": first}
    return evaluate(ROWS, metrics, **{"judges": {"default": judge}, "output": f"{first}-again", **more})


def summary_of(folder: str) -> list[dict[str, Any]]:
    """The summary but for what was paid."""
    rows = pq.read_table(f"{folder}/summary.parquet").to_pylist()
    return [{k: v for k, v in row.items() if k not in ("judges", "judge_cost")} for row in rows]


def test_a_run_is_repeated_byte_for_byte_without_a_call(first: str) -> None:
    SEEN.clear()
    result = again(first, [PANEL])
    assert (result.state, sum(SEEN.values())) == ("finished", 0)
    assert instances(f"{first}-again") == instances(first)
    assert summary_of(f"{first}-again") == summary_of(first)
    statuses = Counter(result.metrics_table["fluency/status"])
    assert statuses == {"scored": 38, "error": 2}


def test_the_same_votes_are_counted_and_summed_up_in_other_ways(first: str) -> None:
    SEEN.clear()
    prices = {"m-1": {"input": 2.0, "output": 10.0, "date": "2026-11-01"}}
    more: dict[str, Any] = {"slices": [["context"]], "criteria": {"fluency": 3}, "prices": prices}
    result = again(first, [PANEL | {"aggregate": "mean"}], **more)
    table = result.metrics_table
    assert table["fluency/score"].dropna().tolist()[:2] == [1.0, pytest.approx((2 + 1 + 2) / 3)]
    assert (result.verdict, sum(SEEN.values())) == ("FAILED", 0)
    assert result.manifest["judging"]["cost"] == 0.0
    (spent,) = result.manifest["judging"]["spent"]
    assert (spent["model"], spent["answers"], spent["input_tokens"]) == ("m-1", 114, 11_700)


def test_what_was_not_asked_there_is_skipped_and_no_reason_to_go_on(first: str) -> None:
    SEEN.clear()
    with pytest.warns(UserWarning, match="no row was scored: fluency"):
        result = again(first, [PANEL | {"samples": 5}, "coherence"])
    assert (result.state, result.exit_code, sum(SEEN.values())) == ("finished", 3, 0)
    table = result.metrics_table
    assert set(table["fluency/status"]) == set(table["coherence/status"]) == {"skipped"}
    assert set(table["coherence/error"]) == {"not_called: not called: the replayed run has no answer"}
    assert not list(Path(f"{first}-again", "journal", "judges").glob("??"))


def test_check_says_which_prompts_are_new(first: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, ROWS)))
    section = {"dataset": {"path": str(tmp_path / "rows.jsonl")}, "metrics": ["fluency", "coherence"]}
    judges = {"default": {"type": "replay", "run": first}}
    found = check(EvaluationConfig.parse(section | {"judges": judges})).render(200)
    lines = [line for line in found.splitlines() if "the replayed run did not ask" in line]
    assert [line.split()[0] for line in lines] == ["coherence"]
    assert "skipped: the replayed run did not ask rapid/coherence" in lines[0]


def test_a_judge_of_another_name_and_settings_of_the_command_line(first: str, tmp_path: Path, capsys: Any) -> None:
    SEEN.clear()
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, ROWS)))
    (tmp_path / "eval.yaml").write_text(
        f"dataset: {{path: {tmp_path}/rows.jsonl}}\njudges: {{strict: gone:gone}}\n"
        "metrics: [{metric: fluency, judge: strict, samples: 3, aggregate: median}]\n"
    )
    judge = f"{{type: replay, run: {first}, judge: default}}"
    options = ["--set", f"judges.strict={judge}", "--output", str(tmp_path / "out")]
    assert main(["run", str(tmp_path / "eval.yaml"), *options]) == 0
    assert sum(SEEN.values()) == 0
    assert EvaluationResult.load(str(tmp_path / "out")).summary_metrics["fluency/mean"] > 1


def test_what_cannot_be_replayed_is_told_before_the_run(first: str) -> None:
    again(first, [PANEL])
    cases = [
        ({"run": "nowhere"}, "judges.default.run: no votes of judges at 'nowhere'"),
        ({"run": first, "judge": "strict"}, r"judges.default.judge: .* asked no judge 'strict' \(allowed: default\)"),
        ({"run": f"{first}-again"}, r"has no votes of its own of 'default' \(allowed: .*first\)"),
        ({"run": first, "judg": "x"}, "unknown key 'judg'"),
        ({}, "'run'"),
        ({"run": first, "mode": "batch"}, "batch"),
    ]
    for judge, message in cases:
        with pytest.raises(ConfigError, match=message):
            again(first, [PANEL], judges={"default": {"type": "replay", **judge}}, output=f"{first}-third")
    with pytest.raises(ConfigError, match=r"own output\.path"):
        again(first, [PANEL], output=f"{first}/", output_options={"overwrite": True})
    assert instances(first)

"""A run that scores nothing does not end well, and one that cannot is refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam import ConfigError, EvalTask, EvaluationResult, evaluate
from evalbeam.pipelines.cli.main import main

ROWS = [{"prompt": p, "reference": "x"} for p in "abc"]
ANSWERED = [{**row, "response": "x"} for row in ROWS]


def breaks(row: dict[str, Any]) -> float:
    raise KeyError("gone")


def fails(prompt: str) -> str:
    raise ValueError("no such thing")


def unscored(rows: Any, metrics: list[Any], runnable: Any = None, **config: Any) -> EvaluationResult:
    """The result of a run that warns that it shows nothing."""
    with pytest.warns(UserWarning, match="the run finished, but no"):
        return evaluate(rows, metrics, runnable, **config)


def lines(folder: Path, rows: list[dict[str, Any]], name: str = "rows.jsonl") -> str:
    path = folder / name
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def test_without_agent_and_answers_a_run_is_refused_before_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("prompt,reference\na,x\nb,x\n")
    for dataset in (lines(tmp_path, ROWS), str(table)):
        for command in ("run", "check"):
            arguments = ["--dataset", dataset, "--metrics", "exact_match", "--output", str(tmp_path / "out")]
            assert main([command, *arguments]) == 2
            err = capsys.readouterr().err
            assert "no column 'response' or 'predicted_trajectory' with an answer in it; the columns are prompt" in err
    assert not list((tmp_path / "out").glob("*"))


def test_python_raises_what_the_sdk_of_vertex_raises() -> None:
    with pytest.raises(ValueError, match="needs a column 'response'") as raised:
        EvalTask(dataset=ROWS, metrics=["exact_match"]).evaluate()
    assert isinstance(raised.value, ConfigError)
    with pytest.raises(ConfigError, match="no column 'response'"):
        evaluate(ROWS, ["exact_match"])


def test_one_answer_far_down_or_recorded_failures_are_a_recording(tmp_path: Path) -> None:
    rows = [{"prompt": str(i), "reference": "x"} for i in range(300)]
    rows[-1]["response"] = "x"
    result = evaluate(lines(tmp_path, rows), ["exact_match"])
    assert (result.exit_code, result.reason) == (0, None)
    failed = [{**row, "failure": 1} for row in ROWS]
    result = unscored(failed, ["exact_match"])
    assert (result.exit_code, result.reason) == (
        3, "none of 3 rows has an answer (3 failed); the errors table says why",
    )  # fmt: skip
    assert unscored(failed, ["exact_match"], criteria={"exact_match": 0.5}).exit_code == 3
    assert evaluate(failed, ["exact_match"], criteria={"failure": {"max": 0.5}}).exit_code == 1
    assert evaluate(failed, ["exact_match"], criteria={"failure": {"max": 1.0}}).exit_code == 0


def test_calls_that_all_failed_end_with_3_and_tables(tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    result = unscored(ROWS, ["exact_match"], fails, output=output, agent={"max_attempts": 1})
    assert (result.state, result.exit_code) == ("finished", 3)
    assert len(result.metrics_table) == len(result.errors_table) == 3
    assert main(["wait", output]) == 3


def test_a_metric_that_fails_on_every_row_ends_with_3_unless_its_criterion_decides() -> None:
    metrics = ["exact_match", {"metric": breaks, "name": "mine"}]
    result = unscored(ANSWERED, metrics)
    assert (result.state, result.exit_code) == ("finished", 3)
    assert (result.reason or "").startswith("no row was scored by mine (3 errors, 0 skipped)")
    assert result.summary_metrics["exact_match/mean"] == 1.0
    assert unscored(ANSWERED, metrics, criteria={"exact_match": 0.5}).exit_code == 3
    allowed = [{"metric": "mine", "statistic": "error_count", "max": 3}]
    assert evaluate(ANSWERED, metrics, criteria=allowed).exit_code == 0
    strict = [{"metric": "mine", "statistic": "coverage", "min": 0.9}]
    assert evaluate(ANSWERED, metrics, criteria=strict).exit_code == 1


def test_metrics_that_all_lack_their_inputs_end_with_3() -> None:
    rows = [{"prompt": "a", "response": "x"}]
    assert (unscored(rows, ["exact_match"]).reason or "").startswith("no row was scored: exact_match (0 errors, 1 skip")
    assert evaluate([*rows, ANSWERED[0]], ["exact_match"]).exit_code == 0

"""The summary of a run on a terminal: the verdict first, bars and worst slices that say what is so, one row whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.display.run_text import BAR_CELLS, bar, headline, render
from evalbeam.pipelines.display.terminal import columns_of


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    """Of 240 rows, those of language "de" are always wrong and those of "en" always right; 3 calls fail."""
    rows = [
        {
            "prompt": f"p{i} \x1b[31m",
            "response": "yes",
            "reference": "yes" if i % 4 else "no",
            "language": "en" if i % 4 else "de",
            "even": i % 2 == 0,
            "failure": i < 3,
            "details": {"of": [i, {"deep": True}]},
        }
        for i in range(240)
    ]
    folder = tmp_path_factory.mktemp("text") / "out"
    criteria = {"exact_match": 0.7, "failure": {"max": 0.001}}
    return evaluate(
        rows, ["exact_match", "rouge_l"], slices=[["language"], ["even"]], criteria=criteria, output=str(folder)
    )


def test_the_verdict_comes_first(result: EvaluationResult) -> None:
    first, second, *_ = render(result).splitlines()
    assert first.startswith("FAILED 1/2 criteria · 240 rows · 3 calls failed · ")
    assert second.startswith("  FAILED  failure: mean 0.0125 ")
    assert "  PASSED  exact_match: mean" in render(result, whole=True)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("whole", [False, True])
def test_nothing_is_wider_than_the_terminal(result: EvaluationResult, width: int, whole: bool) -> None:
    copied = result.output  # paths and commands are never cut
    wide = [ln for ln in render(result, width, whole).splitlines() if columns_of(ln) > width and copied not in ln]
    assert not wide


def test_the_worst_slices_are_those_of_the_table(result: EvaluationResult) -> None:
    lines = render(result).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Worst slices"))
    shown = [line.split()[:3] for line in lines[start + 1 : next(i for i in range(start, 99) if "All " in lines[i])]]
    assert shown == [["language=de", "exact_match", "0.000"]]
    first = result.worst_slices_table.iloc[0]
    assert (first["slice"], first["metric"], first["others"]) == ({"language": "de"}, "exact_match", 1.0)
    assert {*first["examples"]} < {*result.metrics_table.query("language == 'de'")["instance_id"]}


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted))
def test_a_bar_stands_where_the_interval_is(values: list[float]) -> None:
    low, mean, high = values
    drawn = bar(low, mean, high, (0.0, 1.0))
    assert len(drawn) == BAR_CELLS
    assert drawn.count("●") == 1
    for cell, mark in enumerate(drawn):
        begin, end = cell / BAR_CELLS, (cell + 1) / BAR_CELLS
        if mark == "·":
            assert end <= low or begin >= high
        elif mark == "●":
            assert begin <= mean <= end
    assert bar(low, mean, high, (1.0, 0.0)) == drawn, "where a low score is best, the axis stays"


def test_a_run_without_criteria_has_no_verdict(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "response": "b", "reference": "b"}]
    assert headline(evaluate(rows, ["exact_match"], output=str(tmp_path / "out"))) == "RUN FINISHED"


def test_one_row_is_shown_whole(result: EvaluationResult, capsys: pytest.CaptureFixture[str]) -> None:
    table = result.metrics_table
    row: Any = table[table["status"] == "failed"].iloc[0]
    assert main(["show", result.output, row["instance_id"]]) == 0
    out = capsys.readouterr().out
    assert "prompt: p0 �[31m\n" in out
    assert "details: {\n" in out or 'details:\n  {\n    "of": [' in out, "JSON has one element on each line"
    assert "language: de" in out
    assert "exact_match/status: skipped" in out
    assert main(["show", result.output, "nobody"]) == 2
    assert "no instance 'nobody'" in capsys.readouterr().err


def test_every_row_of_the_table_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trials are shown below one another, from each format of the tables."""
    rows = [{"prompt": f"p{i}", "reference": "p1"} for i in range(3)]
    for form in ("parquet", "jsonl", "csv"):
        folder = str(tmp_path / form)
        done = evaluate(rows, ["exact_match"], str.lower, trials=2, output=folder, output_options={"format": form})
        for one in sorted(set(done.metrics_table["instance_id"])):
            assert main(["show", folder, one]) == 0
            assert capsys.readouterr().out.count(f"instance_id: {one}") == 2


def test_pipes_get_plain_text_and_terminals_colours(result: EvaluationResult) -> None:
    command = [sys.executable, "-m", "evalbeam", "show", result.output]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "\x1b" not in piped


def test_a_criterion_that_failed_names_rows(tmp_path: Path) -> None:
    """Up to three, of its slice alone, whose score is beyond the bound; of failures those whose call failed."""
    rows = [
        {
            "prompt": f"p{i}",
            "response": "yes",
            "reference": "yes" if i % 4 else "no",
            "even": i % 2 == 0,
            "failure": i == 5,
        }
        for i in range(40)
    ]
    criteria = [
        {"metric": "exact_match", "min": 0.9, "slice": {"even": "true"}},
        {"metric": "failure", "max": 0.0},
        {"metric": "exact_match", "statistic": "coverage", "min": 1.0},
    ]
    result = evaluate(rows, ["exact_match"], slices=[["even"]], criteria=criteria, output=str(tmp_path / "out"))
    table = result.metrics_table
    lines = [line for line in render(result, 200).splitlines() if "such as" in line]
    wrong = set(table[(table["exact_match/score"] == 0) & table["even"]]["instance_id"])
    failed = set(table[table["status"] == "failed"]["instance_id"])
    first, second = (set(line.split("such as ")[1].split(", ")) for line in lines)
    assert (len(first), first <= wrong, second) == (3, True, failed)


def test_a_metric_that_fails_names_its_line_and_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_metrics.py").write_text(
        "import json\n\n\ndef score(row):\n    return parse(row['response'])\n\n\n"
        "def parse(text):\n    return json.loads(text)['score']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = [{"prompt": "a", "response": '{"score": 1}'}, {"prompt": "b", "response": "nonsense"}]
    result = evaluate(rows, ["own_metrics:score"], output=str(tmp_path / "out"))
    table = result.metrics_table.set_index("prompt")
    message = "JSONDecodeError: Expecting value: line 1 column 1 (char 0) (own_metrics.py, line 9)"
    assert table["own_metrics:score/error"]["b"] == message
    shown = f"  own_metrics:score failed first on {table['instance_id']['b']}: {message}"
    assert shown in render(result, 200).splitlines()
    sys.modules.pop("own_metrics")

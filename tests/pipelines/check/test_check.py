"""`evalbeam check` tells what `evalbeam run` then finds, without a call and without writing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalbeam import EvaluationConfig, EvaluationResult
from evalbeam.pipelines.check import check as module
from evalbeam.pipelines.check.check import check, format_size
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.run.take_over import decide

MISSING_PROMPT = (
    "the row has no 'prompt'; it has other "
    "(allowed: a column 'prompt', or one that is mapped: dataset.columns: {other: prompt})"
)
AGENT = """
import pathlib
def ask(prompt):
    pathlib.Path("called").touch()
    return "yes"
"""
ROWS: list[dict[str, Any]] = [
    {"prompt": f"p{i}", "reference": "yes" if i % 2 else None, "n": i, "tags": ["a"], "zip": "02134"} for i in range(30)
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("check_agent.py").write_text(AGENT)
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))


def report(**sections: Any) -> module.CheckReport:
    config = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"], "output": {"path": "out"}, **sections}
    return check(EvaluationConfig.parse(config))


LIVE = {"target": "check_agent:ask"}


def test_nothing_is_called_and_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(Path().iterdir())
    given = [
        "check",
        "--dataset",
        "rows.jsonl",
        "--agent",
        "check_agent:ask",
        "--metrics",
        "exact_match",
        "--trials",
        "3",
    ]
    assert main(given) == 0
    assert [p for p in sorted(Path().iterdir()) if p.name != "__pycache__"] == before
    out = capsys.readouterr().out
    assert "expected calls: 90 (3 trials for each row)" in out
    assert "reference missing in 10 of 20 rows" in out
    assert "columns prompt (string), n (int64), tags (list), zip (string), reference (string)" in out


def test_a_baseline_that_is_no_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--dataset", "rows.jsonl", "--agent", "check_agent:ask", "--metrics", "exact_match"]
    assert main(["check", *given, "--set", "baseline=nope"]) == 2
    assert "baseline: no finished run at 'nope'" in capsys.readouterr().err


def test_a_budget_that_is_too_small_is_a_problem() -> None:
    assert report(agent=LIVE, trials=2, budget={"max_calls": 60}).problems == []
    (problem,) = report(agent=LIVE, trials=2, budget={"max_calls": 59}).problems
    assert problem == "budget.max_calls: 30 rows need at least 60 calls (allowed: 59)"
    assert (
        report(agent=LIVE, trials=2, budget={"max_calls": 10}, dataset={"path": "rows.jsonl", "limit": 5}).problems
        == []
    )


def test_what_it_says_comes_true() -> None:
    found = report(agent=LIVE, trials=2)
    given = ["--dataset", "rows.jsonl", "--agent", "check_agent:ask", "--metrics", "exact_match", "--trials", "2"]
    assert main(["run", *given, "--output", "out"]) == 0
    result = EvaluationResult.load("out")
    assert found.rows == result.manifest["counts"]["rows"] == 30
    assert len(result.metrics_table) == 60 == (found.evaluated or 0) * 2
    skipped = (result.metrics_table["exact_match/status"] == "skipped").mean()
    assert found.lacking()["exact_match"]["reference"] / len(found.sample.examples) == skipped


def test_inputs_that_the_agent_gives_are_not_lacking() -> None:
    metrics = ["exact_match", "trajectory_exact_match"]
    assert report(agent=LIVE, metrics=metrics).lacking()["trajectory_exact_match"] == {"reference_trajectory": 20}
    recorded = report(metrics=metrics)
    assert recorded.lacking()["trajectory_exact_match"] == {"predicted_trajectory": 20, "reference_trajectory": 20}
    assert recorded.lacking()["exact_match"] == {"response": 20, "reference": 10}
    text = recorded.render(120)
    assert "20 of the first 20 rows have no answer" in text
    assert text.count("scores nothing") == 2


def test_answers_of_the_baseline_are_not_lacking() -> None:
    run = ["run", "--dataset", "rows.jsonl", "--agent", "check_agent:ask", "--metrics", "failure", "--output", "before"]
    assert main(run) == 0
    metric = "template/pairwise_fluency"
    asked = {"agent": LIVE, "judges": {"default": {"target": "check_agent:ask"}}, "metrics": [metric]}
    assert report(**asked).lacking()[metric] == {"baseline_model_response": 20}
    assert report(**asked, baseline="before").lacking()[metric] == {}


def test_columns_stand_for_fields() -> None:
    Path("rows.jsonl").write_text('{"question": "a", "gold": "b"}\n{"other": 1}\n')
    found = report(agent=LIVE, dataset={"path": "rows.jsonl", "columns": {"question": "prompt", "gold": "reference"}})
    assert found.lacking()["exact_match"] == {}
    assert found.sample.rejected == [("rows.jsonl, line 2", "missing_prompt", MISSING_PROMPT)]


@pytest.mark.parametrize(
    ("dataset", "evaluated"),
    [({}, 30), ({"limit": 7}, 7), ({"sample": 0.5}, 15), ({"sample": 0.5, "limit": 100}, 15), ({"limit": 1000}, 30)],
)
def test_limit_and_sample(dataset: dict[str, Any], evaluated: int) -> None:
    assert report(agent=LIVE, dataset={"path": "rows.jsonl", **dataset}).evaluated == evaluated


def test_rows_are_counted_or_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS * 100), "rows.parquet", row_group_size=700)
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS * 100)))
    Path("rows.csv").write_text("prompt,n\n" + "".join(f"question {i},{i}\n" for i in range(1000, 4000)))
    Path("rows.jsonl.gz").write_bytes(gzip.compress(Path("rows.jsonl").read_bytes()))
    names = ["rows.parquet", "rows.jsonl", "rows.csv", "rows.jsonl.gz"]
    found = [report(agent=LIVE, dataset={"path": name}) for name in names]
    assert [(r.rows, r.counted) for r in found] == [(3000, True)] * 4
    monkeypatch.setattr(module, "COUNTED_BYTES", 100)
    found = [report(agent=LIVE, dataset={"path": name}) for name in names]
    assert [r.counted for r in found] == [True, False, False, False]
    assert [abs((r.rows or 0) / 3000 - 1) < 0.1 for r in found[:3]] == [True] * 3
    assert found[3].rows is None
    assert "unknown" in found[3].render(100)


def test_an_output_with_a_finished_run(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--dataset", "rows.jsonl", "--agent", "check_agent:ask", "--metrics", "exact_match", "--output", "out"]
    assert main(["run", *given]) == 0
    capsys.readouterr()
    assert main(["check", *given]) == 2
    out, err = capsys.readouterr()
    assert "holds a finished run" in out
    assert err.startswith("evalbeam: error: output.path: out holds a finished run (allowed: ")
    assert "another path, --overwrite to call all rows again" in err
    assert main(["check", *given, "--overwrite"]) == 0
    assert "use --overwrite to replace it" in capsys.readouterr().out


def test_an_output_with_an_unfinished_run() -> None:
    assert report(agent=LIVE).output == "new"
    first = report(agent=LIVE)
    decide(first.plan, first.inventory).apply()
    assert report(agent=LIVE).output == "unfinished"
    assert report(agent=LIVE).problems == []
    other = {**LIVE, "version": "2"}
    assert report(agent=other).output == "changed"
    assert "--resume-anyway" in report(agent=other).problems[0]
    assert report(agent=other, output={"path": "out", "resume_anyway": True}).problems == []
    assert report(agent=other, output={"path": "out", "overwrite": True}).problems == []


@pytest.mark.parametrize(("text", "words"), [("", "no row in 1 file"), ("nonsense\n[1]\n", "none of the first 2 rows")])
def test_a_dataset_of_which_nothing_can_be_used(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.jsonl").write_text(text)
    assert main(["check", "--dataset", "rows.jsonl", "--agent", "check_agent:ask", "--metrics", "exact_match"]) == 2
    assert words in capsys.readouterr().err


def test_dialects_and_slices_are_told() -> None:
    request = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    Path("rows.jsonl").write_text(json.dumps({"request": request}) + "\n" + json.dumps({"prompt": "x"}))
    dataset = {"path": "rows.jsonl", "columns": {"request": "json", "qestion": "reference"}}
    text = report(agent=LIVE, slices=["locale"], dataset=dataset).render(100)
    assert "dialect vertex (1 row), plain (1 row)" in text
    warnings = [line.strip() for line in text.splitlines() if "warning" in line]
    assert warnings == [
        "warning: dataset.columns: the first rows have no column 'qestion'",
        "warning: slices: the first rows have no column 'locale'",
    ]
    (problem,) = report(agent=LIVE, slices=["locale"], dataset=dataset).problems
    assert problem == "slices: the dataset has no column 'locale' (allowed: request, prompt)"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *[(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1 kB"), (12_345, "12.3 kB"), (999_999, "1 MB")],
        *[(5_000_000_000, "5 GB"), (10**16, "10,000 TB")],
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert format_size(size) == text


def test_judges_of_agent_evaluation_are_named(tmp_path: Path) -> None:
    rows = [
        {"request": "a", "response": "b", "expected_response": "c", "expected_facts": ["d"]},
        {"request": "a", "response": "b", "retrieved_context": ["u"]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"dataset": {"path": str(path)}, "metrics": ["exact_match"], "output": {"path": str(tmp_path / "out")}}
    shown = check(EvaluationConfig.parse(data)).render(160)
    table = {line.split()[0]: " ".join(line.split()) for line in shown.splitlines() if " of 2 rows" in line}
    assert table["correctness"].endswith("1 of 2 rows; error 1010 in 1 row")
    assert table["groundedness"] == "groundedness request, response, retrieved_context 1 of 2 rows"
    assert table["safety"].endswith("2 of 2 rows")
    live = check(EvaluationConfig.parse({**data, "agent": {"target": "builtins:repr"}})).render(160)
    assert "chunk_relevance" in live
    plain = {**data, "dataset": {"path": str(path), "dialect": "plain"}}
    assert "chunk_relevance" not in check(EvaluationConfig.parse(plain)).render(160)


def test_a_replayed_run_is_looked_at_and_makes_no_call(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--dataset", "rows.jsonl", "--agent", "check_agent:ask", "--metrics", "exact_match", "--replay", "first"]
    assert main(["check", *given]) == 2
    assert "replay: no journal at first (allowed: the output folder of a run" in capsys.readouterr().err
    assert main(["run", *given[:-2], "--output", "first"]) == 0
    capsys.readouterr()
    assert main(["check", *given]) == 0
    said = capsys.readouterr().out
    assert "replayed: the answers are those of first; no agent is called" in said
    assert "expected calls" not in said
    assert main(["check", "--dataset", "rows.jsonl", "--metrics", "exact_match", "--replay", "first"]) == 2
    assert "replay: without an agent the rows carry the answers (allowed: with the agent" in capsys.readouterr().err

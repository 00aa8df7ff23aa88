"""A run that follows a metric calls no more than it needs, and loses nothing if it is killed, retried or rescored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import agent_server
import orjson
import pyarrow.parquet as pq
import pytest
from steady_agent import AGENT, calls

from evalbeam import ConfigError, EvaluationResult, evaluate
from evalbeam.pipelines.cli import main as cli
from evalbeam.pipelines.report.page import render_page
from evalbeam.schemas.identity import selection_hash
from evalbeam.schemas.judging import Reply

RULE = {"metric": "exact_match", "threshold": 0.8}
ROWS = [{"prompt": f"p{i}", "reference": f"P{i}" if i % 10 else "no", "group": i % 2} for i in range(600)]
COMMAND = ["run", "--dataset", "rows.jsonl", "--agent", "steady:ask", "--metrics", "exact_match", "--slices", "group"]
COMMAND += ["--set", "agent.max_in_flight=4", "--set", "statistics.sequential={metric: exact_match, threshold: 0.8}"]
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "steady.py").write_text(AGENT)
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in ROWS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("steady", None)


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; its exit code and what it said."""

    def run(*arguments: str) -> tuple[int, str]:
        sys.modules.pop("steady", None)
        code = cli.main(list(arguments))
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def tables(folder: Path) -> dict[str, bytes]:
    files = [*sorted((folder / "instances").iterdir()), folder / "summary.parquet", folder / "errors.parquet"]
    return {p.name: p.read_bytes() for p in files}


def manifest(folder: str | Path) -> dict[str, Any]:
    return orjson.loads((Path(folder) / "manifest.json").read_bytes())


def test_a_live_run_stops_when_the_metric_is_decided_and_the_servers_count_proves_it(tmp_path: Path) -> None:
    with agent_server.serving() as url:
        agent = {"target": url, "max_in_flight": 8, "max_attempts": 1}
        found = evaluate(ROWS, ["exact_match"], agent=agent, output=tmp_path / "out", statistics={"sequential": RULE})
        counted = agent_server.counted(url)
    said = found.manifest["sequential"]
    assert (found.state, found.reason, said["side"], said["rows"] % 50) == ("finished", None, "above", 0)
    assert counted == {"calls": said["rows"], "rows": said["rows"]}
    assert said["rows"] <= 300 < len(ROWS)
    table = found.metrics_table
    assert len(table) == len(ROWS)
    left = table[table["status"] == "not_called"]
    assert len(left) == len(ROWS) - said["rows"]
    assert set(left["error_message"]) == {f"not called: {said['text']}"}
    assert said["text"].startswith(f"decided after {said['rows']} rows: exact_match is above 0.8 (0.8")
    first = sorted(map(selection_hash, table["instance_id"]))[: said["rows"]]
    assert sorted(map(selection_hash, set(table["instance_id"]) - set(left["instance_id"]))) == first


def test_the_summary_shows_the_confidence_sequence_and_marks_other_intervals(run: Run) -> None:
    criteria = "criteria=[{metric: exact_match, statistic: ci_low, min: 0.8}]"
    code, said = run(*COMMAND, "--output", "out", "--set", criteria)
    assert code == 0, said
    found = manifest("out")["sequential"]
    assert found["text"] in said
    assert found["text"] in render_page(EvaluationResult.load("out"))
    rows = {(r["slice"], r["metric"]): r for r in pq.read_table("out/summary.parquet").to_pylist()}
    whole = rows["{}", "exact_match"]
    assert (whole["ci_low"], whole["ci_high"], whole["ci_method"]) == (found["low"], found["high"], "sequential")
    assert (whole["scored_count"], whole["row_count"]) == (found["rows"], 600)
    others = {r["ci_method"] for key, r in rows.items() if key != ("{}", "exact_match")}
    assert others == {"wilson, stopped", "t, stopped"}
    code, said = run("show", "out", "--as", "json")
    assert orjson.loads(said)["sequential"] == found
    code, said = run("show", "out", "--as", "markdown")
    assert "decided after" in said


def test_a_killed_run_ends_in_the_same_decision_and_tables(folder: Path, run: Run) -> None:
    assert run(*COMMAND, "--output", "whole")[0] == 0
    decided = manifest("whole")["sequential"]
    assert len(calls(folder)) == decided["rows"] < 300
    for dies_after in (20, 60):
        (folder / "calls.txt").unlink(missing_ok=True)
        more = {
            "PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", ""))),
            "DIES_AFTER": str(dies_after),
        }
        again = [sys.executable, "-m", "evalbeam", *COMMAND, "--output", f"out{dies_after}"]
        ended = subprocess.run(again, env={**os.environ, **more}, capture_output=True, timeout=120)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        code, said = run(*COMMAND, "--output", f"out{dies_after}")
        assert code == 0, said
        assert "completed calls are reused" in said
        made = Counter(calls(folder))
        assert len(made) == decided["rows"]
        assert made.total() <= decided["rows"] + 4, "only calls in flight are made again"
        assert manifest(f"out{dies_after}")["sequential"] == decided
        assert tables(folder / f"out{dies_after}") == tables(folder / "whole")
    code, said = run(*COMMAND, "--output", "whole")
    assert (code, "holds a finished run" in said) == (2, True)
    (folder / "calls.txt").unlink()
    code, said = run("retry", "whole")
    assert (code, "nothing to retry" in said, calls(folder)) == (0, True, [])


def test_tables_depend_neither_on_shards_nor_on_processes(folder: Path, run: Run) -> None:
    workers = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    for output, options in (("one", []), ("few", ["--set", "shards=2"]), ("two", workers)):
        code, said = run(*COMMAND, "--output", output, *options)
        assert code == 0, said
        assert tables(folder / output) == tables(folder / "one")
        assert len(calls(folder)) == manifest(output)["sequential"]["rows"]
        (folder / "calls.txt").unlink()


def test_a_metric_at_its_threshold_is_not_decided_and_all_rows_are_called(folder: Path, run: Run) -> None:
    rule = "statistics.sequential={metric: exact_match, threshold: 0.9, wave: 200}"
    code, said = run(*COMMAND, "--output", "out", "--set", rule)
    assert code == 0, said
    assert len(calls(folder)) == 600
    assert manifest("out")["counts"]["ok"] == 600
    assert "not decided after 600 rows: exact_match may be 0.9 (" in said


def test_a_spent_budget_stops_it_and_a_larger_one_lets_it_reach_the_same_decision(folder: Path, run: Run) -> None:
    assert run(*COMMAND, "--output", "whole")[0] == 0
    decided = manifest("whole")["sequential"]
    (folder / "calls.txt").unlink()
    code, said = run(*COMMAND, "--output", "out", "--set", "budget.max_calls=70")
    assert (code, len(calls(folder))) == (3, 70), said
    stopped = manifest("out")
    assert (stopped["state"], stopped["sequential"]["side"]) == ("stopped", None)
    assert (stopped["counts"]["over_budget"], stopped["sequential"]["rows"]) == (530, 50)
    assert run(*COMMAND, "--output", "out", "--set", f"budget.max_calls={decided['rows']}")[0] == 0
    assert len(calls(folder)) == decided["rows"]
    assert tables(folder / "out") == tables(folder / "whole")


def test_failed_rows_of_a_decided_run_are_retried_and_no_others(folder: Path, run: Run) -> None:
    fault = "    if os.path.exists('down') and prompt.endswith('3'):\n        raise ValueError('a bug')\n"
    broken = AGENT.replace("    if SECONDS:", f"{fault}    if SECONDS:")
    (folder / "steady.py").write_text(broken)
    (folder / "down").touch()
    assert run(*COMMAND, "--output", "out")[0] == 0
    found = manifest("out")
    first = set(calls(folder))
    failed = {prompt for prompt in first if prompt.endswith("3")}
    assert found["counts"]["failed"] == len(failed) > 0
    (folder / "down").unlink()
    (folder / "calls.txt").unlink()
    code, said = run("retry", "out")
    assert code == 0, said
    again = manifest("out")
    assert set(calls(folder)) == failed
    assert (again["counts"]["failed"], again["counts"]["ok"]) == (0, len(first))
    assert again["sequential"]["rows"] <= found["sequential"]["rows"]
    assert again["state"] == "finished"


def test_other_metrics_are_scored_over_the_rows_that_were_called(folder: Path, run: Run) -> None:
    assert run(*COMMAND, "--output", "out")[0] == 0
    before, made = manifest("out"), len(calls(folder))
    code, said = run("rescore", "out", "--metrics", "exact_match,rouge_l")
    assert code == 0, said
    after = manifest("out")
    assert len(calls(folder)) == made
    assert (after["sequential"], after["counts"], after["state"]) == (
        before["sequential"],
        before["counts"],
        "finished",
    )
    code, said = run("rescore", "out", "--set", "statistics.sequential={metric: exact_match, threshold: 0.95}")
    assert code == 0, said
    other = manifest("out")
    assert (other["sequential"]["side"], other["sequential"]["rows"]) == (None, made)
    assert (other["state"], other["counts"]["ok"], len(calls(folder))) == ("finished", made, made)


def test_trials_of_an_input_are_called_in_its_wave(folder: Path, run: Run) -> None:
    code, said = run(*COMMAND, "--output", "out", "--set", "trials=2")
    assert code == 0, said
    found = manifest("out")
    assert set(Counter(calls(folder)).values()) == {2}
    assert len(calls(folder)) == 2 * found["sequential"]["rows"] == found["counts"]["ok"]
    assert found["counts"]["not_called"] == 1200 - found["counts"]["ok"]


@pytest.mark.parametrize("joint", [False, True])
def test_scores_of_judges_are_followed_and_judges_are_asked_once(tmp_path: Path, joint: bool) -> None:
    asked: list[str] = []
    judged: Counter[str] = Counter()

    def agent(prompt: str) -> str:
        asked.append(prompt)
        return prompt.upper()

    def judge(messages: list[dict[str, str]], schema: dict[str, Any], vote: int) -> Reply:
        judged[repr((messages, schema))] += 1
        one = {"explanation": "short", "score": 4}
        names = list(schema["properties"])
        return Reply(value=one if "score" in names else dict.fromkeys(names, one))

    judges = {"default": {"type": "function", "target": judge, "combine_metrics": joint}}
    rule = {"metric": "fluency", "threshold": 3}
    found = evaluate(
        ROWS, ["fluency", "coherence", "exact_match"], agent, judges=judges, output=tmp_path / "out",
        statistics={"sequential": rule},
    )  # fmt: skip
    said = found.manifest["sequential"]
    assert (said["side"], found.state, len(asked)) == ("above", "finished", said["rows"])
    assert said["rows"] < 600
    assert found.summary_metrics["fluency/mean"] == 4.0 == found.summary_metrics["coherence/mean"]
    assert set(judged.values()) == {1}
    assert judged.total() == said["rows"] * (1 if joint else 2)
    whole = found.summary_table.set_index("metric").loc["fluency"]
    assert 3 < whole["ci_low"] <= 4 <= whole["ci_high"] <= 5


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        ({"sequential": {"threshold": 0.8}}, "statistics.sequential.metric", "missing"),
        ({"sequential": {**RULE, "waves": 3}}, "statistics.sequential.waves", "unknown key 'waves'"),
        ({"sequential": {**RULE, "wave": 0}}, "statistics.sequential.wave", "0"),
        ({"sequential": {**RULE, "confidence": 1}}, "statistics.sequential.confidence", "1"),
        ({"sequential": {**RULE, "metric": "exact_mtch"}}, "statistics.sequential.metric", "exact_match"),
        ({"sequential": {**RULE, "metric": "latency_in_seconds"}}, "statistics.sequential.metric", "has no range"),
        ({"sequential": RULE, "cluster": "group"}, "statistics.cluster", "none with statistics.sequential"),
        ({"sequential": {**RULE, "threshold": 80}}, "statistics.sequential.threshold", "(allowed: 0 to 1)"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(tmp_path: Path, given: Any, where: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        evaluate(ROWS, ["exact_match"], lambda prompt: prompt, output=tmp_path / "out", statistics=given)
    assert str(refused.value).startswith(f"{where}: ")
    assert words in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_without_calls_there_is_nothing_to_stop(tmp_path: Path, run: Run) -> None:
    rows = [{**row, "response": row["reference"]} for row in ROWS]
    with pytest.raises(ConfigError, match=r"^statistics\.sequential: the answers are recorded, so there are no calls"):
        evaluate(rows, ["exact_match"], output=tmp_path / "out", statistics={"sequential": RULE})
    assert run(*COMMAND, "--output", "out")[0] == 0
    code, said = run(*COMMAND, "--output", "again", "--replay", "out")
    assert (code, "statistics.sequential: the answers are those of out" in said) == (2, True)


def test_batches_cannot_be_waited_for(tmp_path: Path) -> None:
    agent = {"preset": "openai_chat", "mode": "batch", "target": "https://127.0.0.1:1", "model": "m"}
    with pytest.raises(ConfigError, match=r"agent\.mode"):
        evaluate(ROWS, ["exact_match"], agent=agent, output=tmp_path / "out", statistics={"sequential": RULE})

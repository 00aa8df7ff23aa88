"""An unfinished run resumes with what it paid for; a changed agent is asked about first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from steady_agent import AGENT, calls

from evalbeam import ConfigError
from evalbeam.pipelines.cli import main as cli
from evalbeam.pipelines.run.build import make_plan
from evalbeam.pipelines.run.inventory import take_inventory
from evalbeam.pipelines.run.plan import Plan
from evalbeam.pipelines.run.take_over import TakeOver, decide, fingerprint, fingerprint_parts
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.transforms.io import storage

COMMAND = ["run", "--dataset", "rows.jsonl", "--agent", "steady:ask", "--metrics", "exact_match"]
COMMAND += ["--set", "agent.max_in_flight=4"]
Run = Callable[..., tuple[int, str]]


def kill(folder: Path, output: str, dies_after: int) -> None:
    """Runs the command in a process that is killed at a call."""
    command = [sys.executable, "-m", "evalbeam", *COMMAND, "--output", output]
    more = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "DIES_AFTER": str(dies_after)}
    ended = subprocess.run(command, cwd=folder, env={**os.environ, **more}, capture_output=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL


def tables(folder: Path) -> dict[str, object]:
    files = [*sorted((folder / "instances").iterdir()), folder / "summary.parquet", folder / "errors.parquet"]
    return {p.name: p.read_bytes() for p in files if p.name != "instances"} | {"rows": pq.read_table(files[0]).num_rows}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "steady.py").write_text(AGENT)
    rows = [{"prompt": f"p{i}", "reference": f"P{i}"} for i in range(120)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an agent that changes within a second is seen
    yield tmp_path
    sys.modules.pop("steady", None)


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command with the agent as its file is now; its exit code and what it said on the standard error."""

    def run(output: str, *options: str) -> tuple[int, str]:
        sys.modules.pop("steady", None)
        code = cli.main([*COMMAND, "--output", output, *options])
        return code, capsys.readouterr().err

    return run


def test_a_killed_run_pays_only_for_what_is_missing_and_ends_in_the_same_tables(folder: Path, run: Run) -> None:
    assert run("whole")[0] == 0
    assert len(calls(folder)) == 120
    (folder / "calls.txt").unlink()
    for dies_after in (30, 50):
        kill(folder, "killed", dies_after)
        assert not (folder / "killed" / "manifest.json").exists()
    code, err = run("killed")
    assert code == 0, err
    assert "completed calls are reused" in err
    made = calls(folder)
    assert set(made) == {f"p{i}" for i in range(120)}
    assert len(made) - 120 <= 2 * 4
    assert tables(folder / "killed") == tables(folder / "whole")


def test_an_agent_that_changed_is_refused_with_what_changed_and_two_ways_on(folder: Path, run: Run) -> None:
    kill(folder, "out", 40)
    (folder / "steady.py").write_text(AGENT.replace("upper", "lower"))
    code, err = run("out")
    assert code == 2
    for word in ("the source of its module", "--overwrite", "--resume-anyway"):
        assert word in err
    before = len(calls(folder))
    assert run("out", "--resume-anyway")[0] == 0
    assert 120 - 40 <= len(calls(folder)) - before <= 120 - 40 + 4


def test_a_finished_run_is_refused_and_overwriting_it_calls_again(folder: Path, run: Run) -> None:
    assert run("out")[0] == 0
    code, err = run("out")
    assert code == 2
    assert "holds a finished run" in err
    assert run("out", "--overwrite")[0] == 0
    assert len(calls(folder)) == 240


def plan(folder: Path, **agent):
    section = {"dataset": {"path": str(folder / "rows.jsonl")}, "metrics": ["exact_match"], "agent": agent}
    return make_plan(EvaluationConfig.parse({**section, "output": {"path": str(folder / "out")}}))


def taken_over(made: Plan) -> TakeOver:
    return decide(made, take_inventory(made, PipelineOptions([])))


def test_the_fingerprint_is_of_the_agent_and_not_of_how_it_is_called(folder: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(folder))

    def of(**agent) -> str:
        made = plan(folder, **agent)
        return fingerprint(fingerprint_parts(made, take_inventory(made, PipelineOptions([])).source))

    own = of(target="steady:ask")
    assert own == of(target="steady:ask", max_in_flight=3, timeout=1)
    assert own != of(target="steady:ask", version="2")
    assert own != of(target="evalbeam.pipelines.demo.agent:answer")


def test_recorded_answers_have_no_journal(folder: Path) -> None:
    assert taken_over(plan(folder)).fingerprint is None
    assert not (folder / "out" / "journal").exists()


def test_an_output_that_cannot_be_made_ready_says_why(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "manifest.json").write_text('{"state": "finished"}')
    with pytest.raises(ConfigError, match="holds a finished run"):
        taken_over(plan(folder))


def command(*arguments: str) -> int:
    return cli.main(list(arguments))


def test_a_failing_agent_stops_the_run_and_the_same_command_goes_on(folder: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "down.py").write_text(
        "import os\n\n\ndef ask(prompt):\n"
        "    if not os.path.exists('up'):\n        raise ConnectionError('down')\n    return prompt.upper()\n"
    )
    policy = ["agent.failure_threshold=0.5", "agent.failure_window=10", "agent.max_in_flight=2", "agent.max_attempts=1"]
    arguments = ["run", "--dataset", "rows.jsonl", "--agent", "down:ask", "--metrics", "exact_match", "--output", "out"]
    for one in policy:
        arguments += ["--set", one]
    assert command(*arguments) == 3
    manifest = orjson.loads((folder / "out" / "manifest.json").read_bytes())
    assert manifest["state"] == "stopped"
    assert manifest["counts"]["ok"] == 0
    assert manifest["counts"]["failed"] + manifest["counts"]["not_called"] == 120
    assert manifest["counts"]["not_called"] > 90
    assert "rows were not called; run the same command again to make these calls" in manifest["reason"]
    assert "not_called" in capsys.readouterr().out
    (folder / "up").touch()
    assert command(*arguments) == 0
    assert orjson.loads((folder / "out" / "manifest.json").read_bytes())["counts"]["ok"] == 120
    assert not (folder / "out" / "stop").exists()


def test_a_spent_budget_ends_the_run_and_a_larger_one_lets_it_go_on(folder: Path, run: Run) -> None:
    small, enough = ("--set", "budget.max_tokens=200"), ("--set", "budget.max_tokens=5000")
    (folder / "steady.py").write_text(
        AGENT.replace('"latency', '"usage": {"input_tokens": 9, "output_tokens": 1}, "latency')
    )
    assert run("out", *small)[0] == 3
    manifest = orjson.loads((folder / "out" / "manifest.json").read_bytes())
    assert (manifest["state"], manifest["counts"]["failed"]) == ("stopped", 0)
    assert 20 <= manifest["counts"]["ok"] == 120 - manifest["counts"]["over_budget"] <= 20 + 4
    assert manifest["reason"].startswith("over budget: budget.max_tokens 200 are used; ")
    assert pq.read_table(folder / "out" / "instances").num_rows == 120
    made = len(calls(folder))
    assert run("out", *small)[0] == 3  # what was spent before counts
    assert len(calls(folder)) == made
    assert run("out", *enough)[0] == 0
    assert len(calls(folder)) == 120
    assert not (folder / "out" / ".tmp").exists()


def test_a_dataset_that_the_budget_cannot_pay_for_is_refused_before_the_first_call(folder: Path, run: Run) -> None:
    code, err = run("out", "--set", "budget.max_calls=239", "--set", "trials=2")
    assert code == 3
    assert "120 rows need at least 240 calls, budget.max_calls allows 239" in err
    assert calls(folder) == []
    assert run("out", "--set", "budget.max_calls=240", "--set", "trials=2")[0] == 0


def test_another_runs_answers_are_scored_without_a_call(folder: Path, run: Run, capsys) -> None:
    assert run("out")[0] == 0
    more = [{"prompt": f"p{i}", "reference": f"P{i}"} for i in range(130)]
    (folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in more))
    assert command("journal", str(folder / "out"), "--compact") == 0
    assert "compacted 120 records" in capsys.readouterr().out
    assert command("journal", str(folder / "none"), "--compact") == 2
    code, err = run("again", "--replay", "out", "--set", "metrics=[exact_match, {metric: rouge_1}]")
    assert code == 0, err
    assert len(calls(folder)) == 120
    manifest = orjson.loads((folder / "again" / "manifest.json").read_bytes())
    assert (manifest["counts"]["ok"], manifest["counts"]["not_called"]) == (120, 10)
    table = pq.read_table(folder / "again" / "instances").to_pylist()
    assert sum(row["exact_match/score"] == 1.0 == row["rouge_1/score"] for row in table) == 120
    assert {row["error_message"] for row in table} == {None, "not called: the replayed run has no answer"}
    assert run("third", "--replay", "nowhere")[0] == 2


def test_cancel_stops_an_unfinished_run_and_refuses_what_is_none(folder: Path, capsys) -> None:
    assert command("cancel", str(folder / "out")) == 2
    assert "no unfinished run" in capsys.readouterr().err
    kill(folder, "out", 40)
    assert command("cancel", str(folder / "out")) == 0
    assert (folder / "out" / "stop").read_text() == "cancelled by evalbeam cancel"


def test_the_journal_tells_what_was_called(folder: Path, run: Run, capsys) -> None:
    assert command("journal", str(folder / "out")) == 2
    assert run("out")[0] == 0
    capsys.readouterr()
    assert command("journal", str(folder / "out")) == 0
    heading, *shown = capsys.readouterr().out.splitlines()
    assert heading == "agent"
    lines = dict(line.split("  ", 1) for line in shown)
    assert {k: lines[k].strip() for k in ("calls", "answered", "failed", "attempts")} == {
        "calls": "120",
        "answered": "120",
        "failed": "0",
        "attempts": "120",
    }
    segment = max((folder / "out" / "journal").glob("*/*/seg-*"), key=lambda path: path.stat().st_size)
    segment.write_bytes(segment.read_bytes()[:-1])
    assert command("journal", str(folder / "out")) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("damaged")]
    assert len(shown) == 1
    assert f"{segment}: bad record at byte" in shown[0]


def test_a_start_reads_the_journal_once(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for the message and the budget together, and once by the step that looks the calls up."""
    kill(folder, "killed", 30)
    opened, opens = Counter[str](), storage.opened

    def count(path: str):  # type: ignore[no-untyped-def]
        opened[path] += "/seg-" in path
        return opens(path)

    monkeypatch.setattr(storage, "opened", count)
    segments = [str(path) for path in (folder / "killed" / "journal").rglob("seg-*")]
    code, err = run("killed", "--set", "budget.max_calls=1000")
    assert code == 0, err
    assert "completed calls are reused" in err
    found = Counter({Path(path).resolve(): count for path, count in opened.items()})
    assert {found[Path(path).resolve()] for path in segments} == {2}

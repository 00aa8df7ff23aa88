"""A finished run once more: only what failed is called again, and its answers get other scores without a call."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from evalbeam import EvaluationResult
from evalbeam.pipelines.cli import main as cli

AGENT = """
import os


def ask(prompt):
    with open("calls.txt", "a+") as log:
        log.write(prompt + "\\n")
        log.seek(0)
        if len(log.readlines()) >= int(os.environ.get("DIES_AFTER", "999")):
            os.kill(os.getpid(), 9)
    number = int(prompt[1:])
    if os.path.exists("down"):
        if number % 10 == 3:
            raise ValueError("a bug")  # permanent
        if number % 10 == 7:
            raise ConnectionError("no route")  # passing
    return prompt.upper()
"""
COMMAND = ["--dataset", "rows.jsonl", "--agent", "flaky:ask", "--metrics", "exact_match", "--slices", "group"]
COMMAND += ["--set", "agent.max_attempts=1", "--set", "agent.max_in_flight=4"]
BAD = {f"p{i}" for i in range(120) if i % 10 in (3, 7)}
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "flaky.py").write_text(AGENT)
    rows = [{"prompt": f"p{i}", "reference": f"P{i}", "group": i % 2} for i in range(120)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "down").touch()
    yield tmp_path
    sys.modules.pop("flaky", None)


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command; returns its exit code and what it said."""

    def run(*arguments: str) -> tuple[int, str]:
        sys.modules.pop("flaky", None)
        code = cli.main(list(arguments))
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def calls() -> list[str]:
    """The prompts of all calls since the last time."""
    found = Path("calls.txt").read_text().split()
    Path("calls.txt").write_text("")
    return found


def tables(folder: str) -> dict[str, Any]:
    """All tables of a run, without the measured columns."""
    instances = EvaluationResult.load(folder).metrics_table
    kept = [c for c in instances.columns if "latency" not in c and "seconds" not in c and "attempts" not in c]
    summary = pq.read_table(f"{folder}/summary.parquet").to_pylist()
    return {
        "instances": instances[kept].to_json(orient="records"),
        "summary": [r for r in summary if r["metric"] != "latency_in_seconds"],
        "errors": pq.read_table(f"{folder}/errors.parquet").to_pylist(),
    }


def test_a_retry_calls_what_failed_and_ends_in_the_tables_of_a_run_without_failures(
    folder: Path, command: Command
) -> None:
    assert command("run", *COMMAND, "--output", "out")[0] == 0
    failed = EvaluationResult.load("out").metrics_table.query("status == 'failed'")
    assert set(failed["prompt"]) == BAD
    assert len(calls()) == 120
    (folder / "down").unlink()
    code, said = command("retry", "out")
    assert code == 0, said
    assert set(calls()) == BAD
    assert "96 completed calls are reused" in said
    assert command("run", *COMMAND, "--output", "whole")[0] == 0
    assert tables("out") == tables("whole")
    calls()
    code, said = command("retry", "out")
    assert (code, calls()) == (0, [])
    assert "nothing to retry" in said


def test_what_fails_again_is_failed_and_can_be_retried_again(folder: Path, command: Command) -> None:
    command("run", *COMMAND, "--output", "out")
    before = tables("out")
    calls()
    for _ in range(2):
        assert command("retry", "out")[0] == 0
        assert Counter(calls()) == Counter(BAD), "each failed row is called once by each retry"
        assert tables("out") == before
    (folder / "down").unlink()
    assert command("run", *COMMAND, "--output", "out", "--retry-failed")[0] == 0
    assert set(calls()) == BAD
    assert set(EvaluationResult.load("out").metrics_table["status"]) == {"ok"}


def test_a_retry_that_is_killed_goes_on(folder: Path, command: Command) -> None:
    command("run", *COMMAND, "--output", "out")
    before = tables("out")
    calls()
    more = {"PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", ""))), "DIES_AFTER": "12"}
    again = [sys.executable, "-m", "evalbeam", "retry", "out"]
    ended = subprocess.run(again, env={**os.environ, **more}, capture_output=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert tables("out") == before, "the tables of the finished run stay until new ones replace them"
    first = calls()
    assert command("retry", "out")[0] == 0
    second = calls()
    kept = BAD - set(second)
    assert kept <= set(first)
    assert len(kept) >= 12 - 4 - 1 - sum(int(p[1:]) % 10 == 7 for p in first), "permanent failures of this retry count"
    assert tables("out") == before


def test_a_finished_run_says_how_it_is_retried_and_rescored(folder: Path, command: Command) -> None:
    command("run", *COMMAND, "--output", "out")
    code, said = command("run", *COMMAND, "--output", "out")
    assert code == 2
    for way in ("`evalbeam retry out`", "`evalbeam rescore out CONFIG`", "--overwrite"):
        assert way in said


@pytest.mark.parametrize("name", ["retry", "rescore"])
def test_a_folder_without_a_run_is_refused(folder: Path, command: Command, name: str) -> None:
    code, said = command(name, "nothing")
    assert code == 2
    assert "no finished run at 'nothing'" in said
    assert not (folder / "nothing").exists()


def test_a_retry_takes_no_configuration(folder: Path, command: Command) -> None:
    command("run", *COMMAND, "--output", "out")
    code, said = command("retry", "out", "eval.yaml")
    assert (code, "unexpected argument 'eval.yaml'" in said) == (2, True)


def test_a_retry_by_another_agent_is_refused(folder: Path, command: Command) -> None:
    command("run", *COMMAND, "--output", "out")
    calls()
    code, said = command("retry", "out", "--set", "agent.version=v2")
    assert (code, calls()) == (2, [])
    assert "holds answers of another agent (version changed)" in said
    (folder / "down").unlink()
    assert command("retry", "out", "--set", "agent.version=v2", "--resume-anyway")[0] == 0
    assert set(calls()) == BAD


def test_rescoring_calls_no_agent_and_gives_the_tables_of_a_new_run(folder: Path, command: Command) -> None:
    command("run", *COMMAND, "--output", "out")
    calls()
    other = ["--metrics", "exact_match,rouge_l", "--set", "criteria={failure: {max: 0.1}}"]
    code, said = command("rescore", "out", *other)
    assert (code, calls()) == (1, []), said
    command("run", *COMMAND, *other, "--output", "whole")
    calls()
    assert tables("out") == tables("whole")
    Path("eval.yaml").write_text(
        "dataset: {path: rows.jsonl}\nagent: {target: 'flaky:ask', max_attempts: 1}\nmetrics: [failure, rouge_l]\n"
        "criteria: {failure: {max: 0.2}}\noutput: {path: elsewhere}\n"
    )
    code, said = command("rescore", "out", "eval.yaml")
    assert (code, calls()) == (0, []), said
    assert {"rouge_l"} <= set(EvaluationResult.load("out").summary_table["metric"])
    assert not Path("elsewhere").exists()
    (folder / "down").unlink()
    assert command("retry", "out")[0] == 0
    assert set(calls()) == BAD, "a rescored run can be retried"


def test_another_agent_is_not_rescored(folder: Path, command: Command) -> None:
    command("run", *COMMAND, "--output", "out")
    before = Path("out/manifest.json").read_bytes()
    code, said = command("rescore", "out", "--agent", "evalbeam.pipelines.demo.agent:answer")
    assert code == 2
    assert "names another agent (target changed)" in said
    assert Path("out/manifest.json").read_bytes() == before


def test_the_votes_of_judges_are_retried_and_reused(folder: Path, command: Command) -> None:
    (folder / "panel.py").write_text(
        "import os\n\n\ndef vote(messages, schema):\n    with open('votes.txt', 'a') as log:\n        log.write('v')\n"
        "    if os.path.exists('down') and 'p3' in str(messages):\n        raise ValueError('cannot judge')\n"
        "    return {'score': 5, 'explanation': 'good'}\n"
    )
    judge = ["--metrics", "fluency", "--set", "judges.default={target: 'panel:vote', max_attempts: 1}"]
    recorded = [{"prompt": f"p{i}", "response": f"it is p{i}"} for i in range(8)]
    Path("recorded.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in recorded))
    assert command("run", "--dataset", "recorded.jsonl", *judge, "--output", "out")[0] == 0
    assert len(Path("votes.txt").read_text()) == 8
    (folder / "down").unlink()
    Path("votes.txt").unlink()
    assert command("retry", "out")[0] == 0
    assert len(Path("votes.txt").read_text()) == 1
    assert EvaluationResult.load("out").metrics_table["fluency/score"].tolist() == [5.0] * 8
    code, said = command("rescore", "out", "--set", "criteria={fluency: 4}")
    assert (code, len(Path("votes.txt").read_text())) == (0, 1), said
    sys.modules.pop("panel", None)


def test_each_run_has_a_folder_of_its_own(folder: Path, command: Command) -> None:
    for _ in range(2):
        code, said = command("run", *COMMAND, "--output", "runs/{run_id}")
        assert code == 0
        assert re.search(r"the folder of this run is runs/\d{8}-\d{6}-[0-9a-f]{4}", said)
    made = sorted(os.listdir("runs"))
    assert len(made) == 2
    manifest = json.loads(Path("runs", made[0], "manifest.json").read_text())
    assert manifest["config"]["output"]["path"] == f"runs/{made[0]}"

"""How many worker processes a command has, that forked ones make the same tables, and that none outlives it."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from killing import group, with_all
from waiting import ended, until
from written import tables

from evalbeam import EvaluationResult
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.runners import workers

METRIC = """
    import os, signal
    from pathlib import Path

    def count(row):
        if Path("target").exists():
            target = {"worker": os.getpid(), "command": os.getppid()}[Path("target").read_text()]
            Path("target").unlink(missing_ok=True)
            os.kill(target, signal.SIGKILL)
        return len(row["response"])
"""


AGENT = """
    import os, sys

    with open("imports", "a") as file:
        file.write(f"{os.getpid()}\\n")

    def ask(prompt):
        return f"{'evalbeam.pipelines.cli.main' in sys.modules} {os.getpid()}"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files of recorded rows, and a metric that kills the process that `target` names, once."""
    (tmp_path / "data").mkdir()
    for name, rows in (("a", 300), ("b", 400)):
        lines = (json.dumps({"prompt": f"{name}{i}", "response": "a" * (i % 7)}) + "\n" for i in range(rows))
        (tmp_path / "data" / f"{name}.jsonl").write_text("".join(lines))
    (tmp_path / "mine.py").write_text(textwrap.dedent(METRIC))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(home: Path, *given: str) -> subprocess.Popen[str]:
    """Starts a run in a process group of its own, which heeds Ctrl-C."""
    path = os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "evalbeam", "run", "--dataset", "data", "--metrics", "mine:count", *given]
    heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        command, cwd=home, env={**os.environ, "PYTHONPATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=heeds,
    )  # fmt: skip


def test_a_worker_has_so_much_to_do_and_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "processors", lambda: 4)
    shares = (0, 0.99, 1, 1.99, 2, 3.5, 4, 100)
    assert [workers.fitting_workers(int(n * workers.SHARE)) for n in shares] == [1, 1, 1, 1, 2, 3, 4, 4]


def test_the_processors_are_those_this_process_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_QUOTA", tmp_path / "cpu.max")
    whole = len(os.sched_getaffinity(0))
    assert workers.processors() == whole
    for text, expected in (("max 100000", whole), ("100000 100000", 1), ("50000 100000", 1), ("6400000 100000", whole)):
        (tmp_path / "cpu.max").write_text(text + "\n")
        assert workers.processors() == expected


def test_a_number_of_workers_is_checked(capsys: Any) -> None:
    for text in ("0", "-1", "two"):
        assert main(["run", f"--workers={text}"]) == 2
        assert f"--workers: found '{text}' (allowed: a number of at least 1, or auto)" in capsys.readouterr().err


def test_many_recorded_rows_have_workers_and_the_command_says_so_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(workers, "SHARE", 1)
    monkeypatch.setattr(workers, "processors", lambda: 2)
    given = ["run", "--dataset", "data", "--metrics", "exact_match"]
    said = "evalbeam: 2 worker processes share the rows (--workers 1: none)\n"
    for name, more, times in (("auto", [], 1), ("one", ["--workers=1"], 0), ("limit", ["--limit=10"], 0)):
        assert main([*given, *more, "--output", name]) == 3  # no row has a reference
        assert capsys.readouterr().err.count(said) == times
    assert tables(home / "auto") == tables(home / "one")


def test_forked_workers_make_the_same_tables(home: Path) -> None:
    ended(start(home, "--output", "one", "--workers", "1"), 0)
    ended(start(home, "--output", "three", "--workers", "3"), 0)
    assert tables(home / "three") == tables(home / "one")


def test_workers_that_call_an_agent_are_forked_before_it_is_imported(home: Path) -> None:
    (home / "agent.py").write_text(textwrap.dedent(AGENT))
    rows = [{"prompt": f"p{i}"} for i in range(700)]
    (home / "data" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended(start(home, "--agent", "agent:ask", "--output", "out", "--workers", "2"), 0)
    answers = EvaluationResult.load(home / "out").metrics_table["response"].dropna().str.split(" ")
    assert set(answers.str[0]) == {"True"}  # as in the command, whose copies they are
    workers = set(answers.str[1])
    imported = (home / "imports").read_text().split()
    assert len(workers) == 2
    assert workers < set(imported)
    assert len(imported) == 3


@pytest.mark.parametrize("target", ["worker", "command"])
def test_a_killed_run_of_forked_workers_leaves_no_process_and_can_be_repeated(home: Path, target: str) -> None:
    (home / "target").write_text(target)
    process = start(home, "--output", "out", "--workers", "2")
    try:
        said = ended(process, 3 if target == "worker" else -signal.SIGKILL)
        assert ("was killed by SIGKILL; run the same command again to resume" in said) == (target == "worker")
        until(lambda: not group(process.pid), 15, "workers to end")
    finally:
        with_all(process.pid, signal.SIGKILL)
    ended(start(home, "--output", "out", "--workers", "2"), 0)
    ended(start(home, "--output", "one", "--workers", "1"), 0)
    assert tables(home / "out") == tables(home / "one")
    assert not (home / "out" / ".tmp").exists()


def test_workers_that_no_engine_takes_end_with_the_block() -> None:
    code = """
        import os
        from evalbeam.pipelines.runners import workers
        with workers.forked_workers(2, quiet=True):
            processes = list(workers._forked)
            assert len(processes) == 2
            assert [os.waitpid(p.pid, os.WNOHANG) for p in processes] == [(0, 0), (0, 0)]
        assert [p.returncode for p in processes] == [-9, -9]
        with workers.forked_workers(1, quiet=True):
            assert not workers._forked
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=100)

"""A disk that takes no more: a clear end, exit code 3, and the same command resumes once there is room."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from written import tables

from evalbeam.pipelines.cli.main import main

AGENT = """
async def ask(prompt):
    with open("calls.txt", "a") as log:
        log.write(prompt + "\\n")
    return {"response": prompt.upper() + "-" * 1500, "latency_in_seconds": len(prompt) / 8}
"""
SIZE, IN_FLIGHT = 500, 8


def arguments(output: str, *options: str) -> list[str]:
    return ["run", "--dataset", "rows.jsonl", "--output", output, "--metrics", "exact_match", *options]


def run_with(kilobytes: int, *command: str) -> subprocess.CompletedProcess[str]:
    """The command in a process no file of which may grow beyond a size."""
    given = [
        "bash",
        "-c",
        f'ulimit -f {kilobytes}; exec "$@"',
        "bash",
        sys.executable,
        "-m",
        "evalbeam",
    ]
    return subprocess.run(
        [*given, *command],
        env={**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "steady.py").write_text(AGENT)
    rows = [{"prompt": f"p{i}", "reference": f"P{i}", "response": os.urandom(400).hex()} for i in range(SIZE)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("steady", None)


def test_a_journal_without_room_ends_the_run_and_loses_no_call_before(folder: Path) -> None:
    agent = ["--agent", "steady:ask", "--set", f"agent.max_in_flight={IN_FLIGHT}"]
    assert main(arguments("whole", *agent)) == 0
    (folder / "calls.txt").unlink()
    ended = run_with(4, *arguments("out", *agent))
    assert ended.returncode == 3, ended.stderr
    assert "cannot write to the journal" in ended.stderr
    assert "only a part of a record was written" in ended.stderr
    assert not (folder / "out" / "manifest.json").exists()
    before = len((folder / "calls.txt").read_text().split())
    assert before < SIZE
    assert main(arguments("out", *agent)) == 0
    made = (folder / "calls.txt").read_text().split()
    assert set(made) == {f"p{i}" for i in range(SIZE)}
    assert len(made) - SIZE <= IN_FLIGHT + 1
    assert tables(folder / "out") == tables(folder / "whole")


def test_tables_without_room_are_not_published(folder: Path) -> None:
    assert main(arguments("whole")) == 0
    ended = run_with(100, *arguments("out"))
    assert ended.returncode == 3, ended.stderr
    assert "File too large" in ended.stderr
    assert not [*(folder / "out").glob("instances/*"), *(folder / "out").glob("*.parquet")]
    assert main(arguments("out")) == 0
    assert tables(folder / "out") == tables(folder / "whole")

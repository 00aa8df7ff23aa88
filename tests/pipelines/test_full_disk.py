"""A disk that takes no more: a clear end, exit code 3, and the same command goes on once there is room."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from written import tables

AGENT = """
async def ask(prompt):
    with open("calls.txt", "a") as log:
        log.write(prompt + "\\n")
    return {"response": prompt.upper() + "-" * 1500, "latency_in_seconds": len(prompt) / 8}
"""
SIZE, IN_FLIGHT = 500, 8


def run(folder: Path, output: str, *options: str, kilobytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command, no file of which may grow beyond a size."""
    limit = "" if kilobytes is None else f"ulimit -f {kilobytes}; "
    command = [sys.executable, "-m", "evalbeam.pipelines.cli", "run", "--dataset", "rows.jsonl", "--output", output]
    command += ["--metrics", "exact_match", *options]
    return subprocess.run(
        ["bash", "-c", f'{limit}exec "$@"', "bash", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steady.py").write_text(AGENT)
    rows = [{"prompt": f"p{i}", "reference": f"P{i}", "response": os.urandom(400).hex()} for i in range(SIZE)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in rows))
    return tmp_path


def test_a_journal_without_room_ends_the_run_and_loses_no_call_before(folder: Path) -> None:
    agent = ["--agent", "steady:ask", "--set", f"agent.max_in_flight={IN_FLIGHT}"]
    assert run(folder, "whole", *agent).returncode == 0
    (folder / "calls.txt").unlink()
    ended = run(folder, "out", *agent, kilobytes=4)
    assert ended.returncode == 3, ended.stderr
    assert "cannot write to the journal" in ended.stderr
    assert "the disk took a part of a record" in ended.stderr
    assert not (folder / "out" / "manifest.json").exists()
    before = len((folder / "calls.txt").read_text().split())
    assert before < SIZE
    assert run(folder, "out", *agent).returncode == 0
    made = (folder / "calls.txt").read_text().split()
    assert set(made) == {f"p{i}" for i in range(SIZE)}
    assert len(made) - SIZE <= IN_FLIGHT + 1
    assert tables(folder / "out") == tables(folder / "whole")


def test_tables_without_room_are_not_published(folder: Path) -> None:
    assert run(folder, "whole").returncode == 0
    ended = run(folder, "out", kilobytes=100)
    assert ended.returncode == 3, ended.stderr
    assert "File too large" in ended.stderr
    assert not [*(folder / "out").glob("instances/*"), *(folder / "out").glob("*.parquet")]
    assert run(folder, "out").returncode == 0
    assert tables(folder / "out") == tables(folder / "whole")

"""How many worker processes a command has, and that those which no engine took end with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.runners import workers
from evalbeam.schemas.config.evaluation import EvaluationConfig

ROW = {"prompt": "p", "response": "a", "reference": "a"}


def config(path: Path, **sections: Any) -> EvaluationConfig:
    return EvaluationConfig.parse({"dataset": {"path": str(path)}, "metrics": ["exact_match"], **sections})


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset that is enough for three workers, on a machine with four processors."""
    monkeypatch.setattr(workers, "SHARE", 1000)
    monkeypatch.setattr(workers, "processors", lambda: 4)
    (tmp_path / "data").mkdir()
    for name, rows in (("a", 30), ("b", 40)):
        lines = (json.dumps({**ROW, "prompt": f"{name}{i}"}) + "\n" for i in range(rows))
        (tmp_path / "data" / f"{name}.jsonl").write_text("".join(lines))
    return tmp_path / "data"


def test_workers_are_for_many_recorded_rows(large: Path) -> None:
    size = sum(file.stat().st_size for file in large.iterdir())
    assert 3000 < size < 5000
    assert workers.fitting_workers(config(large), []) == size // 1000
    assert workers.fitting_workers(config(large / "*.jsonl"), []) == size // 1000
    assert workers.fitting_workers(config(large / "a.jsonl"), []) == 1
    assert workers.fitting_workers(config(large / "missing"), []) == 1


@pytest.mark.parametrize(
    ("sections", "flags"),
    [
        ({"agent": {"target": "http://127.0.0.1:9"}}, []),
        ({"agent": {"type": "gemini", "model": "m"}}, []),
        ({"judges": {"default": {"type": "openai", "model": "m"}}}, []),
        ({}, ["--runner=FlinkRunner"]),
        ({}, ["--direct_num_workers=1"]),
    ],
)
def test_other_runs_have_none_unless_asked(large: Path, sections: dict[str, Any], flags: list[str]) -> None:
    assert workers.fitting_workers(config(large, **sections), flags) == 1


def test_the_processors_are_those_this_process_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_QUOTA", tmp_path / "cpu.max")
    whole = len(os.sched_getaffinity(0))
    assert workers.processors() == whole
    for text, expected in (("max 100000", whole), ("100000 100000", 1), ("50000 100000", 1), ("6400000 100000", whole)):
        (tmp_path / "cpu.max").write_text(text + "\n")
        assert workers.processors() == expected


def test_the_command_says_once_that_it_uses_them(large: Path, tmp_path: Path, capsys: Any) -> None:
    given = ["run", "--dataset", str(large), "--metrics", "exact_match"]
    assert main([*given, "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err.count("3 worker processes share the rows (--workers 1: none)") == 1
    assert main([*given, "--output", str(tmp_path / "one"), "--workers", "1"]) == 0
    assert "worker processes" not in capsys.readouterr().err
    (one,), (many,) = (list((tmp_path / name / "instances").iterdir()) for name in ("one", "out"))
    assert one.read_bytes() == many.read_bytes()


def test_workers_that_are_not_taken_end_with_the_command(large: Path, tmp_path: Path, capsys: Any) -> None:
    with workers.started_early(2, quiet=True):
        processes = list(workers._spare)
        assert len(processes) == 2
    assert [process.returncode is not None for process in processes] == [True, True]
    assert main(["run", "--dataset", str(large), "--metrics", "no_such_metric", "--workers", "2"]) == 2
    assert workers._spare == []


def test_a_number_of_workers_is_checked(capsys: Any) -> None:
    for text in ("0", "-1", "two"):
        assert main(["run", "--workers", text]) == 2
        assert f"--workers: found '{text}' (allowed: a number of at least 1, or auto)" in capsys.readouterr().err

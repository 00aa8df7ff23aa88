"""`evalbeam init`: what it writes is checked and runs as it stands, and nothing is overwritten unasked."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from evalbeam import EvaluationResult
from evalbeam.pipelines.cli.init import FILES
from evalbeam.pipelines.cli.main import main
from evalbeam.schemas.config.evaluation import EvaluationConfig


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert main(["init", str(tmp_path / "new" / "folder")]) == 0
    folder = tmp_path / "new" / "folder"
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(__import__("sys").modules, "my_agent", raising=False)
    return folder


def test_it_checks_and_runs_as_it_stands(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(p.name for p in example.iterdir()) == sorted(FILES)
    assert main(["check", "eval.yaml"]) == 0
    assert "expected calls: 4" in capsys.readouterr().out
    assert main(["run", "eval.yaml"]) == 0
    found = EvaluationResult.load("out")
    means = {r["metric"]: r["mean"] for r in found.summary_table.to_dict("records") if not r["slice"]}
    assert means["exact_match"] == 0.75  # one of the four rows has "refund" after "order"
    assert means["trajectory_exact_match"] == means["recall_of_tools"] == 0.75
    assert found.verdict == "PASSED"


def test_what_is_commented_out_is_a_configuration_too() -> None:
    """Every commented key, uncommented, is one the configuration knows."""
    lines = [
        line.replace("# ", "", 1) if line.lstrip().startswith("# ") else line
        for line in FILES["eval.yaml"].splitlines()[2:]
    ]
    config = EvaluationConfig.parse(yaml.safe_load("\n".join(lines)))
    assert config.dataset.limit == 100
    assert config.dataset.columns["price"].type == "float64"
    assert config.trials == 1
    assert config.metrics[-1].metric == "my_metrics:politeness"


def test_files_that_are_there_stay(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("eval.yaml").write_text("mine")
    Path("rows.jsonl").unlink()
    assert main(["init"]) == 2
    assert "eval.yaml" in capsys.readouterr().err
    assert Path("eval.yaml").read_text() == "mine"
    assert not Path("rows.jsonl").exists()
    assert main(["init", "--force"]) == 0
    assert Path("eval.yaml").read_text() == FILES["eval.yaml"]


@pytest.mark.parametrize("folder", ["eval.yaml/below", "nul\0"])
def test_folders_that_cannot_be_written(example: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", folder]) == 2
    assert capsys.readouterr().err.startswith("evalbeam: error: ")

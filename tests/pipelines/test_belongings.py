"""A run writes over what earlier runs left in its folder, and never over what is somebody else's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalbeam import ConfigError, evaluate
from evalbeam.pipelines.cli import main

ROW = json.dumps({"prompt": "a", "response": "yes", "reference": "yes"})
COMMAND = ["run", "--dataset", "rows.jsonl", "--metrics", "exact_match", "--output"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(ROW)
    return tmp_path


def files() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
@pytest.mark.parametrize(
    "name",
    [
        "instances/a/photo.jpg",
        "instances/part-00000-of-00002.parquet",
        "journal/may.txt",
        "batch/x",
        ".tmp/x",
        "summary.csv",
        "errors.jsonl.gz",
        "report.html",
        "stop",
    ],
)
def test_what_no_run_wrote_stays(name: str, overwrite: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    before = files()
    for command in ("check", "run"):
        assert main([command, *COMMAND[1:], ".", *overwrite]) == 2
    said = f"evalbeam: error: output.path: ./{name} belongs to no run, and this one would replace it (allowed: a folder"
    assert capsys.readouterr().err.startswith(said)
    assert files() == before


def test_a_run_never_replaces_its_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    Path("instances").mkdir()
    rows = Path("rows.jsonl").rename("instances/rows.jsonl")
    with pytest.raises(ConfigError, match=r"instances/rows\.jsonl is where this run writes its instances table"):
        evaluate(str(rows.absolute()), ["exact_match"], output=".")
    assert list(files()) == [rows]
    assert main(["run", "--dataset", "instances/*.jsonl", "--metrics", "exact_match", "--output", "out"]) == 0
    again = ["run", "--dataset", "out/instances", "--metrics", "bleu", "--output"]
    assert main([*again, "out", "--overwrite"]) == 2
    assert main([*again, "out2"]) == 0


def test_a_folder_with_other_files_may_be_a_runs_own(capsys: pytest.CaptureFixture[str]) -> None:
    Path("instances").mkdir()
    Path("summary.txt").write_text("mine")
    assert main([*COMMAND, "."]) == 0
    Path("instances/notes.txt").write_text("mine, too")
    before = files()
    assert main([*COMMAND, ".", "--format", "csv", "--overwrite"]) == 0
    after = files()
    kept = {Path("rows.jsonl"), Path("summary.txt"), Path("instances/notes.txt")}
    assert {path: after[path] for path in kept} == {path: before[path] for path in kept}
    assert sorted(p.name for p in Path("instances").iterdir()) == ["notes.txt", "part-00000-of-00001.csv"]
    assert not Path("summary.parquet").exists()


def test_a_run_without_its_lease_is_still_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    Path("agent_of_belongings.py").write_text("def ask(prompt):\n    return 'yes'\n")
    assert main([*COMMAND, "out", "--agent", "agent_of_belongings:ask"]) == 0
    for left in (*Path("out/lease").iterdir(), Path("out/manifest.json")):
        left.unlink()
    assert main([*COMMAND, "out", "--agent", "agent_of_belongings:ask"]) == 0
    assert "1 calls are paid for" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dataset", "output", "refused"),
    [
        ("data", "data/out", True),
        ("data/", "./data/../data/a/b", True),
        ("data", "data", True),
        (".", "out", True),
        ("data/**", "data/out", True),
        ("data/**.jsonl", "data/out", True),
        ("data", "data/_out", False),
        ("data", "data/.runs/1", False),
        ("data", "data2", False),
        ("data/*.jsonl", "data/out", False),
        ("data/rows.jsonl", "data/out", False),
        ("data/rows.jsonl", "data", False),
    ],
)
def test_no_run_reads_what_an_earlier_one_wrote(
    dataset: str, output: str, refused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("data").mkdir()
    Path("rows.jsonl").rename("data/rows.jsonl")
    assert main(["check", "--dataset", dataset, "--metrics", "exact_match", "--output", output]) == (
        2 if refused else 0
    )
    said = f"evalbeam: error: output.path: {output} lies in the dataset's folder "
    assert capsys.readouterr().err.startswith(said) == refused

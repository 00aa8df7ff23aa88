"""A run writes over what earlier runs left in its folder, and never over what is somebody else's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalbeam import ConfigError, evaluate
from evalbeam.pipelines.cli.main import main

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


@pytest.mark.parametrize("answers", ["recorded", "live"])
@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("rows.jsonl", "Not a directory"),
        ("rows.jsonl/below", "Not a directory"),
        ("/proc/out", "No such file or directory"),
        ("link", "No such file or directory"),
    ],
)
def test_check_and_run_refuse_an_output_that_cannot_be_written(
    output: str, why: str, answers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("agent_of_belongings.py").write_text("def ask(prompt):\n    return 'yes'\n")
    Path("link").symlink_to("nowhere/else")
    before = sorted(Path().rglob("*"))
    for command in ("check", "run"):
        agent = ["--agent", "agent_of_belongings:ask"] if answers == "live" else []
        assert main([command, *COMMAND[1:], output, *agent]) == 2
        allowed = "a folder, new or not, that this process may write to"
        said = f"evalbeam: error: output.path: nothing can be written to {output!r}: {why} (allowed: {allowed})\n"
        assert capsys.readouterr().err == said
    assert [p for p in sorted(Path().rglob("*")) if "__pycache__" not in p.parts] == before


def test_a_look_changes_nothing_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "out"]) == 0

    def state() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (Path("out"), *Path("out").rglob("*"))}

    before = state()
    assert main(["check", *COMMAND[1:], "out", "--overwrite"]) == 0
    assert state() == before
    assert main(["check", *COMMAND[1:], "new/deep/out"]) == 0
    assert not Path("new").exists()


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
    assert "1 completed calls are reused" in capsys.readouterr().err


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


IN_MEMORY = [
    {"prompt": "a", "response": "yes", "reference": "yes"},
    {"prompt": "b", "response": "no", "reference": "yes"},
]


@pytest.mark.parametrize("name", ["instances/a.jpg", "input/rows.jsonl"])
def test_rows_in_memory_are_written_to_no_folder_that_is_refused(name: str) -> None:
    path = Path("own") / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    before = files()
    with pytest.raises(ConfigError, match=f"own/{name} belongs to no run"):
        evaluate(IN_MEMORY, ["exact_match"], output="own")
    assert files() == before


def test_a_mistake_in_the_configuration_leaves_nothing_of_rows_in_memory() -> None:
    before = files()
    with pytest.raises(ConfigError, match="exact_mach"):
        evaluate(IN_MEMORY, ["exact_mach"], output="out")
    assert files() == before
    assert not Path("out").exists()
    assert evaluate(IN_MEMORY, ["exact_match"], output="out").summary_metrics["row_count"] == 2


@pytest.mark.parametrize("rows", [[{"prompt": "c", "response": "x", "reference": "x"}], [{"prompt": object()}]])
def test_a_refused_start_leaves_the_rows_of_a_finished_run(rows: list[dict[str, object]]) -> None:
    first = evaluate(IN_MEMORY, ["exact_match"], output="out")
    before = {path: data for path, data in files().items() if "lease" not in path.parts}
    with pytest.raises(ConfigError):
        evaluate(rows, ["exact_match"], output="out")
    assert {path: data for path, data in files().items() if "lease" not in path.parts} == before
    assert first.metrics_table["prompt"].tolist() == ["a", "b"]


def test_rows_that_cannot_be_written_leave_what_would_be_overwritten() -> None:
    evaluate(IN_MEMORY, ["exact_match"], output="out")
    before = {path: data for path, data in files().items() if "lease" not in path.parts}
    with pytest.raises(ConfigError, match=r"dataset\[1\]\['prompt'\]"):
        evaluate(
            [*IN_MEMORY[:1], {"prompt": object()}], ["exact_match"], output="out", output_options={"overwrite": True}
        )
    assert {path: data for path, data in files().items() if "lease" not in path.parts} == before


@pytest.mark.parametrize(("key", "value"), [("path", "rows.jsonl"), ("format", "csv")])
def test_rows_in_memory_are_no_files(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"dataset_options\.{key}: found '{value}', but the dataset is in memory"):
        evaluate(IN_MEMORY, ["exact_match"], output="out", dataset_options={key: value})


@pytest.mark.parametrize("dataset", [None, 3, b"rows.jsonl"])
def test_what_is_no_dataset(dataset: object) -> None:
    with pytest.raises(ConfigError, match=r"dataset: found (NoneType|int|bytes) \(allowed: a path, a pandas DataFrame"):
        evaluate(dataset, ["exact_match"], output="out")
    assert not Path("out").exists()

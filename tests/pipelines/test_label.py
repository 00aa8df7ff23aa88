"""Rows are chosen for people, their labels come back, and the means of a run are corrected."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.display.run_text import render
from evalbeam.pipelines.label import allocate, choose_labels
from evalbeam.pipelines.report.page import write_report
from evalbeam.pipelines.run.tables import rows_of
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.summary_tables import SUMMARY, VALIDITY, WITH_LABELS

COUNT = 400


def truth(prompt: str) -> float:
    """What people say: a quarter of the answers that match the reference are bad all the same."""
    return float(int(prompt) % 10 < 6)


def rows() -> list[dict[str, Any]]:
    return [
        {"prompt": str(i), "reference": "a", "response": "a" if i % 10 < 8 else "b", "part": "x" if i % 3 else "y"}
        for i in range(COUNT)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    dataset = path / "rows.jsonl"
    dataset.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows()))
    evaluate(str(dataset), ["exact_match"], output=path / "out", slices=["part"])
    return path


def fill(source: Path, target: Path) -> Path:
    """A person fills in the CSV file."""
    with source.open(newline="") as stream:
        found = list(csv.DictReader(stream))
    with target.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(found[0]))
        writer.writeheader()
        writer.writerows({**row, "exact_match/label": truth(row["prompt"])} for row in found)
    return target


def labelled_run(folder: Path, output: Path, labels: Path, **options: Any) -> EvaluationResult:
    given = {"path": str(labels), "columns": {"exact_match": "exact_match/label"}, "probability": "probability"}
    dataset = str(folder / "rows.jsonl")
    return evaluate(dataset, ["exact_match"], output=output, slices=["part"], labels=given, **options)


def test_the_cycle_of_a_judge_and_people(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["label", str(folder / "out"), "--n", "100", "--metrics", "exact_match"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("100 rows of 2 strata in ")
    assert 'columns: {"exact_match": "exact_match/label"}, probability: probability}' in said
    labels = fill(folder / "out" / "to_label.csv", tmp_path / "labels.csv")
    criteria = [{"metric": "exact_match", "statistic": "corrected_mean", "max": 0.7}]
    run = labelled_run(folder, tmp_path / "out", labels, criteria=criteria)
    assert (run.verdict, run.exit_code) == ("PASSED", 0)
    whole = run.summary_table.set_index("metric").loc["exact_match"].iloc[0]
    assert (whole["mean"], whole["labels"]) == (0.8, 100)
    assert whole["corrected_ci_low"] < 0.6 < whole["corrected_ci_high"] < 0.75
    validity = list(rows_of(run, "validity"))
    assert [(row["slice"], row["metric"]) for row in validity] == [
        ("{}", "exact_match"),
        ('{"part":"x"}', "exact_match"),
        ('{"part":"y"}', "exact_match"),
    ]
    assert validity[0]["sensitivity"] == 1.0
    assert validity[0]["rogan_gladen_ci_low"] < 0.6 < validity[0]["rogan_gladen_ci_high"]
    assert all(row["reason"] is None for row in validity)


def test_tables_without_labels_have_no_column_of_them(folder: Path) -> None:
    run = EvaluationResult.load(folder / "out")
    assert list(run.summary_table) == [c.name for c in SUMMARY]
    assert "validity" not in run.manifest["tables"]
    assert [c.name for c in WITH_LABELS[-5:]] == [
        "corrected_mean",
        "corrected_ci_low",
        "corrected_ci_high",
        "lambda",
        "labels",
    ]
    assert len(VALIDITY) == 31


def test_what_people_get(folder: Path, tmp_path: Path) -> None:
    chosen = choose_labels(folder / "out", 50, metrics=["exact_match"], output=str(tmp_path / "ask"))
    table, lines = (Path(name) for name in chosen.files)
    found = [orjson.loads(line) for line in lines.read_text().splitlines()]
    dataset = ["part", "prompt", "reference", "dataset.response"]
    answer = ["response", "predicted_trajectory", "retrieved_context", "turns"]
    assert list(found[0]) == [
        *("instance_id", "trial", *dataset, *answer),
        *("exact_match/label", "probability"),
    ]
    assert not any("score" in name for name in found[0])
    with table.open(newline="") as stream:
        assert [row["instance_id"] for row in csv.DictReader(stream)] == [row["instance_id"] for row in found]
    assert sum(1 / row["probability"] for row in found) == pytest.approx(COUNT)
    again = choose_labels(folder / "out", 50, metrics=["exact_match"], output=str(tmp_path / "again"))
    assert Path(again.files[0]).read_bytes() == table.read_bytes()
    with pytest.raises(ConfigError, match="exists and may hold labels"):
        choose_labels(folder / "out", 50, metrics=["exact_match"], output=str(tmp_path / "ask"))


def test_small_strata_get_more_than_their_share() -> None:
    assert allocate({0: 10_000, 1: 100}, 110) == {0: 100, 1: 10}
    assert allocate({0: 3, 1: 1, 2: 1000}, 100) == {0: 3, 1: 1, 2: 96}
    assert allocate({0: 3, 1: 2}, 50) == {0: 3, 1: 2}


@pytest.mark.parametrize(
    ("n", "options", "text"),
    [
        (0, {"metrics": ["exact_match"]}, "n: found 0"),
        (3, {"metrics": ["exact_match"]}, "n: found 3, for 2 strata of scores"),
        (50, {}, "metrics: no metric asks a judge"),
        (50, {"metrics": ["exact_mach"]}, "did you mean 'exact_match'"),
    ],
)
def test_errors_say_what_is_allowed(folder: Path, tmp_path: Path, n: int, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        choose_labels(folder / "out", n, output=str(tmp_path / "ask"), **options)


def test_labels_of_unknown_rows_are_rows_of_the_errors_table(folder: Path, tmp_path: Path) -> None:
    """The run is not lost: its means have no correction, and the table says why."""
    path = tmp_path / "labels.jsonl"
    lines = [{"instance_id": str(i) * 32, "exact_match/label": 1, "probability": 0.5} for i in range(3)]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    run = labelled_run(folder, tmp_path / "out", path)
    assert run.state == "finished"
    found = run.errors_table
    assert [(r["source"], r["line"], r["code"]) for r in found.to_dict("records")] == [
        ("label", n, "unknown_label") for n in (1, 2, 3)
    ]
    assert set(found["file"]) == {str(path)}
    reasons = [row["reason"] for row in rows_of(run, "validity")]
    assert reasons == ["corrected_mean: a corrected mean needs 10 labels, found 0; no row with a score has a label"] * 3


def test_the_summary_says_what_labels_correct(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    rows = EvaluationResult.load(str(folder / "out")).metrics_table
    known = [
        {"instance_id": id_, "exact_match/label": i % 2, "probability": 0.5}
        for i, id_ in enumerate(rows["instance_id"][:40])
    ]
    unknown = {"instance_id": "0" * 32, "exact_match/label": 1, "probability": 0.5}
    for number, words in (
        (40, "Corrected by labels: exact_match 0."),
        (3, "Not corrected by labels: exact_match, a corrected mean needs 10"),
    ):
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in [*known[:number], unknown]))
        run = labelled_run(folder, tmp_path / str(number), path)
        text = render(run)
        assert words in text
        assert ("), 40 labels" in text) == (number == 40)
        assert f"1 label without a row in the run, first {path}:{number + 1}" in " ".join(text.split())
        page = Path(write_report(run)).read_text()
        assert "Corrected by labels" in page
    assert "labels" not in render(EvaluationResult.load(str(folder / "out"))).lower()


def test_a_criterion_on_labels_needs_them(folder: Path, tmp_path: Path) -> None:
    criteria = [{"metric": "exact_match", "statistic": "corrected_mean", "min": 0.5}]
    with pytest.raises(ConfigError, match=r"criteria\.0\.statistic: corrected_mean of exact_match, of which there are"):
        evaluate(str(folder / "rows.jsonl"), ["exact_match"], output=tmp_path / "out", criteria=criteria)


def test_tables_do_not_depend_on_how_the_work_is_cut(folder: Path, tmp_path: Path) -> None:
    choose_labels(folder / "out", 90, metrics=["exact_match"], output=str(tmp_path / "ask"))
    labels = fill(tmp_path / "ask.csv", tmp_path / "labels.csv")
    written = []
    for shards in (1, 64):
        run = labelled_run(folder, tmp_path / f"out{shards}", labels, shards=shards, trials=1)
        written.append([Path(f).read_bytes() for name in ("summary", "validity") for f in run.files(name)])
    assert written[0] == written[1]
    assert Counter(map(len, written)) == {2: 2}

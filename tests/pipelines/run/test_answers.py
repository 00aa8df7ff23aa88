"""A dataset that lacks what the configuration names is refused before anything is called or written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evalbeam import evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.schemas.errors import DatasetError
from evalbeam.transforms import first_rows

ROWS = [{"prompt": f"q {i}", "reference": "x", "locale": "en", "empty": None} for i in range(20)]
CALLED: list[str] = []


def ask(prompt: str) -> str:
    CALLED.append(prompt)
    return "x"


def write(folder: Path, form: str) -> str:
    path = folder / f"rows.{form}"
    table = pd.DataFrame(ROWS)
    table["empty"] = table["empty"].astype("string")
    if form == "jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)))
    elif form == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    return str(path)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "memory"])
def test_a_misspelt_slice_ends_a_run_before_any_call(form: str, tmp_path: Path) -> None:
    CALLED.clear()
    dataset: Any = ROWS if form == "memory" else write(tmp_path, form)
    with pytest.raises(DatasetError, match="slices: the dataset has no column 'locael'; did you mean 'locale'"):
        evaluate(dataset, ["exact_match"], ask, slices=[["locale"], ["locael"]], output=tmp_path / "out")
    assert CALLED == []
    assert not (tmp_path / "out" / "manifest.json").exists()
    found = evaluate(dataset, ["exact_match"], ask, slices=[["locale"], ["empty"]], output=tmp_path / "out")
    assert found.state == "finished"


def test_the_command_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": "a", "response": "b", "reference": "b", "group": "g"}))
    given = ["--dataset", str(tmp_path / "rows.jsonl"), "--metrics", "exact_match", "--slices", "grup"]
    assert main(["run", *given, "--output", str(tmp_path / "out")]) == 2
    assert "slices: the dataset has no column 'grup'; did you mean 'group'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(["check", *given, "--output", str(tmp_path / "out")]) == 2


def test_a_column_that_begins_late_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "MOST_ROWS", 10)
    rows = [{"prompt": str(i), "response": "x", "reference": "x"} for i in range(10)]
    late: list[dict[str, Any]] = [*rows, {"prompt": "z", "response": "x", "reference": "x", "late": "yes"}]
    with pytest.raises(
        DatasetError, match=r"first 10 rows of the dataset have no column 'late'.*declare it in dataset\.columns"
    ):
        evaluate(late, ["exact_match"], slices=[["late"]], output=tmp_path / "out")
    declared = {"columns": {"late": "string"}}
    found = evaluate(late, ["exact_match"], slices=[["late"]], dataset_options=declared, output=tmp_path / "out")
    assert {"late": "yes"} in list(found.summary_table["slice"])


def test_a_result_is_shown_in_a_line(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "response": "x", "reference": "x"}]
    result = evaluate(rows, ["exact_match"], criteria={"exact_match": 1.0}, output=tmp_path)
    assert repr(result) == f"EvaluationResult({str(tmp_path)!r}: finished, PASSED, 1 rows)"

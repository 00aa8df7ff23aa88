"""What callers from Python give: paths of any kind, and one line for what cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam import ConfigError, EvalTask, evaluate
from evalbeam.pipelines.config.arguments import build_dataset_section, convert_path

ROWS = [{"prompt": "a", "response": "yes", "reference": "yes"}]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


def test_paths_may_be_objects(rows: Path, tmp_path: Path) -> None:
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    assert result.output == str(tmp_path / "out")
    task = EvalTask(dataset=[rows], metrics=["exact_match"], output_uri_prefix=tmp_path / "runs")
    assert task.evaluate(output_file_name="one.csv").output == str(tmp_path / "runs" / "one")
    assert evaluate(ROWS, ["exact_match"], output_options={"path": str(tmp_path / "own")}).output == str(
        tmp_path / "own"
    )


@pytest.mark.parametrize(
    ("dataset", "path"),
    [
        (Path("a"), "a"),
        ("a", "a"),
        ([Path("a"), "b"], ["a", "b"]),
        ((Path("a"),), ["a"]),
        ({"path": Path("a"), "limit": 1}, "a"),
        ({"path": ["a", Path("b")]}, ["a", "b"]),
    ],
)
def test_files_are_files(dataset: Any, path: Any) -> None:
    section, rows = build_dataset_section(dataset, "out", {"max_invalid_fraction": 0.5})
    assert (section["path"], section["max_invalid_fraction"], rows) == (path, 0.5, None)


@pytest.mark.parametrize("dataset", [ROWS, ({"prompt": p} for p in "ab"), {"prompt": ["a"]}, []])
def test_rows_are_rows(dataset: Any) -> None:
    section, rows = build_dataset_section(dataset, "out", {})
    assert (section, rows) == ({"path": ["out/input/rows.jsonl"], "format": "jsonl"}, dataset)
    assert convert_path(dataset) is dataset


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics": "exact_match"}, "metrics: found 'exact_match' (allowed: a list)"),
        ({"metrics": None}, "metrics: found nothing (allowed: a list)"),
        ({"metrics": {"metric": "bleu"}}, "metrics: found {'metric': 'bleu'} (allowed: a list)"),
        ({"metrics": len}, "metrics: found <built-in function len> (allowed: a list)"),
        (
            {"agent": "m:ask"},
            "agent: found 'm:ask' (allowed: a dict such as {'timeout': 30}; the agent itself is `runn",
        ),
        ({"options": "--runner=PrismRunner"}, "options: found '--runner=PrismRunner' (allowed: a list)"),
        ({"output_options": "csv"}, "output_options: found 'csv' (allowed: a dict)"),
        ({"dataset_options": ["limit"]}, "dataset_options: found ['limit'] (allowed: a dict)"),
    ],
)
def test_what_cannot_be_meant(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        evaluate(ROWS, **{"metrics": ["exact_match"], **given})
    assert str(caught.value).startswith(message)


def test_a_task_wants_a_list_of_metrics() -> None:
    with pytest.raises(ConfigError, match="metrics: found 'exact_match'"):
        EvalTask(dataset=ROWS, metrics="exact_match")

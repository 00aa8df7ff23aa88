"""Labels of people as they are read: every format, and what is wrong with file, line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest

from evalbeam.schemas.config.labels import LabelsConfig
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.identity import hash_input
from evalbeam.transforms.labels import PeopleLabels, read_labels
from evalbeam.transforms.statistics.labelled import Label
from evalbeam.transforms.statistics.slices import MetricFacts

ONE, TWO = "0" * 32, "1" * 32 + "-1"
FACTS = (MetricFacts("good", range=(0.0, 1.0)), MetricFacts("free"), MetricFacts("pick", pairwise=True))
ROWS: list[dict[str, Any]] = [
    {"instance_id": ONE, "good": "yes", "free": -3.5, "p": 0.5},
    {"instance_id": TWO, "trial": 2, "good": "0", "free": None, "p": 1},
    {"instance_id": "2" * 32, "good": None, "free": None, "p": None},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    elif path.suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        pd.DataFrame(rows).to_parquet(path)
    return path


def read(path: Path, dataset_id: str | None = None, **options: Any) -> PeopleLabels:
    config = LabelsConfig.model_validate({"path": str(path), "columns": {"good": "good"}, **options})
    return read_labels(config, FACTS, dataset_id)


def wrong(tmp_path: Path, *rows: dict[str, Any], **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(write(tmp_path / "labels.jsonl", list(rows)), **options)
    return str(caught.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_every_format_gives_the_same_labels(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"labels.{ending}", ROWS)
    found = read(path, columns={"good": "good", "free": "free"}, probability="p")
    assert found.said == {
        (ONE, 0): {"good": Label(1.0, 2.0), "free": Label(-3.5, 2.0)},
        (TWO, 2): {"good": Label(0.0, 1.0)},
    }
    assert [place.line for place in found.places.values()] == ([2, 3] if ending == "csv" else [1, 2])


def test_ids_of_the_dataset_are_found(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.jsonl", [{"case": 7, "good": True}])
    assert read(path, dataset_id="number", id="case").said == {(hash_input({"id": 7}), 0): {"good": Label(1.0)}}
    assert "dataset.id in the configuration" in wrong(tmp_path, {"instance_id": "7", "good": 1})


def test_equal_labels_of_one_row_are_one_and_different_ones_an_error(tmp_path: Path) -> None:
    same = {"instance_id": ONE, "good": 1}
    assert len(read(write(tmp_path / "same.jsonl", [same, same])).said) == 1
    said = wrong(tmp_path, same, {"instance_id": TWO, "good": 1}, {"instance_id": ONE, "good": 0})
    assert said.startswith(f"labels.jsonl:3: good: found 0 for '{ONE}', which has 1 at ")
    assert "labels.jsonl:1" in said


@pytest.mark.parametrize(
    ("row", "options", "text"),
    [
        ({"instance_id": ONE, "god": 1}, {}, "labels.jsonl: no column 'good', which labels names; did you mean 'god'?"),
        ({"id": ONE, "good": 1}, {}, "labels.jsonl:1: the row has no 'instance_id'; it has good, id"),
        ({"instance_id": ONE, "good": 4}, {}, "labels.jsonl:1: good: found 4 (allowed: 0 to 1, the range of good)"),
        ({"instance_id": ONE, "good": "meh"}, {}, "labels.jsonl:1: good: found 'meh' (allowed: a number, true or"),
        ({"instance_id": ONE, "good": [1]}, {}, "labels.jsonl:1: good: found [1] (allowed: a number"),
        ({"instance_id": ONE, "good": 1, "trial": "x"}, {}, "labels.jsonl:1: trial: found 'x' (allowed: the number"),
        ({"instance_id": ONE, "good": 1, "p": 0}, {"probability": "p"}, "labels.jsonl:1: p: found 0 (allowed: a prob"),
        ({"instance_id": ONE, "good": 1}, {"probability": "p"}, "labels.jsonl:1: p: found None (allowed: a prob"),
        ({}, {"columns": {"goood": "good"}}, "labels.columns.goood: no metric named 'goood' that takes labels; did"),
        ({}, {"columns": {"pick": "good"}}, "labels.columns.pick: no metric named 'pick' that takes labels"),
    ],
)
def test_errors_name_file_line_and_column(
    tmp_path: Path, row: dict[str, Any], options: dict[str, Any], text: str
) -> None:
    assert wrong(tmp_path, row, **options).startswith(text)


def test_a_line_that_is_no_row_is_an_error_of_that_line(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f'{{"instance_id": "{ONE}", "good": 1}}\n{{"instance_id"\n')
    with pytest.raises(ConfigError, match=r"labels\.jsonl:2: "):
        read(path)


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"labels\.path"):
        read(tmp_path / "none.jsonl")

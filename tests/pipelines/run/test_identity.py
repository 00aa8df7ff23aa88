"""One dataset in any format, order, number of files, shards and workers gives the same tables, byte for byte."""

from __future__ import annotations

import csv
import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalbeam.pipelines.cli import main as cli
from evalbeam.pipelines.run.evaluate import evaluate
from evalbeam.pipelines.runners import shuffle

TYPES = {
    "n": "int64",
    "weight": "float64",
    "hot": "bool",
    "predicted_trajectory": "json",
    "reference_trajectory": "json",
    "latency_in_seconds": "float64",
}
METRICS = [
    "trajectory_exact_match",
    "trajectory_precision",
    "exact_match",
    {"metric": "trajectory_single_tool_use", "tool_name": "t1"},
]
SLICES = [["category"], ["category", "hot"]]


def rows() -> list[dict]:
    rng = random.Random(3)
    words = ["lamp", "naïve café", "02134", "2024-03-30", "a,b", 'say "hi"', "two\nlines", "日本", "=1+1", " x "]
    made = []
    for i in range(240):
        calls = [
            {"tool_name": f"t{rng.randrange(3)}", "tool_input": {"x": rng.randrange(2)}}
            for _ in range(rng.randint(0, 3))
        ]
        made.append(
            {
                "prompt": f"{rng.choice(words)} {i % 200}",
                "zip": f"0{2000 + i % 7}",
                "n": i % 5,
                "weight": i / 4,
                "hot": i % 3 == 0,
                "category": rng.choice(words),
                "response": rng.choice(words),
                "reference": rng.choice(words[:3]),
                "predicted_trajectory": calls,
                "reference_trajectory": calls[: rng.randint(0, 3)],
                "latency_in_seconds": i / 8,
            }
        )
    return made + made[:3]


def write_jsonl(path: Path, data: list[dict]) -> Path:
    path.write_text(
        "".join(json.dumps(r, ensure_ascii=i % 2 == 0) + "\n" for i, r in enumerate(data)), encoding="utf-8"
    )
    return path


def write_csv(path: Path, data: list[dict]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, fieldnames=list(data[0]))
        writer.writeheader()
        writer.writerows({k: json.dumps(v) if isinstance(v, list | bool) else v for k, v in r.items()} for r in data)
    return path


def run(dataset: str | list[str], output: Path, **config) -> dict[str, bytes]:
    section = {"path": dataset, "columns": TYPES}
    evaluate(section, METRICS, output=str(output), slices=SLICES, **config)
    return tables(output)


def tables(output: Path) -> dict[str, bytes]:
    names = [*sorted((output / "instances").iterdir()), output / "summary.parquet"]
    return {str(p.relative_to(output)): p.read_bytes() for p in names}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    found = run(str(write_jsonl(folder / "rows.jsonl", rows())), folder / "out")
    assert sorted(found) == ["instances/part-00000-of-00001.parquet", "summary.parquet"]
    assert pq.read_table(pa.BufferReader(found["instances/part-00000-of-00001.parquet"])).num_rows == 243
    return found


def test_every_format_gives_the_same_tables(expected, tmp_path):
    data = rows()
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(write_jsonl(tmp_path / "plain.jsonl", data).read_bytes()))
    array = tmp_path / "rows.json"
    array.write_text(json.dumps(data, indent=1))
    pq.write_table(pa.Table.from_pylist(data), tmp_path / "rows.parquet", row_group_size=50)
    table = write_csv(tmp_path / "rows.csv", data)
    for i, path in enumerate((packed, array, tmp_path / "rows.parquet", table)):
        assert run(str(path), tmp_path / f"out{i}") == expected, path.name


def test_files_order_and_shards_leave_no_trace(expected, tmp_path):
    data = rows()
    for i in range(4):
        write_jsonl(tmp_path / f"rows-{i}.jsonl", data[i::4])
    assert run(str(tmp_path / "rows-*.jsonl"), tmp_path / "four") == expected
    random.Random(5).shuffle(data)
    shuffled = str(write_jsonl(tmp_path / "shuffled.jsonl", data))
    assert run(shuffled, tmp_path / "16", shards=16) == expected
    assert run(shuffled, tmp_path / "512", shards=512) == expected


def test_several_output_files_hold_the_same_rows_whatever_the_shards(expected, tmp_path):
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows()))
    few = run(path, tmp_path / "a", shards=2, output_options={"shards": 8})
    many = run(path, tmp_path / "b", shards=64, output_options={"shards": 8})
    assert few == many
    assert len(few) == 9
    parts = [pq.read_table(pa.BufferReader(v)) for k, v in sorted(few.items()) if k.startswith("instances")]
    whole = pq.read_table(pa.BufferReader(expected["instances/part-00000-of-00001.parquet"]))
    assert pa.concat_tables(parts).equals(whole)


def test_worker_processes_leave_no_trace(expected, tmp_path):
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows()))
    options = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    assert run(path, tmp_path / "out", options=options) == expected


def test_shuffling_by_files_leaves_no_trace(expected, tmp_path, monkeypatch):
    monkeypatch.setattr(shuffle, "HELD", 0)
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows()))
    assert run(path, tmp_path / "out") == expected
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(
        [
            *("errors.parquet", "failure_groups.parquet", "instances", "lease", "manifest.json"),
            *("summary.parquet", "worst_slices.parquet"),
        ]
    )


def test_the_command_and_the_function_give_the_same_tables(expected, tmp_path, capsys):
    path = write_jsonl(tmp_path / "rows.jsonl", rows())
    config = {
        "dataset": {"path": str(path), "columns": TYPES},
        "metrics": METRICS,
        "slices": SLICES,
        "output": {"path": str(tmp_path / "out")},
    }
    (tmp_path / "eval.yaml").write_text(json.dumps(config))
    assert cli.main(["run", str(tmp_path / "eval.yaml")]) == 0
    assert tables(tmp_path / "out") == expected
    assert "trajectory_exact_match" in capsys.readouterr().out


def test_limit_and_sample_choose_the_same_rows_in_every_format(tmp_path):
    data = rows()
    first = str(write_jsonl(tmp_path / "rows.jsonl", data))
    second = str(write_csv(tmp_path / "rows.csv", data[::-1]))
    for options, low, high in (
        ({"limit": 37}, 37, 37),
        ({"sample": 0.5}, 90, 150),
        ({"sample": 0.5, "limit": 20}, 20, 20),
    ):
        runs = [
            evaluate(
                {"path": p, "columns": TYPES, **options}, METRICS, output=str(tmp_path / f"{p[-3:]}{len(options)}{low}")
            )
            for p in (first, second)
        ]
        ids = [r.metrics_table["instance_id"].tolist() for r in runs]
        assert ids[0] == ids[1]
        assert low <= len(ids[0]) <= high
        assert runs[0].summary_metrics == runs[1].summary_metrics

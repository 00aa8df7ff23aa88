"""Tables and queries of BigQuery as datasets, over its protocols."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalbeam import ConfigError, EvaluationConfig, evaluate
from evalbeam.pipelines.check.check import check

pytestmark = pytest.mark.engines

CALL = pa.struct([("tool_name", pa.string()), ("tool_input", pa.struct([("a", pa.int64()), ("b", pa.string())]))])
SCHEMA = pa.schema(
    [
        ("prompt", pa.string()),
        ("reference", pa.string()),
        ("response", pa.string()),
        ("reference_trajectory", pa.list_(CALL)),
        ("predicted_trajectory", pa.list_(CALL)),
        ("price", pa.decimal128(38, 9)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("weight", pa.float64()),
        ("kept", pa.bool_()),
        ("raw", pa.binary()),
        ("latency_in_seconds", pa.float64()),
    ]
)
TYPES = {
    "price": "NUMERIC",
    "day": "DATE",
    "at": "TIMESTAMP",
    "local": "DATETIME",
    "weight": "FLOAT64",
    "latency_in_seconds": "FLOAT64",
    "kept": "BOOL",
    "raw": "BYTES",
}
METRICS = ["trajectory_exact_match", "trajectory_any_order_match", "exact_match"]


def table_of(size: int) -> pa.Table:
    call = {"tool_name": "f", "tool_input": {"a": 1, "b": None}}
    rows = [
        {
            "prompt": None
            if i % 50 == 49
            else f"p{i % 300}",  # repeated inputs, and rows that identify by all they are
            "reference": f"P{i}",
            "response": f"P{i}" if i % 3 else "no",
            "reference_trajectory": [call],
            "predicted_trajectory": [call] * (i % 3),
            "price": Decimal(i) / 8 if i % 7 else None,
            "day": i % 10_000,
            "at": i * 1_000_001,
            "local": i * 1_000_000,
            "weight": i / 3 if i % 5 else None,
            "kept": bool(i % 2),
            "raw": b"\x00%d" % i,
            "latency_in_seconds": i / 8,
        }
        for i in range(size)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.fixture(scope="module")
def source(cloud: Any, warehouse: Any) -> tuple[str, str]:
    """(the rows as Parquet on gs://, the same in a table of BigQuery)."""
    from google.cloud import bigquery

    written = io.BytesIO()
    pq.write_table(table_of(700), written, row_group_size=300)
    cloud.put("bq/rows.parquet", written.getvalue())
    call = (
        bigquery.SchemaField("tool_name", "STRING"),
        bigquery.SchemaField(
            "tool_input",
            "RECORD",
            fields=(bigquery.SchemaField("a", "INT64"), bigquery.SchemaField("b", "STRING")),
        ),
    )
    fields = [
        bigquery.SchemaField(name, "RECORD", mode="REPEATED", fields=call)
        if name.endswith("trajectory")
        else bigquery.SchemaField(name, TYPES.get(name, "STRING"))
        for name in SCHEMA.names
    ]
    name = f"{warehouse.dataset}.source"
    warehouse.client.create_table(bigquery.Table(name, fields))
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    warehouse.client.load_table_from_uri(cloud.url("bq/rows.parquet"), name, job_config=config).result()
    return cloud.url("bq/rows.parquet"), name


def tables(result: Any) -> dict[str, bytes]:
    """Bytes of the instances and summary tables, on a disk."""
    folder = Path(result.output)
    return {p.name: p.read_bytes() for p in (*folder.glob("instances/*"), folder / "summary.parquet")}


def test_a_table_gives_the_tables_that_parquet_gives(source: tuple[str, str], tmp_path: Path) -> None:
    file, name = source
    parquet = evaluate(file, METRICS, output=str(tmp_path / "parquet"), slices=["kept"])
    table = evaluate(f"bq://{name}", METRICS, output=str(tmp_path / "table"), slices=["kept"])
    assert parquet.manifest["counts"]["rows"] == 700
    assert tables(table) == tables(parquet)


def test_a_query_is_kept_in_a_table_of_its_own(source: tuple[str, str], warehouse: Any, tmp_path: Path) -> None:
    _, name = source
    dataset = {"query": f"SELECT * FROM `{name}` WHERE NOT kept -- half of them", "query_into": warehouse.dataset}
    config = {"dataset": dataset, "metrics": METRICS, "output": {"path": str(tmp_path / "check")}}
    before = {t.table_id for t in warehouse.client.list_tables(warehouse.dataset)}
    assert "unknown until they are read" in check(EvaluationConfig.parse(config)).render(120)
    assert {t.table_id for t in warehouse.client.list_tables(warehouse.dataset)} == before
    found = evaluate(dataset, METRICS, output=str(tmp_path / "query"))
    (made,) = {t.table_id for t in warehouse.client.list_tables(warehouse.dataset)} - before
    assert made.startswith("evalbeam_")
    half = tmp_path / "half.parquet"
    pq.write_table(table_of(700).filter(pa.array([i % 2 == 0 for i in range(700)])), half)
    assert tables(found) == tables(evaluate(str(half), METRICS, output=str(tmp_path / "half")))


def test_columns_and_rows_are_chosen_by_the_service(source: tuple[str, str], tmp_path: Path) -> None:
    select = ["prompt", "reference", "response", "weight", "latency_in_seconds"]
    dataset = {"path": f"bq://{source[1]}", "select": select, "where": "kept AND prompt IS NOT NULL"}
    found = evaluate(dataset, ["exact_match"], output=str(tmp_path / "out"))
    rows = [r for r in table_of(700).to_pylist() if r["kept"] and r["prompt"]]
    assert found.manifest["counts"]["rows"] == len(rows)
    chosen = pa.Table.from_pylist(
        [{n: r[n] for n in select} for r in rows], pa.schema([SCHEMA.field(n) for n in select])
    )
    pq.write_table(chosen, tmp_path / "chosen.parquet")
    assert tables(found) == tables(
        evaluate(str(tmp_path / "chosen.parquet"), ["exact_match"], output=str(tmp_path / "o"))
    )


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"path": "bq://test-project.tests.nope"}, r"dataset.path: bq://test-project.tests.nope: .*[nN]ot found"),
        ({"path": "bq://tests"}, "dataset.path: found 'tests' \\(allowed: project.dataset.table\\)"),
        ({"path": "bq://test-project.tests.source", "select": ["nope"]}, "dataset.select: .* no column 'nope'"),
        ({"query": "SELEC 1", "query_into": "test-project.tests"}, "dataset.query: "),
        ({"query": "SELECT 1", "query_into": "test-project.nope"}, "dataset.query: "),
        ({"query": "SELECT 1", "query_into": "tests"}, "dataset.query_into: found 'tests'"),
    ],
)
def test_what_cannot_be_read_is_told_before_the_run(
    source: tuple[str, str], dataset: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(dataset, ["exact_match"], output=str(tmp_path))


def test_check_knows_the_rows_of_a_table(source: tuple[str, str], tmp_path: Path) -> None:
    config = {"dataset": {"path": f"bq://{source[1]}"}, "metrics": METRICS, "output": {"path": str(tmp_path / "o")}}
    text = check(EvaluationConfig.parse(config)).render(160)
    assert "rows     700" in text
    assert "reference_trajectory (list)" in text

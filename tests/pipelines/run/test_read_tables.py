"""Rows of a run read back from its tables."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from evalbeam import EvaluationResult, compare, evaluate
from evalbeam.pipelines.report.page import render_page, write_report
from evalbeam.pipelines.run.tables import count_texts, pick_rows, rows_of
from evalbeam.pipelines.view.table import RunTable
from evalbeam.schemas.warehouse import Stamp
from evalbeam.transforms.writers.bigquery import BigQueryFiles
from evalbeam.transforms.writers.parquet import ParquetFiles


def held_in(page: str) -> list[str]:
    """The rows that a page holds, as JSON."""
    return re.findall(r'id="rows">(.*?)</script>', page)


def test_a_column_that_a_table_has_for_a_warehouse_is_left_out(tmp_path: Path) -> None:
    rows = [{"prompt": str(i), "reference": "a", "response": "ab"[i % 2]} for i in range(6)]
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    before = list(rows_of(result, "instances"))
    (path,) = result.files("instances")
    table = pq.read_table(path)
    pq.write_table(table.add_column(0, "run_id", pa.array(["r"] * table.num_rows)), path)
    assert list(rows_of(result, "instances")) == before
    assert list(pick_rows(result, [1, 4])) == [before[1], before[4]]
    assert write_report(result)


def test_files_for_bigquery_have_other_names_and_lack_empty_columns(tmp_path: Path) -> None:
    """The names there are those of the writer that makes such files."""
    rows = [{"prompt": str(i), "reference": "a", "response": "ab"[i % 2], "a b": i, "none": None} for i in range(6)]
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    before, page = list(rows_of(result, "instances")), render_page(result)
    reasons = count_texts(result, "instances", ["exact_match/status", "none"], 10)
    compared = compare(result.output, result.output, metrics=["exact_match"]).differences[0].pairs
    writer = BigQueryFiles(files=ParquetFiles(), stamp=Stamp("r", "2026-11-20"))
    for table in result.manifest["tables"]:
        for path in result.files(table):
            written = pq.read_table(path)
            with open(path, "wb") as stream, writer.open(stream, written.schema) as sink:
                for batch in written.combine_chunks().to_batches():
                    sink.write(batch)
    manifest = orjson.loads((tmp_path / "out" / "manifest.json").read_bytes())
    manifest["config"]["output"]["bigquery"] = {"dataset": "p.d", "run_date": "2026-11-20"}
    (tmp_path / "out" / "manifest.json").write_bytes(orjson.dumps(manifest))
    (path,) = result.files("instances")
    assert {"run_id", "run_date", "exact_match_score", "a_b"} <= set(pq.read_schema(path).names)
    assert "none" not in pq.read_schema(path).names
    result = EvaluationResult.load(result.output)
    assert list(rows_of(result, "instances")) == before
    assert list(pick_rows(result, [1, 4])) == [before[1], before[4]]
    assert count_texts(result, "instances", ["exact_match/status", "none"], 10) == reasons
    assert held_in(render_page(result)) == held_in(page)
    assert compare(result.output, result.output, metrics=["exact_match"]).differences[0].pairs == compared == 6
    shown = RunTable(result, str(tmp_path))
    assert shown.numbers("exact_match/score").tolist() == [row["exact_match/score"] for row in before]

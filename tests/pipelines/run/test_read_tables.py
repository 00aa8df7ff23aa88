"""Rows of a run read back from its tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evalbeam import evaluate
from evalbeam.pipelines.report.page import write_report
from evalbeam.pipelines.run.tables import pick_rows, rows_of


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

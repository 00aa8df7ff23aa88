"""Names and types that BigQuery takes, by its documented rules."""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas import tables
from evalbeam.schemas.warehouse import ADDED, ORIGINAL, Stamp, column_names
from evalbeam.transforms.writers.bigquery import BigQueryFiles
from evalbeam.transforms.writers.parquet import ParquetFiles

ALLOWED = re.compile(r"(?!\d)\w{1,300}")
RESERVED = re.compile(r"_table_|_file_|_partition|_row_timestamp|__root__|_colidentifier", re.IGNORECASE)


@given(
    st.lists(st.text(max_size=8) | st.sampled_from(["a", "A", "a_2", "_PARTITIONTIME", "1", "x/y", "x y"]), max_size=9)
)
def test_names_are_allowed_and_each_stands_once(names: list[str]) -> None:
    found = column_names(names)
    assert len(found) == len(names) == len({name.lower() for name in found})
    assert all(ALLOWED.fullmatch(name) and not RESERVED.match(name) for name in found)
    assert column_names(found) == found


def test_names_keep_what_can_be_kept() -> None:
    names = ["exact_match/score", "exact_match_score", "Größe", "Prompt", "prompt", "a b.c", "2nd", "", "x" * 400]
    expected = ["exact_match_score", "exact_match_score_2", "Größe", "Prompt", "prompt_2", "a_b_c", "c_2nd", "_"]
    assert column_names(names) == [*expected, "x" * 290]


def test_the_run_stands_in_front_of_every_row() -> None:
    stamp = Stamp("gs://b/run", "2026-11-20")
    columns = (tables.Column("run_id", "string"), tables.Column("m/score", "float64"), tables.Column("n", "json"))
    schema = stamp.schema(tables.schema(columns))
    described = stamp.describe_columns([(c.name, c.type) for c in columns])
    assert described == [
        ("run_id", "STRING"),
        ("run_date", "DATE"),
        ("run_id_2", "STRING"),
        ("m_score", "FLOAT64"),
        ("n", "STRING"),
    ]
    assert schema.names == [name for name, _ in described]
    assert [str(f.type) for f in schema] == ["string", "date32[day]", "string", "double", "string"]
    assert [ADDED in (f.metadata or {}) for f in schema] == [True, True, False, False, False]
    assert [(f.metadata or {})[ORIGINAL] for f in list(schema)[2:]] == [b"run_id", b"m/score", b"n"]
    assert pa.table(stamp.arrays(2), names=["i", "d"]).to_pylist()[1]["d"].isoformat() == "2026-11-20"
    assert Stamp("r").schema(tables.schema(columns)).names == ["run_id", "run_id_2", "m_score", "n"]


def test_a_column_without_any_value_is_left_out_and_has_no_type_to_contradict_a_later_run() -> None:
    columns = (tables.Column("a", "int64"), tables.Column("none", "null"), tables.Column("b", "string"))
    stamp, stream = Stamp("r"), io.BytesIO()
    with BigQueryFiles(files=ParquetFiles(), stamp=stamp).open(stream, tables.schema(columns)) as sink:
        sink.write(tables.table([{"a": 1, "b": "x"}], columns))
    found = pq.read_table(stream)
    assert found.to_pylist() == [{"run_id": "r", "a": 1, "b": "x"}]
    assert [name for name, _ in stamp.describe_columns([(c.name, c.type) for c in columns])] == found.column_names

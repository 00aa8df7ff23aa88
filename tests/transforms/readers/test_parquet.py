"""Parquet, against pyarrow's own conversion and texts worked out by hand."""

from __future__ import annotations

import datetime as dt
import io
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalbeam.schemas.batch import RowBlock
from evalbeam.transforms.readers import parquet
from evalbeam.transforms.readers.parquet import ParquetReader

SAFE = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CALL = pa.struct([("tool_name", pa.string()), ("tool_input", pa.struct([("a", pa.int64()), ("b", pa.string())]))])
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("t", pa.list_(CALL)),
        ("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ("f", pa.list_(pa.bool_(), 2)),
    ]
)
ARGUMENTS = st.fixed_dictionaries({"a": st.none() | st.integers(-9, 9), "b": st.none() | st.text("xé", max_size=2)})
CALLS = st.none() | st.fixed_dictionaries(
    {"tool_name": st.none() | st.sampled_from("pq"), "tool_input": st.none() | ARGUMENTS}
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "s": st.none() | st.text("ab", max_size=3),
            "x": st.none() | st.floats(),
            "t": st.none() | st.lists(CALLS, max_size=3),
            "m": st.none() | st.dictionaries(st.text("kl", max_size=2), st.none() | st.lists(st.integers(0, 9))),
            "f": st.tuples(st.booleans(), st.booleans() | st.none()).map(list),
        }
    ),
    max_size=12,
)


def written(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, **options)
    return path


def read(path: Path, **options: Any) -> list[RowBlock]:
    reader = ParquetReader(**options)
    return [block for part in reader.split(str(path), path.stat().st_size) for block in reader.read(part)]


def rows_of(blocks: list[RowBlock]) -> list[dict[str, Any]]:
    return [row for block in blocks for _, row in block.rows]


def without_nulls(value: Any) -> Any:
    """pyarrow's Python value under the rules: no null fields in structs, no NaN, infinities as text, maps as dicts."""
    if isinstance(value, float):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, None if math.isnan(value) else value)
    if isinstance(value, list) and any(isinstance(v, tuple) for v in value):
        return {k: without_nulls(v) for k, v in value}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return value


@SAFE
@given(ROWS, st.integers(1, 5), st.booleans(), st.integers(1, 4))
def test_nested_rows_are_what_pyarrow_makes_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[Any], group: int, dictionary: bool, block: int
) -> None:
    monkeypatch.setattr(parquet, "BLOCK_ROWS", block)
    table = pa.Table.from_pylist(rows, SCHEMA)
    path = written(tmp_path / "a.parquet", table, row_group_size=group, use_dictionary=dictionary)
    expected = []
    for row in pq.read_table(path).to_pylist():
        row["m"] = None if row["m"] is None else dict(row["m"])
        plain = {k: without_nulls(v) for k, v in row.items() if k != "m"} | {"m": row["m"]}
        expected.append({k: v for k, v in plain.items() if v is not None})
    blocks = read(path)
    assert rows_of(blocks) == expected
    places = [(b.range, n) for b in blocks for n, _ in b.rows]
    assert places == [(i // group, i % group + 1) for i in range(len(rows))]


MOMENT = dt.datetime(2024, 3, 30, 12, 0, 0, 500_000)
NESTED = pa.struct([("at", pa.timestamp("us")), ("x", pa.int8())])
DEEPER = pa.struct([("d", pa.decimal128(3, 2)), ("s", pa.struct([("n", pa.int8())]))])
BERLIN = "Europe/Berlin"
TYPED: list[tuple[Any, pa.DataType, Any]] = [
    (-3, pa.int8(), -3),
    (2**63 - 1, pa.uint64(), 2**63 - 1),
    (2**63, pa.uint64(), "9223372036854775808"),
    (0.1, pa.float32(), 0.10000000149011612),
    (0.5, pa.float16(), 0.5),
    (float("nan"), pa.float64(), None),
    (float("-inf"), pa.float32(), "-Infinity"),
    (True, pa.bool_(), True),
    ("02134", pa.large_string(), "02134"),
    (b"\x00\xff", pa.binary(), "AP8="),
    (b"\x00\xff", pa.binary(2), "AP8="),
    (Decimal("1.50"), pa.decimal128(5, 2), "1.50"),
    (Decimal("-123456789012345678901234567890.12"), pa.decimal256(50, 2), "-123456789012345678901234567890.12"),
    (dt.date(1969, 12, 31), pa.date32(), "1969-12-31"),
    (dt.date(2024, 3, 30), pa.date64(), "2024-03-30"),
    (MOMENT, pa.timestamp("ms"), "2024-03-30T12:00:00.500000"),
    (MOMENT.replace(microsecond=0), pa.timestamp("us"), "2024-03-30T12:00:00"),
    (1, pa.timestamp("ns"), "1970-01-01T00:00:00.000000001"),
    (-1, pa.timestamp("ns", BERLIN), "1969-12-31T23:59:59.999999999Z"),
    (MOMENT.replace(tzinfo=dt.UTC), pa.timestamp("us", BERLIN), "2024-03-30T12:00:00.500000Z"),
    (dt.time(1, 2, 3), pa.time32("ms"), "01:02:03"),
    (1, pa.time64("ns"), "00:00:00.000000001"),
    (dt.timedelta(seconds=-1.5), pa.duration("us"), "-PT1.5S"),
    (uuid.UUID(int=5).bytes, pa.uuid(), "00000000-0000-0000-0000-000000000005"),
    ([("a", None), ("b", 1)], pa.map_(pa.string(), pa.int64()), {"a": None, "b": 1}),
    ([(1, "x"), (2, "y")], pa.map_(pa.int64(), pa.string()), {"1": "x", "2": "y"}),
    ([{"at": MOMENT, "x": None}, None], pa.list_(NESTED), [{"at": "2024-03-30T12:00:00.500000"}, None]),
    ({"d": Decimal("0.10"), "s": {"n": None}}, DEEPER, {"d": "0.10", "s": {}}),
]


@pytest.mark.parametrize(("value", "kind", "expected"), TYPED, ids=[str(kind) for _, kind, _ in TYPED])
def test_types(tmp_path: Path, value: Any, kind: pa.DataType, expected: Any) -> None:
    for wrapped in (False, True):
        array: pa.Array[Any] = pa.array([None, value, None], kind)
        if wrapped:
            array = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), array)
        rows = rows_of(read(written(tmp_path / "a.parquet", pa.table({"k": [1, 2, 3], "v": array}))))
        if wrapped:
            found = [row["v"] for row in rows]
            assert repr(found) == repr([[None], [expected], [None]])
        else:
            assert repr(rows) == repr([{"k": 1}, {"k": 2} | ({} if expected is None else {"v": expected}), {"k": 3}])


def test_dictionary_columns_are_plain(tmp_path: Path) -> None:
    table = pa.table(
        {"c": pa.array(["x", None, "x"]).dictionary_encode(), "l": pa.array([1, 2, 3]).dictionary_encode()}
    )
    assert rows_of(read(written(tmp_path / "a.parquet", table))) == [{"c": "x", "l": 1}, {"l": 2}, {"c": "x", "l": 3}]


def test_a_time_out_of_range_rejects_its_row_alone(tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([1, 10**17, 3], pa.timestamp("ms")), "s": ["x", "y", "z"]})
    (block,) = read(written(tmp_path / "a.parquet", table))
    assert [n for n, _ in block.rows] == [1, 3]
    (bad,) = block.rejected
    assert (bad.line, bad.code, bad.raw) == (2, "invalid_value", '{"s":"y"}')
    assert bad.message == "column 't': found a time outside the years 1 to 9999 (allowed: years 1 to 9999)"


def test_undecodable_text_rejects_its_row_alone(tmp_path: Path) -> None:
    offsets = pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]
    texts = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"a\xff\xfeb"))
    (block,) = read(written(tmp_path / "a.parquet", pa.table({"s": texts, "i": [1, 2, 3]})))
    assert block.rows == [(1, {"s": "a", "i": 1}), (3, {"s": "b", "i": 3})]
    (bad,) = block.rejected
    assert (bad.code, bad.raw) == ("undecodable_bytes", '{"i":2}')
    assert bad.message == "column 's': found byte 0xff at byte 1 (allowed: UTF-8)"


def test_declared_columns(tmp_path: Path) -> None:
    table = pa.table({"j": ['{"a":[NaN,1]}', "null", "{", None], "i": pa.array([1, 2, 3, 4], pa.int8())})
    path = written(tmp_path / "a.parquet", table)
    (block,) = read(path, columns={"j": "json", "i": "float64"})
    assert repr(block.rows) == repr([(1, {"j": {"a": [None, 1]}, "i": 1.0}), (2, {"i": 2.0}), (4, {"i": 4.0})])
    assert [(r.line, r.code) for r in block.rejected] == [(3, "wrong_type")]
    assert block.rejected[0].message.startswith("column 'j': Expecting property name")
    (block,) = read(path, columns={"i": "string"})
    assert {r.message for r in block.rejected} == {f"column 'i': found {i} (allowed: a string)" for i in range(1, 5)}


def test_large_rows_make_small_blocks(tmp_path: Path) -> None:
    table = pa.table({"s": [str(i) + "x" * 300_000 for i in range(40)]})
    blocks = read(written(tmp_path / "a.parquet", table, use_dictionary=False))
    assert max(len(b.rows) for b in blocks) <= 7
    assert [int(row["s"].rstrip("x")) for row in rows_of(blocks)] == list(range(40))


def test_files_without_rows_or_columns(tmp_path: Path) -> None:
    assert read(written(tmp_path / "a.parquet", pa.table({"a": pa.array([], pa.int8())}))) == []
    assert rows_of(read(written(tmp_path / "b.parquet", pa.table({"a": [None, None]})))) == [{}, {}]


def test_two_columns_of_one_name_are_damage(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]))
    (block,) = read(path)
    (bad,) = block.rejected
    assert bad.code == "damaged_file"
    assert bad.message == "found two columns named 'a' (allowed: each name once); the rest is not read"


def whole_file() -> bytes:
    file = io.BytesIO()
    table = pa.table({"i": range(50), "s": [str(i) * 9 for i in range(50)], "l": [[i] for i in range(50)]})
    pq.write_table(table, file, row_group_size=25, compression="zstd", write_page_checksum=True)
    return file.getvalue()


WHOLE = whole_file()


@pytest.mark.parametrize("data", [b"", b"PAR1", b"{}", WHOLE[:-1], WHOLE[: len(WHOLE) // 2], b"\x1f\x8b\x08" + WHOLE])
def test_a_file_that_is_no_parquet_is_one_rejected_record(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    (block,) = read(tmp_path / "a.parquet")
    assert (block.rows, [(r.line, r.code) for r in block.rejected]) == ([], [(1, "damaged_file")])


@pytest.mark.parametrize("at", [int(len(WHOLE) * share) for share in (0.02, 0.1, 0.2, 0.3, 0.4)])
def test_broken_pages_lose_only_what_they_hold(tmp_path: Path, at: int) -> None:
    (tmp_path / "a.parquet").write_bytes(WHOLE[:at] + bytes(b ^ 0x55 for b in WHOLE[at : at + 8]) + WHOLE[at + 8 :])
    blocks = read(tmp_path / "a.parquet")
    rejected = [(r.range, r.code) for b in blocks for r in b.rejected]
    assert len(rejected) == 1
    assert rejected[0][1] == "damaged_file"
    assert len(rows_of(blocks)) in (0, 25)


def test_failing_storage_raises(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", pa.table({"a": [1]}))
    (part,) = ParquetReader().split(str(path), 1)
    path.unlink()
    with pytest.raises(OSError, match="No such file"):
        list(ParquetReader().read(part))

"""CSV, against pandas' own parser."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import zstandard
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evalbeam.schemas.batch import RowBlock
from evalbeam.transforms.readers import csv as csv_module
from evalbeam.transforms.readers.csv import CsvReader

SAFE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CELLS = st.text(
    st.sampled_from("ab01 ,;\"\n\r'é\0") | st.characters(codec="utf-8", exclude_characters="\0"), max_size=6
)
TABLES = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.text("xyz é", min_size=1).filter(str.strip), min_size=n, max_size=n, unique=True),
        st.lists(st.lists(CELLS, min_size=n, max_size=n), max_size=6),
    )
)


def read(path: Path, data: bytes, **options: Any) -> list[RowBlock]:
    path.write_bytes(data)
    reader = CsvReader(**options)
    return [block for part in reader.split(str(path), len(data)) for block in reader.read(part)]


def rows_of(blocks: list[RowBlock]) -> list[tuple[int, dict[str, Any]]]:
    return [row for block in blocks for row in block.rows]


def rejected_of(blocks: list[RowBlock]) -> list[tuple[int, str]]:
    return [(bad.line, bad.code) for block in blocks for bad in block.rejected]


@SAFE
@given(TABLES, st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]), st.sampled_from(["\n", "\r\n"]))
def test_reads_what_pandas_reads(tmp_path: Path, table: Any, quoting: Any, end: str) -> None:
    header, records = table
    lone = any("\r" in cell for record in records for cell in record)  # unquoted, it ends a line
    assume(quoting == csv.QUOTE_ALL or len(header) == 1 or not lone)
    # Unquoted, it is a line of blanks: pandas skips it, here it is a value.
    assume(quoting == csv.QUOTE_ALL or len(header) > 1 or not any(cell.isspace() for (cell,) in records))
    text = io.StringIO(newline="")
    csv.writer(text, quoting=quoting, lineterminator=end).writerows([header, *records])
    data = text.getvalue().encode()
    frame = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False, skip_blank_lines=True, lineterminator=None)
    blocks = read(tmp_path / "a.csv", data)
    assert rejected_of(blocks) == []
    assert [row for _, row in rows_of(blocks)] == frame.to_dict("records")
    if quoting == csv.QUOTE_ALL:  # the writer leaves a lone "\r" unquoted otherwise
        assert [list(row.values()) for _, row in rows_of(blocks)] == records


@SAFE
@given(st.lists(st.text("a\n\r", max_size=4), min_size=1, max_size=6))
def test_places_are_physical_lines(tmp_path: Path, cells: list[str]) -> None:
    data = "h\n" + "".join(f'"{cell}"\n' for cell in cells)
    blocks = read(tmp_path / "a.csv", data.encode())
    line, expected = 2, []
    for cell in cells:
        expected.append((line, {"h": cell}))
        line += len(f"{cell}.".splitlines())
    assert rows_of(blocks) == expected
    assert blocks[-1].lines == line - 1


@SAFE
@given(st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"a", b"\xff", b"\0", "é".encode(), b'""'])), st.booleans())
def test_garbage_never_raises(tmp_path: Path, tokens: list[bytes], packed: bool) -> None:
    data = b"".join(tokens)
    blocks = read(tmp_path / "a.csv.gz", gzip.compress(data)[:-5] if packed else data)
    lines = [n for n, _ in rows_of(blocks)] + [n for n, _ in rejected_of(blocks)]
    assert len(lines) == len(set(lines))
    assert max(lines, default=1) <= max((b.lines for b in blocks), default=1)


def test_broken_records_are_rejected_one_by_one(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbfa,b\r\n1,"x\r\ny"\r\n\r\n2,"abc"d\n3,4\n5,\xff\xc3\xa9\n6\n7,8,9\n,\n10,"open\n11,12\n'
    blocks = read(tmp_path / "a.csv", data)
    assert rows_of(blocks) == [(2, {"a": "1", "b": "x\r\ny"}), (6, {"a": "3", "b": "4"}), (10, {"a": "", "b": ""})]
    found = [(r.line, r.code, r.message, r.raw) for r in blocks[0].rejected]
    quotes = "(allowed: cells quoted whole, quotes in them doubled)"
    assert found == [
        (5, "malformed_csv", f"found ',' expected after '\"'; the record goes on to line 5 {quotes}", '2,"abc"d\n'),
        (7, "undecodable_bytes", "found byte 0xff at character 3 of a line (allowed: UTF-8)", "5,\\xffé\n"),
        (8, "column_count", "found 1 cells (allowed: 2, as in the header)", "6\n"),
        (9, "column_count", "found 3 cells (allowed: 2, as in the header)", "7,8,9\n"),
        (
            11,
            "malformed_csv",
            f"found unexpected end of data; the record goes on to line 12 {quotes}",
            '10,"open\n11,12\n',
        ),
    ]
    assert blocks[-1].lines == 12


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a,a", "the header names 'a' twice"),
        ("a,,b", "the header has no name for column 2"),
        (",b", "the header has no name for column 1; pandas writes its index so, unless index=False"),
        ('a,"b', "the header cannot be read: found unexpected end of data"),
    ],
)
def test_without_a_header_no_record_is_a_row(tmp_path: Path, header: str, message: str) -> None:
    blocks = read(tmp_path / "a.csv", f"{header}\n1,2\n3,4\n".encode())
    assert rows_of(blocks) == []
    assert {bad.code for block in blocks for bad in block.rejected} == {"bad_header"}
    assert blocks[0].rejected[0].message.startswith(message)
    assert rejected_of(blocks)[-1][0] in (1, 3)


def test_empty_files_and_blank_lines(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", b"") == []
    assert rows_of(read(tmp_path / "a.csv", b"a,b\n")) == []
    blocks = read(tmp_path / "a.csv", b"\n\na,b\n\n1,2\n\n\n")
    assert (rows_of(blocks), blocks[-1].lines) == ([(5, {"a": "1", "b": "2"})], 7)


CELL_CASES = [
    ("string", "02134", "02134"),
    ("string", "", ""),
    ("int64", "+7", 7),
    ("int64", "-0012", -12),
    ("int64", "9223372036854775807", 9223372036854775807),
    ("int64", "", None),
    ("float64", "1", 1.0),
    ("float64", "-1.5e3", -1500.0),
    ("float64", ".5", 0.5),
    ("float64", "NaN", None),
    ("float64", "-inf", "-Infinity"),
    ("float64", "1e999", None),
    ("bool", "True", True),
    ("bool", "false", False),
    ("bool", "", None),
    ("timestamp", "2024-03-30", "2024-03-30T00:00:00"),
    ("timestamp", "2024-03-30T12:00:00.123456789+01:00", "2024-03-30T11:00:00.123456789Z"),
    ("timestamp", "20240330T120000Z", "2024-03-30T12:00:00Z"),
    ("json", '{"a":[1,NaN,18446744073709551616]}', {"a": [1, None, "18446744073709551616"]}),
    ("json", '"x"', "x"),
    ("json", "null", None),
    ("json", "", None),
]


@pytest.mark.parametrize(("kind", "text", "value"), CELL_CASES)
def test_declared_columns(tmp_path: Path, kind: str, text: str, value: Any) -> None:
    quoted = text.replace('"', '""')
    blocks = read(tmp_path / "a.csv", f'k,c,z\n1,"{quoted}",2\n'.encode(), columns={"c": kind})
    expected = {"k": "1", **({} if value is None else {"c": value}), "z": "2"}
    assert repr(rows_of(blocks)) == repr([(2, expected)])


@pytest.mark.parametrize(
    ("kind", "text", "allowed"),
    [
        ("int64", "1.0", "an integer of 64 bits"),
        ("int64", "9223372036854775808", "an integer of 64 bits"),
        ("int64", "1_000", "an integer of 64 bits"),
        ("int64", "٣", "an integer of 64 bits"),
        ("float64", "0x1", "a number"),
        ("float64", "1,5", "a number"),
        ("bool", "1", "true or false"),
        ("timestamp", "30.03.2024", "ISO 8601 text such as 2024-03-30T12:00:00Z"),
        ("timestamp", "2024-03-30T12:00:00.1234567890", "ISO 8601 text such as 2024-03-30T12:00:00Z"),
        ("timestamp", "0001-01-01T00:00:00+02:00", "ISO 8601 text such as 2024-03-30T12:00:00Z"),
        ("json", "{", "JSON"),
        ("json", "nan", "JSON"),
    ],
)
def test_a_cell_that_does_not_fit_is_named(tmp_path: Path, kind: str, text: str, allowed: str) -> None:
    blocks = read(tmp_path / "a.csv", f'k,c\n1,"{text}"\n'.encode(), columns={"c": kind})
    (bad,) = blocks[0].rejected
    assert (bad.line, bad.code) == (2, "wrong_type")
    assert bad.message.startswith("column 'c': ")
    assert bad.message.endswith(f"(allowed: {allowed})")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_and_cut_off(tmp_path: Path, pack: Any) -> None:
    data = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * 7919) for i in range(20_000))
    expected = [(i + 2, {"a": str(i), "b": str(i * 7919)}) for i in range(20_000)]
    assert rows_of(read(tmp_path / "a.csv.gz", pack(data))) == expected
    blocks = read(tmp_path / "a.csv.gz", pack(data[:100]) + pack(data[100:])[:-9])
    rows = rows_of(blocks)
    assert rows == expected[: len(rows)], "no cell is cut"
    assert rejected_of(blocks)[-1][1] == "damaged_file"


def test_a_line_too_long_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "MAX_ROW_BYTES", 100)
    blocks = read(tmp_path / "a.csv", b"a,b\n1,2\n" + b"x" * 1000 + b",y\n3,4\n")
    assert rows_of(blocks) == [(2, {"a": "1", "b": "2"}), (4, {"a": "3", "b": "4"})]
    assert rejected_of(blocks) == [(3, "row_too_large")]

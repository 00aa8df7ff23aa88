"""JSONL and its relatives, against the standard library reading the same bytes line by line."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalbeam.schemas.batch import RowBlock
from evalbeam.transforms.readers import jsonl
from evalbeam.transforms.readers.jsonl import JsonlReader

DEEP = "found lists and objects nested too deep (allowed: 200 levels)"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers() | st.integers(-(2**66), 2**66) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ROWS = st.dictionaries(TEXTS, VALUES, max_size=4)
LINES = st.lists(
    st.one_of(
        st.tuples(ROWS, st.sampled_from(["", "\r"])).map(lambda r: (json.dumps(r[0]) + r[1]).encode()),
        st.sampled_from([b"", b" ", b"{", b"[1]", b"null", b'{"a":\xff}', b'{"a":"\\ud800"}', b"7", b'{"a":01}']),
        st.binary(max_size=8).filter(lambda b: b"\n" not in b),
    ),
    max_size=12,
).filter(lambda lines: b"".join(lines).lstrip()[:1] not in (b"[", b"\x1f", b"\x28", b"\xef"))


def by_the_rules(value: Any) -> Any:
    """The value rules, written a second time."""
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else json.dumps(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, list):
        return [by_the_rules(v) for v in value]
    return {k: by_the_rules(v) for k, v in value.items()} if isinstance(value, dict) else value


def row_of(line: bytes) -> dict[str, Any] | None:
    """What the standard library makes of a line; `None` where it is no row."""
    try:
        value = json.loads(line.decode())
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    return {k: v for k, v in by_the_rules(value).items() if v is not None}


def read(path: Path, data: bytes, **options: Any) -> list[RowBlock]:
    path.write_bytes(data)
    reader = JsonlReader(**options)
    return [block for part in reader.split(str(path), len(data)) for block in reader.read(part)]


def places(blocks: Iterable[RowBlock]) -> tuple[list[tuple[int, Any]], list[int], int]:
    """(line in the file, row), lines of rejected ones, lines of the file."""
    rows, rejected = [], []
    lines: dict[int, int] = {}
    for block in blocks:
        before = sum(n for i, n in lines.items() if i < block.range)
        rows += [(before + n, row) for n, row in block.rows]
        rejected += [before + r.line for r in block.rejected]
        assert lines.get(block.range, 0) < block.lines, "blocks of a range count up"
        lines[block.range] = block.lines
    return rows, rejected, sum(lines.values())


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.booleans(), st.integers(1, 60), st.sampled_from([1, 5, 1 << 20]))
def test_any_cut_reads_what_the_standard_library_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], ended: bool, cut: int, chunk: int
) -> None:
    monkeypatch.setattr(jsonl, "_CHUNK", chunk)
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    found = data.split(b"\n")
    if not found[-1]:
        found.pop()
    expected = [(n, row_of(line)) for n, line in enumerate(found, 1) if line.strip()]
    rows, rejected, count = places(read(tmp_path / "a.jsonl", data, range_bytes=cut))
    assert rows == [(n, row) for n, row in expected if row is not None]
    assert rejected == [n for n, row in expected if row is None]
    assert count == len(found)
    assert repr(rows) == repr([(n, row) for n, row in expected if row is not None]), "1, 1.0 and True differ"


@pytest.mark.parametrize("size", [1, 4 << 20, (4 << 20) + 1, 200 << 20, 700 << 20, (3 << 30) + 5])
def test_ranges_cover_a_file_in_equal_shares(tmp_path: Path, size: int) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    ranges = JsonlReader().split(str(tmp_path / "a.jsonl"), size)
    assert [r.start for r in ranges] == [0, *(r.end for r in ranges[:-1])]
    assert ranges[-1].end == size
    lengths = {(r.end or 0) - r.start for r in ranges[:-1]}
    assert len(lengths) <= 1
    assert all(4 << 20 <= length <= 16 << 20 for length in lengths)
    assert len(ranges) >= min(64, size >> 22)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS | st.integers(), max_size=6), st.sampled_from([None, 0, 2]), st.sampled_from([1, 7, 1 << 20]))
def test_an_array_holds_what_its_lines_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: list[Any], indent: int | None, chunk: int
) -> None:
    monkeypatch.setattr(jsonl, "_CHUNK", chunk)
    rows, rejected, _ = places(read(tmp_path / "a.json", json.dumps(values, indent=indent).encode()))
    lines = "".join(json.dumps(v) + "\n" for v in values).encode()
    monkeypatch.setattr(jsonl, "_CHUNK", 1 << 20)
    assert (rows, rejected) == places(read(tmp_path / "a.jsonl", lines))[:2]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b",", b'"', b"\\", b":", b"1", b"\n", b'{"a":1}', b"\xff"])),
    st.sampled_from(["a.jsonl", "a.json", "a.jsonl.gz", "a.json.zst"]),
    st.sampled_from([lambda d: d, gzip.compress, zstandard.compress, lambda d: gzip.compress(d)[:-9]]),
)
def test_garbage_never_raises(tmp_path: Path, tokens: list[bytes], name: str, pack: Any) -> None:
    blocks = read(tmp_path / name, pack(b"".join(tokens)))
    for block in blocks:
        for bad in block.rejected:
            assert bad.code
            assert bad.message
            assert 1 <= bad.line <= block.lines
    places(blocks)


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b'{"zip":"02134","day":"2024-03-30","n":1,"x":1.0}', {"zip": "02134", "day": "2024-03-30", "n": 1, "x": 1.0}),
        (b'{"n":9223372036854775807}', {"n": 9223372036854775807}),
        (b'{"n":9223372036854775808}', {"n": "9223372036854775808"}),
        (b'{"n":-9223372036854775809}', {"n": "-9223372036854775809"}),
        (b'{"n":[18446744073709551616 ]}', {"n": ["18446744073709551616"]}),
        (b'{"x":0.00012345678901234567890}', {"x": 0.0001234567890123456789}),
        (b'{"x":12345678901234567890.0}', {"x": 12345678901234567890.0}),
        (b'{"s":"12345678901234567890"}', {"s": "12345678901234567890"}),
        (b'{"x":NaN,"y":[Infinity,-Infinity,1e999]}', {"y": ["Infinity", "-Infinity", None]}),
        (b'{"a":null,"b":{"c":null}}', {"b": {"c": None}}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"{}", {}),
    ],
)
def test_values(tmp_path: Path, line: bytes, row: dict[str, Any]) -> None:
    assert repr(read(tmp_path / "a.jsonl", line)[0].rows) == repr([(1, row)])


def test_an_infinity_beside_a_long_integer_is_noted_as_one(tmp_path: Path) -> None:
    block = read(tmp_path / "a.jsonl", b'{"n":9223372036854775808,"x":-Infinity}')[0]
    ((_, row),) = block.rows
    assert (row, type(row["x"]), set(block.infinite)) == ({"n": "9223372036854775808", "x": "-Infinity"}, str, {"x"})


def test_long_integers_are_found_wherever_they_stand(tmp_path: Path) -> None:
    numbers = [sign * n for n in (2**63 - 1, 2**63, 2**63 + 1, 2**64, 10**25) for sign in (1, -1)]
    for pad in range(7):
        for number in numbers:
            line = b'{"p":"%s","n":[%d]}' % (b"x" * pad, number)
            ((_, row),) = read(tmp_path / "a.jsonl", line)[0].rows
            assert row["n"] == [number if -(2**63) <= number < 2**63 else str(number)]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (b'{"a" 1}', "malformed_json", "Expecting ':' delimiter at character 6, found '1}' (allowed: JSON)"),
        (b'{"a":1', "malformed_json", "Expecting ',' delimiter, found the end (allowed: JSON)"),
        (b'{"a":\xff}', "undecodable_bytes", "found byte 0xff at byte 6 (allowed: UTF-8)"),
        (b'{"a":"\\ud800"}', "lone_surrogate", "found half a surrogate pair in a text (allowed: Unicode text)"),
        (b"null", "not_an_object", "found null (allowed: a JSON object)"),
        (b'"x"', "not_an_object", "found a string (allowed: a JSON object)"),
        (
            b'{"a":' * 201 + b"1" + b"}" * 201,
            "too_deep",
            "found lists and objects nested too deep (allowed: 200 levels)",
        ),
        (b'{"a":' * 15_000, "too_deep", "found lists and objects nested too deep (allowed: 200 levels)"),
    ],
)
def test_rejected(tmp_path: Path, line: bytes, code: str, message: str) -> None:
    (block,) = read(tmp_path / "a.jsonl", b'{"a":1}\n\n' + line + b'\n{"b":2}\n')
    assert block.rows == [(1, {"a": 1}), (4, {"b": 2})]
    (bad,) = block.rejected
    assert (bad.line, bad.code, bad.message) == (3, code, message)
    assert bad.raw == line.decode(errors="backslashreplace")[:1000]
    assert bad.file == str(tmp_path / "a.jsonl")


def test_deepest_row_is_read(tmp_path: Path) -> None:
    line = b'{"a":' * 200 + b"1" + b"}" * 200
    assert read(tmp_path / "a.jsonl", line)[0].rows[0][1] == json.loads(line)


def test_many_brackets_are_not_depth(tmp_path: Path) -> None:
    row = {"a": [[] for _ in range(500)]}
    assert read(tmp_path / "a.jsonl", json.dumps(row).encode())[0].rows == [(1, row)]


def test_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"a":1}\r\n\r\n{"a":2}'
    assert places(read(tmp_path / "a.jsonl", data))[0] == [(1, {"a": 1}), (3, {"a": 2})]
    assert places(read(tmp_path / "b.jsonl.gz", gzip.compress(data)))[0] == [(1, {"a": 1}), (3, {"a": 2})]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed(tmp_path: Path, pack: Any) -> None:
    lines = b"".join(b'{"i":%d}\n' % i for i in range(5000))
    expected = [(i + 1, {"i": i}) for i in range(5000)]
    assert places(read(tmp_path / "a.jsonl.gz", pack(lines)))[0] == expected
    assert places(read(tmp_path / "b.jsonl", pack(lines[:22]) + pack(b"") + pack(lines[22:])))[0] == expected


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_damaged_file_gives_what_stands_before_the_damage(tmp_path: Path, pack: Any) -> None:
    first, second = (b"".join(b'{"i":%d}\n' % i for i in r) for r in (range(100), range(100, 5000)))
    rows, rejected, _ = places(blocks := read(tmp_path / "a.jsonl.gz", pack(first) + pack(second)[:-500]))
    assert rows == [(i + 1, {"i": i}) for i in range(len(rows))]
    assert 100 <= len(rows) < 5000
    assert blocks[-1].rejected[-1].code == "damaged_file"
    assert rejected[-1] > len(rows)


def test_a_damaged_element_is_one_rejected_row(tmp_path: Path) -> None:
    (block,) = read(tmp_path / "a.json", b'[{"a":1},\n {"a": tru}, {"a":"]}"},, {"a":4},] x')
    assert block.rows == [(1, {"a": 1}), (3, {"a": "]}"}), (5, {"a": 4})]
    assert [(r.line, r.raw) for r in block.rejected] == [(2, '{"a": tru}'), (4, ""), (6, "x")]
    (block,) = read(tmp_path / "a.json", b'[{"a":1}, {"a": "')
    assert block.rows == [(1, {"a": 1})]
    assert [(r.line, r.raw) for r in block.rejected] == [(2, '{"a": "')]


def test_json_objects(tmp_path: Path) -> None:
    def rows(text: str, name: str = "a.json") -> list[Any]:
        return [row for _, row in places(read(tmp_path / name, text.encode()))[0]]

    table = {"a": [1, 2], "b": ["x", None]}
    assert rows(json.dumps(table)) == rows(json.dumps(table, indent=1)) == [{"a": 1, "b": "x"}, {"a": 2}]
    assert rows(json.dumps(table), "a.jsonl") == [table], "a line of JSONL is a row"
    assert rows('{"a":[1],"b":[1,2]}') == [{"a": [1], "b": [1, 2]}], "no columns"
    assert rows('{"resourceSpans":[1,2]}') == [{"resourceSpans": [1, 2]}], "an export of OpenTelemetry"
    assert rows('{"a":[1]}\n{"a":[2]}\n') == [{"a": [1]}, {"a": [2]}], "JSONL under another name"
    assert rows('{\n"a": {"b": 1}\n}\n{\n"a": 2}') == [{"a": {"b": 1}}, {"a": 2}]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_row_too_large_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(jsonl, "MAX_ROW_BYTES", 100)
    monkeypatch.setattr(jsonl, "_CHUNK", 64)
    data = b'{"a":1}\n{"a":"' + b"x" * 500 + b'"}\n{"a":2}\n'
    if name == "a.json":
        data = b"[" + data.strip().replace(b"\n", b",") + b"]"
    (block,) = [b for b in read(tmp_path / name, data) if b.rejected]
    assert [(r.line, r.code, r.raw[:9]) for r in block.rejected] == [(2, "row_too_large", '{"a":"xxx')]
    rows = places(read(tmp_path / name, data))[0]
    assert rows == ([(1, {"a": 1}), (3, {"a": 2})] if name == "a.jsonl" else [(1, {"a": 1})])


def test_blocks_are_bounded(tmp_path: Path) -> None:
    data = b'{"a":1}\n' * 1000 + (b'{"a":"' + b"x" * 300_000 + b'"}\n') * 20
    blocks = read(tmp_path / "a.jsonl", data)
    assert max(len(b.rows) for b in blocks) == 256
    assert max(sum(len(str(row)) for _, row in b.rows) for b in blocks) < 2 << 20
    assert sum(len(b.rows) for b in blocks) == 1020


def test_declared_columns_are_checked(tmp_path: Path) -> None:
    columns = {"s": "string", "i": "int64", "f": "float64", "b": "bool", "t": "timestamp", "j": "json"}
    good = {"s": "1", "i": 1, "f": 1, "b": True, "t": "2024-03-30 12:00:00.5+02:00", "j": [1], "other": None}
    bad = [{"s": 1}, {"i": 1.0}, {"i": True}, {"i": 2**63}, {"f": "1"}, {"f": True}, {"b": 1}, {"t": 5}, {"t": "now"}]
    lines = "".join(json.dumps(row) + "\n" for row in [good, dict.fromkeys(columns), *bad])
    rows, rejected, _ = places(blocks := read(tmp_path / "a.jsonl", lines.encode(), columns=columns))
    kept = {"s": "1", "i": 1, "f": 1.0, "b": True, "t": "2024-03-30T10:00:00.500000Z", "j": [1]}
    assert repr(rows) == repr([(1, kept), (2, {})])
    assert rejected == list(range(3, 3 + len(bad)))
    assert blocks[0].rejected[3].message == "column 'i': found \"9223372036854775808\" (allowed: an integer of 64 bits)"


def test_a_vanished_file_raises(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    (part,) = JsonlReader().split(str(tmp_path / "a.jsonl"), 3)
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(OSError, match="No such file"):
        list(JsonlReader().read(part))

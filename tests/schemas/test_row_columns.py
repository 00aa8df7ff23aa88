"""Rows that are packed by column come back as they were, and take the bytes that they take as JSON."""

from __future__ import annotations

import copy
import dataclasses
from itertools import groupby

import orjson
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.batch import pack_row
from evalbeam.schemas.identity import position
from evalbeam.schemas.instance import Instance
from evalbeam.schemas.row_columns import HeldInstance, RowColumns, RowPacker, find_columns, list_values, stream_of

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
LEAVES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(TEXT, LEAVES | st.none(), max_size=3)
NAMES = st.sampled_from(["prompt", "instruction", "response", "a", 'q"', "zä"]) | TEXT
ROWS = st.dictionaries(NAMES, VALUES, max_size=5)
IDS = st.integers(0, 2**128 - 1).map(lambda n: f"{n:032x}")
FIELDS = st.just({}) | st.dictionaries(NAMES, VALUES | st.none(), max_size=2)
PACKED = st.lists(st.tuples(ROWS, IDS, FIELDS), max_size=12)


def pack(blocks, shards=1):
    packer = RowPacker()
    sizes = [packer.add(block) for block in blocks if block]
    return sizes, [(shard, pa.ipc.open_stream(stream_of(one)).read_next_batch()) for shard, one in packer.take(shards)]


@given(st.lists(PACKED, max_size=3), st.sampled_from([1, 4, 256]))
def test_rows_come_back_from_their_shards(blocks, shards):
    sizes, packed = pack(blocks, shards)
    rows = [row for block in blocks for row in block]
    assert sizes == [sum(len(pack_row(i, r, f)) for r, i, f in block) for block in blocks if block]
    assert [shard for shard, _ in packed] == sorted({position(i, shards) for _, i, _ in rows})
    wanted = sorted(rows, key=lambda one: position(one[1], shards))
    for (shard, batch), (place, group) in zip(
        packed, groupby(wanted, key=lambda one: position(one[1], shards)), strict=True
    ):
        assert shard == place
        plain = [Instance(i, r, f) for r, i, f in group]
        held = RowColumns([batch]).instances()
        assert held == plain
        assert [orjson.dumps(h.row) for h in held] == [orjson.dumps(p.row) for p in plain]  # in the same order


@given(st.lists(PACKED, max_size=3), NAMES)
def test_a_held_row_answers_as_one_that_is_there(blocks, name):
    batches = [batch for block in blocks for _, batch in pack([block])[1]]
    held = RowColumns(batches).instances() if batches else []
    plain = [Instance(i, r, f) for block in blocks for r, i, f in block]
    some = frozenset((name, "prompt"))
    for one, other in zip(held, plain, strict=True):
        assert one.get(name) == other.get(name)
        assert one.get_own(name) == other.get_own(name)
        assert one.has_any(some) == other.has_any(some)
        assert one.with_id("1-1") == other.with_id("1-1")
    assert list_values(held, name) == [one.get(name) for one in plain]
    if held:
        widths = held[0].columns.widths.tolist()
        assert widths == [sum(len(v) if type(v) is str else 64 for v in p.row.values()) for p in plain]
        assert sum(widths) <= held[0].columns.most


def test_copies_of_a_held_row_are_rows():
    ((_, batch),) = pack([[({"prompt": "p", "n": 1}, "0" * 32, {})]])[1]
    (held,) = RowColumns([batch]).instances()
    changed = dataclasses.replace(held, fields={"prompt": "q"})
    assert (changed.row, changed.get("prompt"), changed.get("n")) == ({"prompt": "p", "n": 1}, "q", 1)
    assert copy.deepcopy(held) == held == Instance("0" * 32, {"prompt": "p", "n": 1})
    assert type(held) is HeldInstance
    assert find_columns([held, changed]) is None

"""Instances of a shard come out in order, with ordinals that do not depend on how they came in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.batch import MAX_ROWS, compress, pack_row, unpack
from evalbeam.schemas.identity import position
from evalbeam.schemas.instance import Instance
from evalbeam.transforms.batch_rows import cut, sort_instances

IDS = st.sampled_from([f"{i:08x}{'0' * 24}" for i in (0, 1, 2**30, 2**31, 2**32 - 1)])
INSTANCES = st.lists(st.builds(lambda i, n: Instance(i, {"n": n}), IDS, st.integers(0, 3)), max_size=30)


@given(INSTANCES, st.randoms(use_true_random=False))
def test_order_and_ordinals_do_not_depend_on_arrival(rows, random):
    shuffled = rows[:]
    random.shuffle(shuffled)
    ordered = sort_instances(rows)
    assert ordered == sort_instances(shuffled)
    ids = [r.instance_id for r in ordered]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(rows)
    assert sorted((r.instance_id[:32], r.row["n"]) for r in ordered) == sorted(
        (r.instance_id, r.row["n"]) for r in rows
    )


@given(INSTANCES, st.sampled_from([1, 2, 4, 16]))
def test_no_batch_crosses_a_part_and_none_is_too_long(rows, parts):
    ordered = sort_instances(rows)
    batches = list(cut(ordered, parts))
    assert [r for _, batch in batches for r in batch] == ordered
    for part, batch in batches:
        assert {position(r.instance_id, parts) for r in batch} == {part}
        assert 0 < len(batch) <= MAX_ROWS


def test_batches_end_at_the_row_limit_and_at_the_byte_limit():
    many = [Instance(f"{i:032x}", {}) for i in range(2 * MAX_ROWS + 1)]
    assert [len(b) for _, b in cut(many, 1)] == [MAX_ROWS, MAX_ROWS, 1]
    wide = [Instance(f"{i:032x}", {"t": "x" * (3 << 20)}) for i in range(5)]
    assert [len(b) for _, b in cut(wide, 1)] == [2, 2, 1]


def test_equal_inputs_stay_together():
    copies = [Instance(f"{i:032x}", {"n": n}) for i in range(40) for n in range(100)]
    batches = [batch for _, batch in cut(sort_instances(copies), 1)]
    inputs = [{r.instance_id[:32] for r in batch} for batch in batches]
    assert sum(map(len, inputs)) == len(set().union(*inputs)) == 40
    assert [len(b) for b in batches] == [1000, 1000, 1000, 1000]
    many = [Instance("a" * 32, {"n": n}) for n in range(MAX_ROWS + 1)] + [Instance("b" * 32, {})]
    assert [len(b) for _, b in cut(sort_instances(many), 1)] == [MAX_ROWS, 1, 1]
    wide = [Instance("a" * 32, {"n": n, "t": "x" * (3 << 20)}) for n in range(3)]
    assert [len(b) for _, b in cut(sort_instances(wide), 1)] == [2, 1]


NUMBERED = st.lists(
    st.builds(
        lambda i, n, t: Instance(i, {"n": n, "t": t}, {"dataset.trial": t}), IDS, st.integers(0, 3), st.integers(0, 4)
    ),
    max_size=30,
)


@given(NUMBERED, st.sampled_from([None, ("n", "t")]), st.randoms(use_true_random=False))
def test_trials_of_an_id_are_one_instance_unless_some_are_equal(rows, names, random):
    shuffled = rows[:]
    random.shuffle(shuffled)
    ordered = sort_instances(rows, names)
    assert ordered == sort_instances(shuffled, names)
    keys = [(r.instance_id, r.trial or 0) for r in ordered]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(rows)
    for instance_id in {r.instance_id for r in rows}:
        trials = [r.trial for r in rows if r.instance_id == instance_id]
        found = [r for r in ordered if r.instance_id[:32] == instance_id]
        failed = sorted(r.row["t"] for r in found if r.fields.get("failure"))
        repeated = sorted(t for t in trials if trials.count(t) > 1)
        assert failed == (repeated if names else [])
        if not repeated:
            assert [(r.instance_id, r.trial) for r in found] == [(instance_id, t) for t in sorted(trials)]
        elif names is None:
            assert {r.trial for r in found} == {None}


def test_trials_of_an_instance_are_in_one_batch():
    rows = [Instance(f"{i:032x}", {}, {"dataset.trial": t}) for i in range(3) for t in range(MAX_ROWS - 1 + i)]
    assert [len(b) for _, b in cut(sort_instances(rows), 1)] == [MAX_ROWS - 1, MAX_ROWS, MAX_ROWS + 1]
    copies = [Instance("a" * 32 + tail, {}, {"dataset.trial": t}) for tail in ("", "-1", "-2") for t in range(MAX_ROWS)]
    assert [len(b) for _, b in cut(copies, 1)] == [2 * MAX_ROWS, MAX_ROWS]  # the first shows that there are others


@given(INSTANCES)
def test_packed_instances_come_back(rows):
    rows = [Instance(r.instance_id, r.row, {"prompt": "p"} if i % 2 else {}) for i, r in enumerate(rows)]
    packed = b",".join(pack_row(r.instance_id, r.row, r.fields) for r in rows)
    assert unpack(compress(b"[" + packed + b"]")) == rows

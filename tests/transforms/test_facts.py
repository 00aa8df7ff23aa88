"""DatasetStats merge in any order to the same whole, and decide types, parts, limits and refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.facts import (
    MAX_COLUMNS,
    PART_BYTES,
    SHARED,
    SPENT,
    DatasetStats,
    RunLimits,
    column_type,
    select_rows,
    smallest,
)

VALUES = st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text() | st.lists(st.integers())
ROWS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), max_size=12)


def facts_of(rows) -> DatasetStats:
    sizes = [len(str(row)) for row in rows]
    facts = DatasetStats(rows=len(rows), rejected=sum(size % 2 for size in sizes), bytes=sum(sizes))
    facts.see(rows)
    return facts


@given(ROWS, st.data())
def test_any_split_and_order_give_the_same_bytes(rows, data):
    whole = facts_of(rows).to_bytes()
    order = data.draw(st.permutations(rows))
    at = data.draw(st.integers(0, len(rows)))
    merged = DatasetStats().absorb(facts_of(order[at:])).absorb(DatasetStats()).absorb(facts_of(order[:at]))
    assert merged.to_bytes() == whole
    assert DatasetStats.from_bytes(whole).to_bytes() == whole


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False], "bool"),
        ([1, -5], "int64"),
        ([1, 2.5], "float64"),
        ([2**53 + 1, 0.5], "json"),
        (["a", "1"], "string"),
        (["a", 1], "json"),
        ([True, 1], "json"),
        ([[1], "x"], "json"),
        ([{}], "json"),
        ([], "null"),
    ],
)
def test_a_column_gets_the_narrowest_type_that_holds_every_value(values, expected):
    facts = facts_of([{"x": v} for v in values])
    mask, largest = facts.columns.get("x", [0, 0])
    assert column_type(mask, largest) == expected


def test_declared_columns_come_first_then_by_name():
    facts = facts_of([{"b": 1, "a": "x", "zip": "02134"}])
    assert facts.types((("zip", "string"), ("never", "float64"))) == (
        ("zip", "string"),
        ("never", "float64"),
        ("a", "string"),
        ("b", "int64"),
    )


@given(st.lists(st.integers(0, 2**64 - 1)), st.integers(1, 20))
def test_the_smallest_are_the_smallest(values, limit):
    assert smallest(values, limit) == sorted(values)[:limit]


@given(st.lists(st.integers(0, 30), min_size=1), st.integers(1, 20))
def test_a_limit_keeps_exactly_so_many_rows_and_the_first_by_hash(hashes, limit):
    facts = DatasetStats(rows=len(hashes), picks=smallest(hashes, limit))
    kept = [h for h, k in zip(sorted(hashes), select_rows(facts, limit, iter(sorted(hashes))), strict=True) if k]
    assert kept == sorted(hashes)[:limit]


def test_parts_go_by_bytes_unless_asked_for():
    assert DatasetStats(rows=1, bytes=10).parts(None, None) == 1
    assert DatasetStats(rows=10, bytes=3 * PART_BYTES).parts(None, None) == 4
    assert DatasetStats(rows=10, bytes=3 * PART_BYTES).parts(None, 1) == 1
    assert DatasetStats().parts(16, None) == 16


def test_refusal_says_how_many_and_where_to_look():
    assert DatasetStats(rows=90, rejected=10).refusal(RunLimits(0.1)) is None
    reason = DatasetStats(rows=89, rejected=11).refusal(RunLimits(0.1))
    assert reason is not None
    assert "11 of 100 rows (11 %)" in reason
    assert DatasetStats().refusal(RunLimits()) == "the dataset has no rows"


def test_a_dataset_that_needs_more_calls_than_the_budget_has_is_refused():
    facts = DatasetStats(rows=100)
    assert facts.refusal(RunLimits(calls_per_row=3, max_calls=300)) is None
    assert facts.refusal(RunLimits(calls_per_row=0, max_calls=1)) is None
    assert facts.refusal(RunLimits(limit=10, calls_per_row=3, max_calls=30)) is None
    expected = "100 rows need at least 300 calls, budget.max_calls allows 299"
    assert facts.refusal(RunLimits(calls_per_row=3, max_calls=299)) == expected


def test_lines_before_a_range_are_counted_in_its_own_file():
    facts = DatasetStats(lines={("a", 0): 3, ("a", 1): 4, ("a", 2): 1, ("b", 0): 9, ("b", 1): 2})
    assert facts.lines_before() == {("a", 0): 0, ("a", 1): 3, ("a", 2): 7, ("b", 0): 0, ("b", 1): 9}


def test_what_judges_are_asked_counts_with_what_the_agent_is():
    facts = DatasetStats(rows=100, asked=[150, 9000])
    assert facts.refusal(RunLimits(calls_per_row=1, max_calls=250, max_tokens=9000, asked=(2, 100))) is None
    expected = (
        f"100 rows need at least 250 calls (150 of them to judges, {SHARED}), budget.max_calls allows 249; {SPENT}"
    )
    assert facts.refusal(RunLimits(calls_per_row=1, max_calls=249)) == expected
    expected = f"150 calls to judges ({SHARED}) take at least 9000 tokens for their instructions alone"
    assert facts.refusal(RunLimits(max_tokens=8999)) == f"{expected}, budget.max_tokens allows 8999; {SPENT}"


def test_rows_that_a_limit_leaves_out_may_be_those_that_need_most():
    facts = DatasetStats(rows=100, asked=[150, 9000])  # 50 rows of 2, 50 rows of 1
    assert facts.refusal(RunLimits(limit=60, calls_per_row=1, max_calls=130, asked=(2, 100))) is None
    assert facts.refusal(RunLimits(limit=60, calls_per_row=1, max_calls=129, asked=(2, 100))) is not None
    assert facts.refusal(RunLimits(limit=10, calls_per_row=0, max_calls=1, asked=(2, 100))) is None


def test_what_judges_are_asked_travels_and_merges():
    one, two = DatasetStats(rows=1, asked=[1, 10]), DatasetStats(rows=2, asked=[2, 5])
    assert DatasetStats.from_bytes(one.absorb(two).to_bytes()).asked == [3, 15]


def test_more_columns_than_a_table_can_have_are_refused_with_their_number():
    facts = DatasetStats(rows=1)
    facts.name(map(str, range(MAX_COLUMNS)))
    assert facts.refusal(RunLimits()) is None
    facts.see([{"one": 1}])
    assert facts.refusal(RunLimits()) == (
        "the dataset has 20001 columns (allowed: 20000); names that differ from row to row belong in one column, "
        "as an object"
    )


def test_the_largest_integer_of_each_column_is_kept():
    facts = facts_of([{"a": 2**53, "b": -(2**60)}, {"a": -1, "b": 0.5, "c": "x"}, {"a": -(2**53) - 1}, {"c": 7}])
    assert facts.columns == {"a": [2, 2**53 + 1], "b": [6, 2**60], "c": [10, 7]}

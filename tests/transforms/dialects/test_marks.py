"""A row is of a dialect only if it has one of the dialect's marks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms import registry
from evalbeam.transforms.dialects._rules import RowRules, auto_dialects

ROWS = {
    "adk": {"eval_id": "a", "conversation": []},
    "databricks": {"inputs": {"question": "a"}},
    "rapid": {"exact_match_input": {"instances": []}},
    "traces": {"info": {}, "data": {"spans": []}},
    "vertex": {"request": {"contents": []}},
}
"""A row of each dialect that has marks."""
FOUND = {name: registry.build(registry.find("dialect", name), {}, "") for name in (*ROWS, "plain")}
VALUES = st.sampled_from([v for row in ROWS.values() for v in row.values()] + [None, "{}", '{"info": 1}', 5])
OTHERS = {"prompt", "conversation", "data", "response"}
NAMES = sorted({name for dialect in FOUND.values() for name in dialect.marks or ()} | OTHERS)
RULES = RowRules(auto_dialects(tuple(FOUND.values()), FOUND["plain"]))


def test_each_row_is_recognised_and_has_a_mark() -> None:
    for name, row in ROWS.items():
        assert FOUND[name].recognises(row)
        assert not FOUND[name].marks.isdisjoint(row)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_no_dialect_recognises_a_row_without_its_marks(row: dict) -> None:
    first = next(d for d in RULES.dialects if d.recognises(row))
    assert first.marks is None or not first.marks.isdisjoint(row)
    assert next(d for d in RULES._candidates(row) if d.recognises(row)) is first

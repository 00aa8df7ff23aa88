"""Text that may be JSON."""

from __future__ import annotations

import json

import orjson
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.values import json_or_text

values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=4)
texts = st.text(st.sampled_from(' \t\n\u00a0\ufeff{}[]"tn-1,:a'), max_size=6) | st.builds(json.dumps, values)


@given(texts, st.sampled_from(("", " ", "\n\t")))
def test_all_that_orjson_reads_is_read(text: str, space: str) -> None:
    try:
        expected = orjson.loads(space + text)
    except orjson.JSONDecodeError:
        expected = space + text
    assert json_or_text(space + text) == expected

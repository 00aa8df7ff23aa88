"""Text that may be JSON, and sums of scores."""

from __future__ import annotations

import json

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.values import json_or_text, mean

values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=4)
texts = st.text(st.sampled_from(' \t\n\u00a0\ufeff{}[]"tn-1,:a'), max_size=6) | st.builds(json.dumps, values)


@given(texts, st.sampled_from(("", " ", "\n\t")))
def test_all_that_orjson_reads_is_read(text: str, space: str) -> None:
    try:
        expected = orjson.loads(space + text)
    except orjson.JSONDecodeError:
        expected = space + text
    assert json_or_text(space + text) == expected


@given(st.lists(st.floats(0, 1), min_size=1))
def test_a_mean_is_the_same_in_every_version_of_python(scores: list[float]) -> None:
    total = np.cumsum(scores)[-1]  # one after the other
    assert mean(scores) == total / len(scores)

"""Text that may be JSON, sums of scores, and values as slices show them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.values import json_or_text, mean, number_in, slice_text

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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("02134", "02134"),
        ("", ""),
        (None, None),
        (2134, "2134"),
        (1.0, "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (1e300, "1e+300"),
        (True, "true"),
        ({"b": [1, None], "a": "ä"}, '{"a":"ä","b":[1,null]}'),
        (2**70, "1180591620717411303424"),
    ],
)
def test_slice_text(value: Any, text: str | None) -> None:
    assert slice_text(value) == text


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.text(" \n\t", max_size=2))
def test_a_number_in_text_is_that_number(number: float, space: str) -> None:
    """As float64 where it has more digits than one holds."""
    found = number_in(space + json.dumps(number) + space)
    assert found == (number if abs(number) < 10**16 else float(number))


@given(st.text("0123456789+-.eE_x ١naif", max_size=6))
def test_only_what_json_calls_a_number_is_one(text: str) -> None:
    try:
        expected = json.loads(text.strip(), parse_constant=lambda _: None)
    except ValueError:
        expected = None
    assert number_in(text) == expected

"""The JSON objects in a text: those that each of its braces begins where it stands in no other, and in linear time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalbeam.transforms.judging import parse

PIECES = [
    '{"',
    '{"a":',
    '{ "b" : ',
    "{",
    "}",
    "[",
    "]",
    '"',
    '\\"',
    "\\",
    ":",
    ",",
    " ",
    "1",
    "x",
    "\n",
    '{"a":1}',
    '"}',
    "{}",
    '":{"',
]


def one_by_one(text: str) -> Iterator[Any]:
    """Tries every place, however often that reads the same."""
    place = 0
    for start in range(len(text)):
        if start < place or not (text[start] == "{" and text[start + 1 :].lstrip()[:1] == '"'):
            continue
        try:
            value, place = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            continue
        yield value


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_they_are_those_that_trying_every_brace_finds(text: str) -> None:
    assert list(parse._find_objects(text)) == list(one_by_one(text))


KEYS, WORDS = st.text('{}"a', max_size=3), st.text('{}"\\[]a', max_size=4)
VALUES = st.recursive(
    st.integers() | WORDS, lambda one: st.lists(one, max_size=3) | st.dictionaries(KEYS, one, max_size=3)
)


@settings(max_examples=200, deadline=None)
@given(VALUES, st.integers(0, 200), st.integers(0, 200))
def test_they_are_found_in_json_that_is_cut_anywhere(value: Any, first: int, last: int) -> None:
    text = json.dumps({"a": value, "b": [value]})[first:]
    for cut in (text, text[: len(text) - last], text[:last] + "!" + text[last:]):
        assert list(parse._find_objects(cut)) == list(one_by_one(cut))


class Counting(json.JSONDecoder):
    """Counts the characters that are read in vain."""

    read = 0

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        try:
            return super().raw_decode(s, idx)
        except json.JSONDecodeError as error:
            self.read += error.pos - idx
            raise
        except RecursionError:
            self.read += len(s) - idx
            raise


N = 5_000


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ('{"a":' * N, 0),
        ('{"a":[' * N, 0),
        ('{"a":' * 150 + "x" + "}" * 150, 0),
        ('{"a":{"b":1},"c":' * N, N),
        ('{"a":' * N + '{"b":1}' + "}" * N, 1),
        ('{"a":' * N + "x" + "}" * N, 0),
        ('{"a{":":{":' * N, 0),
        ('{"a":"' + '{"a":' * N, 0),
        ('{"a":1}{"a":' * N, N),
        ("{" * N + '{"a":1}' + "}" * N, 1),
    ],
)
def test_nothing_is_read_again_and_again(text: str, objects: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Counting()
    monkeypatch.setattr(parse, "_DECODER", decoder)
    assert len(list(parse._find_objects(text))) == objects
    assert decoder.read <= 4 * len(text)

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.errors import RowError
from evalbeam.schemas.formats.lenient import lenient_json

PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner), max_leaves=20
)


@given(JSON, st.booleans(), st.sampled_from([None, 2]))
def test_json_is_read_as_the_standard_library_reads_it(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert lenient_json(text) == value
    assert lenient_json(text.encode()) == value


@given(st.lists(PLAIN, min_size=1), st.sampled_from([",]", " , ]", ",\n\t]"]))
def test_a_comma_before_a_closing_bracket_is_passed_over(values, end):
    assert lenient_json(json.dumps(values)[:-1] + end) == values
    assert lenient_json('{"a": ' + json.dumps(values)[:-1] + end + ",}") == {"a": values}


def test_commas_in_texts_stay():
    assert lenient_json(r'{"a": "[1, ]", "b": "\",}", }') == {"a": "[1, ]", "b": '",}'}


def test_repeated_keys_become_one_list_where_a_list_is_meant():
    text = '{"x": {"instances": {"a": 1}, "instances": [{"a": 2}, {"a": 3}], "instances": {"a": 4}}}'
    assert lenient_json(text, ("instances",)) == {"x": {"instances": [{"a": n} for n in (1, 2, 3, 4)]}}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ("", "line 1, column 1: .*found the end"),
        ('{"a": 1\n "b": 2}', "line 2, column 2: .*found '\"b\": 2}'"),
        ("[1,,]", "line 1, column"),
        ('{"a": NaN}', "found NaN"),
        (b'{"a": "\xff"}', "byte 0xff at byte 8"),
        ('{"a": "\\ud800"}', "half a surrogate pair"),
        ("[" * 100_000, "allowed: JSON|nested too deep"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(text, found):
    with pytest.raises(RowError, match=found):
        lenient_json(text)


def test_numbers_are_those_of_datasets():
    text = '{"id": 123456789012345678901, "most": 9223372036854775807, "x": 1e400, "y": -1e400, "z": 1.5}'
    assert lenient_json(text) == {"id": "123456789012345678901", "most": 2**63 - 1, "x": None, "y": None, "z": 1.5}

from urllib.parse import parse_qs, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.agents.forms.templates import fill, fill_address, find_names

VALUES = {"prompt": "hi {user}", "user": {"id": 7}, "n": 3}


def test_places_are_filled_once_and_keep_types():
    template = {
        "q": "{prompt}",
        "user": "{user}",
        "text": "n={n} u={user} {{n}}",
        "list": ["{n}", 1],
        "json": '{"a": 1}',
    }
    assert find_names(template) == ("prompt", "user", "n")
    assert fill(template, VALUES) == {
        "q": "hi {user}",
        "user": {"id": 7},
        "text": 'n=3 u={"id":7} {n}',
        "list": [3, 1],
        "json": '{"a": 1}',
    }


def test_keys_and_what_is_no_place_stay():
    assert fill({"{prompt}": "${env:X} {not a place} {}"}, VALUES) == {"{prompt}": "${env:X} {not a place} {}"}
    assert find_names({"{prompt}": "{{escaped}}"}) == ()


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_field_stays_within_its_part_of_an_address(path, value):
    address = urlsplit(fill_address("http://host/a/{p}/b?q={v}&r=1", {"p": path, "v": value}))
    assert (address.netloc, address.path.count("/"), address.fragment) == ("host", 3, "")
    assert parse_qs(address.query, keep_blank_values=True) == {"q": [value], "r": ["1"]}


@given(st.dictionaries(st.sampled_from(["prompt", "user", "n"]), st.text()).filter(lambda v: len(v) == 3))
def test_what_a_field_holds_is_never_looked_at_again(values):
    assert fill("{prompt}|{user}|{n}", values) == "|".join(values[k] for k in ("prompt", "user", "n"))

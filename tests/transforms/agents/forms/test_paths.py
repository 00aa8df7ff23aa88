import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.agents.forms.paths import Path

ANSWER = {
    "output": {"text": "hi", "x.y": 1, "a name": [1]},
    "steps": [{"call": {"name": "a"}}, {"other": 1}, {"call": {"name": "b"}, "tags": ["x", "y"]}],
    "messages": [["user", "hello"], ["agent", "hi"]],
    "none": None,
    "empty": [],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", ANSWER),
        ("output.text", "hi"),
        ("$.output.text", "hi"),
        ("$['output']['x.y']", 1),
        ('output["a name"][0]', 1),
        ("messages[-1][1]", "hi"),
        ("messages[0]", ["user", "hello"]),
        ("steps[*].call", [{"name": "a"}, {"name": "b"}]),
        ("$.steps[*].call.name", ["a", "b"]),
        ("steps.*.call.name", ["a", "b"]),
        ("steps[*].tags[*]", ["x", "y"]),
        ("messages[*][0]", ["user", "agent"]),
        ("empty[*].call", []),
        ("steps[*].nothing", []),
        ("nothing[*].call", None),
        ("output[*]", None),
        ("messages[5]", None),
        ("output.text.more", None),
        ("none", None),
    ],
)
def test_what_stands_at_a_path(path, found):
    assert Path(path).find(ANSWER) == found


@pytest.mark.parametrize("text", ["", "a..b", "a[", "a[x]", "a]", "a[?(@.b)]", ".", "a b", "a[1", "a$", "a[*", "a*]"])
def test_what_is_no_path(text):
    with pytest.raises(ValueError, match="path"):
        Path(text)


@given(st.lists(st.text(st.characters(exclude_characters="'\n"), min_size=1), min_size=1, max_size=4))
def test_every_name_can_be_written(names):
    value = "found"
    for name in reversed(names):
        value = {name: value}
    assert Path("$" + "".join(f"['{name}']" for name in names)).find(value) == "found"

"""Clauses: where they begin, and what they share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.grounding.clauses import split_clauses


@pytest.mark.parametrize(
    ("sentence", "clauses"),
    [
        ("The tower is tall.", ["The tower is tall."]),
        (
            "The train leaves Bern at 07:02 and arrives in Zurich at 08:05.",
            ["The train leaves Bern at 07:02", "The train arrives in Zurich at 08:05."],
        ),
        (
            "The bridge is 1,280 metres long and 27 metres wide.",
            ["The bridge is 1,280 metres long", "The bridge is 27 metres wide."],
        ),
        (
            "Kenya borders Ethiopia to the north and Tanzania to the south.",
            ["Kenya borders Ethiopia to the north", "Kenya borders Tanzania to the south."],
        ),
        ("Peru and Chile export copper.", ["Peru export copper.", "Chile export copper."]),
        (
            "It was founded by Larry Page and Sergey Brin in 1998.",
            ["It was founded by Larry Page in 1998.", "It was founded by Sergey Brin in 1998."],
        ),
        (
            "The vaccine protects against measles, mumps and rubella.",
            [f"The vaccine protects against {name}" for name in ("measles", "mumps", "rubella.")],
        ),
        (
            "The author, who was born in Lima, studied law.",
            ["The author studied law.", "The author was born in Lima"],
        ),
        (
            "Mount Elbert, the highest peak of Colorado, is 4,401 metres high.",
            ["Mount Elbert is 4,401 metres high.", "Mount Elbert is the highest peak of Colorado"],
        ),
        (
            "The museum is open daily from 10 to 18 and entry is free.",
            ["The museum is open daily from 10 to 18", "entry is free."],
        ),
        ("- Whales lay eggs;\n- Whales are fish;", ["- Whales lay eggs", "Whales are fish"]),
        ("这座桥长1280米，宽27米。", ["这座桥长1280米", "宽27米。"]),
    ],
)
def test_clauses_with_what_they_share(sentence: str, clauses: list[str]) -> None:
    assert split_clauses(sentence) == clauses


WORD_LIST = "Anna and , ; but the who , , wrote is 12 books in May while to"
WORDS = st.sampled_from([*WORD_LIST.split(), "\n"])


@given(st.lists(WORDS, max_size=20).map(" ".join))
def test_every_word_is_in_a_clause_and_clauses_have_no_other_words(sentence: str) -> None:
    clauses = split_clauses(sentence)
    words = {word.strip(",;") for clause in clauses for word in clause.split()}
    assert words - {"is", ""} <= {word.strip(",;") for word in sentence.split()}
    assert {"12", "books", "Anna", "wrote"} & {w.strip(",;") for w in sentence.split()} <= words

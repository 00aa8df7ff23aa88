"""Passages: windows of sentences, attributes, joining."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.grounding.passages import LENGTH, Fact, cut_passages, join_passages


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), max_size=8))
def test_passages_hold_all_of_a_fact_in_order(sentences: list[str]) -> None:
    fact = Fact(". ".join(sentences) * 4)
    found = cut_passages([fact, fact])
    half = len(found) // 2
    assert "".join("".join(p.parts) for p in found[:half]).split() == fact.text.split()
    assert [p.shown for p in found[:half]] == [p.shown for p in found[half:]]
    assert [p.place for p in found] == list(range(len(found)))
    assert all(len(p.parts) == 1 or len(p.text) <= LENGTH for p in found)


def test_attributes_stand_before_every_passage_and_are_not_shown() -> None:
    fact = Fact("It rained all day. " * 100, {"author": "Ann", "title": "Rain"}, "7")
    found = cut_passages([fact])
    assert len(found) > 2
    assert all(p.text.startswith("author: Ann; title: Rain.\n") for p in found)
    assert all(p.shown.startswith("It rained") and p.shown.endswith("day.") for p in found)
    assert all("ann" in p.stems for p in found)


def test_joined_passages_stand_in_their_order_with_their_words() -> None:
    first, second = cut_passages([Fact("One fell."), Fact("Two rose.")])
    both = join_passages([second, first])
    assert both.text == "One fell.\nTwo rose.\n"
    assert both.words == first.words + second.words
    assert both.stems == first.stems | second.stems


def test_a_fact_without_text_has_no_passage() -> None:
    assert cut_passages([Fact(""), Fact(" \n")]) == []

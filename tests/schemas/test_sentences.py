"""Sentences of any text: together they are the text, and no text makes the library panic."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sentencex import segment

from evalbeam.schemas.sentences import split_sentences

HARD = st.text(
    st.sampled_from("abDMr. !?\n\"'()[]“”«»\x85\u2028\u2029\x0b\x1c\xa0\u3000é中。！？1\u200b।"), max_size=30
)


@given(HARD | st.text(), st.sampled_from(["en", "de", "fr", "hi", "zh", "ja", "xx"]))
@example("Signed by M\xa0. Then he left.", "en")
@example("D\u2028.\u200ba", "en")
def test_sentences_together_are_the_text(text: str, language: str) -> None:
    surrogates = dict.fromkeys(range(55296, 57344), "�")
    assert "".join(split_sentences(text, language)) == text.translate(surrogates)


@given(st.text(st.sampled_from("abDMr. !?\n\"'()é中。1"), max_size=40))
def test_other_texts_are_cut_as_the_library_cuts_them(text: str) -> None:
    assert split_sentences(text) == segment("en", text)


def test_the_library_still_panics_at_wide_spaces() -> None:
    """If it no longer does, spaces need not be replaced."""
    with pytest.raises(BaseException, match="char boundary"):
        segment("en", "M\xa0.”")


def test_wide_spaces_separate_words() -> None:
    assert split_sentences("It is on.\u2003It is off.") == ["It is on.\u2003", "It is off."]

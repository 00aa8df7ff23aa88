"""The union of longest common subsequences: big integers and lanes of all widths against rouge-score's own table."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalbeam.transforms.metrics.kernels import union, unions
from evalbeam.transforms.metrics.kernels.lcs import lcs_length, lcs_lengths
from evalbeam.transforms.metrics.kernels.ngrams import Grams
from evalbeam.transforms.metrics.kernels.words import WordRule, word_tokens

Text = Sequence[Sequence[str]]
lines = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12), max_size=6)


def expected(ours: Text, theirs: Text) -> int:
    """Hits as rouge-score counts them: its precision times the response's tokens."""
    from rouge_score.rouge_scorer import _summary_level_lcs

    return round(_summary_level_lcs(theirs, ours).precision * sum(map(len, ours)))


def text_of(lines: Text) -> str:
    return "\n".join(map(" ".join, lines))


def by_lanes(pairs: Sequence[tuple[Text, Text]]) -> list[int]:
    """Hits by numpy."""
    texts = [text_of(lines) for pair in pairs for lines in pair]
    grams = Grams(word_tokens(texts, WordRule()))
    return unions.union_hits_of(grams, lcs_lengths(grams)).tolist()


@given(lines, lines)
def test_big_integers(ours: Text, theirs: Text) -> None:
    assert union.union_hits(ours, theirs) == expected(ours, theirs)


@given(lines, lines)
@settings(max_examples=50)
def test_big_integers_in_blocks(ours: Text, theirs: Text) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(union, "STORED_BYTES", 2)
        assert union.union_hits(ours, theirs) == expected(ours, theirs)


@given(st.lists(st.tuples(lines, lines), min_size=1, max_size=5))
@settings(max_examples=50)
def test_lanes(pairs: list[tuple[Text, Text]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unions, "MOST_LANES", 3)
        assert by_lanes(pairs) == [expected(*pair) for pair in pairs]


@pytest.mark.parametrize("sizes", [(3, 16), (17, 32), (33, 64), (60, 66), (120, 130), (190, 260)])
@pytest.mark.parametrize("joined", [0, 1 << 20])
def test_lanes_of_all_widths(sizes: tuple[int, int], joined: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference lines around the limits of 16, 32, 64 bits and of several words, narrow ones joined or not."""
    monkeypatch.setattr(unions, "FEWEST_WIDE_ROWS", 0)
    monkeypatch.setattr(unions, "FEWEST_LANES", joined)
    monkeypatch.setattr(unions, "BLOCK_BYTES", 64)
    rng = random.Random(sizes[0])
    pairs = [(some_lines(rng, (1, 40), 3), some_lines(rng, sizes, 2)) for _ in range(12)]
    monkeypatch.setattr(unions, "union_hits", None)
    assert by_lanes(pairs) == [expected(*pair) for pair in pairs]


def some_lines(rng: random.Random, sizes: tuple[int, int], count: int) -> Text:
    letters = rng.choice(("ab", "abcd", "abcdefghijklmnop"))
    return [rng.choices(letters, k=rng.randint(*sizes)) for _ in range(count)]


def test_rows_of_many_lines_go_through_big_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    pairs = [(some_lines(rng, (1, 9), 40), some_lines(rng, (1, 9), 30)) for _ in range(4)]
    monkeypatch.setattr(unions, "MOST_WORDS", 10)
    seen: list[int] = []
    monkeypatch.setattr(unions, "union_hits", lambda a, b: seen.append(1) or union.union_hits(a, b))
    assert by_lanes(pairs) == [expected(*pair) for pair in pairs]
    assert len(seen) == 4


def test_equal_lines_are_worked_once_and_counted_often() -> None:
    assert union.union_hits([["a", "b"]] * 5, [["b", "a"]] * 7) == expected([["a", "b"]] * 5, [["b", "a"]] * 7) == 5


@given(st.text("abcd", max_size=40), st.text("abcdx", max_size=40))
def test_length_equals_the_table(ours: str, theirs: str) -> None:
    from rouge_score.rouge_scorer import _lcs_table

    assert lcs_length(ours, theirs) == _lcs_table(theirs, ours)[-1][-1]


def test_length_with_more_different_words_than_characters_in_a_plane() -> None:
    words = [f"w{i}" for i in range(60_000)]
    assert lcs_length(words, words[1:]) == 59_999
    texts = [" ".join(words[:56_000]), " ".join(words[10:56_000]), "a b", "b a b"]
    assert lcs_lengths(Grams(word_tokens(texts, WordRule()))).tolist() == [55_990, 2]
    assert np.array_equal(lcs_lengths(Grams(word_tokens(["", ""], WordRule()))), [0])

"""BLEU's tokens: both ways of cutting against sacrebleu, and the pinned character classes against Unicode's."""

from __future__ import annotations

import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.metrics.kernels.categories import NUMBERS, PUNCTUATION, SYMBOLS
from evalbeam.transforms.metrics.kernels.marks import TOKENIZERS, mark_tokens, marks

awkward = st.text(st.sampled_from(".,-!'/<&;١٣½½é。€+ \n\t\u00a0\x1c0129ab"), max_size=14) | st.text(max_size=20)


def theirs(text: str, tokenizer: str, lowercase: bool = False) -> list[str]:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenizer, lowercase=lowercase)._preprocess_segment(text).split()


def cut(texts: list[str], tokenizer: str) -> list[list[int]]:
    """Ids of each text's tokens."""
    tokens = mark_tokens(texts, tokenizer, lowercase=False)
    return [tokens.ids[i:j].tolist() for i, j in itertools.pairwise(tokens.bounds.tolist())]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(text=awkward)
def test_one_text(tokenizer: str, text: str) -> None:
    for lowercase in (False, True):
        assert marks(text, tokenizer, lowercase) == theirs(text, tokenizer, lowercase)


@pytest.mark.parametrize("tokenizer", ["intl", "13a", "zh"])
def test_all_short_texts(tokenizer: str) -> None:
    """Every text of up to six characters, one of each kind the rules tell apart."""
    texts = ["".join(chars) for n in range(7) for chars in itertools.product("1a., "[: 5 if n < 6 else 4], repeat=n)]
    texts += ["".join(chars) for chars in itertools.product("1a.-+ ", repeat=4)]
    expected = [theirs(text, tokenizer) for text in texts]
    number: dict[str, int] = {}
    found: dict[int, int] = {}
    for ours, words in zip(cut(texts, tokenizer), expected, strict=True):
        assert len(ours) == len(words)
        for ours_id, word in zip(ours, words, strict=True):
            assert found.setdefault(ours_id, number.setdefault(word, len(number))) == number[word]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(texts=st.lists(awkward, min_size=2, max_size=6))
def test_many_texts(tokenizer: str, texts: list[str]) -> None:
    """Ids are equal exactly where sacrebleu's tokens are."""
    texts = texts[: len(texts) // 2 * 2]
    ids = list(itertools.chain(*cut(texts, tokenizer)))
    words = [word for text in texts for word in theirs(text, tokenizer)]
    assert len(ids) == len(words)
    assert len(set(zip(ids, words, strict=True))) == len(set(ids)) == len(set(words))


def test_a_chunk_of_many_characters() -> None:
    """More than 128 different characters beyond ASCII."""
    text = " ".join(chr(code) + "." for code in range(0x4E00, 0x4E00 + 400))
    assert len(cut([text, "一 b"], "intl")[0]) == len(theirs(text, "intl"))


def test_lone_surrogates_are_characters_like_others() -> None:
    text = "a\ud800b. c"
    assert marks(text, "intl", lowercase=False) == theirs(text, "intl") == ["a\ud800b", ".", "c"]
    assert [len(ids) for ids in cut([text, "\udfff"], "intl")] == [3, 1]


def test_chinese_characters() -> None:
    """Every character of the basic plane, and some others, between two letters."""
    from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

    codes = [*range(0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 97)]
    every, tokenize = [f"a{chr(code)}b" for code in codes], TokenizerZh()
    expected = [len(tokenize(text).split()) for text in every]
    every += [""] * (len(every) % 2)
    assert [len(ids) for ids in cut(every, "zh")][: len(expected)] == expected
    assert [len(marks(text, "zh", lowercase=False)) for text in every][: len(expected)] == expected


@pytest.mark.parametrize(("kind", "ranges"), [("P", PUNCTUATION), ("S", SYMBOLS), ("N", NUMBERS)])
def test_character_classes(kind: str, ranges: tuple[tuple[int, int], ...]) -> None:
    """Equal to those of the `regex` package, which sacrebleu asks, and of Python where Python knows the character."""
    import regex

    ours = {code for low, high in ranges for code in range(low, high + 1)}
    every = "".join(map(chr, range(0x110000)))
    assigned = {ord(char) for char in regex.findall(r"\P{Cn}", every)}
    assert ours & assigned == {ord(char) for char in regex.findall(rf"\p{{{kind}}}", every)}
    known = {code for code in range(0x110000) if unicodedata.category(chr(code)) != "Cn"}
    moved = {code for code in known if (unicodedata.category(chr(code))[0] == kind) != (code in ours)}
    assert not moved

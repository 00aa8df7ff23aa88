"""ROUGE's words and stems against rouge-score and google-adk's recorded tokens."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.metrics.kernels import stem
from evalbeam.transforms.metrics.kernels.words import WordRule, word_tokens, words

ADK = WordRule(unicode=True, stem=True)
awkward = st.text(st.sampled_from("aZ09 \n\t.é\u0130\u212a\u0301中ー한สั\u0e33ΑΣς½ﬁ²_\x85"), max_size=16) | st.text()


def adk_vectors(conformance: Path) -> list[dict[str, object]]:
    return json.loads((conformance / "adk" / "rouge1_vectors_adk_2.13.0.json").read_text())["vectors"]


def test_adk_tokens(conformance: Path) -> None:
    for vector in adk_vectors(conformance):
        for text, tokens in (("candidate", "cand_tokens"), ("reference", "ref_tokens")):
            assert [word.decode() for word in words(str(vector[text]), ADK)] == vector[tokens]


@pytest.mark.parametrize("stemmed", [False, True])
@given(text=awkward)
def test_default_words(stemmed: bool, text: str) -> None:
    from rouge_score.tokenizers import DefaultTokenizer

    expected = DefaultTokenizer(use_stemmer=stemmed).tokenize(text)
    assert [word.decode() for word in words(text, WordRule(stem=stemmed))] == expected


def test_only_two_characters_have_ascii_letters_in_lower_case() -> None:
    """What lets bytes be lower-cased one by one."""
    odd = {c for c in map(chr, range(128, 0x110000)) if any(x.isascii() and x.isalnum() for x in c.lower())}
    assert odd == {"\u0130", "\u212a"}


@pytest.mark.parametrize("rule", [WordRule(), WordRule(stem=True), WordRule(unicode=True), ADK])
@given(texts=st.lists(awkward, min_size=2, max_size=6))
def test_many_texts_have_the_words_of_each(rule: WordRule, texts: list[str]) -> None:
    texts = texts[: len(texts) // 2 * 2]
    tokens = word_tokens(texts, rule)
    bounds = tokens.bounds.tolist()
    assert [j - i for i, j in itertools.pairwise(bounds)] == [len(words(text, rule)) for text in texts]
    ids, expected = tokens.ids.tolist(), [word for text in texts for word in words(text, rule)]
    assert len(set(zip(ids, expected, strict=True))) == len(set(ids)) == len(set(expected))
    lines = [line for text in texts for line in text.split("\n")]
    ends = [*tokens.lines.tolist()[1:], len(ids)]
    assert ends == list(itertools.accumulate(len(words(line, rule)) for line in lines))


def test_the_memo_of_stems_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stem, "MEMO_WORDS", 3)
    monkeypatch.setattr(stem, "_memo", {})
    found = stem.stems([b"running", b"flies", b"cats", b"agreed", b"hoping" * 20, b"run", "läuft".encode()])
    assert found == [b"run", b"fli", b"cat", b"agre", (b"hoping" * 20)[:-3], b"run", "läuft".encode()]
    assert set(stem._memo) == {b"agreed", b"run", "läuft".encode()}

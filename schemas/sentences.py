"""Cuts texts into sentences by the rules of sentencex."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

_SURROGATE = re.compile("[\ud800-\udfff]")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
"""Spaces of several bytes, as the no-break space: sentencex panics at some of them (`M\\xa0.`), which no `except
Exception` would catch. It cuts at a plain space in their place."""


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Splits a text into sentences, each with the spaces after it; concatenated they are the text again.

    Lone surrogates become replacement characters.

    Args:
        text: Any text.
        language: Language as ISO 639 code; those without rules of their own are split by those of English.
    """
    from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue]  (a compiled module)

    if text.isascii():
        return segment(language, text)
    text = _SURROGATE.sub("\ufffd", text)
    plain = _WIDE_SPACE.sub(" ", text)
    found = segment(language, plain)
    if plain is text:
        return found
    ends = accumulate((len(sentence) for sentence in found), initial=0)
    return [text[start:end] for start, end in pairwise(ends)]

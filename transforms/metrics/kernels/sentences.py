"""Splits texts into sentences, for ROUGE-Lsum with split summaries."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ....schemas.sentences import split_sentences


def lines_of_sentences(text: str, splitter: str) -> str:
    """Puts each sentence of a text on its own line.

    Args:
        text: Any text; a line end inside a sentence becomes a space, since it only separates words.
        splitter: "sentencex" (its English rules, data included) or "punkt" (NLTK's English model, which must be
            installed).

    Raises:
        ImportError, LookupError: Of punkt: nltk or its model is not installed.
    """
    return "\n".join(sentence.replace("\n", " ") for sentence in splitter_of(splitter)(text))


@cache
def splitter_of(name: str) -> Callable[[str], list[str]]:
    """Returns the function that splits a text into sentences.

    Raises:
        ImportError, LookupError: Of punkt: nltk or its model is not installed.
    """
    if name == "punkt":
        from nltk.tokenize import PunktTokenizer

        return PunktTokenizer("english").tokenize
    return split_sentences

"""Facts cut into passages: what a claim is compared with and what a response cites as a chunk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .words import Word, stems_of, words

LENGTH = 800
"""Characters of whole sentences in a passage, at most; a longer sentence is a passage of its own."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Fact:
    """A text to ground on.

    Attributes:
        text: The text.
        attributes: What is known of it (author, title ...); counts as evidence with each of its passages.
        source: What a response names it by: its place in the request, or the id of its document.
        uri: Address of its document, where known.
        title: Title of its document, where known.
    """

    text: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    source: str = "0"
    uri: str | None = None
    title: str | None = None


class Text:
    """A text and its words, worked out once.

    Attributes:
        parts: The pieces that make up the text: the sentences of a passage, a claim as a whole.
    """

    def __init__(self, parts: Sequence[str]) -> None:
        self.parts = parts

    @cached_property
    def text(self) -> str:
        """All of it."""
        return "".join(self.parts)

    @cached_property
    def sentences(self) -> list[list[Word]]:
        """The words of each part."""
        return [words(part) for part in self.parts]

    @cached_property
    def words(self) -> list[Word]:
        """All words in order."""
        return self.sentences[0] if len(self.parts) == 1 else [w for sentence in self.sentences for w in sentence]

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems that occur."""
        return frozenset(self.order)

    @cached_property
    def order(self) -> list[str]:
        """The stems of all words in order."""
        return list(stems_of(self.words))


class Passage(Text):
    """A piece of a fact, some sentences long, with the fact's attributes before it.

    Attributes:
        fact: The fact it is a piece of.
        shown: The piece itself, as a response cites it.
        place: Where it stands among all passages of a request or corpus.
    """

    def __init__(self, fact: Fact, sentences: Sequence[str], place: int) -> None:
        known = "; ".join(f"{name}: {value}" for name, value in fact.attributes.items())
        super().__init__([f"{known}.\n", *sentences] if known else sentences)
        self.fact, self.place = fact, place
        self.shown = "".join(sentences).strip()


def joined(passages: Sequence[Passage]) -> Text:
    """Passages as one text, in the order in which they stand in the facts."""
    parts: list[str] = []
    sentences: list[list[Word]] = []
    for passage in sorted(passages, key=lambda p: p.place):
        parts += [*passage.parts[:-1], passage.parts[-1].rstrip() + "\n"]
        sentences += passage.sentences
    text = Text(parts)
    text.__dict__["sentences"] = sentences  # the words are known already
    return text


def passages_of(facts: Sequence[Fact], language: str = "en") -> list[Passage]:
    """The passages of all facts, in order; a fact without any word has none.

    Args:
        facts: The facts.
        language: Code of the language whose abbreviations do not end sentences.
    """
    found: list[Passage] = []
    for fact in facts:
        for sentences in _windows(sentences_of(fact.text, language)):
            found.append(Passage(fact, sentences, len(found)))
    return found


def sentences_of(text: str, language: str = "en") -> list[str]:
    """The sentences of a text, with the spaces after each; joined they are the text.

    Lone surrogates become replacement characters.
    """
    from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue]  (a compiled module)

    return segment(language, _SURROGATE.sub("\ufffd", text))


def _windows(sentences: Sequence[str]) -> Iterator[list[str]]:
    window: list[str] = []
    length = 0
    for sentence in sentences:
        if window and length + len(sentence) > LENGTH:
            yield window
            window, length = [], 0
        if sentence.strip():
            window.append(sentence)
            length += len(sentence)
    if window:
        yield window

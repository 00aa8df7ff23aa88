"""Cuts facts into passages, which claims are compared with and responses cite as chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...schemas.sentences import split_sentences
from .clauses import split_clauses
from .side import Side
from .words import Word, iter_stems, split_words

LENGTH = 800
"""Maximum characters of a passage of several sentences; a longer sentence is a passage by itself."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A text to ground on.

    Attributes:
        text: The text.
        attributes: Metadata (author, title ...); part of the evidence of each of its passages.
        source: Its id in a response: its index in the request, or the id of its document.
        uri: URI of its document, if known.
        title: Title of its document, if known.
    """

    text: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    source: str = "0"
    uri: str | None = None
    title: str | None = None


class Piece:
    """A piece of a text, usually a sentence; its words and clauses are computed once.

    Attributes:
        text: The piece.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> list[Word]:
        """The words in order."""
        return split_words(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The set of stems."""
        return frozenset(iter_stems(self.words))

    @cached_property
    def clauses(self) -> list[Side]:
        """The words of each clause."""
        clauses = split_clauses(self.text.strip())
        return [Side(split_words(clause)) for clause in clauses] if len(clauses) > 1 else [Side(self.words)]


class Text:
    """A text and its words, which are computed once.

    Attributes:
        parts: The pieces that make up the text: the sentences of a passage, a claim as a whole.
    """

    def __init__(self, parts: Sequence[str], pieces: Sequence[Piece] | None = None) -> None:
        self.parts = parts
        self._pieces = pieces

    @cached_property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.parts)

    @cached_property
    def pieces(self) -> Sequence[Piece]:
        """The parts with their words."""
        return list(map(Piece, self.parts)) if self._pieces is None else self._pieces

    @cached_property
    def words(self) -> list[Word]:
        """All words in order."""
        return split_words(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The set of stems."""
        return frozenset(self.order)

    @cached_property
    def order(self) -> list[str]:
        """The stems of all words in order."""
        return list(iter_stems(self.words))


class Passage(Text):
    """Some sentences of a fact, preceded by the fact's attributes.

    Attributes:
        fact: The fact.
        shown: The sentences alone, as a response cites them.
        place: Index among all passages of a request or corpus.
    """

    def __init__(self, fact: Fact, sentences: Sequence[str], place: int) -> None:
        known = "; ".join(f"{name}: {value}" for name, value in fact.attributes.items())
        super().__init__([f"{known}.\n", *sentences] if known else sentences)
        self.fact, self.place = fact, place
        self.shown = "".join(sentences).strip()


def join_passages(passages: Sequence[Passage]) -> Text:
    """Joins passages to one text, in the order of the facts."""
    parts: list[str] = []
    pieces: list[Piece] = []
    for passage in sorted(passages, key=lambda p: p.place):
        parts += [*passage.parts[:-1], passage.parts[-1].rstrip() + "\n"]
        pieces += passage.pieces
    return Text(parts, pieces)


def cut_passages(facts: Sequence[Fact], language: str = "en") -> list[Passage]:
    """Cuts all facts into passages, in order; a fact without words has none.

    Args:
        facts: The facts.
        language: Code of the language whose abbreviations do not end sentences.
    """
    found: list[Passage] = []
    for fact in facts:
        for sentences in _windows(split_sentences(fact.text, language)):
            found.append(Passage(fact, sentences, len(found)))
    return found


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

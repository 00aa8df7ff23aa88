"""Cuts facts into passages, which claims are compared with and responses cite as chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from ...schemas.sentences import split_sentences
from .clauses import split_clauses
from .once import Once
from .side import Side
from .words import Word, split_stems, split_words

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

    @Once
    def words(self) -> list[Word]:
        """The words in order."""
        return split_words(self.text)

    @Once
    def order(self) -> tuple[str, ...]:
        """The stems of the words in order."""
        return split_stems(self.text)

    @Once
    def stems(self) -> frozenset[str]:
        """The set of stems."""
        return frozenset(self.order)

    @Once
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

    @Once
    def text(self) -> str:
        """The whole text."""
        return "".join(self.parts)

    @Once
    def pieces(self) -> Sequence[Piece]:
        """The parts with their words."""
        return list(map(Piece, self.parts)) if self._pieces is None else self._pieces

    @Once
    def words(self) -> list[Word]:
        """All words in order."""
        return split_words(self.text)

    @Once
    def stems(self) -> frozenset[str]:
        """The set of stems."""
        return frozenset(self.order)

    @Once
    def order(self) -> tuple[str, ...]:
        """The stems of all words in order."""
        if all(a[-1:].isspace() or b[:1].isspace() for a, b in pairwise(self.parts)):  # no word goes across parts
            return tuple(chain.from_iterable([piece.order for piece in self.pieces]))
        return split_stems(self.text)


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


class _Joined(Text):
    """Passages as one text. They are separated by line breaks, so that its words are theirs."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        parts = [part for p in passages for part in (*p.parts[:-1], p.parts[-1].rstrip() + "\n")]
        super().__init__(parts, [piece for p in passages for piece in p.pieces])
        self._passages = passages

    @Once
    def stems(self) -> frozenset[str]:
        return frozenset().union(*(p.stems for p in self._passages))

    @Once
    def order(self) -> tuple[str, ...]:
        return tuple(chain.from_iterable(p.order for p in self._passages))


def join_passages(passages: Sequence[Passage]) -> Text:
    """Joins passages to one text, in the order of the facts."""
    return _Joined(sorted(passages, key=lambda p: p.place))


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

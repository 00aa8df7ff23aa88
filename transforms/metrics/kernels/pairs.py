"""Counts for text metrics over pairs of texts, each computed once, by arrays or row by row.

`TextPairs` divides the rows of a batch: runs of rows become chunks that numpy processes as a whole, and a giant row is
a chunk of its own. A few short rows, for which the fixed costs of a chunk exceed its gain, and rows too large for
arrays are counted one by one in plain Python. Both give the same integers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain, pairwise
from typing import Any, Protocol, TypeVar

import numpy as np

from .bleu import ORDERS
from .lcs import lcs_length, lcs_lengths
from .marks import mark_tokens, marks
from .ngrams import Grams, clipped
from .sentences import lines_of_sentences
from .union import union_hits
from .unions import union_hits_of
from .words import WordRule, word_tokens, words

T = TypeVar("T")

CHUNK_CHARACTERS = 1 << 20
"""Maximum characters of both sides of a chunk, so that its arrays fit the processor's caches."""
MARKS_CHARACTERS = 1 << 19
"""Maximum characters tokenized at once for BLEU, which has more tokens than ROUGE and keeps none of them."""
GIANT_CHARACTERS = 100_000
"""A row with more characters on both sides is a chunk of its own."""
MOST_CHARACTERS = 1 << 21
"""Maximum characters of both sides of a row for arrays; for larger rows sort keys might exceed 64 bits."""
FEWEST_ROWS, FEWEST_CHARACTERS = 3, 3_000
"""Rows and characters of both sides; a chunk with less of both is slower than plain Python."""


class Counts(Protocol):
    """The counts: int64[rows, ...] arrays, with rows in the order of the pairs."""

    def ngrams(self, rule: WordRule, n: int) -> np.ndarray:
        """[rows, 3]: clipped matches of order n, n-grams of the response, n-grams of the reference."""
        ...

    def lcs(self, rule: WordRule) -> np.ndarray:
        """[rows, 3]: length of the longest common subsequence, words of the response, words of the reference."""
        ...

    def union(self, rule: WordRule, splitter: str | None) -> np.ndarray:
        """[rows, 3]: union of the lines' subsequences, words of the response, words of the reference.

        Lines are those of the text, or sentences if there is a splitter.
        """
        ...

    def bleu(self, tokenizer: str, lowercase: bool) -> np.ndarray:
        """[rows, 10]: clipped matches of order 1 to 4, n-grams of the response likewise, tokens of both."""
        ...


class _Memo:
    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]


class RowCounts(_Memo):
    """The counts of one pair in plain Python, with which those of the arrays must agree."""

    def __init__(self, response: str, reference: str) -> None:
        super().__init__()
        self.texts = (response, reference)

    def _words(self, rule: WordRule) -> list[list[bytes]]:
        return self.once(("words", rule), lambda: [words(text, rule) for text in self.texts])

    def ngrams(self, rule: WordRule, n: int) -> np.ndarray:
        """See `Counts`."""
        ours, theirs = self._words(rule)
        return _row(clipped(ours, theirs, n), max(len(ours) - n + 1, 0), max(len(theirs) - n + 1, 0))

    def lcs(self, rule: WordRule) -> np.ndarray:
        """See `Counts`."""
        ours, theirs = self._words(rule)
        return _row(self.once(("lcs", rule), lambda: lcs_length(ours, theirs)), len(ours), len(theirs))

    def union(self, rule: WordRule, splitter: str | None) -> np.ndarray:
        """See `Counts`."""
        texts = [lines_of_sentences(text, splitter) for text in self.texts] if splitter else self.texts
        ours, theirs = ([words(line, rule) for line in text.split("\n")] for text in texts)
        ours, theirs = ([line for line in lines if line] for lines in (ours, theirs))
        one = len(ours) == len(theirs) == 1
        hits = lcs_length(ours[0], theirs[0]) if one else union_hits(ours, theirs)
        return _row(hits, sum(map(len, ours)), sum(map(len, theirs)))

    def bleu(self, tokenizer: str, lowercase: bool) -> np.ndarray:
        """See `Counts`."""
        ours, theirs = (marks(text, tokenizer, lowercase) for text in self.texts)
        correct = [clipped(ours, theirs, n) for n in range(1, ORDERS + 1)]
        total = [max(len(ours) - n, 0) for n in range(ORDERS)]
        return _row(*correct, *total, len(ours), len(theirs))


def _row(*numbers: int) -> np.ndarray:
    return np.array([numbers], np.int64)


class ChunkCounts(_Memo):
    """The counts of many pairs, by arrays."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.texts = list(chain.from_iterable(pairs))
        self._ascii = all(map(str.isascii, self.texts))

    def _grams(self, rule: WordRule, splitter: str | None = None) -> Grams:
        return self.once(("words", rule, splitter), lambda: Grams(word_tokens(self._lines(splitter), rule)))

    def _lines(self, splitter: str | None) -> list[str]:
        if splitter is None:
            return self.texts
        return self.once(("lines", splitter), lambda: [lines_of_sentences(text, splitter) for text in self.texts])

    def ngrams(self, rule: WordRule, n: int) -> np.ndarray:
        """See `Counts`."""
        grams = self._grams(self._simplest(rule))
        ours, theirs = grams.tokens.lengths()
        return _columns(grams.matches(n)[-1], np.maximum(ours - n + 1, 0), np.maximum(theirs - n + 1, 0))

    def lcs(self, rule: WordRule) -> np.ndarray:
        """See `Counts`."""
        rule = self._simplest(rule)
        return _columns(self._lcs(rule), *self._grams(rule).tokens.lengths())

    def union(self, rule: WordRule, splitter: str | None) -> np.ndarray:
        """See `Counts`."""
        rule = self._simplest(rule)
        grams = self._grams(rule, splitter)
        return _columns(union_hits_of(grams, self._lcs(rule, splitter)), *grams.tokens.lengths())

    def _simplest(self, rule: WordRule) -> WordRule:
        return WordRule(unicode=False, stem=rule.stem) if self._ascii else rule

    def _lcs(self, rule: WordRule, splitter: str | None = None) -> np.ndarray:
        return self.once(("lcs", rule, splitter), lambda: lcs_lengths(self._grams(rule, splitter)))

    def bleu(self, tokenizer: str, lowercase: bool) -> np.ndarray:
        """See `Counts`."""
        return self.once(("marks", tokenizer, lowercase), lambda: self._bleu(tokenizer, lowercase))

    def _bleu(self, tokenizer: str, lowercase: bool) -> np.ndarray:
        rows = len(self.texts) // 2
        parts = min(-(-sum(map(len, self.texts)) // MARKS_CHARACTERS), rows) or 1
        cuts = [2 * (rows * i // parts) for i in range(parts + 1)]
        tokens = (mark_tokens(self.texts[i:j], tokenizer, lowercase) for i, j in pairwise(cuts))
        return np.concatenate([_bleu_counts(Grams(part)) for part in tokens])


def _bleu_counts(grams: Grams) -> np.ndarray:
    ours, theirs = grams.tokens.lengths()
    return _columns(*grams.matches(ORDERS), *(np.maximum(ours - n, 0) for n in range(ORDERS)), ours, theirs)


def _columns(*columns: np.ndarray) -> np.ndarray:
    return np.stack(columns, axis=1)


class TextPairs:
    """The counts of a batch, divided into chunks and single rows; see `Counts`."""

    def __init__(self, responses: Sequence[str], references: Sequence[str]) -> None:
        self._parts: list[Counts] = []
        self._places: list[list[int]] = []
        texts = list(zip(responses, references, strict=True))
        rows: list[int] = []
        size = 0
        for i, length in enumerate([len(ours) + len(theirs) for ours, theirs in texts]):
            if length > GIANT_CHARACTERS:
                self._add(texts, [i], length)
                continue
            if size + length > CHUNK_CHARACTERS:
                self._add(texts, rows, size)
                rows, size = [], 0
            rows.append(i)
            size += length
        self._add(texts, rows, size)

    def _add(self, texts: Sequence[tuple[str, str]], rows: list[int], characters: int) -> None:
        if characters <= MOST_CHARACTERS and (len(rows) >= FEWEST_ROWS or characters >= FEWEST_CHARACTERS):
            self._places.append(rows)
            self._parts.append(ChunkCounts([texts[i] for i in rows]))
        else:
            self._places += [[i] for i in rows]
            self._parts += [RowCounts(*texts[i]) for i in rows]

    def _all(self, count: Callable[[Counts], np.ndarray]) -> np.ndarray:
        found = np.concatenate([count(part) for part in self._parts])
        ordered = np.empty_like(found)
        ordered[np.concatenate(self._places)] = found
        return ordered

    def ngrams(self, rule: WordRule, n: int) -> np.ndarray:
        """See `Counts`."""
        return self._all(lambda part: part.ngrams(rule, n))

    def lcs(self, rule: WordRule) -> np.ndarray:
        """See `Counts`."""
        return self._all(lambda part: part.lcs(rule))

    def union(self, rule: WordRule, splitter: str | None) -> np.ndarray:
        """See `Counts`."""
        return self._all(lambda part: part.union(rule, splitter))

    def bleu(self, tokenizer: str, lowercase: bool) -> np.ndarray:
        """See `Counts`."""
        return self._all(lambda part: part.bleu(tokenizer, lowercase))

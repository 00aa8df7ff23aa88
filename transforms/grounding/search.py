"""BM25 search over passages, which selects the passages that a claim is compared with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count

import numpy as np

from .passages import Passage, Text

K1, B = 1.2, 0.75
"""The usual constants of BM25: saturation of term frequency, and normalization by length."""
_DIGITS = 9
"""Decimals of a score, so that passages whose scores differ by rounding errors alone tie, and their order decides."""


class Index:
    """An index of passages by their words.

    Scores are those of BM25 (Robertson and Zaragoza, 2009) with the idf of Lucene, ln(1 + (N - n + 0.5) / (n + 0.5)),
    over stems; function words and negations are not searched for.

    Attributes:
        passages: The passages; their `place` is their index in this list.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self._ids = defaultdict[str, int](count().__next__)
        ids, ends = self._numbered()
        places = np.repeat(np.arange(len(passages), dtype=np.int64), np.diff(ends, prepend=0))
        pairs, counts = np.unique(ids * max(len(passages), 1) + places, return_counts=True)
        stems, self._places = np.divmod(pairs, max(len(passages), 1))
        self._bounds = np.searchsorted(stems, np.arange(len(self._ids) + 1))
        lengths = np.diff(ends, prepend=0).astype(np.float64)
        norm = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if len(passages) else lengths
        frequent = counts.astype(np.float64)
        self._weights = frequent * (K1 + 1) / (frequent + norm[self._places])

    def _numbered(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (stem ids of all words, int64[words]; index after the last word of each passage, int64[passages])."""
        number = self._ids.__getitem__
        ids: list[int] = []
        ends: list[int] = []
        for passage in self.passages:
            ids.extend(map(number, passage.order))
            ends.append(len(ids))
        self._ids.default_factory = None
        return np.array(ids, np.int64), np.array(ends, np.int64)

    def search(self, claims: Sequence[Text], most: int) -> list[list[Passage]]:
        """Finds the passages with the highest scores for each claim, best first; ties keep their order.

        Args:
            claims: The claims whose words are searched for.
            most: Maximum number of passages per claim. If the index has no more than that, all are returned.
        """
        return [self._best(claim, most) for claim in claims]

    def _best(self, claim: Text, most: int) -> list[Passage]:
        scores = self._scores(claim)
        if len(self.passages) > most:
            least = np.partition(scores, -most)[-most]
            ready = np.flatnonzero(scores >= max(least, np.finfo(float).tiny))
        else:
            ready = np.arange(len(self.passages))
        best = ready[np.lexsort((ready, -scores[ready]))][:most]
        return [self.passages[i] for i in best.tolist()]

    def _scores(self, claim: Text) -> np.ndarray:
        scores = np.zeros(len(self.passages))
        for stem in {w.stem: None for w in claim.words if w.kind not in ("function", "negation")}:
            if (number := self._ids.get(stem)) is not None:
                low, high = self._bounds[number], self._bounds[number + 1]
                idf = np.log1p((len(self.passages) - (high - low) + 0.5) / (high - low + 0.5))
                scores[self._places[low:high]] += idf * self._weights[low:high]
        return np.round(scores, _DIGITS)

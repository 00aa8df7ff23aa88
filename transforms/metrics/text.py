"""Computed text metrics: exact_match, bleu, rouge and response_match.

All compare the response with the reference. A value that is not a string is compared as JSON text (keys sorted, no
spaces after separators, non-ASCII characters unescaped): a response 42 matches a reference "42", and `true` matches
"true". Scores equal those of rouge-score 0.1.2, sacrebleu 2 and google-adk 2.13, bit for bit; kernels/ computes the
counts behind them, for all metrics of a batch together.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...schemas.errors import ConfigError
from ...schemas.instance import Example
from ...schemas.result import Score, ScoreColumn
from ..registry import require_module
from ._pooled import pooled_f1
from .base import Metric, Pooled, ScoringBatch, register
from .kernels.bleu import bleus
from .kernels.pairs import Counts, TextPairs
from .kernels.sentences import splitter_of
from .kernels.words import WordRule

RougeType = Literal[
    "rouge1", "rouge2", "rouge3", "rouge4", "rouge5", "rouge6", "rouge7", "rouge8", "rouge9", "rougeL", "rougeLsum"
]


def text_of(value: Any) -> str:
    """Returns the text that is compared: a string unchanged, any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def _texts(batch: ScoringBatch, name: str) -> list[str]:
    return batch.share(("text", name), lambda: [text_of(value) for value in batch.column(name)])


class _PairMetric(Metric):
    """Base of metrics that are computed from counts of response and reference."""

    inputs: ClassVar[tuple[str, ...]] = ("response", "reference")
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    def score(self, example: Example) -> Score:
        """Scores one pair."""
        return self._column(TextPairs([text_of(example.get("response"))], [text_of(example.get("reference"))])).at(0)

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        """Scores all pairs; tokens, n-grams and subsequences are shared by the text metrics of the batch."""
        pairs = batch.share(("text", "pairs"), lambda: TextPairs(_texts(batch, "response"), _texts(batch, "reference")))
        return self._column(pairs)

    @abstractmethod
    def _column(self, counts: Counts) -> ScoreColumn:
        """Computes the scores from the counts."""


def _rouge_column(counts: np.ndarray) -> ScoreColumn:
    """Computes F1, with precision and recall in the details.

    Args:
        counts: int64[rows, 3]: hits, units of the response, units of the reference.
    """
    hits, ours, theirs = counts.T
    precision, recall = hits / np.maximum(ours, 1), hits / np.maximum(theirs, 1)
    total = precision + recall
    f1 = 2 * precision * recall / np.where(total > 0, total, 1.0)
    both = zip(precision.tolist(), recall.tolist(), strict=True)
    return ScoreColumn(f1.tolist(), details={i: {"precision": p, "recall": r} for i, (p, r) in enumerate(both)})


@register("metric", "rouge")
@dataclass(frozen=True)
class Rouge(_PairMetric, Pooled):
    """ROUGE F1 in [0, 1], higher is better; precision and recall are in the details.

    Scores equal those of rouge-score 0.1.2: rouge1 ... rouge9 use clipped n-gram matches, rougeL the longest common
    subsequence, rougeLsum the union of the subsequences of all lines, in which each word counts at most as often as in
    the response. A text without words scores 0, even against another one; a text of fewer than n words has no n-grams.
    By default a word is a run of [a-z0-9]: text in other scripts has no words and scores 0, even against itself. Use
    `tokenizer: unicode` for such text.

    Attributes:
        rouge_type: "rouge1" ... "rouge9", "rougeL" or "rougeLsum".
        use_stemmer: Compare Porter stems of words longer than three letters (needs nltk).
        split_summaries: For rougeLsum, compare sentences instead of lines.
        sentence_splitter: "sentencex", which is always available, or "punkt", NLTK's English model as in rouge-score,
            which must be installed on the machine that starts the run and on its workers.
        tokenizer: "default", or "unicode" for words of all scripts as in ADK's response_match.
        corpus: Add a row `<name>/corpus` to the summary: F1 of all hits among all units, of all rows together.
    """

    outputs: ClassVar[tuple[str, ...]] = ("details",)

    rouge_type: RougeType = "rougeLsum"
    use_stemmer: bool = False
    split_summaries: bool = False
    sentence_splitter: Literal["sentencex", "punkt"] = "sentencex"
    tokenizer: Literal["default", "unicode"] = "default"
    corpus: bool = False

    def __post_init__(self) -> None:
        if self.use_stemmer:
            require_module("nltk", "text", "use_stemmer")
        if self._splitter == "punkt":
            require_module("nltk", "text", "sentence_splitter: punkt")
            try:
                splitter_of("punkt")
            except (LookupError, ImportError):
                raise ConfigError(
                    "sentence_splitter: punkt needs the model 'punkt_tab', which is not in NLTK's data folders",
                    allowed="a folder with the model in NLTK_DATA, or sentencex",
                ) from None

    @property
    def variant(self) -> str:
        return self.rouge_type

    @property
    def _splitter(self) -> str | None:
        return self.sentence_splitter if self.split_summaries and self.rouge_type == "rougeLsum" else None

    def _column(self, counts: Counts) -> ScoreColumn:
        found = self._hits(counts, WordRule(self.tokenizer == "unicode", self.use_stemmer))
        column = _rouge_column(found)
        if self.corpus:
            column.sums = dict(enumerate(found[:, [0, 1, 0, 2]].tolist()))
        return column

    def _hits(self, counts: Counts, rule: WordRule) -> np.ndarray:
        if self.rouge_type == "rougeLsum":
            return counts.union(rule, self._splitter)
        return counts.lcs(rule) if self.rouge_type == "rougeL" else counts.ngrams(rule, int(self.rouge_type[-1]))

    def pool(self, sums: np.ndarray) -> np.ndarray:
        """Returns F1 of all rows together."""
        return pooled_f1(sums)


for _n in range(1, 10):
    register("metric", f"rouge_{_n}", rouge_type=f"rouge{_n}")(Rouge)
    register("metric", f"rouge{_n}", rouge_type=f"rouge{_n}")(Rouge)
register("metric", "rouge_l", rouge_type="rougeL")(Rouge)
register("metric", "rougeL", rouge_type="rougeL")(Rouge)
register("metric", "rouge_l_sum", rouge_type="rougeLsum")(Rouge)
register("metric", "rougeLsum", rouge_type="rougeLsum")(Rouge)


@register("metric", "response_match")
@dataclass(frozen=True)
class ResponseMatch(_PairMetric):
    """ADK's response match in [0, 1], higher is better: ROUGE-1 F1 over words of all scripts, with ASCII words stemmed.

    Scores equal those of `final_response_match_v1` of google-adk 2.13 for one invocation; two texts without words score
    0. Precision and recall are in the details. Needs nltk.
    """

    outputs: ClassVar[tuple[str, ...]] = ("details",)

    def __post_init__(self) -> None:
        require_module("nltk", "text", "response_match")

    def _column(self, counts: Counts) -> ScoreColumn:
        return _rouge_column(counts.ngrams(WordRule(unicode=True, stem=True), 1))


@register("metric", "bleu")
@dataclass(frozen=True)
class Bleu(_PairMetric, Pooled):
    """Sentence BLEU in [0, 1], higher is better.

    Scores equal those of sacrebleu with one reference and n-grams of order 1 to 4, divided by 100 and capped at 1.
    Without `use_effective_order` a response of fewer than four tokens scores near 0 even if it equals the reference.

    Attributes:
        tokenize: "intl" (separates Unicode punctuation and symbols), "13a" (WMT's, for Western languages), "none"
            (whitespace only), "char" (characters) or "zh" (separates Chinese characters, otherwise almost as 13a).
        smooth: Smoothing of a precision of 0: "exp", "floor" (0.1 matches), "add-k" (adds 1 to both counts) or "none".
        use_effective_order: Ignore orders longer than the response.
        lowercase: Compare in lower case.
        corpus: Add a row `<name>/corpus` to the summary: BLEU of all rows together, which is not the mean of theirs.
    """

    tokenize: Literal["intl", "13a", "none", "char", "zh"] = "intl"
    smooth: Literal["exp", "floor", "add-k", "none"] = "exp"
    use_effective_order: bool = False
    lowercase: bool = False
    corpus: bool = False

    def _column(self, counts: Counts) -> ScoreColumn:
        found = counts.bleu(self.tokenize, self.lowercase)
        sums = dict(enumerate(found.tolist())) if self.corpus else {}
        return ScoreColumn(bleus(found, self.smooth, self.use_effective_order), sums=sums)

    def pool(self, sums: np.ndarray) -> np.ndarray:
        """Returns the corpus BLEU of sacrebleu with the same options, in [0, 1]."""
        counts = np.rint(sums).astype(np.int64)
        return np.array(bleus(counts, self.smooth, self.use_effective_order), np.float64)


@register("metric", "exact_match")
@dataclass(frozen=True)
class ExactMatch(Metric):
    """1 if response and reference are the same text, character by character; else 0."""

    inputs: ClassVar[tuple[str, ...]] = ("response", "reference")
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True

    def score(self, example: Example) -> Score:
        """Scores one pair."""
        return Score(float(text_of(example.get("response")) == text_of(example.get("reference"))))

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        """Scores all pairs."""
        pairs = zip(_texts(batch, "response"), _texts(batch, "reference"), strict=True)
        return ScoreColumn([float(ours == theirs) for ours, theirs in pairs])

"""Computed text metrics: exact_match, bleu, rouge and response_match.

All compare the response with the reference. A value that is no string stands for its JSON text (keys sorted, no spaces
after separators, non-ASCII characters as they are): a response 42 matches a reference "42", and `true` matches "true".
The numbers are those of rouge-score 0.1.2, sacrebleu 2 and google-adk 2.13, bit for bit; kernels/ computes the counts
that they are quotients of, for all metrics of a batch together.
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
from .base import Metric, ScoringBatch, register
from .kernels.bleu import bleus
from .kernels.pairs import Counts, TextPairs
from .kernels.sentences import splitter_of
from .kernels.words import WordRule

RougeType = Literal[
    "rouge1", "rouge2", "rouge3", "rouge4", "rouge5", "rouge6", "rouge7", "rouge8", "rouge9", "rougeL", "rougeLsum"
]


def text_of(value: Any) -> str:
    """The text a metric sees: a string itself, any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def _texts(batch: ScoringBatch, name: str) -> list[str]:
    return batch.share(("text", name), lambda: [text_of(value) for value in batch.column(name)])


class _PairMetric(Metric):
    """Base of metrics that are computed from the counts of a pair."""

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
        """The scores that the counts give."""


def _rouge_column(counts: np.ndarray) -> ScoreColumn:
    """F1 with precision and recall in the details.

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
class Rouge(_PairMetric):
    """ROUGE F1 in [0, 1], higher is better; precision and recall are in the details.

    As rouge-score 0.1.2 computes it: rouge1 ... rouge9 from clipped n-gram matches, rougeL from the longest common
    subsequence, rougeLsum from the union of the subsequences of all lines, each word counted at most as often as the
    response has it. A text without words scores 0, even against another one; a text of fewer than n words has no
    n-grams. By default a word is a run of [a-z0-9]: text in other scripts has none and scores 0, even against itself;
    `tokenizer: unicode` scores it.

    Attributes:
        rouge_type: "rouge1" ... "rouge9", "rougeL" or "rougeLsum".
        use_stemmer: Compare Porter stems of words longer than three letters (needs nltk).
        split_summaries: For rougeLsum, compare sentences instead of lines.
        sentence_splitter: What finds the sentences: "sentencex", which is always there, or "punkt", NLTK's English
            model as rouge-score uses it, which must be installed where the run starts and on its workers.
        tokenizer: "default", or "unicode": words of all scripts, as ADK's response_match cuts them.
    """

    outputs: ClassVar[tuple[str, ...]] = ("details",)

    rouge_type: RougeType = "rougeLsum"
    use_stemmer: bool = False
    split_summaries: bool = False
    sentence_splitter: Literal["sentencex", "punkt"] = "sentencex"
    tokenizer: Literal["default", "unicode"] = "default"

    def __post_init__(self) -> None:
        if self.use_stemmer:
            require_module("nltk", "text", "use_stemmer")
        if self._splitter == "punkt":
            require_module("nltk", "text", "sentence_splitter: punkt")
            try:
                splitter_of("punkt")
            except (LookupError, ImportError):
                raise ConfigError(
                    "sentence_splitter: punkt finds no model 'punkt_tab' in NLTK's data folders",
                    allowed="a folder with it in NLTK_DATA, or sentencex",
                ) from None

    @property
    def _splitter(self) -> str | None:
        return self.sentence_splitter if self.split_summaries and self.rouge_type == "rougeLsum" else None

    def _column(self, counts: Counts) -> ScoreColumn:
        rule = WordRule(self.tokenizer == "unicode", self.use_stemmer)
        if self.rouge_type == "rougeLsum":
            return _rouge_column(counts.union(rule, self._splitter))
        if self.rouge_type == "rougeL":
            return _rouge_column(counts.lcs(rule))
        return _rouge_column(counts.ngrams(rule, int(self.rouge_type[-1])))


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
    """ADK's response match in [0, 1], higher is better: ROUGE-1 F1 over words of all scripts, ASCII words stemmed.

    As google-adk 2.13's `final_response_match_v1` computes it for one invocation; two texts without words score 0.
    Precision and recall are in the details. Needs nltk.
    """

    outputs: ClassVar[tuple[str, ...]] = ("details",)

    def __post_init__(self) -> None:
        require_module("nltk", "text", "response_match")

    def _column(self, counts: Counts) -> ScoreColumn:
        return _rouge_column(counts.ngrams(WordRule(unicode=True, stem=True), 1))


@register("metric", "bleu")
@dataclass(frozen=True)
class Bleu(_PairMetric):
    """Sentence BLEU in [0, 1], higher is better.

    As sacrebleu computes it with one reference and n-grams of order 1 to 4, divided by 100 and cut at 1. Without
    `use_effective_order` a response of fewer than four tokens scores near 0 even if it equals the reference.

    Attributes:
        tokenize: "intl" (Unicode punctuation and symbols apart), "13a" (WMT's, for Western languages), "none"
            (split at whitespace), "char" (each character) or "zh" (Chinese characters apart, else nearly as 13a).
        smooth: What a precision of 0 becomes: "exp", "floor" (0.1 matches), "add-k" (1 more of each) or "none".
        use_effective_order: Leave out orders longer than the response.
        lowercase: Compare in lower case.
    """

    tokenize: Literal["intl", "13a", "none", "char", "zh"] = "intl"
    smooth: Literal["exp", "floor", "add-k", "none"] = "exp"
    use_effective_order: bool = False
    lowercase: bool = False

    def _column(self, counts: Counts) -> ScoreColumn:
        return ScoreColumn(bleus(counts.bleu(self.tokenize, self.lowercase), self.smooth, self.use_effective_order))


@register("metric", "exact_match")
@dataclass(frozen=True)
class ExactMatch(Metric):
    """1 iff the response and the reference are the same text, character for character."""

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

"""The metrics of Databricks Agent Evaluation that need no judge: retrieval against ground truth, and tokens.

They are registered under their own names and under the column paths of Agent Evaluation; its latency is
latency_in_seconds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...schemas.errors import RowError
from ...schemas.formats.databricks import context_of
from ...schemas.instance import Chunk, Example
from ...schemas.json import Json
from ...schemas.result import Score
from .base import Metric, register


@dataclass(frozen=True)
class DocumentMetric(Metric):
    """Base of the metrics of retrieved documents, which compare URIs (`doc_uri`), not texts.

    Rows are skipped if nothing was retrieved or nothing is expected, as in Agent Evaluation. A malformed
    expected_retrieved_context is an error with Databricks' code 1006.
    """

    inputs: ClassVar[tuple[str, ...]] = ("retrieved_context", "expected_retrieved_context")
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    def score(self, example: Example) -> Score:
        try:
            expected = context_of(example.get("expected_retrieved_context"), "expected_retrieved_context")
        except RowError as error:
            return Score.failed(error.code, error.message)
        addresses = frozenset(p["doc_uri"] for p in expected if p["doc_uri"] is not None)
        retrieved: Sequence[Chunk] = example.get("retrieved_context")
        if not retrieved:
            return Score.skipped("missing_retrieved_context", "nothing was retrieved")
        if not addresses:
            return Score.skipped("missing_expected_retrieved_context", "no document is expected")
        return self._compare([c.doc_uri for c in retrieved], addresses)

    @abstractmethod
    def _compare(self, retrieved: list[str | None], expected: frozenset[Json]) -> Score: ...


@register("metric", "document_recall")
@register("metric", "retrieval/ground_truth/document_recall")
@dataclass(frozen=True)
class DocumentRecall(DocumentMetric):
    """Share of expected documents that were retrieved, each counted once, in [0, 1]; higher is better."""

    def _compare(self, retrieved: list[str | None], expected: frozenset[Json]) -> Score:
        return Score(len(expected.intersection(retrieved)) / len(expected))


@register("metric", "document_ratings")
@dataclass(frozen=True)
class DocumentRatings(DocumentMetric):
    """Share of retrieved passages whose document was expected, in [0, 1]; higher is better.

    The details have the rating of each passage: "yes", "no", or null for a passage without a URI, which does not count.
    """

    outputs: ClassVar[tuple[str, ...]] = ("details",)

    def _compare(self, retrieved: list[str | None], expected: frozenset[Json]) -> Score:
        ratings = [None if uri is None else "yes" if uri in expected else "no" for uri in retrieved]
        rated = [r for r in ratings if r is not None]
        if not rated:
            return Score.skipped("missing_doc_uri", "no retrieved passage has an address")
        return Score(rated.count("yes") / len(rated), details=ratings)


@register("metric", "total_token_count", tokens="total")
@register("metric", "total_input_token_count", tokens="input")
@register("metric", "total_output_token_count", tokens="output")
@register("metric", "agent/total_token_count", tokens="total")
@register("metric", "agent/input_token_count", tokens="input")
@register("metric", "agent/output_token_count", tokens="output")
@dataclass(frozen=True)
class TokenCount(Metric):
    """Number of tokens of the agent's run, summed over all its model calls; lower is better.

    Rows are skipped if neither the trace nor the agent reports tokens (code `missing_usage`).

    Attributes:
        tokens: "input", "output", or "total" for the sum of both.
    """

    tokens: Literal["input", "output", "total"] = "total"

    best: ClassVar[float | None] = 0.0

    def score(self, example: Example) -> Score:
        usage = example.invocation.usage
        counts = {"input": usage and usage.input_tokens, "output": usage and usage.output_tokens}
        wanted = list(counts.values()) if self.tokens == "total" else [counts[self.tokens]]
        known = [count for count in wanted if count is not None]
        if len(known) < len(wanted):
            return Score.skipped("missing_usage", "nobody says how many tokens the run took")
        return Score(float(sum(known)))

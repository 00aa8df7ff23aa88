"""The metric `grounding`: how well given facts entail the response, as defined by Vertex AI's Check Grounding.

Claims are the response's sentences. Those that assert something are compared with passages of the facts by a checker
(checkers/), and the score is the mean of their scores. The details are the API's own JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ...schemas.errors import ConfigError, RowError
from ...schemas.instance import Chunk, Example
from ...schemas.json import Json
from ...schemas.judging import PROMPTS, Judging
from ...schemas.result import Score, ScoreColumn
from ..checkers.base import AskingChecker, Checker, PairChecker, Unjudged, build_checker
from ..grounding.check import Spec
from ..grounding.passages import Fact
from ..grounding.request import Request, check_limits
from ..grounding.response import NOTHING_TO_CHECK
from ..grounding.sources import check_source, is_column, load_source
from ..judging.panel import MAX_SAMPLES, Aggregate
from ..judging.prompts import Prompt, load_prompt
from ._judged import JudgedMetric
from .base import ScoringBatch, register

_FORMS = "a text, or a list of texts, of {factText, attributes} or of {content, doc_uri}"


@register("metric", "grounding")
@dataclass(frozen=True, kw_only=True)
class Grounding(JudgedMetric):
    """Support of the response by given facts, in [0, 1], higher is better: the mean score of its claims.

    A claim is a sentence, and its score is the probability that the facts entail all of it: that of its weakest clause.
    Sentences that assert nothing (questions, greetings, "Here is what I found.") do not count; a response with no other
    sentences has no score, and is skipped with the code `nothing_to_check`. The details are the response of Vertex AI's
    Check Grounding API: support score, cited chunks, and claims with byte positions, scores and citations.

    Attributes:
        checker: Name of a checker (`lexical`, `nli`, `judge`, `vertex`), or `{type: NAME, parameters ...}`.
        facts_from: Column with the facts: a text, or a list of texts, of {factText, attributes} or of {content,
            doc_uri}. Or a corpus that is searched for each claim: a path of JSONL, Parquet or CSV documents, or the
            serving config of a Vertex AI Search app.
        citation_threshold: Minimum probability of entailment for a citation, in [0, 1].
        anti_citations: Cite contradicting chunks and compute a contradiction score.
        anti_citation_threshold: Minimum probability of contradiction for an anti-citation, in [0, 1].
        helpfulness: Score how well the response answers the prompt, in [0, 1] (checkers `judge` and `vertex`).
        language: Code of the language whose abbreviations do not end sentences.
        judge: For `checker: judge`, one or more names of judges in the configuration; for `checker: vertex`, the name
            of a judge of type `check_grounding`.
        samples: For `checker: judge`, number of votes per judge on each claim.
        aggregate: Aggregation of the votes on a claim; always their mean.
    """

    checker: Any = "lexical"
    facts_from: Any = "retrieved_context"
    citation_threshold: float = 0.6
    anti_citations: bool = False
    anti_citation_threshold: float = 0.8
    helpfulness: bool = False
    language: str = "en"
    aggregate: Aggregate = "mean"
    built: Checker = field(init=False, repr=False, compare=False)

    inputs: ClassVar[tuple[str, ...]] = ("response", "retrieved_context")
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    outputs: ClassVar[tuple[str, ...]] = ("explanation", "details")

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise ConfigError(f"found {self.samples}", where="samples", allowed=f"1 to {MAX_SAMPLES}")
        if self.aggregate != "mean":
            raise ConfigError(f"found {self.aggregate!r}", where="aggregate", allowed="mean")
        for name in ("citation_threshold", "anti_citation_threshold"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"found {getattr(self, name)}", where=name, allowed="a number in [0, 1]")
        object.__setattr__(self, "built", build_checker(self.checker))
        if isinstance(self.built, AskingChecker) and not self.judges:
            raise ConfigError("found an empty list", where="judge", allowed="names of judges")
        check_source(self.facts_from, "facts_from")
        column = (self.facts_from,) if is_column(self.facts_from) else ()
        inputs = ("response", *column, *(("prompt",) if self.helpfulness else ()))
        object.__setattr__(self, "inputs", inputs)

    @property
    def judges(self) -> tuple[str, ...]:
        """Names of its judges; none, unless the checker asks judges."""
        return super().judges if isinstance(self.built, AskingChecker) else ()

    @property
    def joinable(self) -> bool:
        return False

    @property
    def calls(self) -> tuple[int, int]:
        """(fewest, most) calls for a row with one claim; each further claim needs as many again."""
        size = len(self.slots)
        return size, size * (3 + self.helpfulness)

    @property
    def speaks(self) -> str:
        return self.built.speaks if isinstance(self.built, AskingChecker) else PROMPTS

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts of the checker."""
        if not isinstance(self.built, AskingChecker):
            return ()
        return tuple(load_prompt(name) for name in self.built.prompts[: None if self.helpfulness else -1])

    def judged(self, example: Example) -> Judging:
        """Scores one response by judges."""
        assert isinstance(self.built, AskingChecker)
        try:
            corpus = load_source(self.facts_from, self.language)
            asking = self.built.judge_request(self._request(example), self.slots, corpus, self.language)
            return _make_score((yield from asking))
        except RowError as error:
            return Score.failed(error.code, error.message)
        except Unjudged as unjudged:
            made = Score.skipped if unjudged.open else Score.failed
            return made(unjudged.error.code, unjudged.error.message)

    def score(self, example: Example) -> Score:
        """Scores one response."""
        return self.score_batch(ScoringBatch([example])).at(0)

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        """Scores all responses; the checker weighs their claims in one call."""
        scores: dict[int, Score] = {}
        requests: dict[int, Request] = {}
        for i, example in enumerate(batch.examples):
            try:
                requests[i] = self._request(example)
            except RowError as error:
                scores[i] = Score.failed(error.code, error.message)
        if requests:
            assert isinstance(self.built, PairChecker)
            corpus = load_source(self.facts_from, self.language)
            responses = self.built.check(list(requests.values()), corpus, self.language)
            scores |= {i: _make_score(r) for i, r in zip(requests, responses, strict=True)}
        return ScoreColumn.of([scores[i] for i in range(len(batch.examples))])

    def _request(self, example: Example) -> Request:
        answer = example.get("response")
        answer = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, sort_keys=True)
        facts = read_facts(example.get(self.facts_from), self.facts_from) if is_column(self.facts_from) else ()
        prompt = example.get("prompt") if self.helpfulness else None
        request = Request(answer, facts, None, None if prompt is None else str(prompt), self._spec)
        check_limits(request)
        return request

    @property
    def _spec(self) -> Spec:
        return Spec(self.citation_threshold, self.anti_citations, self.anti_citation_threshold, True, self.helpfulness)


def read_facts(value: Json, column: str = "facts") -> tuple[Fact, ...]:
    """Reads facts from any of the forms that `facts_from` allows.

    Raises:
        RowError: The value has another form.
    """
    if isinstance(value, str):
        value = _parse_list(value)
    entries = value if isinstance(value, list | tuple) else [value]
    return tuple(_make_fact(entry, i, column) for i, entry in enumerate(entries))


def _parse_list(text: str) -> Json:
    """Parses the list in a JSON text; returns any other text unchanged."""
    if text.lstrip()[:1] == "[":
        try:
            found = json.loads(text)
        except ValueError:
            return text
        return found if isinstance(found, list) else text
    return text


def _make_fact(entry: Any, place: int, column: str) -> Fact:
    if isinstance(entry, Chunk):
        return Fact(entry.content, {}, str(place), entry.doc_uri)
    if isinstance(entry, str):
        return Fact(entry, {}, str(place))
    if isinstance(entry, Mapping):
        text = entry.get("factText", entry.get("content"))
        attributes = entry.get("attributes") or {}
        if isinstance(text, str) and isinstance(attributes, Mapping):
            uri = entry.get("doc_uri")
            known = {str(k): str(v) for k, v in attributes.items()}
            return Fact(text, known, str(place), uri if isinstance(uri, str) else None)
    shown = ", ".join(map(str, entry)) if isinstance(entry, Mapping) else type(entry).__name__
    raise RowError("invalid_facts", f"{column}: entry {place + 1} is {shown or 'empty'} (allowed: {_FORMS})")


def _make_score(response: dict[str, Json] | RowError) -> Score:
    if isinstance(response, RowError):
        return Score.failed(response.code, response.message)
    claims = response.get("claims", ())
    required = [c for c in claims if c.get("groundingCheckRequired", True)]
    uncited = [c["claimText"] for c in required if not c.get("citationIndices")]
    told = f"{len(required) - len(uncited)} of {len(required)} claims cite a fact"
    explanation = f"{told}; not: {' | '.join(uncited)}" if uncited else told
    if claims and not required:
        return replace(Score.skipped(NOTHING_TO_CHECK, "no sentence of the response needs grounding"), details=response)
    value = response.get("supportScore")
    if value is None:
        return Score.failed("no_support_score", "the checker gave no supportScore")
    return Score(float(value), explanation=explanation, details=response)

"""Converts the outcome of a check to the JSON of the Check Grounding API."""

from __future__ import annotations

from collections.abc import Sequence

from ...schemas.json import Json
from .check import ClaimResult, Outcome, Spec
from .passages import Passage

NOTHING_TO_CHECK = "nothing_to_check"
"""Code of a missing support score: no claim needs grounding."""


def build_response(outcome: Outcome, spec: Spec) -> dict[str, Json]:
    """Builds the API's response: scores, cited chunks in order of first citation, the facts cited, and claims.

    A chunk's `source` is the index of its fact in the request, or the id of its document in a corpus, and its `index`
    its place in the list. The cited facts are the texts of the chunks that support a claim, without those that only
    contradict one. The support score is null if no claim needs grounding.
    """
    chunks: dict[tuple[str, str], Passage] = {}
    for claim in outcome.claims:
        for passage in (*claim.cited, *claim.anti_cited):
            chunks.setdefault(_key(passage), passage)
    places = {key: i for i, key in enumerate(chunks)}
    response: dict[str, Json] = {
        "supportScore": outcome.support,
        "citedChunks": [_chunk(passage, i) for i, passage in enumerate(chunks.values())],
        "citedFacts": [{"chunkText": text} for text in _list_cited_texts(outcome)],
        "claims": [_claim(claim, places, spec) for claim in outcome.claims],
    }
    if spec.anti_citations:
        response["contradictionScore"] = outcome.contradiction
    return response


def _key(passage: Passage) -> tuple[str, str]:
    return passage.fact.source, passage.shown


def _list_cited_texts(outcome: Outcome) -> list[str]:
    return list(dict.fromkeys(passage.shown for claim in outcome.claims for passage in claim.cited))


def _chunk(passage: Passage, index: int) -> dict[str, Json]:
    fact = passage.fact
    known = {"uri": fact.uri, "title": fact.title}
    chunk: dict[str, Json] = {"chunkText": passage.shown, "source": fact.source, "index": index}
    return chunk | {name: value for name, value in known.items() if value is not None}


def _claim(result: ClaimResult, places: dict[tuple[str, str], int], spec: Spec) -> dict[str, Json]:
    def indices(passages: Sequence[Passage]) -> list[int]:
        return sorted({places[_key(p)] for p in passages})

    claim = result.claim
    found: dict[str, Json] = {
        "startPos": claim.start,
        "endPos": claim.end,
        "claimText": claim.text,
        "citationIndices": indices(result.cited),
        "groundingCheckRequired": claim.asserts,
    }
    if spec.anti_citations:
        found["antiCitationIndices"] = indices(result.anti_cited)
    if spec.claim_scores and result.score is not None:
        found["score"] = result.score
    return found

"""Check Grounding outside of a run: one request in, one response out, both the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..schemas.errors import RowError
from ..schemas.instance import Json
from ..transforms.checkers.base import Checker
from ..transforms.grounding.discovery import Engine
from ..transforms.grounding.request import read_json, read_request
from ..transforms.grounding.sources import check_source, source_of


def check_grounding(
    request: Mapping[str, Json] | str | bytes,
    *,
    checker: str | Mapping[str, Any] | Checker = "lexical",
    facts_from: Any = None,
    language: str = "en",
) -> dict[str, Json]:
    """How far an answer is grounded in facts, as Vertex AI's Check Grounding API says it.

    Args:
        request: The API's request: answerCandidate, facts (or groundingSource), groundingSpec, prompt; also as JSON.
        checker: Who compares claims with facts: "lexical", "nli", "vertex", or {"type": name, parameters ...}.
        facts_from: A corpus that is searched for each claim instead of facts in the request: a path of JSONL, Parquet
            or CSV documents, the serving config of a Vertex AI Search app, or an object with a `search` method.
        language: Code of the language whose abbreviations do not end sentences.

    Returns:
        The API's response: supportScore in [0, 1], citedChunks, claims with positions in bytes of UTF-8, and what else
        the groundingSpec asks for. A helpfulness score that the checker cannot give is null, with a
        `helpfulnessError`.

    Raises:
        RowError: The request lacks something, goes beyond the API's limits, or the checker's service fails.
        ConfigError: The checker or the corpus cannot be used.
    """
    from ..transforms.metrics.grounding import checker_of

    built = checker_of(checker)
    body = (
        read_json(request.encode() if isinstance(request, str) else request)
        if isinstance(request, str | bytes)
        else request
    )
    asked = read_request(body, corpus=facts_from is not None)
    corpus = None
    if facts_from is not None:
        check_source(facts_from, "facts_from")
        corpus = source_of(facts_from, language)
    elif asked.search_source is not None and getattr(built, "weigh", None):
        corpus = Engine(asked.search_source)
    (response,) = built.check([asked], corpus, language)
    if isinstance(response, RowError):
        raise response
    return response

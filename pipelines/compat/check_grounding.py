"""Check Grounding without a run: converts one request to one response, both in the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...schemas.config.calls import CallPolicy
from ...schemas.errors import ConfigError, JudgeError, RowError
from ...schemas.formats.lenient import lenient_json
from ...schemas.json import Json
from ...transforms.checkers.base import Checker, PairChecker, build_checker
from ...transforms.checkers.judge import JudgeChecker
from ...transforms.checkers.vertex import Vertex
from ...transforms.grounding.check import Source
from ...transforms.grounding.discovery import Engine
from ...transforms.grounding.request import Request, read_request
from ...transforms.grounding.sources import check_source, load_source
from ...transforms.runtime.collector import relaxed_collector


def check_grounding(
    request: Mapping[str, Json] | str | bytes,
    *,
    checker: str | Mapping[str, Any] | Checker = "lexical",
    facts_from: Any = None,
    language: str = "en",
) -> dict[str, Json]:
    """Checks how far an answer is grounded in facts; returns the response of Vertex AI's Check Grounding API.

    Args:
        request: The API's request (answerCandidate, facts or groundingSource, groundingSpec, prompt), or its JSON text.
        checker: Checker of claims against facts: "lexical", "nli", "vertex", or {"type": name, parameters ...}.
        facts_from: A corpus to search for each claim instead of the request's facts: a path of JSONL, Parquet
            or CSV documents, the serving config of a Vertex AI Search app, or an object with a `search` method.
        language: Code of the language whose abbreviations do not end sentences.

    Returns:
        The API's response: supportScore in [0, 1], citedChunks, claims with positions in UTF-8 bytes, and what the
        groundingSpec requests. A helpfulness score that the checker cannot give is null, with a `helpfulnessError`.

    Raises:
        ConfigError: The request is invalid or exceeds the API's limits, or the checker or the corpus is invalid.
        JudgeError: The checker's service failed.
    """
    built = build_checker(checker)
    try:
        body = lenient_json(request) if isinstance(request, str | bytes) else request
        asked = read_request(body, corpus=facts_from is not None)
    except RowError as error:
        raise ConfigError(error.message, where="request") from None
    corpus = _find_corpus(asked, built, facts_from, language)
    with relaxed_collector():  # a check makes 100,000 small objects, which end with it
        response = _run_checker(built, asked, corpus, language)
    if isinstance(response, RowError):
        raise JudgeError(response.message) from None
    return response


def _run_checker(checker: Checker, asked: Request, corpus: Source | None, language: str) -> dict[str, Json] | RowError:
    if isinstance(checker, JudgeChecker):
        from .judge_now import ask_now  # imports Beam, which no other checker needs

        policy = CallPolicy(max_in_flight=checker.max_in_flight)
        (response,) = ask_now(checker.own_judge(), policy, checker.judge_requests([asked], corpus, language))
        return response
    assert isinstance(checker, PairChecker | Vertex)
    (response,) = checker.check([asked], corpus, language)
    return response


def _find_corpus(asked: Request, checker: Checker, facts_from: Any, language: str) -> Source | None:
    """Returns the source of facts outside the request; `None` if it has them or the service searches its own source."""
    if facts_from is not None:
        check_source(facts_from, "facts_from")
        return load_source(facts_from, language)
    if asked.search_source is not None and isinstance(checker, PairChecker):
        return Engine(asked.search_source)
    return None

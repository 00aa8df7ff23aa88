"""Reads and validates requests of Vertex AI's Check Grounding API.

See https://cloud.google.com/generative-ai-app-builder/docs/check-grounding. Besides the published fields, those of the
allowlisted features are accepted: anti-citations, helpfulness and grounding on a search app. Numbers and booleans may
be quoted, as in the service's own examples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ...schemas.errors import RowError
from ...schemas.json import Json
from .check import Spec
from .passages import Fact

MOST_TOKENS, MOST_FACTS, LONGEST_FACT = 4096, 200, 10_000
"""The API's limits: tokens of an answer, facts, and characters of a fact."""
_TOKEN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
    "|[^\\s\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+"
)
_PERIODS = re.compile(r"""(?<![.!?…。！？।۔؟])[.!?…。！？।۔؟]+(?=["'”’»)\]]*(?:\s|$))""")
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to check one answer.

    Attributes:
        answer: The answer to check, without lone surrogates.
        facts: The facts to ground it on; empty if `search_source` is given.
        search_source: Full resource name of the serving config of a Vertex AI Search app to ground it on instead.
        prompt: The prompt of the answer, if known.
        spec: Options of the check.
    """

    answer: str
    facts: tuple[Fact, ...] = ()
    search_source: str | None = None
    prompt: str | None = None
    spec: Spec = Spec()


class _Message(BaseModel):
    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, coerce_numbers_to_str=True
    )


class _Fact(_Message):
    fact_text: str
    attributes: dict[str, str] = {}


class _Source(_Message):
    search_source: str


class _Spec(_Message):
    citation_threshold: Share = 0.6
    enable_anti_citations: bool = False
    anti_citation_threshold: Share = 0.8
    enable_claim_level_score: bool = False
    enable_helpfulness_score: bool = False


class _Request(_Message):
    answer_candidate: str
    facts: list[_Fact] | None = None
    grounding_source: _Source | None = None
    grounding_spec: _Spec = _Spec()
    prompt: str | None = None
    grounding_config: str | None = None
    user_labels: dict[str, str] = {}


def read_request(body: Json, corpus: bool = False) -> Request:
    """Reads a request from its JSON and checks the API's limits.

    Args:
        body: The JSON.
        corpus: True if facts come from a corpus, so that the request needs none.

    Raises:
        RowError: A field is missing, unknown, of the wrong type or beyond a limit; the message names it and what is
            allowed.
    """
    if not isinstance(body, Mapping):
        raise RowError("invalid_request", f"found {type(body).__name__} (allowed: an object with answerCandidate)")
    try:
        read = _Request.model_validate(body)
    except ValidationError as error:
        raise RowError("invalid_request", _describe_error(error)) from None
    given = (read.facts is not None) + (read.grounding_source is not None)
    if given == 2 or (given == 0 and not corpus):
        found = "neither" if read.facts is None else "both"
        raise RowError("invalid_request", f"found {found} of facts and groundingSource (allowed: exactly one)")
    facts = tuple(Fact(f.fact_text, f.attributes, str(i)) for i, f in enumerate(read.facts or ()))
    spec = read.grounding_spec
    request = Request(
        read.answer_candidate,
        facts,
        read.grounding_source.search_source if read.grounding_source else None,
        read.prompt,
        Spec(
            spec.citation_threshold,
            spec.enable_anti_citations,
            spec.anti_citation_threshold,
            spec.enable_claim_level_score,
            spec.enable_helpfulness_score,
        ),
    )
    check_limits(request)
    return request


def check_limits(request: Request) -> None:
    """Checks the service's limits.

    Raises:
        RowError: The answer is empty, too long or has a lone surrogate; there are too many facts, or one is too long;
            or helpfulness is requested without a prompt.
    """
    if not request.answer.strip():
        raise RowError("missing_answer", "answerCandidate is empty (allowed: a text)")
    if any("\ud800" <= c <= "\udfff" for c in request.answer):
        raise RowError("undecodable_text", "answerCandidate has a lone surrogate (allowed: Unicode text)")
    if (tokens := count_tokens(request.answer)) > MOST_TOKENS:
        found = f"answerCandidate has {tokens:,} tokens"
        raise RowError("too_many_tokens", f"{found} (allowed: {MOST_TOKENS:,} words and periods)")
    if len(request.facts) > MOST_FACTS:
        raise RowError("too_many_facts", f"found {len(request.facts):,} facts (allowed: {MOST_FACTS})")
    for i, fact in enumerate(request.facts):
        if len(fact.text) > LONGEST_FACT:
            found = f"facts.{i}.factText has {len(fact.text):,} characters"
            raise RowError("fact_too_long", f"{found} (allowed: {LONGEST_FACT:,})")
    if request.spec.helpfulness and not (request.prompt or "").strip():
        raise RowError("missing_prompt", "a helpfulness score needs the prompt (allowed: a text under prompt)")


def count_tokens(text: str) -> int:
    """Counts tokens as the API does: whitespace-separated words, and the marks that end sentences.

    In scripts without spaces between words, each character counts as a word.
    """
    words = sum(any(map(str.isalnum, run)) for run in _TOKEN.findall(text))
    return words + len(_PERIODS.findall(text))


def build_body(request: Request) -> dict[str, Json]:
    """Converts the request to the API's JSON, without default values."""
    spec = request.spec
    asked: dict[str, Any] = {"citationThreshold": spec.citation_threshold}
    if spec.anti_citations:
        asked |= {"enableAntiCitations": True, "antiCitationThreshold": spec.anti_citation_threshold}
    asked |= {"enableClaimLevelScore": True} if spec.claim_scores else {}
    asked |= {"enableHelpfulnessScore": True} if spec.helpfulness else {}
    body: dict[str, Json] = {"answerCandidate": request.answer, "groundingSpec": asked}
    if request.search_source is not None:
        body["groundingSource"] = {"searchSource": request.search_source}
    else:
        body["facts"] = [
            {"factText": f.text, **({"attributes": dict(f.attributes)} if f.attributes else {})} for f in request.facts
        ]
    return body if request.prompt is None else {**body, "prompt": request.prompt}


def _describe_error(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"{where}: missing"
    if first["type"] == "extra_forbidden":
        model = _find_model(first["loc"][:-1])
        allowed = ", ".join(sorted(str(f.alias) for f in model.model_fields.values()))
        return f"{where}: unknown field (allowed: {allowed})"
    return f"{where}: found {str(first['input'])[:100]!r} (allowed: {first['msg'].removeprefix('Input should be ')})"


def _find_model(path: tuple[int | str, ...]) -> type[BaseModel]:
    names: dict[str, type[BaseModel]] = {"facts": _Fact, "groundingSource": _Source, "groundingSpec": _Spec}
    return names.get(str(path[0]), _Request) if path else _Request

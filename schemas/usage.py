"""Tokens that answers say they took."""

from __future__ import annotations

from .conversation import usage_of
from .instance import Usage
from .json import Json


def tokens_of(answer: Json) -> int:
    """Tokens that an answer says it took, given and made; 0 where it does not say."""
    usage = usage_in(answer)
    return 0 if usage is None else (usage.input_tokens or 0) + (usage.output_tokens or 0)


def usage_in(answer: Json) -> Usage | None:
    """Tokens that an answer says it took, with those of the attempts before it."""
    told = answer.get("usage") if isinstance(answer, dict) else None
    own, earlier = usage_of(told), usage_of(told.get("earlier")) if isinstance(told, dict) else None
    if own is None or earlier is None:
        return own or earlier
    return Usage(_sum(own.input_tokens, earlier.input_tokens), _sum(own.output_tokens, earlier.output_tokens))


def with_earlier(answer: Json, earlier: Usage | None) -> Json:
    """An answer, or what a failed call used (`None`: nothing), that also says what the attempts before it used."""
    if earlier is None or not isinstance(answer, dict | None):
        return answer
    told = {"input_tokens": earlier.input_tokens, "output_tokens": earlier.output_tokens}
    return {**(answer or {}), "usage": {**((answer or {}).get("usage") or {}), "earlier": told}}


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other

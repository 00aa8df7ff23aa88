"""Tokens that answers say they took."""

from __future__ import annotations

from .conversation import usage_of
from .instance import Usage
from .json import Json


def tokens_of(answer: Json) -> int:
    """Tokens that an answer is known to have taken, given and made together; see `known_tokens`."""
    return sum(known_tokens(answer))


def usage_in(answer: Json) -> Usage | None:
    """Tokens that an answer says it took, with those of the attempts before it."""
    told = answer.get("usage") if isinstance(answer, dict) else None
    own, earlier = usage_of(told), usage_of(told.get("earlier")) if isinstance(told, dict) else None
    if own is None or earlier is None:
        return own or earlier
    return Usage.total((own, earlier))


def with_earlier(answer: Json, earlier: Usage | None) -> Json:
    """An answer, or what a failed call used (`None`: nothing), that also says what the attempts before it used."""
    if earlier is None or not isinstance(answer, dict | None):
        return answer
    told = {"input_tokens": earlier.input_tokens, "output_tokens": earlier.output_tokens}
    return {**(answer or {}), "usage": {**((answer or {}).get("usage") or {}), "earlier": told}}


def known_tokens(answer: Json) -> tuple[int, int]:
    """(given, made): tokens that an answer took at least, those of the attempts before it too; 0 where it does not say.

    What a bound is kept by: of a conversation that is not known as a whole, the turns that are known count.
    """
    told = answer.get("usage") if isinstance(answer, dict) else None
    parts = [usage_of(told)]
    if parts == [None] and isinstance(answer, dict) and isinstance(turns := answer.get("turns"), list):
        parts = [usage_of(turn.get("usage")) for turn in turns if isinstance(turn, dict)]
    parts.append(usage_of(told.get("earlier")) if isinstance(told, dict) else None)
    known = [usage for usage in parts if usage is not None]
    return sum(u.input_tokens or 0 for u in known), sum(u.output_tokens or 0 for u in known)

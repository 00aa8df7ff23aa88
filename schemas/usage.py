"""Token usage that answers report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from .calls import Outcome
from .conversation import usage_of
from .instance import Usage
from .json import Json

SIMULATED = "simulator"
"""Key of an answer: what a simulated user's model used, {calls, unknown, input_tokens, output_tokens}."""


def tokens_of(answer: Json) -> int:
    """Sums the known input and output tokens of an answer; see `known_tokens`."""
    return sum(known_tokens(answer))


def usage_in(answer: Json) -> Usage | None:
    """Reads the usage of an answer, including that of the attempts before it."""
    told = answer.get("usage") if isinstance(answer, dict) else None
    own, earlier = usage_of(told), usage_of(told.get("earlier")) if isinstance(told, dict) else None
    if own is None or earlier is None:
        return own or earlier
    return Usage.total((own, earlier))


def add_earlier_usage(answer: Json, attempts: Iterable[Json]) -> Json:
    """Adds the usage of earlier attempts, by their values, to an answer or to the value of a failed call."""
    earlier: Usage | None = None
    for spent in attempts:
        earlier = usage_in(_add_usage(spent, earlier))
    return _add_usage(answer, earlier)


def _add_usage(answer: Json, earlier: Usage | None) -> Json:
    if earlier is None or not isinstance(answer, dict | None):
        return answer
    told = {"input_tokens": earlier.input_tokens, "output_tokens": earlier.output_tokens}
    return {**(answer or {}), "usage": {**((answer or {}).get("usage") or {}), "earlier": told}}


def known_tokens(answer: Json) -> tuple[int, int]:
    """Returns the (input, output) tokens that an answer is known to have used, earlier attempts included; 0 if unknown.

    Limits count these: if the usage of a whole conversation is unknown, that of its known turns counts.
    """
    if not isinstance(answer, dict) or ("usage" not in answer and "turns" not in answer):  # for each of many calls
        return 0, 0
    told = answer.get("usage")
    parts = [usage_of(told)]
    if parts == [None] and isinstance(turns := answer.get("turns"), list):
        parts = [usage_of(turn.get("usage")) for turn in turns if isinstance(turn, dict)]
    parts.append(usage_of(told.get("earlier")) if isinstance(told, dict) else None)
    known = [usage for usage in parts if usage is not None]
    return sum(u.input_tokens or 0 for u in known), sum(u.output_tokens or 0 for u in known)


def add_known(values: Iterable[float | None]) -> Any:
    """Returns the sum of counts or prices; `None` if one of them is unknown."""
    found = list(values)
    return None if None in found else reduce(add, (v for v in found if v is not None), 0)


def share_cost(outcome: Outcome) -> Outcome:
    """The outcome for a further row with the same question; the first row has paid for it."""
    told = outcome.value or {}
    by = {"batch": True} if (told.get("usage") or {}).get("batch") else {}
    free = {"input_tokens": 0, "output_tokens": 0, **by}
    return replace(outcome, attempts=0, value={**told, "usage": free})

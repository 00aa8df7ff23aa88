"""What a journal says of a run's calls: how many, how they ended, what they took."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass

from ...schemas.usage import known_tokens
from .journal import KEPT, read_journal
from .segments import Torn


@dataclass(frozen=True, slots=True)
class JournalSummary:
    """Figures of one journal folder.

    Attributes:
        calls: Calls by class ("ok", "permanent", "timeout" ...); one that was made several times counts once, settled
            where one of them is.
        settled: Calls that another run takes over instead of making them again.
        attempts: Attempts of all calls, made again or not.
        refused: How many of them were refused for their rate.
        queued_in_seconds, backoff_in_seconds: Waiting of all calls, before and between attempts.
        latency: Percentile (50, 90, 99) to seconds, of the attempts that counted; empty without any.
        input_tokens, output_tokens: Tokens where the answers name them, of all attempts.
        torn: Segments that are not read to their end.
    """

    calls: dict[str, int]
    settled: int
    attempts: int
    refused: int
    queued_in_seconds: float
    backoff_in_seconds: float
    latency: dict[int, float]
    input_tokens: int
    output_tokens: int
    torn: tuple[Torn, ...] = ()

    @property
    def paid_calls(self) -> int:
        """What a budget of calls counts."""
        return self.attempts - self.refused


def summarize(folder: str) -> JournalSummary:
    """Reads a whole journal, answer by answer; a folder without one gives zeros."""
    kinds: dict[str, str] = {}
    attempts = refused = given = made = 0
    queued = backoff = 0.0
    latencies, torn = array("d"), list[Torn]()
    for key, _, outcome in read_journal(folder, torn.append):
        if kinds.get(key) not in KEPT:
            kinds[key] = outcome.kind
        attempts += outcome.attempts
        refused += outcome.refused
        queued += outcome.queued_in_seconds
        backoff += outcome.backoff_in_seconds
        if outcome.latency_in_seconds is not None:
            latencies.append(outcome.latency_in_seconds)
        tokens = known_tokens(outcome.value)
        given, made = given + tokens[0], made + tokens[1]
    ordered = sorted(latencies)
    return JournalSummary(
        calls=dict(sorted(Counter(kinds.values()).items())),
        settled=sum(kind in KEPT for kind in kinds.values()),
        attempts=attempts,
        refused=refused,
        queued_in_seconds=queued,
        backoff_in_seconds=backoff,
        latency={p: ordered[math.ceil(p / 100 * len(ordered)) - 1] for p in (50, 90, 99)} if ordered else {},
        input_tokens=given,
        output_tokens=made,
        torn=tuple(torn),
    )

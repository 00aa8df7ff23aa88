"""What a journal says of a run's calls: how many, how they ended, what they took."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from ..schemas.calls import Outcome
from .agents.base import usage_of
from .journal import KEPT, read_journal


@dataclass(frozen=True, slots=True)
class JournalSummary:
    """Figures of one journal folder; a call that several runs made counts once, by its first settled record.

    Attributes:
        calls: Calls by class ("ok", "permanent", "timeout" ...).
        settled: Calls that another run takes over instead of making them again.
        attempts: Attempts of all calls.
        queued_in_seconds, backoff_in_seconds: Waiting of all calls, before and between attempts.
        latency: Percentile (50, 90, 99) to seconds, of the attempts that counted; empty without any.
        input_tokens, output_tokens: Tokens where the answers name them.
    """

    calls: dict[str, int]
    settled: int
    attempts: int
    queued_in_seconds: float
    backoff_in_seconds: float
    latency: dict[int, float]
    input_tokens: int
    output_tokens: int


def summarize(folder: str) -> JournalSummary:
    """Reads a whole journal; a folder without one gives zeros."""
    known: dict[str, Outcome] = {}
    for key, _, outcome in read_journal(folder):
        if key not in known or (known[key].kind not in KEPT and outcome.kind in KEPT):
            known[key] = outcome
    outcomes = list(known.values())
    usages = [u for o in outcomes if isinstance(o.value, dict) and (u := usage_of(o.value.get("usage"))) is not None]
    latencies = sorted(o.latency_in_seconds for o in outcomes if o.latency_in_seconds is not None)
    return JournalSummary(
        calls=dict(sorted(Counter(o.kind for o in outcomes).items())),
        settled=sum(o.kind in KEPT for o in outcomes),
        attempts=sum(o.attempts for o in outcomes),
        queued_in_seconds=math.fsum(o.queued_in_seconds for o in outcomes),
        backoff_in_seconds=math.fsum(o.backoff_in_seconds for o in outcomes),
        latency={p: latencies[math.ceil(p / 100 * len(latencies)) - 1] for p in (50, 90, 99)} if latencies else {},
        input_tokens=sum(u.input_tokens or 0 for u in usages),
        output_tokens=sum(u.output_tokens or 0 for u in usages),
    )

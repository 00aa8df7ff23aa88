"""Summarizes the calls in a journal: how many, how they ended, how long they took."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...schemas.usage import known_tokens
from .journal import BATCH, read_journal
from .ranks import KEPT, rank, retry_of
from .segments import Torn


@dataclass(frozen=True, slots=True)
class JournalSummary:
    """Figures of one journal folder.

    Attributes:
        calls: Calls by class ("ok", "permanent", "timeout" ...); a call that was made several times counts once, by
            the record that counts (see `ranks`).
        settled: Calls that another start reuses instead of making them again.
        attempts: Attempts of all records.
        refused: How many of them were refused for their rate.
        queued_in_seconds, backoff_in_seconds: Waiting of all calls, before and between attempts.
        latency: Percentile (50, 90, 99) to seconds, of successful attempts; empty if there are none.
        input_tokens, output_tokens: Tokens of all attempts, as far as the answers name them.
        torn: Segments that are not read to their end.
        failed: How often each call of a batch has failed for a passing reason, by its key.
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
    failed: Mapping[str, int] = field(default_factory=dict)

    @property
    def paid_calls(self) -> int:
        """The calls that count against a budget."""
        return self.attempts - self.refused


def summarize(folder: str, retry: int = 0) -> JournalSummary:
    """Reads a whole journal, record by record; a folder without a journal gives zeros.

    Args:
        folder: Folder of the journal.
        retry: Number of the run's retry that is going on: failures before it are not reused.
    """
    kinds: dict[str, str] = {}
    ranks: dict[str, int] = {}
    failed_before = set[str]()
    attempts = refused = given = made = 0
    queued = backoff = 0.0
    latencies, torn, failed = array("d"), list[Torn](), Counter[str]()
    for key, start, outcome in read_journal(folder, torn.append):
        if (worth := rank(start, outcome.kind, None)) > ranks.get(key, 0):
            ranks[key], kinds[key] = worth, outcome.kind
            (failed_before.add if retry_of(start) < retry else failed_before.discard)(key)
        failed.update([key] if start == BATCH else ())
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
        settled=sum(k == "ok" or (k in KEPT and key not in failed_before) for key, k in kinds.items()),
        attempts=attempts,
        refused=refused,
        queued_in_seconds=queued,
        backoff_in_seconds=backoff,
        latency={p: ordered[math.ceil(p / 100 * len(ordered)) - 1] for p in (50, 90, 99)} if ordered else {},
        input_tokens=given,
        output_tokens=made,
        torn=tuple(torn),
        failed=failed,
    )

"""Which of several records of a call counts: an answer, else the failure of the last retry.

A retry calls again whatever failed, for whatever reason. Nothing in a journal is ever changed, so the failures before
it stay; the number of the retry stands in the token of each of its starts, and records of earlier ones no longer count
for it. Readers without a token find for each call what the tables of the last finished start say.
"""

from __future__ import annotations

import re
import uuid

KEPT = frozenset(("ok", "permanent", "invalid_answer"))
"""Classes of outcomes that other starts reuse. Calls with other outcomes are made again, except within the same
start."""
_ANSWERED = 1 << 60
_RETRY = re.compile(r"retry(\d+)-")


def name_start(retry: int = 0) -> str:
    """Makes the token of a start, unique; `retry` counts the retries of the run so far."""
    return (f"retry{retry}-" if retry else "") + uuid.uuid4().hex


def retry_of(start: str) -> int:
    """Returns the number of the retry that a start belongs to, 0 before the first."""
    match = _RETRY.match(start)
    return int(match[1]) if match else 0


def rank(start: str, kind: str, reader: str | None) -> int:
    """Ranks a record among those of its call: the highest counts, 0 counts for nothing.

    Args:
        start: Token of the start that made the record.
        kind: Class of its outcome.
        reader: Token of the start that asks; `None` for one that makes no calls, for which all records count.
    """
    if kind == "ok":
        return _ANSWERED
    own = retry_of(start)
    if reader is not None and (own < retry_of(reader) or (kind not in KEPT and start != reader)):
        return 0
    return 2 * own + (2 if kind in KEPT else 1)

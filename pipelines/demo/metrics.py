"""A metric of the demo's own: a plain Python function of the row."""

from __future__ import annotations

from typing import Any

MOST_WORDS = 12


def is_brief(row: dict[str, Any]) -> dict[str, Any]:
    """1 iff the answer has at most 12 words, since it will be spoken aloud; their number goes to the details."""
    words = len(row["response"].split())
    return {"is_brief": float(words <= MOST_WORDS), "words": words}

"""The demo's own metric: a plain Python function of the row."""

from __future__ import annotations

from typing import Any

MOST_WORDS = 12


def is_brief(row: dict[str, Any]) -> dict[str, Any]:
    """Scores 1 if the answer has at most 12 words, since it is spoken aloud, else 0; the word count goes to details."""
    words = len(row["response"].split())
    return {"is_brief": float(words <= MOST_WORDS), "words": words}

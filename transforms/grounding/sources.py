"""Resolves the parameter `facts_from`: a column of the row, or a corpus."""

from __future__ import annotations

import re
from typing import Any

from .check import Source
from .discovery import SERVING_CONFIG, Engine

_FILES = re.compile(r"\.(?:jsonl|ndjson|json|csv|parquet)(?:\.\w+)?$|[*?]|://|/$", re.IGNORECASE)


def is_column(facts_from: Any) -> bool:
    """Returns true for the name of a column; false for a path, a serving config or an object."""
    return isinstance(facts_from, str) and not (_FILES.search(facts_from) or SERVING_CONFIG.fullmatch(facts_from))


def load_source(facts_from: Any, language: str = "en") -> Source | None:
    """Returns the corpus, loaded once per process, or `None` for a column.

    Args:
        facts_from: Name of a column; path, folder or glob of documents; serving config of a Vertex AI Search app; or an
            object with a `search` method.
        language: Code of the language of the documents.

    Raises:
        ConfigError: The corpus cannot be read.
    """
    if is_column(facts_from):
        return None
    if not isinstance(facts_from, str):
        return facts_from
    if SERVING_CONFIG.fullmatch(facts_from):
        return Engine(facts_from)
    from .corpus import load_corpus

    return load_corpus(facts_from, language)


def check_source(facts_from: Any, where: str) -> None:
    """Checks that the corpus exists, without loading it.

    Raises:
        ConfigError: The corpus is missing, or its first document cannot be used.
    """
    if isinstance(facts_from, str) and not is_column(facts_from) and not SERVING_CONFIG.fullmatch(facts_from):
        from .corpus import check_corpus

        check_corpus(facts_from, where)

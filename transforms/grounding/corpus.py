"""A corpus of documents to ground on: files on any filesystem that Beam can open.

A document is a row of a JSONL, Parquet or CSV dataset with its text under `text`, `content`, `factText` or
`page_content`. Optional columns are `id` (default: `uri`, else file and row), `uri`, `title` and `attributes` (an
object). Attributes and title are part of the evidence of each passage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ..readers._files import expand, head, readers_of
from .passages import Fact, cut_passages
from .search import Index

TEXT = ("text", "content", "factText", "page_content")
"""Columns of a document's text; the first one present counts."""


def check_corpus(path: str, where: str = "facts_from") -> None:
    """Checks that the corpus exists, by reading its first row.

    Raises:
        ConfigError: The path matches no dataset file, or its first document cannot be used.
    """
    for block in head(_list_files(path, where), rows=1):
        list(_read_facts(block, where))


@lru_cache(maxsize=4)
def load_corpus(path: str, language: str = "en") -> Index:
    """Reads and indexes a corpus, once per process.

    Raises:
        ConfigError: A file cannot be listed, or a document cannot be used.
    """
    files = _list_files(path, "facts_from")
    readers = readers_of(files, {})
    facts: list[Fact] = []
    for file in files:
        for part in readers[file.format].split(file.path, file.size):
            for block in readers[file.format].read(part):
                facts += _read_facts(block, "facts_from")
    return Index(cut_passages(facts, language))


def _list_files(path: str, where: str) -> Sequence[Any]:
    try:
        return expand([path])
    except ConfigError as error:
        raise ConfigError(error.what, where=where, allowed=error.allowed) from None


def _read_facts(block: Any, where: str) -> Iterator[Fact]:
    for line in block.rejected:
        raise ConfigError(f"{block.file}: line {line.line} of range {line.range + 1}: {line.message}", where=where)
    for number, row in block.rows:
        place = f"{block.file}:{block.range + 1}:{number}"
        text = next((row[name] for name in TEXT if isinstance(row.get(name), str)), None)
        if text is None:
            found = f"the document at {place} has {', '.join(sorted(row)) or 'nothing'}"
            raise ConfigError(found, where=where, allowed=f"a text under {', '.join(TEXT)}")
        uri, title = _text(row.get("uri", row.get("doc_uri"))), _text(row.get("title"))
        given = row.get("attributes")
        known = {str(k): str(v) for k, v in given.items()} if isinstance(given, Mapping) else {}
        attributes = known if title is None or "title" in known else {"title": title, **known}
        yield Fact(text, attributes, _text(row.get("id")) or uri or place, uri, title)


def _text(value: Json) -> str | None:
    return None if value is None else str(value)

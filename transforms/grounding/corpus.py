"""A corpus of documents in which the facts for each claim are found: files on any filesystem Beam opens.

A document is a row of a JSONL, Parquet or CSV dataset with its text under `text`, `content`, `factText` or
`page_content`, and where known its `id` (else `uri`, else file and row), `uri`, `title`, and `attributes` (an object,
which counts as evidence with every passage; so does the title).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ..readers._files import expand, head, readers_of
from .passages import Fact, passages_of
from .search import Index

TEXT = ("text", "content", "factText", "page_content")
"""Columns that hold a document's text, the first found counts."""


def check_corpus(path: str, where: str = "facts_from") -> None:
    """Sees to it that there is a corpus, without reading more than its first rows.

    Raises:
        ConfigError: The path stands for no dataset file, or its first document cannot be used.
    """
    for block in head(_files(path, where), rows=1):
        list(_facts(block, where))


@lru_cache(maxsize=4)
def load_corpus(path: str, language: str = "en") -> Index:
    """The index of a corpus, read and made once in each process.

    Raises:
        ConfigError: A file cannot be listed, or a document cannot be used.
    """
    files = _files(path, "facts_from")
    readers = readers_of(files, {})
    facts: list[Fact] = []
    for file in files:
        for part in readers[file.format].split(file.path, file.size):
            for block in readers[file.format].read(part):
                facts += _facts(block, "facts_from")
    return Index(passages_of(facts, language))


def _files(path: str, where: str) -> Sequence[Any]:
    try:
        return expand([path])
    except ConfigError as error:
        raise ConfigError(error.what, where=where, allowed=error.allowed) from None


def _facts(block: Any, where: str) -> Iterator[Fact]:
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

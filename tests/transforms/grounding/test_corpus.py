"""Corpora: documents of files, loaded once, found per claim; and what names a corpus."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalbeam.schemas.errors import ConfigError
from evalbeam.transforms.grounding.corpus import check_corpus, load_corpus
from evalbeam.transforms.grounding.discovery import Engine
from evalbeam.transforms.grounding.passages import Text
from evalbeam.transforms.grounding.search import Index
from evalbeam.transforms.grounding.sources import check_source, is_column, load_source

DOCUMENTS = [
    {
        "id": "sea",
        "text": "The Titanic sank in 1912.",
        "title": "Ships",
        "uri": "gs://docs/sea",
        "attributes": {"author": "Bo"},
    },
    {"id": "hill", "text": "Everest is 8,849 m tall.", "attributes": {"author": "Ann"}},
    {"id": "bread", "text": "Bread is baked. " * 200},
]
APP = "projects/p/locations/global/collections/default_collection/engines/a/servingConfigs/default_search"


@pytest.fixture(params=["jsonl", "jsonl.gz", "parquet"])
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The documents as a file of each format."""
    path = tmp_path / f"docs.{request.param}"
    if request.param == "parquet":
        pq.write_table(pa.Table.from_pylist(DOCUMENTS), path)
    else:
        data = "".join(json.dumps(d) + "\n" for d in DOCUMENTS).encode()
        path.write_bytes(gzip.compress(data) if request.param.endswith("gz") else data)
    return str(path)


def test_documents_are_found_by_claim_with_what_is_known_of_them(corpus: str) -> None:
    check_corpus(corpus)
    index = load_corpus(corpus)
    assert load_corpus(corpus) is index
    (sunk, tall) = index.search([Text(["When did the Titanic sink?"]), Text(["Ann says Everest is tall."])], 2)
    assert (sunk[0].fact.source, sunk[0].fact.uri, sunk[0].fact.title) == ("sea", "gs://docs/sea", "Ships")
    assert tall[0].fact.source == "hill"
    assert "ann" in tall[0].stems
    assert sum(p.fact.source == "bread" for p in index.passages) == 4


def test_a_document_without_text_is_named_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "a"}\n{"body": "b"}\n')
    with pytest.raises(ConfigError, match=r"facts_from: the document at .*docs.jsonl:1:2 has body \(allowed: a text"):
        load_corpus(str(path))
    path.write_text('{"text": "a"\n')
    with pytest.raises(ConfigError, match=r"docs.jsonl: line 1 of range 1"):
        check_corpus(str(path))


def test_what_names_a_column_and_what_a_corpus(tmp_path: Path) -> None:
    assert all(map(is_column, ["retrieved_context", "facts", "context.text"]))
    assert not any(map(is_column, ["docs.jsonl", "gs://docs", "docs/", "docs/*", "a.parquet", APP, Index([])]))
    assert load_source("facts") is None
    assert isinstance(load_source(APP), Engine)
    with pytest.raises(ConfigError, match=r"facts_from: there is no file at "):
        check_source(str(tmp_path / "none.jsonl"), "facts_from")

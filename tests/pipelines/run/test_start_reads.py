"""What a start asks of object storage, where each request takes 50 to 100 ms: counted, on a filesystem that counts."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from apache_beam.io.filesystem import FileMetadata, FileSystem, MatchResult
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from google.api_core.exceptions import PreconditionFailed

from evalbeam.pipelines.check.check import check
from evalbeam.pipelines.run import evaluate
from evalbeam.pipelines.run.build import make_plan
from evalbeam.pipelines.run.plan import Purpose
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.transforms.io import storage

OBJECTS: dict[str, bytes] = {}
ASKED: Counter[str] = Counter()
READ: list[str] = []


class CountedFileSystem(FileSystem):
    """Object storage in memory that counts its requests by kind."""

    @classmethod
    def scheme(cls) -> str:
        return "counted"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        return path.rpartition("/")[0], path.rpartition("/")[2]

    def has_dirs(self) -> bool:
        return False

    def mkdirs(self, path: str) -> None:
        raise NotImplementedError

    def create(self, path: str, mime_type: str = "", compression_type: str = "") -> Any:
        class Upload(io.BytesIO):
            def close(upload) -> None:
                if not upload.closed:
                    ASKED["write"] += 1
                    OBJECTS[path] = upload.getvalue()
                super().close()

        return Upload()

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> Any:
        ASKED["read"] += 1
        READ.append(path)
        return io.BytesIO(OBJECTS[path])

    def match(self, patterns: list[str], limits: Any = None) -> list[MatchResult]:
        found = []
        for pattern in patterns:
            ASKED["list"] += 1
            regex = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
            names = sorted(name for name in OBJECTS if re.fullmatch(regex, name))
            found.append(MatchResult(pattern, [FileMetadata(name, len(OBJECTS[name])) for name in names]))
        return found

    def _list(self, dir_or_prefix: str) -> Any:
        raise NotImplementedError

    def copy(self, source_file_names: Any, destination_file_names: Any) -> None:
        raise NotImplementedError

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        ASKED["write"] += 1
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            OBJECTS[destination] = OBJECTS.pop(source)

    def exists(self, path: str) -> bool:
        ASKED["exists"] += 1
        return path in OBJECTS

    def size(self, path: str) -> int:
        return len(OBJECTS[path])

    def last_updated(self, path: str) -> float:
        raise NotImplementedError

    def checksum(self, path: str) -> str:
        raise NotImplementedError

    def metadata(self, path: str) -> Any:
        raise NotImplementedError

    def delete(self, paths: list[str]) -> None:
        ASKED["delete"] += 1
        for path in paths:
            for name in [n for n in OBJECTS if n == path or (path.endswith("/") and n.startswith(path))]:
                del OBJECTS[name]


class Blob:
    """An object of Cloud Storage, as far as `transforms/io/storage.py` uses one."""

    def __init__(self, path: str, client: Any) -> None:
        self.path = path

    def create_resumable_upload_session(self, if_generation_match: int) -> None:
        ASKED["write"] += 1

    def upload_from_string(self, data: bytes, if_generation_match: int) -> None:
        ASKED["write"] += 1
        if self.path in OBJECTS:
            raise PreconditionFailed("there is one")
        OBJECTS[self.path] = data

    def download_as_bytes(self) -> bytes:
        ASKED["read"] += 1
        return OBJECTS[self.path]


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    rows = [{"prompt": f"p{i}", "reference": "x", "response": "x", "locale": "en"} for i in range(50)]
    lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    OBJECTS.update({f"gs://b/data/part-{i}.jsonl": lines for i in range(3)})
    monkeypatch.setattr(FileSystems, "get_filesystem", lambda _: CountedFileSystem(PipelineOptions([])))
    monkeypatch.setattr(storage, "_blob", Blob)
    yield
    OBJECTS.clear()
    ASKED.clear()
    READ.clear()


AGENT = {"target": f"{__name__}:ask"}


def ask(prompt: str) -> str:
    return "x"


def configured(folder: str, **more: Any) -> EvaluationConfig:
    base = {"dataset": {"path": "gs://b/data"}, "metrics": ["exact_match"], "slices": ["locale"]}
    return EvaluationConfig.parse({**base, "output": {"path": f"gs://b/{folder}"}, **more})


def start(folder: str, purpose: Purpose = "run", **more: Any) -> int:
    """Begins a run whose graph is not run; returns its requests."""
    ASKED.clear()
    plan = replace(make_plan(configured(folder, **more)), purpose=purpose)
    evaluate._start(plan, PipelineOptions([]), lambda *_: None)
    return ASKED.total()


def test_a_start_asks_storage_little() -> None:
    assert start("recorded") <= 27
    assert start("recorded") <= 20
    assert start("agent", agent=AGENT) <= 28
    assert start("agent", agent=AGENT) <= 21
    assert start("agent", agent=AGENT, budget={"max_calls": 1000}) <= 25
    OBJECTS["gs://b/recorded/manifest.json"] = orjson.dumps({"state": "finished", "config": {}, "fingerprint": None})
    assert start("recorded", "retry") <= 24


def test_a_check_reads_each_source_once() -> None:
    check(configured("new", agent=AGENT))
    assert ASKED.total() <= 26
    read = Counter(path for path in READ if "/data/" in path)
    assert len(set(read.values())) == 1  # as often as the reader opens a file
    assert not [path for path in OBJECTS if path.startswith("gs://b/new")]

"""Calls that are handed over instead of made: kept as files, a folder for each batch of requests.

Layout below an endpoint's folder: `open/part-<uuid>` are calls as the workers found them open; `<number>/` is a batch:
`requests.jsonl` in the provider's format, `calls.jsonl` the calls they stand for in the same order, `job.json` how far
it has come, and what begins with `results` came back: files, or folders of files, put there by us, by hand or by the
provider.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ...schemas.calls import Call, Outcome
from ...schemas.json_text import jsonable
from ..io import storage
from .base import Requests

MOST_REQUESTS, MOST_BYTES = 50_000, 100 << 20
"""Requests of one batch at most, and their size: what every provider takes."""

_BUFFERED = 4 << 20
_HANDED = Outcome(
    kind="not_called", error_type="NotCalled", error_message="not called: handed over in a batch", attempts=0
)


@dataclass
class BatchOutbox:
    """One bundle's way to hand calls over.

    Attributes:
        folders: Folder of each endpoint whose calls are handed over.
    """

    folders: Mapping[str, str]
    _lines: dict[str, list[bytes]] = field(default_factory=dict)
    _bytes: int = 0

    def take(self, call: Call) -> Outcome | None:
        """Hands a call over, where its endpoint's calls are; `None` where it is to be made."""
        folder = self.folders.get(call.endpoint)
        if folder is None:
            return None
        line = _line(call, [call.prefix])
        self._lines.setdefault(folder, []).append(line)
        self._bytes += len(line)
        if self._bytes >= _BUFFERED:
            self.flush()
        return _HANDED

    def flush(self) -> None:
        """Puts what was taken so far; what is taken twice counts once."""
        for folder, lines in self._lines.items():
            storage.write_bytes(storage.join(folder, "open", f"part-{uuid.uuid4().hex}"), _joined(lines))
        self._lines, self._bytes = {}, 0


@dataclass(frozen=True)
class Batch:
    """A batch of requests.

    Attributes:
        folder: Where its files are.
    """

    folder: str

    @property
    def job(self) -> dict[str, Any]:
        """How far it has come: `state` is "written", "submitting", "going" or "ended"; `id` is the provider's."""
        path = storage.join(self.folder, "job.json")
        return orjson.loads(storage.read_bytes(path)) if storage.exists(path) else {"state": "written"}

    def note(self, **job: Any) -> None:
        """Keeps how far it has come."""
        storage.write_whole(storage.join(self.folder, "job.json"), orjson.dumps(job))

    @property
    def requests(self) -> Requests:
        """The provider's file."""
        return Requests(self.folder, storage.read_bytes(storage.join(self.folder, "requests.jsonl")))

    def calls(self) -> Iterator[Call]:
        """What is asked, by each of the rows that ask the same, the first one that did first; requests as JSON."""
        yield from _calls(storage.join(self.folder, "calls.jsonl"))

    def size(self) -> int:
        """Requests in it."""
        return len({call.key for call in self.calls()})

    def results(self) -> list[str]:
        """Paths of the files that came back."""
        found = storage.below(self.folder)
        return [path for path in found if path.removeprefix(f"{self.folder}/").startswith("results")]

    def keep(self, number: int, data: bytes) -> None:
        """Keeps a file that came back."""
        storage.write_bytes(storage.join(self.folder, f"results-{number}.jsonl"), data)


def batches(folder: str) -> list[Batch]:
    """The batches of an endpoint that have not ended, in order."""
    return [batch for batch in _all(folder) if batch.job["state"] != "ended"]


def handed(folder: str) -> set[str]:
    """The provider's ids of all batches of an endpoint."""
    return {batch.job["id"] for batch in _all(folder) if "id" in batch.job}


def gather(folder: str, line: Callable[[Call], bytes], most: int | None = None) -> int:
    """Brings open calls into batches, those left out that are in one already; returns the number of requests.

    Rows that ask the same are one request.

    Args:
        folder: The endpoint's.
        line: The provider's line for a call.
        most: Requests at most; the other calls stay open.
    """
    parts = storage.below(storage.join(folder, "open"))
    known = {call.key for batch in batches(folder) for call in batch.calls()} if parts else set()
    rows: dict[str, dict[str, None]] = {}
    for call in (call for part in parts for call in _calls(part)):
        if call.key not in known:
            rows.setdefault(call.key, {})[call.prefix] = None
    pile, count = _Pile(folder), 0
    for call in (call for part in parts for call in _calls(part)):
        prefixes = list(rows.pop(call.key, ()))
        if prefixes and (most is None or count < most):
            count += 1
            pile.add(call, prefixes, line(call))
    pile.close()
    storage.delete(parts)
    return count


class _Pile:
    """Requests on their way into batches."""

    def __init__(self, folder: str) -> None:
        self._folder, self._number = folder, len(_numbered(folder))
        self._requests: list[bytes] = []
        self._calls: list[bytes] = []
        self._bytes = 0

    def add(self, call: Call, prefixes: Sequence[str], line: bytes) -> None:
        if len(self._requests) >= MOST_REQUESTS or self._bytes + len(line) > MOST_BYTES:
            self.close()
        self._requests.append(line)
        self._bytes += len(line) + 1
        self._calls.append(_line(call, prefixes))

    def close(self) -> None:
        if not self._requests:
            return
        self._number += 1
        folder = storage.join(self._folder, f"{self._number:04}")
        storage.write_bytes(storage.join(folder, "calls.jsonl"), _joined(self._calls))
        storage.write_bytes(storage.join(folder, "requests.jsonl"), _joined(self._requests))  # with it, it is a batch
        self._requests, self._calls, self._bytes = [], [], 0


def _numbered(folder: str) -> list[str]:
    return [path for path in storage.below(folder) if path.endswith("/requests.jsonl")]


def _all(folder: str) -> list[Batch]:
    return [Batch(path.rpartition("/")[0]) for path in _numbered(folder)]


def _joined(lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"


def _line(call: Call, prefixes: Sequence[str]) -> bytes:
    return jsonable({"key": call.key, "prefixes": prefixes, "endpoint": call.endpoint, "request": call.request})


def _calls(path: str) -> Iterator[Call]:
    for line in storage.read_bytes(path).splitlines():
        found = orjson.loads(line)
        for prefix in found["prefixes"]:
            yield Call(found["key"], found["request"], prefix, found["endpoint"])

"""Calls that are submitted in batches instead of being made: stored as files, with a folder for each batch.

Layout below the folder of an endpoint:

- `open/part-<uuid>`: calls that workers have left open.
- `<number>/requests.jsonl`: a batch in the provider's format.
- `<number>/calls.jsonl`: the calls of these requests, in the same order.
- `<number>/job.json`: the state of the batch.
- `<number>/results*`: files, or folders of files, with results; written by us, by hand or by the provider.
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
"""Most requests of one batch, and their bytes: every supported provider accepts that many."""

_BUFFERED = 4 << 20
"""Bytes of open calls in memory before they are written."""
_HANDED = Outcome(
    kind="not_called", error_type="NotCalled", error_message="not called: handed over in a batch", attempts=0
)


@dataclass
class BatchOutbox:
    """Collects the calls of a bundle that are left to a batch.

    Attributes:
        folders: Folder of each endpoint whose calls are submitted in batches.
    """

    folders: Mapping[str, str]
    _lines: dict[str, list[bytes]] = field(default_factory=dict)
    _bytes: int = 0

    def take(self, call: Call) -> Outcome | None:
        """Leaves a call to a batch if those of its endpoint are; `None` if the call is to be made."""
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
        """Writes the calls taken so far; a call that is taken twice counts once."""
        for folder, lines in self._lines.items():
            storage.write_bytes(storage.join(folder, "open", f"part-{uuid.uuid4().hex}"), _join_lines(lines))
        self._lines, self._bytes = {}, 0


@dataclass(frozen=True)
class Batch:
    """A batch of requests.

    Attributes:
        folder: Folder of its files.
    """

    folder: str

    @property
    def job(self) -> dict[str, Any]:
        """Its state: `state` is "written", "submitting", "going" or "ended", and `id` is the provider's."""
        path = storage.join(self.folder, "job.json")
        return orjson.loads(storage.read_bytes(path)) if storage.exists(path) else {"state": "written"}

    def note(self, **job: Any) -> None:
        """Stores its state."""
        storage.write_whole(storage.join(self.folder, "job.json"), orjson.dumps(job))

    @property
    def requests(self) -> Requests:
        """Its requests in the provider's format."""
        return Requests(self.folder, storage.read_bytes(storage.join(self.folder, "requests.jsonl")))

    def calls(self) -> Iterator[Call]:
        """Yields its calls: one for each row that makes a request, in the order of the rows; requests are JSON."""
        yield from _calls(storage.join(self.folder, "calls.jsonl"))

    def size(self) -> int:
        """Counts its requests."""
        return len({call.key for call in self.calls()})

    def results(self) -> list[str]:
        """Lists the paths of its result files."""
        return [
            path for path in storage.below(self.folder) if path.removeprefix(f"{self.folder}/").startswith("results")
        ]

    def keep(self, number: int, data: bytes) -> None:
        """Stores a result file."""
        storage.write_bytes(storage.join(self.folder, f"results-{number}.jsonl"), data)


def batches(folder: str) -> list[Batch]:
    """Lists the batches of an endpoint that have not ended, in order."""
    return [batch for batch in _all(folder) if batch.job["state"] != "ended"]


def handed(folder: str) -> set[str]:
    """Returns the provider's ids of all batches of an endpoint."""
    return {batch.job["id"] for batch in _all(folder) if "id" in batch.job}


def gather(folder: str, line: Callable[[Call], bytes], most: int | None = None) -> int:
    """Puts open calls into batches, except those in a batch already; returns the number of requests.

    Rows that make the same request share it.

    Args:
        folder: Folder of the endpoint.
        line: Builds the provider's line of a call.
        most: Most requests; the other calls stay open.
    """
    parts = storage.below(storage.join(folder, "open"))
    known = {call.key for batch in batches(folder) for call in batch.calls()} if parts else set()
    rows: dict[str, dict[str, None]] = {}
    for call in (call for part in parts for call in _calls(part)):
        if call.key not in known:
            rows.setdefault(call.key, {})[call.prefix] = None
    writer, count = _BatchWriter(folder), 0
    for call in (call for part in parts for call in _calls(part)):
        prefixes = list(rows.pop(call.key, ()))
        if prefixes and (most is None or count < most):
            count += 1
            writer.add(call, prefixes, line(call))
    writer.close()
    storage.delete(parts)
    return count


class _BatchWriter:
    """Writes requests as batches of bounded size."""

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
        storage.write_bytes(storage.join(folder, "calls.jsonl"), _join_lines(self._calls))
        storage.write_bytes(
            storage.join(folder, "requests.jsonl"), _join_lines(self._requests)
        )  # last: this file makes the folder a batch
        self._requests, self._calls, self._bytes = [], [], 0


def _numbered(folder: str) -> list[str]:
    return [path for path in storage.below(folder) if path.endswith("/requests.jsonl")]


def _all(folder: str) -> list[Batch]:
    return [Batch(path.rpartition("/")[0]) for path in _numbered(folder)]


def _join_lines(lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"


def _line(call: Call, prefixes: Sequence[str]) -> bytes:
    return jsonable({"key": call.key, "prefixes": prefixes, "endpoint": call.endpoint, "request": call.request})


def _calls(path: str) -> Iterator[Call]:
    for line in storage.read_bytes(path).splitlines():
        stored = orjson.loads(line)
        for prefix in stored["prefixes"]:
            yield Call(stored["key"], stored["request"], prefix, stored["endpoint"])

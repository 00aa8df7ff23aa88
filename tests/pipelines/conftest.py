"""A REST interface as Flink's JobManager has it, for jobs that a test describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from json_server import JsonHandler, serving


@dataclass
class FakeFlink:
    """What the interface tells.

    Attributes:
        jobs: Job name to state.
        settings: The cluster's configuration.
        cancelled: Ids that were cancelled.
        taskmanagers, slots: What the cluster has.
        stacktrace: Why jobs failed.
    """

    jobs: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    taskmanagers: int = 2
    slots: int = 4
    stacktrace: str = ""
    url: str = ""

    def answer(self, method: str, path: str) -> Any:
        """What a request gets; `None` is HTTP 404."""
        if method == "PATCH":
            job = path.removeprefix("/jobs/").partition("?")[0]
            self.cancelled.append(job)
            self.jobs = {name: "CANCELED" if f"id-{name}" == job else state for name, state in self.jobs.items()}
            return {}
        vertices = [{"status": "FINISHED"}, {"status": "RUNNING"}, {"status": "FINISHED"}]
        known: dict[str, Any] = {
            "/config": {"flink-version": "1.20.5"},
            "/overview": {"slots-total": self.slots, "taskmanagers": self.taskmanagers},
            "/jobmanager/config": [{"key": k, "value": v} for k, v in self.settings.items()],
            "/jobs/overview": {
                "jobs": [{"jid": f"id-{n}", "name": n, "state": s, "start-time": 1} for n, s in self.jobs.items()]
            },
        }
        for name in self.jobs:
            entries = [{"stacktrace": self.stacktrace}] if self.stacktrace else []
            known[f"/jobs/id-{name}/exceptions"] = {"exceptionHistory": {"entries": entries}}
            known[f"/jobs/id-{name}"] = {"vertices": vertices}
        return known.get(path)


class _Handler(JsonHandler):
    def _ask(self) -> None:
        found = self.server.flink.answer(self.command, self.path)  # type: ignore[attr-defined]
        self.answer(found, 404 if found is None else 200)

    do_GET = do_PATCH = _ask


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    """A cluster without jobs."""
    found = FakeFlink()
    with serving(_Handler, flink=found) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        yield found

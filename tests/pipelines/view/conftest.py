"""Runs to look at, the server of `evalbeam view` on them, and a client that sends whatever it is told."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.view.server import ViewServer, listening
from evalbeam.pipelines.view.site import Site

HOSTILE = "</script><script>document.title='broken'</script>\u2028"


def make_rows(count: int, right: int = 2) -> list[dict[str, Any]]:
    """Rows of which every `right`-th answer is right, some calls fail, and some columns have gaps."""
    return [
        {
            "prompt": f"{HOSTILE if i == 3 else 'Question'} {i} of the {'Kitchen' if i % 3 else 'cellar'}",
            "reference": "yes it is",
            "response": "yes it is" if i % right == 0 else f"no {i}",
            "group": ["a", "b", None, "日本語"][i % 4],
            "weight": None if i % 5 == 0 else (i * 7919) % 101 / 10,
            "level": i % 3,
            "tags": {"kind": f"k{i % 7}"},
            "failure": i % 11 == 10,
            "latency_in_seconds": i / 100,
        }
        for i in range(count)
    ]


def make_run(output: Path, rows: list[dict[str, Any]], **given: Any) -> EvaluationResult:
    """A run with a criterion that some rows miss, and slices."""
    criteria = [{"metric": "exact_match", "min": 0.9}]
    metrics = ["exact_match", "rouge_l"]
    return evaluate(rows, metrics, output=str(output), slices=[["group"], ["level"]], criteria=criteria, **given)


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    """A run of several hundred rows in several files."""
    folder = tmp_path_factory.mktemp("view")
    return make_run(folder / "run", make_rows(330), output_options={"shards": 4})


@pytest.fixture(scope="session")
def make() -> Callable[..., EvaluationResult]:
    """Returns a function that makes a run over the same rows in a folder; `right`: every which answer is right."""
    return lambda folder, right=2, **given: make_run(folder, make_rows(330, right), **given)


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """What the JSON says."""
        return json.loads(self.body)


class Client(NamedTuple):
    """Speaks to a server below its token."""

    server: ViewServer

    def get(self, path: str = "", **given: Any) -> Answer:
        """Gets a path below the token."""
        return self.send("GET", f"/{self.server.token}/{path}", **given)

    def send(self, method: str, path: str, host: str | None = None) -> Answer:
        """Sends a request, whose path is sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        connection.putrequest(method, path, skip_host=True)
        if host != "":
            connection.putheader("Host", host or f"127.0.0.1:{self.server.server_port}")
        connection.endheaders()
        answer = connection.getresponse()
        found = Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        connection.close()
        return found


@pytest.fixture
def view(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Returns a function that serves folders and returns a client."""
    running: list[tuple[Any, ViewServer, threading.Thread]] = []

    def start(*folders: str) -> Client:
        copies = tmp_path / f"copies-{len(running)}"
        copies.mkdir()
        site = Site(str(copies))
        site.open(*folders)
        context = listening(site)
        server = context.__enter__()
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        running.append((context, server, thread))
        return Client(server)

    yield start
    for context, server, thread in running:
        server.shutdown()
        thread.join()
        context.__exit__(None, None, None)

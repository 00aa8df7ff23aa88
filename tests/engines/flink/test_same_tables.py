"""Every engine writes the same tables, byte for byte: of an agent on its workers, of one behind HTTP, of recorded
answers, and of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agent_server
import pytest

pytestmark = pytest.mark.engines

CLUSTER = [f"{slots}, {submission}" for slots in ("one", "two", "four") for submission in ("uber_jar", "job_server")]
ENGINES = ["two processes", "prism", "embedded", *CLUSTER]
SLOTS = {"one": 1, "two": 2, "four": 4}
ROWS, MANY = 4000, 20_000


def options(bench: Any, cluster: Any, name: str) -> list[str]:
    """The options that choose an engine."""
    if name in CLUSTER:
        slots, submission = name.split(", ")
        return bench.on(cluster, f"--parallelism={SLOTS[slots]}", f"--flink_submission={submission}")
    return {
        "two processes": ["--workers=2"],
        "prism": ["--runner=PrismRunner", f"--prism_location={bench.installed / 'prism' / 'prism'}"],
        "embedded": [*bench.embedded(), "--parallelism=2"],
    }[name]


def usable(rows: int) -> int:
    """How many of a dataset's rows are none to reject."""
    return rows - 2 * rows // 1000


@pytest.fixture(scope="module")
def live(new_bench: Any) -> Any:
    """A run of an agent on the local engine, each row twice."""
    bench = new_bench("live")
    bench.write(ROWS, 0.004, trials=2)
    bench.run("local")
    return bench, bench.tables("local"), sorted(bench.calls())


@pytest.mark.parametrize("name", ["embedded", "two, job_server", "four, uber_jar"])
def test_an_agent(name: str, live: Any, cluster: Any) -> None:
    bench, expected, calls = live
    assert len(calls) == 2 * usable(ROWS)
    bench.forget_calls()
    bench.run(name, *options(bench, cluster, name))
    assert bench.tables(name) == expected
    assert sorted(bench.calls()) == calls


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of an agent."""
    with agent_server.serving() as found:
        yield found


class Http:
    """Runs of an agent behind HTTP, each row twice, that are compared with one on the local engine."""

    def __init__(self, bench: Any, url: str, rows: int) -> None:
        self.bench, self.url, self.rows = bench, url, rows
        bench.write(rows, 0, agent={"target": url, "max_in_flight": 64}, trials=2)
        self.expected = self.run("local")

    def run(self, name: str, *options: str) -> dict[str, bytes]:
        """Runs it; returns the tables. Every row was asked once for each trial."""
        agent_server.counted(self.url, "DELETE")
        self.bench.run(name, *options)
        assert agent_server.counted(self.url) == dict.fromkeys(("calls", "rows"), 2 * usable(self.rows))
        return self.bench.tables(name)


@pytest.fixture(scope="module")
def http(new_bench: Any, url: str) -> Http:
    """On the local engine."""
    return Http(new_bench("http"), url, ROWS)


@pytest.mark.parametrize("name", ["two processes", "prism", "one, uber_jar"])
def test_an_agent_behind_http(name: str, http: Http, cluster: Any) -> None:
    assert http.run(name, *options(http.bench, cluster, name)) == http.expected


@pytest.fixture(scope="module")
def http_of_many(new_bench: Any, url: str) -> Http:
    """Of more rows, on the local engine."""
    return Http(new_bench("many"), url, MANY)


@pytest.mark.matrix
@pytest.mark.parametrize("name", ENGINES)
def test_many_rows_and_an_agent_behind_http(name: str, http_of_many: Http, cluster: Any) -> None:
    http = http_of_many
    assert http.run(name, *options(http.bench, cluster, name)) == http.expected


@pytest.fixture(scope="module")
def recorded(new_bench: Any) -> Any:
    """A run over recorded answers, in four files."""
    bench = new_bench("recorded")
    bench.write(MANY, 0, recorded=True, trials=2, output={"shards": 4})
    bench.run("local")
    return bench, bench.tables("local")


def everywhere(some: tuple[str, ...]) -> list[Any]:
    """All engines; those that are not among some are left to the matrix."""
    return [name if name in some else pytest.param(name, marks=pytest.mark.matrix) for name in ENGINES]


@pytest.mark.parametrize("name", everywhere(("two processes", "prism", "four, uber_jar")))
def test_recorded_answers(name: str, recorded: Any, cluster: Any) -> None:
    bench, expected = recorded
    assert len(expected) == 4 + 2
    bench.run(name, *options(bench, cluster, name))
    assert bench.tables(name) == expected


@pytest.fixture(scope="module")
def demo(new_bench: Any) -> Any:
    """A run of the demo."""
    bench = new_bench("demo")
    bench.run_demo("local")
    return bench, bench.tables("local")


@pytest.mark.parametrize("name", everywhere(("prism", "embedded", "two, job_server")))
def test_the_demo(name: str, demo: Any, cluster: Any) -> None:
    bench, expected = demo
    bench.run_demo(name, *options(bench, cluster, name))
    assert bench.tables(name) == expected

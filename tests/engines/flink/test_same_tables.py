"""Every engine writes the same tables, byte for byte: answers of an agent on its workers, and recorded ones."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.engines

ENGINES = ("two processes", "prism", "embedded", "one slot", "two slots, job server", "four slots")


def options(bench: Any, cluster: Any, name: str) -> list[str]:
    """The options that choose an engine."""
    return {
        "two processes": ["--workers=2"],
        "prism": ["--runner=PrismRunner", f"--prism_location={bench.installed / 'prism' / 'prism'}"],
        "embedded": [*bench.embedded(), "--parallelism=2"],
        "one slot": bench.on(cluster, "--parallelism=1"),
        "two slots, job server": bench.on(cluster, "--parallelism=2", "--flink_submission=job_server"),
        "four slots": bench.on(cluster),
    }[name]


@pytest.fixture(scope="module")
def live(new_bench: Any) -> Any:
    """A run of an agent on the local engine, each row twice."""
    bench = new_bench("live")
    bench.write(4000, 0.004, trials=2)
    bench.run("local")
    return bench, bench.tables("local"), sorted(bench.calls())


@pytest.fixture(scope="module")
def recorded(new_bench: Any) -> Any:
    """A run over recorded answers, in four files."""
    bench = new_bench("recorded")
    bench.write(20_000, 0, recorded=True, trials=2, output={"shards": 4})
    bench.run("local")
    return bench, bench.tables("local")


@pytest.mark.parametrize("name", ENGINES)
def test_an_agent(name: str, live: Any, cluster: Any) -> None:
    bench, expected, calls = live
    assert len(calls) == 2 * (4000 - 8)
    bench.forget_calls()
    bench.run(name, *options(bench, cluster, name))
    assert bench.tables(name) == expected
    assert sorted(bench.calls()) == calls


@pytest.mark.parametrize("name", ["two processes", "prism", "four slots"])
def test_recorded_answers(name: str, recorded: Any, cluster: Any) -> None:
    bench, expected = recorded
    assert len(expected) == 4 + 2
    bench.run(name, *options(bench, cluster, name))
    assert bench.tables(name) == expected

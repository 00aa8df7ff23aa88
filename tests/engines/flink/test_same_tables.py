"""Every engine writes the same tables, byte for byte: answers of an agent on its workers, and recorded ones."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.engines


def engines(bench: Any, cluster: Any) -> dict[str, list[str]]:
    """Options by what they choose."""
    prism = bench.installed / "prism" / "prism"
    return {
        "two processes": ["--workers=2"],
        "prism": ["--runner=PrismRunner", f"--prism_location={prism}"],
        "embedded": [*bench.embedded(), "--parallelism=2"],
        "one": bench.on(cluster, "--parallelism=1"),
        "two": bench.on(cluster, "--parallelism=2", "--flink_submission=job_server"),
        "four": bench.on(cluster),
    }


def test_an_agent_on_every_engine(bench: Any, cluster: Any) -> None:
    bench.write(4000, 0.004, trials=2)
    bench.run("local")
    expected, calls = bench.tables("local"), sorted(bench.calls())
    assert len(calls) == 2 * (4000 - 8)
    for name, options in engines(bench, cluster).items():
        bench.forget_calls()
        bench.run(name, *options)
        assert bench.tables(name) == expected, name
        assert sorted(bench.calls()) == calls, name


def test_recorded_answers_on_every_engine(bench: Any, cluster: Any) -> None:
    bench.write(20_000, 0, recorded=True, trials=2, output={"shards": 4})
    bench.run("local")
    expected = bench.tables("local")
    assert len(expected) == 4 + 2
    for name, options in engines(bench, cluster).items():
        bench.run(name, *options)
        assert bench.tables(name) == expected, name
    assert bench.calls() == []

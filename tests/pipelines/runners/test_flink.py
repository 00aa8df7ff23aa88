"""A Flink cluster seen through its REST interface: what is asked, and what its answers mean."""

from __future__ import annotations

import pytest

from evalbeam.pipelines.runners.drive import follow
from evalbeam.pipelines.runners.flink import FlinkCluster, Unreachable
from evalbeam.pipelines.runners.jobs import PATIENCE
from evalbeam.schemas.errors import RunError

JAVA = "java.lang.RuntimeException: {}\n\tat Foo.bar(Foo.java)\nCaused by: java.io.IOException: {}\n\t... 3 more"
PYTHON = """\
org.apache.flink.util.Exception: wrapped
\tat Foo.bar(Foo.java)
Caused by: java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
  File "worker.py", line 3, in run
    raise ConfigError("x")
evalbeam.schemas.errors.ConfigError: agent.target: cannot import 'my_agent'

\tat Foo.baz(Foo.java)
"""


class Clock:
    """Time that passes only where somebody sleeps; `then` happens at each sleep."""

    def __init__(self, *then) -> None:
        self.now, self.then = 0.0, list(then)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.then:
            self.then.pop(0)()


def test_what_a_cluster_says_of_itself_and_its_jobs(flink) -> None:
    flink.jobs, flink.settings = {"a": "RUNNING", "b": "FINISHED"}, {"restart-strategy.type": "fixed-delay"}
    cluster = FlinkCluster(flink.url.removeprefix("http://"))
    assert (cluster.version(), cluster.slots(), cluster.taskmanagers()) == ("1.20.5", 4, 2)
    assert cluster.settings() == flink.settings
    running, finished = cluster.job("a"), cluster.job("b")
    assert running is not None
    assert finished is not None
    assert (running.id, running.ended, finished.ended, cluster.job("c")) == ("id-a", False, True, None)
    assert cluster.stages("id-a") == {"FINISHED": 2, "RUNNING": 1}


def test_stopping_a_job_cancels_it_and_waits_until_it_is_over(flink) -> None:
    flink.jobs = {"a": "RUNNING", "b": "FINISHED"}
    cluster, clock = FlinkCluster(flink.url), Clock()
    for name in ("a", "b", "never"):
        cluster.stop(name, clock.sleep)
    assert flink.cancelled == ["id-a"]
    assert flink.jobs["a"] == "CANCELED"


def test_a_cluster_that_is_not_there_is_named() -> None:
    with pytest.raises(Unreachable, match=r"no Flink cluster answers at http://127\.0\.0\.1:9"):
        FlinkCluster("127.0.0.1:9").slots()


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        ("", ""),
        (JAVA.format("outer", "inner"), "java.io.IOException: inner"),
        ("java.lang.RuntimeException: only\n\tat Foo.bar", "java.lang.RuntimeException: only"),
        (PYTHON, "evalbeam.schemas.errors.ConfigError: agent.target: cannot import 'my_agent'"),
    ],
)
def test_the_innermost_cause_is_told(flink, trace: str, cause: str) -> None:
    flink.jobs, flink.stacktrace = {"a": "FAILED"}, trace
    assert FlinkCluster(flink.url).cause("id-a") == cause


def test_a_job_is_followed_from_its_arrival_to_its_end(flink) -> None:
    clock = Clock(lambda: flink.jobs.update(a="RUNNING"), lambda: flink.jobs.update(a="FINISHED"))
    follow(FlinkCluster(flink.url), "a", clock=clock, sleep=clock.sleep)
    assert clock.now == 2


def test_a_job_that_ends_badly_is_an_error_with_its_cause(flink) -> None:
    flink.stacktrace = JAVA.format("outer", "no space left")
    for state, words in (("FAILED", "failed on the Flink cluster .*no space left"), ("CANCELED", "was cancelled on")):
        flink.jobs = {"a": state}
        with pytest.raises(RunError, match=words):
            follow(FlinkCluster(flink.url), "a")


def test_a_job_that_is_lost_never_arrives_or_takes_too_long_is_an_error(flink) -> None:
    cluster = FlinkCluster(flink.url)
    clock = Clock(lambda: flink.jobs.update(a="RUNNING"), flink.jobs.clear)
    with pytest.raises(RunError, match="has lost the job a"):
        follow(cluster, "a", clock=clock, sleep=clock.sleep)
    clock = Clock()
    with pytest.raises(RunError, match="has not arrived at the Flink cluster"):
        follow(cluster, "a", clock=clock, sleep=clock.sleep)
    assert PATIENCE < clock.now < PATIENCE + 3
    flink.jobs, clock = {"a": "RUNNING"}, Clock()
    with pytest.raises(RunError, match="stopped after 60 seconds"):
        follow(cluster, "a", 60, clock=clock, sleep=clock.sleep)


def test_a_cluster_may_be_away_for_a_while(flink) -> None:
    flink.jobs = {"a": "RUNNING"}
    cluster, there = FlinkCluster(flink.url), flink.url
    away = [lambda: setattr(cluster, "url", "http://127.0.0.1:9")] + [lambda: None] * 100
    clock = Clock(*away, lambda: (setattr(cluster, "url", there), flink.jobs.update(a="FINISHED")))
    follow(cluster, "a", clock=clock, sleep=clock.sleep)
    assert clock.now == 102


def test_a_job_server_that_refuses_is_heard_while_the_job_has_not_arrived(flink) -> None:
    def refused() -> None:
        raise RuntimeError("Failed to deserialize JobGraph")

    with pytest.raises(RuntimeError, match="JobGraph"):
        follow(FlinkCluster(flink.url), "a", refused=refused)

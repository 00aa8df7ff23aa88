"""Sending: tried again for a bounded time, never raised, and told without secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.pipelines.sinks.base import FinishedRun, SinkError, TryLater
from evalbeam.pipelines.sinks.send import MOST_ATTEMPTS, PATIENCE, Clock, describe, send_all, sinks_of
from evalbeam.schemas.config.storage import OutputConfig
from evalbeam.schemas.errors import ConfigError


@dataclass
class Scripted:
    """A sink that fails as it is told, then succeeds."""

    failures: list[BaseException]
    name: str = "scripted"
    sent: int = 0

    def require(self) -> None:
        pass

    def send(self, run: FinishedRun) -> dict[str, Any]:
        if self.failures:
            raise self.failures.pop(0)
        self.sent += 1
        return {"address": "there"}


@dataclass
class Time:
    """A time that passes only when somebody sleeps."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def send(sink: Scripted, run: FinishedRun, time: Time) -> tuple[dict[str, Any], list[str]]:
    told: list[str] = []
    return send_all(run, [sink], told.append, time.clock)["scripted"], told


def test_what_may_pass_is_tried_again_after_growing_waits(run: FinishedRun) -> None:
    time, sink = Time(), Scripted([OSError("down"), OSError("down")])
    outcome, told = send(sink, run, time)
    assert outcome == {"state": "sent", "attempts": 3, "address": "there"}
    assert (time.slept, told) == ([1.0, 2.0], [])


def test_it_gives_up_after_the_last_attempt_with_one_line(run: FinishedRun) -> None:
    time, sink = Time(), Scripted([OSError("down\nagain") for _ in range(9)])
    outcome, (line,) = send(sink, run, time)
    assert outcome == {"state": "failed", "attempts": MOST_ATTEMPTS, "reason": "OSError: down again"}
    assert line.startswith("output.scripted: the run was not sent: OSError: down again; `evalbeam publish ")
    assert sum(time.slept) <= PATIENCE


@pytest.mark.parametrize("error", [SinkError("no"), ConfigError("no")])
def test_a_refusal_is_not_tried_again(run: FinishedRun, error: Exception) -> None:
    time = Time()
    outcome, _ = send(Scripted([error]), run, time)
    assert (outcome["attempts"], outcome["reason"], time.slept) == (1, "no", [])


def test_a_service_may_ask_to_wait_but_not_for_ever(run: FinishedRun) -> None:
    time = Time()
    outcome, _ = send(Scripted([TryLater("busy", 20.0)]), run, time)
    assert (outcome["state"], time.slept) == ("sent", [20.0])
    time = Time()
    outcome, _ = send(Scripted([TryLater("busy", PATIENCE + 1)]), run, time)
    assert (outcome["state"], time.slept) == ("failed", [])


def test_ctrl_c_ends_a_sink_and_not_the_run(run: FinishedRun) -> None:
    outcome, _ = send(Scripted([KeyboardInterrupt()]), run, Time())
    assert outcome["reason"] == "stopped by Ctrl-C"


def test_a_sink_that_fails_does_not_keep_others_from_their_run(run: FinishedRun) -> None:
    bad, good = Scripted([SinkError("no")], "bad"), Scripted([], "good")
    found = send_all(run, [bad, good], lambda _: None, Time().clock)
    assert (found["bad"]["state"], found["good"]["state"], good.sent) == ("failed", "sent", 1)


def test_sinks_are_those_of_the_configuration() -> None:
    assert sinks_of(OutputConfig()) == []
    place = {"project": "p", "experiment": "e"}
    output = OutputConfig.model_validate({"otel": True, "mlflow": {"experiment": "e"}, "vertex_experiment": place})
    assert [sink.name for sink in sinks_of(output)] == ["mlflow", "otel", "vertex_experiment"]
    assert {sink.name for sink in sinks_of(output)} <= set(OutputConfig.model_fields)


@given(st.text("abcxyz0189", min_size=6, max_size=20), st.sampled_from(["MLFLOW_TRACKING_TOKEN", "DB_PASSWORD"]))
def test_secrets_of_the_environment_are_never_told(secret: str, variable: str) -> None:
    shown = describe(f"401 for {secret} at http://me:{secret}@host/x?token={secret}&n=1", {variable: secret})
    assert secret not in shown
    assert "host/x" in shown


def test_headers_are_hidden_one_by_one() -> None:
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hunter2,x=letmein"}
    shown = describe("sent 'Bearer hunter2' and letmein", environ)
    assert shown == "sent '***' and ***"

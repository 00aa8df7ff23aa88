"""Publishing: after the tables are there, as often as asked, and without any effect on how a run ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from json_server import JsonHandler, serving

from evalbeam import ConfigError, EvaluationConfig, EvaluationResult, evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.run import publish as publishing
from evalbeam.pipelines.run.publish import publish
from evalbeam.pipelines.runners import lease
from evalbeam.pipelines.sinks import send
from evalbeam.pipelines.sinks.send import Clock

ROWS = [{"prompt": f"q {i}", "reference": "yes", "response": "yes"} for i in range(4)]


class _Handler(JsonHandler):
    def do_POST(self) -> None:
        folder: Path | None = self.server.folder  # type: ignore[attr-defined]
        there = folder is not None and (folder / "manifest.json").exists()
        self.server.seen.append((self.body(), there))  # type: ignore[attr-defined]
        self.answer({}, self.server.status)  # type: ignore[attr-defined]


@pytest.fixture
def collector() -> Iterator[Any]:
    """A fake of an OpenTelemetry collector; `seen` holds the bodies, and whether the run was published by then."""
    with serving(_Handler, seen=[], status=200, folder=None) as server:
        server.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        yield server


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(send, "Clock", lambda: Clock(lambda: 0.0, lambda _: None))
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))


def start(url: str, *options: str) -> int:
    given = ["--dataset", "rows.jsonl", "--metrics", "exact_match", "--output", "out"]
    return main(["run", *given, "--set", f"output.otel={{endpoint: '{url}'}}", *options])


def run_ids(server: Any) -> list[str]:
    """The run that each request was of."""
    text = [json.dumps(body) for body, _ in server.seen]
    return [one.partition('"key": "run", "value": {"stringValue": "')[2].partition('"')[0] for one in text]


def test_a_run_is_sent_once_its_tables_are_there(collector: Any, tmp_path: Path) -> None:
    collector.folder = tmp_path / "out"
    assert start(collector.url) == 0
    ((_, there),) = collector.seen
    assert there
    manifest = EvaluationResult.load("out").manifest
    sent = {"state": "sent", "attempts": 1, "address": f"{collector.url}/v1/metrics"}
    assert manifest["sinks"] == {"otel": sent}


def test_a_sink_that_fails_is_one_warning_and_the_run_ends_as_it_would(
    collector: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    collector.status = 500
    assert start(collector.url) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(warned) == 1
    assert warned[0].startswith("evalbeam: warning: output.otel: the run was not sent: HTTP 500 of ")
    outcome = EvaluationResult.load("out").manifest["sinks"]["otel"]
    assert (outcome["state"], outcome["attempts"]) == ("failed", send.MOST_ATTEMPTS)
    assert start(collector.url, "--overwrite", "--set", "criteria={exact_match: {max: 0.5}}") == 1


def test_no_mistake_of_ours_loses_a_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def break_down(*_: Any) -> Any:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(publishing, "send_all", break_down)
    assert start("http://localhost:1") == 0
    assert "the run was not published: RuntimeError: no such thing" in capsys.readouterr().err
    assert EvaluationResult.load("out").state == "finished"


def test_publish_sends_a_run_again_under_its_own_name(collector: Any, capsys: pytest.CaptureFixture[str]) -> None:
    collector.status = 503
    assert start(collector.url) == 0
    tables = {p: p.read_bytes() for p in Path("out").rglob("*.parquet")}
    capsys.readouterr()
    assert main(["publish", "out"]) == 3
    collector.status = 200
    assert main(["publish", "out"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"otel: sent (address {collector.url}/v1/metrics)"
    assert len(set(run_ids(collector))) == 1
    assert EvaluationResult.load("out").manifest["sinks"]["otel"]["state"] == "sent"
    assert {p: p.read_bytes() for p in Path("out").rglob("*.parquet")} == tables


def test_a_rescored_run_keeps_its_name_and_an_overwritten_one_gets_another(collector: Any) -> None:
    assert start(collector.url) == 0
    assert main(["rescore", "out", "--set", "metrics=[rouge_l]"]) == 0
    assert start(collector.url, "--overwrite") == 0
    first, rescored, overwritten = run_ids(collector)
    assert first == rescored != overwritten


def test_an_earlier_run_can_be_sent_to_a_sink_of_today(collector: Any) -> None:
    assert main(["run", "--dataset", "rows.jsonl", "--metrics", "exact_match", "--output", "out"]) == 0
    Path("sinks.yaml").write_text(json.dumps({"dataset": {"path": "x"}, "metrics": ["bleu"]}))
    given = ["publish", "out", "sinks.yaml", "--set", f"output.otel.endpoint={collector.url}"]
    assert main(given) == 0
    assert len(collector.seen) == 1


def test_what_cannot_be_published_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--dataset", "rows.jsonl", "--metrics", "exact_match", "--output", "out"]) == 0
    assert main(["publish", "out"]) == 2
    assert "publish: no sink is named (allowed: output.mlflow, output.otel or " in capsys.readouterr().err
    assert main(["publish", "nowhere", "--set", "output.otel=true"]) == 2
    Path("out/manifest.json").write_text(json.dumps({"state": "stopped", "config": {}}))
    capsys.readouterr()
    Path("sinks.yaml").write_text(json.dumps({"dataset": {"path": "x"}, "metrics": ["bleu"]}))
    assert main(["publish", "out", "sinks.yaml", "--set", "output.otel=true"]) == 2
    assert "publish: the run at 'out' is stopped (allowed: a finished run)" in capsys.readouterr().err


def test_only_finished_runs_are_sent(collector: Any) -> None:
    given = {"output_options": {"otel": {"endpoint": collector.url}}}
    result = evaluate(ROWS, ["exact_match"], output="out", **given)  # type: ignore[arg-type]
    assert result.manifest["sinks"]["otel"]["state"] == "sent"
    stopped = EvaluationResult("out", {**result.manifest, "state": "stopped"})
    assert publish(stopped) is stopped
    assert len(collector.seen) == 1


def test_a_manifest_of_another_run_is_left_alone(collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["run", "--dataset", "rows.jsonl", "--metrics", "exact_match", "--output", "out"]) == 0
    result = EvaluationResult.load("out")
    other = json.dumps({**result.manifest, "measured": {"started": 1.0}})
    Path("out/manifest.json").write_text(other)
    output = EvaluationConfig.parse(
        {"dataset": {"path": "x"}, "metrics": ["bleu"], "output": {"otel": {"endpoint": collector.url}}}
    ).output
    assert publish(result, output) is result
    assert Path("out/manifest.json").read_text() == other
    assert len(collector.seen) == 1


def test_a_missing_package_is_told_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from evalbeam.transforms import registry

    monkeypatch.setattr(registry, "has_module", lambda name: name != "mlflow")
    with pytest.raises(ConfigError, match=r"output.mlflow: .*pip install 'evalbeam\[mlflow\]'"):
        evaluate(ROWS, ["exact_match"], output_options={"mlflow": {"experiment": "e"}})


def test_a_run_that_nobody_waited_for_is_sent_by_wait(collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert start(collector.url) == 0
    collector.seen.clear()
    manifest = json.loads(Path("out/manifest.json").read_text())
    Path("out/report.html").unlink()
    del manifest["sinks"]
    Path("out/manifest.json").write_text(json.dumps(manifest))
    assert main(["wait", "out"]) == 0
    assert not collector.seen  # the process that started it gave its lease back, and publishes itself
    left = lease.latest("out")
    assert left is not None
    monkeypatch.setattr(lease, "latest", lambda _: replace(left, released=False))
    monkeypatch.setattr(lease.Holder, "state", lambda _: "gone")
    for _ in range(2):
        assert main(["wait", "out"]) == 0
    assert len(collector.seen) == 1
    assert Path("out/report.html").exists()

"""Runs in a real tracking server: its interface gives back what was sent, and its pages show it in a browser."""

from __future__ import annotations

import json
import re
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from evalbeam import EvaluationResult
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.sinks import send
from evalbeam.pipelines.sinks.send import Clock

pytestmark = pytest.mark.engines

ROWS: list[dict[str, Any]] = [
    {
        "prompt": f"question {i}",
        "reference": "yes",
        "response": "no" if i % 4 == 0 else "yes",
        "failure": i == 5,
        "predicted_trajectory": [{"tool_name": "open", "tool_input": {"door": i}}],
    }
    for i in range(12)
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    with warnings.catch_warnings():  # of MLflow's client
        warnings.simplefilter("ignore")
        yield tmp_path


def start(server: str, experiment: str, *options: str) -> EvaluationResult:
    """Runs and publishes; gives the result."""
    sink = f"output.mlflow={{tracking_uri: '{server}', experiment: {experiment}, run_name: nightly}}"
    given = ["--dataset", "rows.jsonl", "--metrics", "exact_match,rouge_l", "--output", "out", "--set", sink]
    assert main(["run", *given, *options]) == 0
    result = EvaluationResult.load("out")
    assert result.manifest["sinks"]["mlflow"]["state"] == "sent"
    return result


def ask(server: str, path: str, **body: Any) -> Any:
    """What the server's REST interface answers."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{server}/api/{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def runs(server: str, result: EvaluationResult) -> list[Any]:
    sent = result.manifest["sinks"]["mlflow"]
    return ask(server, "2.0/mlflow/runs/search", experiment_ids=[sent["experiment_id"]])["runs"]


def traces(server: str, result: EvaluationResult) -> list[Any]:
    sent = result.manifest["sinks"]["mlflow"]
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": sent["experiment_id"]}}
    return ask(server, "3.0/mlflow/traces/search", locations=[place], max_results=100)["traces"]


def words(dom: str) -> str:
    """The text of a document, without scripts and style."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", dom, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_the_server_gives_back_what_was_sent(server: str) -> None:
    result = start(server, "given-back")
    (found,) = runs(server, result)
    metrics = {m["key"]: m["value"] for m in found["data"]["metrics"]}
    (row,) = [r for r in result.summary_table.to_dict("records") if (r["metric"], r["slice"]) == ("exact_match", {})]
    for name in ("mean", "ci_low", "ci_high"):
        assert metrics[f"exact_match/{name}"] == pytest.approx(row[name])
    assert (found["info"]["run_name"], found["info"]["status"]) == ("nightly", "FINISHED")
    sent = {t["client_request_id"]: t for t in traces(server, result)}
    table = {r["instance_id"]: r for r in result.metrics_table.to_dict("records")}
    assert {*sent} == {*table}
    for own, trace in sent.items():
        scores = {a["assessment_name"]: a["feedback"]["value"] for a in trace["assessments"] if "feedback" in a}
        wanted = {} if table[own]["failure"] else {m: table[own][f"{m}/score"] for m in ("exact_match", "rouge_l")}
        assert scores == pytest.approx(wanted)
        assert trace["state"] == ("ERROR" if table[own]["failure"] else "OK")


def test_however_often_it_is_published_it_is_one_run(server: str) -> None:
    result = start(server, "once")
    before = [t["trace_id"] for t in traces(server, result)]
    assert main(["publish", "out"]) == 0
    assert main(["rescore", "out", "--set", "metrics=[exact_match]", "--set", "criteria={exact_match: 0.5}"]) == 0
    (found,) = runs(server, result)
    tags = {t["key"]: t["value"] for t in found["data"]["tags"]}
    assert tags["evalbeam.verdict"] == "PASSED"
    after = traces(server, result)
    assert sorted(t["trace_id"] for t in after) == sorted(before)
    named = {a["assessment_name"] for t in after for a in t["assessments"]}
    assert named == {"exact_match", "expected_response"}
    assert len(runs(server, start(server, "once", "--overwrite"))) == 2


def test_another_experiment_has_the_run_as_well(server: str) -> None:
    first = start(server, "first")
    before = {t["trace_id"] for t in traces(server, first)}
    assert main(["publish", "out", "--set", "output.mlflow.experiment=second"]) == 0
    second = EvaluationResult.load("out")
    after = {t["trace_id"] for t in traces(server, second)}
    assert len(before) == len(after) == len(ROWS)
    assert {t["trace_id"] for t in traces(server, first)} == before
    assert not before & after


def test_a_server_that_is_gone_changes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "Clock", lambda: Clock(lambda: 0.0, lambda _: None))
    sink = "output.mlflow={tracking_uri: 'http://127.0.0.1:9', experiment: bot}"
    given = ["--dataset", "rows.jsonl", "--metrics", "exact_match", "--output", "out", "--set", sink]
    assert main(["run", *given]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "output.mlflow" in line]
    assert len(warned) == 1


def test_the_pages_show_metrics_and_rows(server: str, look: Callable[[str], str]) -> None:
    result = start(server, "shown")
    sent = result.manifest["sinks"]["mlflow"]
    page = f"{server}/#/experiments/{sent['experiment_id']}"
    overview = words(look(f"{page}/runs/{sent['run_id']}"))
    for row in result.summary_table.to_dict("records"):
        if row["metric"] in ("exact_match", "rouge_l"):
            for name in ("mean", "ci_low", "ci_high"):
                assert f"{row['metric']}/{name} {row[name]!r} " in overview
    assert "evalbeam.dataset_fingerprint" in overview
    evaluation = words(look(f"{page}/runs/{sent['run_id']}/traces"))
    assert "12 of 12" in evaluation
    assert all(f"question {i}" in evaluation for i in range(12))
    assert "Expected output" in evaluation
    listed = words(look(f"{page}/evaluation-runs"))
    assert "nightly" in listed
    assert "rows.jsonl" in listed

"""MLflow: its own client writes a store of files and reads it back; tests/engines/mlflow has a server."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.sinks.base import FinishedRun, SinkError
from evalbeam.pipelines.sinks.mlflow import MlflowSink, name_all
from evalbeam.schemas.config.sinks import MlflowConfig
from evalbeam.transforms.io import storage

from .conftest import METRICS, ROWS, view


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A store of files, which MLflow asks to be allowed; its client warns of many things."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield f"file://{tmp_path / 'store'}"


def make_sink(store: str, **keys: Any) -> MlflowSink:
    return MlflowSink(MlflowConfig(tracking_uri=store, experiment="bot", **keys))


def read(store: str) -> tuple[Any, Any, list[Any]]:
    """(client, its only run, the traces of the run)."""
    from mlflow import MlflowClient

    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("bot")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    traces = client.search_traces(locations=[experiment.experiment_id], run_id=found.info.run_id, max_results=100)
    return client, found, list(traces)


def test_metrics_are_the_summary_with_its_intervals(run: FinishedRun, store: str) -> None:
    make_sink(store).send(run)
    _, found, _ = read(store)
    named = {"mean": "mean", "ci_low": "ci_low", "ci_high": "ci_high", "n": "scored_count", "failures": "error_count"}
    rows = {(row["metric"], name): row[column] for row in run.whole for name, column in named.items()}
    assert found.data.metrics == {f"{m}/{n}": value for (m, n), value in rows.items() if value is not None}
    assert len(found.data.metrics) >= 5 * len(METRICS)


def test_params_and_tags_say_what_ran(run: FinishedRun, store: str) -> None:
    make_sink(store, run_name="nightly").send(run)
    _, found, _ = read(store)
    params, tags = found.data.params, found.data.tags
    assert (params["agent"], params["evalbeam.version"]) == ("recorded", run.version)
    assert (params["dataset.path"], params["metrics.1.metric"]) == (run.config["dataset"]["path"], "rouge_l")
    assert (tags["evalbeam.run_id"], tags["evalbeam.folder"]) == (run.run_id, run.output)
    assert (tags["evalbeam.verdict"], found.info.run_name, found.info.status) == ("PASSED", "nightly", "FINISHED")
    assert len(params["evalbeam.dataset_fingerprint"]) == 16


def test_the_fingerprint_is_the_datasets(tmp_path: Path, store: str) -> None:
    def fingerprint(rows: list[dict[str, Any]], folder: str, **given: Any) -> str:
        result = evaluate(rows, ["exact_match"], output=tmp_path / folder, **given)
        own = MlflowSink(MlflowConfig(tracking_uri=f"{store}-{folder}", experiment="bot"))
        own.send(view(result))
        return read(f"{store}-{folder}")[1].data.params["evalbeam.dataset_fingerprint"]

    first = fingerprint(ROWS, "a")
    assert fingerprint(ROWS[::-1], "b", shards=4, output_options={"format": "csv"}) == first
    assert fingerprint(ROWS[1:], "c") != first


def test_artifacts_are_the_runs_own_files(result: EvaluationResult, run: FinishedRun, store: str) -> None:
    make_sink(store).send(run)
    client, found, _ = read(store)
    files = [name for table in result.manifest["tables"].values() for name in table["files"]]
    assert any(name.startswith("instances/") for name in files)
    for name in files:
        copy = client.download_artifacts(found.info.run_id, f"tables/{name}")
        assert Path(copy).read_bytes() == storage.read_bytes(storage.join(result.output, name))


def test_rows_are_traces_with_their_scores(result: EvaluationResult, run: FinishedRun, store: str) -> None:
    make_sink(store).send(run)
    _, found, traces = read(store)
    table = {row["instance_id"]: row for row in result.metrics_table.to_dict("records")}
    assert {t.info.client_request_id for t in traces} == set(table)
    for trace in traces:
        row = table[trace.info.client_request_id]
        said = {a.name: a for a in trace.info.assessments}
        scores = {m: row[f"{m}/score"] for m in METRICS if not math.isnan(row[f"{m}/score"])}
        assert {name: a.value for name, a in said.items() if name in METRICS} == scores
        assert said["expected_response"].value == row["reference"]
        assert trace.info.trace_metadata["mlflow.sourceRun"] == found.info.run_id
        assert (trace.info.state.value == "ERROR") == bool(row["failure"])
        root, *tools = trace.data.spans
        assert root.inputs["prompt"] == row["prompt"]
        assert root.outputs == (None if row["failure"] else row["response"])
        made = row["predicted_trajectory"] or []
        assert [(t.name, t.inputs) for t in tools] == [(c["tool_name"], c["tool_input"]) for c in made]
        assert all(t.parent_id == root.span_id for t in tools)


def test_a_bound_keeps_failing_rows_and_then_those_with_the_least_ids(
    result: EvaluationResult, run: FinishedRun, store: str
) -> None:
    rows = sorted(result.metrics_table.to_dict("records"), key=lambda r: r["instance_id"])
    bad = [r["instance_id"] for r in rows if r["failure"] or r["exact_match/score"] == 0]
    good = [r["instance_id"] for r in rows if r["instance_id"] not in bad]
    assert 3 <= len(bad) < 10
    for most in (2, len(bad) + 2):
        make_sink(store, max_traces=most).send(run)
        assert {t.info.client_request_id for t in read(store)[2]} == {*[*bad, *good][:most]}


def test_the_same_run_stays_one_run(run: FinishedRun, store: str) -> None:
    sink = make_sink(store)
    first, (_, found, traces) = sink.send(run), read(store)
    assert sink.send(run) == first
    _, again, traces_again = read(store)
    assert (again.info.run_id, again.data.params) == (found.info.run_id, found.data.params)
    assert {t.info.trace_id for t in traces_again} == {t.info.trace_id for t in traces}
    assert [len(t.info.assessments) for t in traces_again] == [len(t.info.assessments) for t in traces]


def test_what_a_rescoring_has_changed_is_shown(run: FinishedRun, store: str) -> None:
    sink = make_sink(store)
    sink.send(run)
    config = json.loads(json.dumps(run.config))
    config["criteria"][0]["min"] = 0.75
    tables = {name: table for name, table in run.manifest["tables"].items() if name != "worst_slices"}
    sink.send(replace(run, manifest={**run.manifest, "config": config, "tables": tables, "verdict": "FAILED"}))
    client, found, _ = read(store)
    assert (found.data.params["criteria.0.min"], found.data.tags["criteria.0.min"]) == ("0.5", "0.75")
    assert found.data.tags["evalbeam.verdict"] == "FAILED"
    left = {a.path for a in client.list_artifacts(found.info.run_id, "tables")}
    assert left == {
        f"tables/{name}" for name in ("instances", "summary.parquet", "errors.parquet", "failure_groups.parquet")
    }


@pytest.mark.parametrize("output", [{"format": "csv"}, {"format": "jsonl"}, {"column_style": "databricks"}])
def test_other_tables_are_shown_alike(output: dict[str, Any], tmp_path: Path, store: str) -> None:
    result = evaluate(ROWS, METRICS, output=tmp_path / "out", output_options=output)
    make_sink(store).send(view(result))
    _, found, traces = read(store)
    scores = {(t.info.client_request_id, a.name): a.value for t in traces for a in t.info.assessments}
    assert len(traces) == len(ROWS)
    assert {name for _, name in scores} == {*METRICS, "expected_response", "reference_trajectory"}
    mean = sum(value for (_, name), value in scores.items() if name == "exact_match") / 11
    assert found.data.metrics["exact_match/mean"] == pytest.approx(mean)
    assert all(t.data.spans[0].inputs["prompt"].startswith("question") for t in traces)


def test_a_run_without_a_table_of_rows_has_no_traces(tmp_path: Path, store: str) -> None:
    given = {"output_options": {"format": "adk_result"}}
    result = evaluate(ROWS, ["exact_match"], output=tmp_path / "out", **given)  # type: ignore[arg-type]
    assert make_sink(store).send(view(result))["traces"] == 0
    assert read(store)[1].data.metrics["exact_match/n"] == 11


def test_a_deleted_experiment_is_refused(run: FinishedRun, store: str) -> None:
    make_sink(store).send(run)
    client, found, _ = read(store)
    client.delete_experiment(found.info.experiment_id)
    with pytest.raises(SinkError, match="'bot' of MLflow is deleted"):
        make_sink(store).send(run)


def test_names_are_such_as_mlflow_takes_and_stay_different() -> None:
    from mlflow.utils.validation import _validate_metric_name, _validate_param_name

    names = ["a/b", "a:b", "a?b", "a_b", "/x", "../x", "x//y", "x/y", "", ".", "日本語", "n" * 400, "n" * 401, "%", "$"]
    found = name_all(dict.fromkeys(names))
    for name in found:
        _validate_metric_name(name)
        _validate_param_name(name)
    assert len(set(found)) == len(found) == len(names)
    assert (found[0], found[10]) == ("a/b", "日本語")


def test_pass_hat_k_and_pass_at_k_have_names_of_their_own() -> None:
    names = ["exact_match/pass^2/mean", "exact_match/pass@2/mean", "mail@2/mean", "a^b"]
    found = name_all(dict.fromkeys(names))
    assert found == ["exact_match/pass_hat_2/mean", "exact_match/pass_at_2/mean", "mail_2/mean", "a_b"]


def test_the_clients_variables_are_restored(run: FinishedRun, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    before = dict(os.environ)
    make_sink(store).send(run)
    assert dict(os.environ) == before

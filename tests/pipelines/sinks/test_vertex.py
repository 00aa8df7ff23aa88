"""Experiments of Vertex AI: the real SDK writes them, to a fake of the service behind it, and reads them back."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

import grpc
import pytest
from metadata_service import Metadata

from evalbeam import EvalTask, EvaluationResult
from evalbeam.pipelines.compat import google_settings
from evalbeam.pipelines.sinks.base import FinishedRun, SinkError
from evalbeam.pipelines.sinks.vertex import VertexSink, build_summary, name_run
from evalbeam.schemas.config.sinks import VertexExperimentConfig

PLACE = {"project": "p-1", "location": "europe-west4"}
SINK = VertexSink(VertexExperimentConfig(**PLACE, experiment="bot"))


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """The SDK warns of its own future."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read(name: str) -> Any:
    """A run as the SDK reads it."""
    from google.cloud import aiplatform

    return aiplatform.ExperimentRun(name, experiment=aiplatform.Experiment("bot", **PLACE), **PLACE)


def test_the_sdk_reads_what_was_sent(metadata: Metadata, run: FinishedRun, result: EvaluationResult) -> None:
    sent = SINK.send(run)
    found = read(sent["run"])
    metrics = found.get_metrics()
    own = {k: "NaN" if v is None else v for k, v in result.summary_metrics.items()}
    assert {k: metrics[k] for k in own} == pytest.approx(own)
    (row,) = (r for r in run.whole if r["metric"] == "exact_match")
    assert (metrics["exact_match/ci_low"], metrics["exact_match/n"]) == (row["ci_low"], row["scored_count"])
    params = found.get_params()
    assert (params["evalbeam.run_id"], params["evalbeam.folder"]) == (run.run_id, run.output)
    assert (params["agent"], params["trials"], params["metrics"]) == (
        "recorded",
        "1",
        "exact_match, rouge_l, trajectory_exact_match",
    )
    assert found.state.name == "COMPLETE"


def test_the_same_run_is_one_run_there(metadata: Metadata, run: FinishedRun) -> None:
    first, again = SINK.send(run), SINK.send(run)
    assert first == again
    ((experiment, runs),) = metadata.children.items()
    assert (experiment.rpartition("/")[2], len(runs)) == ("bot", 1)
    assert SINK.send(replace(run, run_id="run-2"))["run"] != first["run"]
    assert len(metadata.children[experiment]) == 2


def test_a_name_of_another_run_is_not_taken(metadata: Metadata, run: FinishedRun) -> None:
    sink = VertexSink(VertexExperimentConfig(**PLACE, experiment="bot", run_name="nightly"))
    assert sink.send(run)["run"] == "nightly"
    with pytest.raises(SinkError, match=r"'nightly' .* shows another run, run-1"):
        sink.send(replace(run, run_id="run-2"))


def test_a_refusal_is_final_and_an_outage_is_not(metadata: Metadata, run: FinishedRun) -> None:
    metadata.refusals = [grpc.StatusCode.PERMISSION_DENIED]
    with pytest.raises(SinkError, match="PermissionDenied"):
        SINK.send(run)
    metadata.refusals = [grpc.StatusCode.UNKNOWN]
    with pytest.raises(Exception, match="refused") as failed:
        SINK.send(run)
    assert not isinstance(failed.value, SinkError)


@pytest.mark.parametrize("folder", ["runs/Out Now!", "x" * 300, "日本語", "gs://b/a_b"])
@pytest.mark.parametrize("experiment", ["bot", "b" * 90])
def test_names_are_those_that_vertex_ai_takes(run: FinishedRun, folder: str, experiment: str) -> None:
    from google.cloud.aiplatform import ExperimentRun

    own = replace(run, output=folder, run_id="20261123-173527-a9f1e294aa8e")
    name = name_run(own, experiment)
    ExperimentRun._validate_run_id(f"{experiment}-{name}")
    assert name.endswith(own.run_id)


def test_an_experiment_of_eval_task_is_written(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(google_settings, "_settings_of_the_sdk", lambda: ("p-1", "europe-west4"))
    task = EvalTask(dataset=[{"response": "a", "reference": "a"}], metrics=["exact_match"], experiment="bot")
    result = task.evaluate(experiment_run_name="monday")
    assert result.metadata == {"experiment": "bot", "experiment_run": "monday"}
    assert read("monday").get_metrics()["exact_match/mean"] == 1.0
    assert result.manifest["sinks"]["vertex_experiment"]["state"] == "sent"
    assert capsys.readouterr().err == ""


def test_values_are_such_as_the_sdk_takes(run: FinishedRun) -> None:
    values = dict(build_summary(run))
    assert json.loads(json.dumps(values)) == values
    assert {type(v) for v in values.values()} <= {int, float, str}

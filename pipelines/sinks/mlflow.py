"""Shows a run in MLflow: parameters, metrics with intervals, tables and report as artifacts, and rows as traces.

Sent again, the run of MLflow is the same one, found by the tag `evalbeam.run_id`. MLflow never changes a parameter, so
one that a rescoring has changed stays as it was and gets a tag of the same name with the new value.
"""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schemas.addresses import hide_secrets
from ...schemas.config.sinks import MlflowConfig
from ...schemas.json import Json
from ...schemas.run_folder import RunFolder
from ...schemas.tables import json_text
from ...transforms.io import storage
from ...transforms.registry import require_module
from .base import FinishedRun, SinkError, quieting
from .mlflow_traces import send_traces
from .survey import survey
from .values import build_params, list_statistics

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

RUN_TAG = "evalbeam.run_id"
TABLES = "tables"
"""Folder of the tables among the artifacts."""
_VARIABLES = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # sending is tried again as a whole
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
_PASSES = re.compile(r"(?<=/pass)([\^@])(?=\d)")
_PASS_WORDS = {"^": "_hat_", "@": "_at_"}
_NOT_IN_A_NAME = re.compile(r"[^/\w.\- ]")
_MOST_NAME, _MOST_PARAM, _MOST_TAG = 250, 6000, 5000
"""Characters of a name, the value of a parameter and of a tag."""
_MOST_BATCH = 100
"""Parameters or tags of one request; metrics may be ten times as many."""


@dataclass(frozen=True)
class MlflowSink:
    """Sends a run to a tracking server, or to any store that MLflow's client opens."""

    config: MlflowConfig
    name: str = "mlflow"

    def require(self) -> None:
        """Checks that MLflow's client is installed, as `Sink` says."""
        require_module("mlflow", "mlflow", "the sink", "output.mlflow")

    def send(self, run: FinishedRun) -> dict[str, Json]:
        """Sends a run, as `Sink` says."""
        self.require()
        with quieting("mlflow", "urllib3", **_VARIABLES):
            from mlflow.exceptions import MlflowException

            try:
                return self._send(run)
            except MlflowException as error:
                status = error.get_http_status_code()
                if 400 <= status < 500 and status not in (408, 429):
                    raise SinkError(f"MLflow: {error.message}") from error
                raise

    def _send(self, run: FinishedRun) -> dict[str, Json]:
        from mlflow import MlflowClient, get_tracking_uri
        from mlflow.tracking._tracking_service.utils import _use_tracking_uri

        uri = self.config.tracking_uri or get_tracking_uri()
        with _use_tracking_uri(uri):  # artifacts of traces go to the server of the process, not to that of a client
            return self._send_with(MlflowClient(uri), run)

    def _send_with(self, client: MlflowClient, run: FinishedRun) -> dict[str, Json]:
        experiment = _find_experiment(client, self.config.experiment)
        found = survey(run, self.config.max_traces)
        shown = _find_run(client, experiment, run, self.config.run_name or run.name)
        run_id = shown.info.run_id
        _log_values(client, shown, run, found.fingerprint)
        _log_dataset(client, run_id, run, found.fingerprint)
        _log_artifacts(client, run_id, run)
        count = send_traces(client.tracking_uri, experiment, run_id, run, found.chosen)
        client.set_terminated(run_id, "FINISHED", int(run.finished * 1000))
        address = hide_secrets(client.tracking_uri)
        return {"address": address, "experiment_id": experiment, "run_id": run_id, "traces": count}


def _find_experiment(client: MlflowClient, name: str) -> str:
    """Returns the id of the experiment of a name, which is made if there is none."""
    found = client.get_experiment_by_name(name)
    if found is None:
        return client.create_experiment(name)
    if found.lifecycle_stage != "active":
        raise SinkError(f"the experiment {name!r} of MLflow is deleted (allowed: another one, or restore it)")
    return found.experiment_id


def _find_run(client: MlflowClient, experiment: str, run: FinishedRun, name: str) -> Run:
    """Returns the run of MLflow that shows a run; makes one if there is none.

    Of two that are made at the same time the one with the lesser id stays.
    """
    if found := _list_runs(client, experiment, run):
        client.update_run(found[0].info.run_id, name=name)
        return found[0]
    tags = {RUN_TAG: run.run_id, "mlflow.runType": "genai_evaluate", "mlflow.source.name": "evalbeam"}
    made = client.create_run(experiment, int(run.started * 1000), tags, name)
    first = next(iter(_list_runs(client, experiment, run)), made)
    if first.info.run_id < made.info.run_id:
        client.delete_run(made.info.run_id)
        return first
    return made


def _list_runs(client: MlflowClient, experiment: str, run: FinishedRun) -> list[Run]:
    wanted = f"tags.`{RUN_TAG}` = '{run.run_id}'"
    return sorted(client.search_runs([experiment], wanted), key=lambda found: found.info.run_id)


def _log_values(client: MlflowClient, shown: Run, run: FinishedRun, fingerprint: str) -> None:
    """Logs parameters, metrics and tags."""
    from mlflow.entities import Metric, Param, RunTag

    run_id, now = shown.info.run_id, int(run.finished * 1000)
    wanted, known = build_mlflow_params(run, fingerprint), shown.data.params
    changed = {key: value for key, value in wanted.items() if known.get(key, value) != value}
    params = [Param(key, value) for key, value in wanted.items() if key not in known]
    tags = [RunTag(key, value[:_MOST_TAG]) for key, value in {**_build_tags(run), **changed}.items()]
    metrics = [Metric(key, value, now, 0) for key, value in build_metrics(run).items()]
    for part in _batches(metrics, 10 * _MOST_BATCH):
        client.log_batch(run_id, metrics=part)
    for part in _batches(params, _MOST_BATCH):
        client.log_batch(run_id, params=part)
    for part in _batches(tags, _MOST_BATCH):
        client.log_batch(run_id, tags=part)


def _batches(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (values[i : i + size] for i in range(0, len(values), size))


def _build_tags(run: FinishedRun) -> dict[str, str]:
    counts = {f"evalbeam.{name}": str(count) for name, count in run.manifest["counts"].items()}
    own = {RUN_TAG: run.run_id, "evalbeam.folder": run.output, "evalbeam.verdict": run.manifest.get("verdict") or ""}
    note = f"Rows: {run.manifest['counts']['rows']:,}. Tables: {run.output}"
    return {**own, **counts, "mlflow.note.content": note}


def build_mlflow_params(run: FinishedRun, fingerprint: str) -> dict[str, str]:
    """Builds the parameters of a run and its dataset, under names that MLflow allows."""
    values = {**build_params(run), "evalbeam.dataset_fingerprint": fingerprint}
    return {name: value[:_MOST_PARAM] for name, value in zip(name_all(values), values.values(), strict=True)}


def build_metrics(run: FinishedRun) -> dict[str, float]:
    """Builds the statistics of each metric over the whole dataset, under names that MLflow allows."""
    found = dict(list_statistics(run))
    return dict(zip(name_all(found), found.values(), strict=True))


def name_all(names: Mapping[str, Any]) -> list[str]:
    """Returns names as MLflow allows them, in the same order; two that become the same get a number.

    `pass^2` and `pass@2` become `pass_hat_2` and `pass_at_2`.
    """
    found: dict[str, None] = {}
    for name in (_PASSES.sub(lambda match: _PASS_WORDS[match[1]], one) for one in names):
        plain = posixpath.normpath(_NOT_IN_A_NAME.sub("_", name)).lstrip("/.")[: _MOST_NAME - 4] or "_"
        alike, number = plain, 2
        while alike in found:
            alike, number = f"{plain}_{number}", number + 1
        found[alike] = None
    return list(found)


def _log_dataset(client: MlflowClient, run_id: str, run: FinishedRun, fingerprint: str) -> None:
    """Names the dataset of the run, by which MLflow's pages group runs."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    config = run.config["dataset"]
    source = config.get("path") or config.get("query") or ""
    source = source if isinstance(source, str) else ", ".join(source)
    name = posixpath.basename(source.rstrip("/")) if config.get("path") else "query"
    dataset = Dataset(name[:500] or "dataset", fingerprint, "evalbeam", json_text({"uri": source}))
    client.log_inputs(run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "eval")])])


def _log_artifacts(client: MlflowClient, run_id: str, run: FinishedRun) -> None:
    """Uploads the tables as they are, and the page; removes the tables of an earlier version of the run."""
    folder = RunFolder(run.output)
    files = [name for table in run.manifest["tables"].values() for name in table["files"]]
    for name in files:
        _upload(client, run_id, storage.join(run.output, name), posixpath.join(TABLES, posixpath.dirname(name)))
    for path in (folder.report, folder.manifest):
        if storage.exists(path):
            _upload(client, run_id, path, None)
    wanted = {posixpath.join(TABLES, name) for name in files}
    for path in [path for path in _list_artifacts(client, run_id, TABLES) if path not in wanted]:
        _delete_artifact(client, run_id, path)


def _upload(client: MlflowClient, run_id: str, path: str, place: str | None) -> None:
    place = place.rstrip("/") if place else None
    if storage.is_local(path):
        client.log_artifact(run_id, path, place)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / posixpath.basename(path)
        copy.write_bytes(storage.read_bytes(path))
        client.log_artifact(run_id, os.fspath(copy), place)


def _list_artifacts(client: MlflowClient, run_id: str, folder: str) -> Iterator[str]:
    for one in client.list_artifacts(run_id, folder):
        if one.is_dir:
            yield from _list_artifacts(client, run_id, one.path)
        else:
            yield one.path


def _delete_artifact(client: MlflowClient, run_id: str, path: str) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    address = client.get_run(run_id).info.artifact_uri or ""
    get_artifact_repository(address, tracking_uri=client.tracking_uri).delete_artifacts(path)

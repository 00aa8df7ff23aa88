"""Shows a run in an experiment of Vertex AI, as EvalTask's `experiment` does: parameters and summary metrics.

Sent again, the run of the experiment is the same one: it has the same name, and the parameter `evalbeam.run_id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...schemas.config.sinks import VertexExperimentConfig
from ...schemas.json import Json
from ...schemas.names import RATES
from ...transforms.registry import require_module
from .base import FinishedRun, SinkError, quieting
from .values import build_params, list_statistics

RUN_PARAM = "evalbeam.run_id"
_MOST_ID = 121
"""Characters of the names of an experiment and its run together with a hyphen, as the SDK allows them."""
_MOST_PARAM = 500
_LOST = "NaN"
"""What the Vertex AI SDK logs for a statistic that is not defined."""


@dataclass(frozen=True)
class VertexSink:
    """Sends a run to an experiment, which is made if there is none."""

    config: VertexExperimentConfig
    name: str = "vertex_experiment"

    def require(self) -> None:
        """Checks that the client is installed, as `Sink` says."""
        require_module("google.cloud.aiplatform", "vertex", "the sink", "output.vertex_experiment")

    def send(self, run: FinishedRun) -> dict[str, Json]:
        """Sends a run, as `Sink` says."""
        self.require()
        with quieting("google", "grpc"):
            from google.api_core import exceptions
            from google.auth.exceptions import DefaultCredentialsError

            refusals = (exceptions.BadRequest, exceptions.Unauthorized, exceptions.Forbidden, exceptions.NotFound)
            try:
                return self._send(run)
            except (*refusals, DefaultCredentialsError, ValueError) as error:
                raise SinkError(f"Vertex AI: {type(error).__name__}: {error}") from error

    def _send(self, run: FinishedRun) -> dict[str, Json]:
        from google.cloud.aiplatform import Experiment, gapic

        config = self.config
        place: dict[str, Any] = {"project": config.project, "location": config.location}
        experiment = Experiment.get_or_create(config.experiment, **place)
        name = config.run_name or name_run(run, config.experiment)
        shown = _find_run(name, experiment, run, place)
        params = {key: value[:_MOST_PARAM] for key, value in build_params(run).items()}
        shown.log_params({**params, RUN_PARAM: run.run_id, "evalbeam.folder": run.output})
        shown.log_metrics(dict(build_summary(run)))
        shown.update_state(gapic.Execution.State.COMPLETE)
        return {"experiment": config.experiment, "run": name}


def _find_run(name: str, experiment: Any, run: FinishedRun, place: dict[str, Any]) -> Any:
    """Returns the run of an experiment that shows a run; makes one if there is none."""
    from google.cloud.aiplatform import ExperimentRun

    found = ExperimentRun.get(name, experiment=experiment, **place)
    if found is None:
        return ExperimentRun.create(name, experiment=experiment, **place)
    if (known := found.get_params().get(RUN_PARAM, run.run_id)) != run.run_id:
        raise SinkError(f"the run {name!r} of the experiment {experiment.name!r} shows another run, {known}")
    return found


def name_run(run: FinishedRun, experiment: str) -> str:
    """Returns a name that Vertex AI allows: the folder's, and what makes it the run's alone."""
    room = _MOST_ID - len(experiment) - len(run.run_id) - 2
    folder = re.sub("[^a-z0-9]+", "-", run.name.lower()).strip("-")[: max(room, 0)].strip("-")
    return f"{folder}-{run.run_id}" if folder else run.run_id[-max(_MOST_ID - len(experiment) - 1, 1) :]


def build_summary(run: FinishedRun) -> Iterator[tuple[str, float | int | str]]:
    """Yields EvalTask's summary metrics by name, then the statistics that it does not have."""
    yield "row_count", run.manifest["counts"]["rows"]
    for row in run.whole:
        if row["metric"].endswith(RATES):
            yield row["metric"], _LOST if row["mean"] is None else row["mean"]
            continue
        for statistic in ("mean", "std"):
            yield f"{row['metric']}/{statistic}", _LOST if row[statistic] is None else row[statistic]
    yield from ((name, value) for name, value in list_statistics(run) if not name.endswith("/mean"))

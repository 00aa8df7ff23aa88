"""EvalTask, with the names and arguments of the Vertex AI SDK, so that its users need to change only an import.

    from evalbeam import EvalTask, TrajectorySingleToolUse

    task = EvalTask(dataset=frame, metrics=["rouge_l_sum", TrajectorySingleToolUse(tool_name="set_light")])
    result = task.evaluate(runnable=agent)
    result.summary_metrics, result.metrics_table

Deliberate differences: everything is computed locally, without an evaluation service, except for Comet and MetricX; a
row whose agent fails keeps its error and is excluded from the means of other metrics instead of being scored as an
empty answer; a call of the agent may take 60 seconds and has up to three attempts (`agent={...}` changes that);
datasets may be any that evalbeam reads; and an agent may be async.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from ...schemas.config.evaluation import AgentConfig
from ...schemas.errors import ConfigError
from ...schemas.run_folder import FINISHED
from ...schemas.tables import PERFORMANCE
from ...transforms.agents.gemini import GeminiAgent
from ...transforms.io import storage
from ...transforms.join_baseline import BASELINE
from ...transforms.journal.run_state import manifest_at
from ..config.arguments import convert_path, convert_to_list
from ..display.console import note
from ..run.evaluate import evaluate
from ..run.parts import agent_type
from .autoraters import build_judges, complete_judges, read_autorater
from .eval_preflight import require_columns
from .eval_result import EvalResult, show_runs
from .google_settings import find_place, find_project
from .metric_configs import baseline_of, build_judged, convert_metric, name_metric
from .object_columns import set_objects_aside
from .unread_answers import add_unread_answers

FORMATS = ("csv", "jsonl", "parquet")


class EvalTask:
    """A dataset and its metrics; `evaluate` may be called any number of times.

    Args:
        dataset: A DataFrame, a dict of columns, a list of dicts, or a path of JSONL, CSV or Parquet files; it is never
            changed. Columns of Python objects stay in `metrics_table`, and no metric sees them. Recorded answers are
            in `response` or `predicted_trajectory`; judges' templates that show other columns need none.
        metrics: Names, or objects such as `Rouge`, `TrajectorySingleToolUse`, `CustomMetric` and `PointwiseMetric`,
            also those of the SDK; a bare name that no computed metric has (`fluency`) is that of a built-in template.
        experiment: Experiment of Vertex AI in which each run is shown, in the project of `vertexai.init` or of
            GOOGLE_CLOUD_PROJECT (needs the extra `vertex`). Without a project it is stored only in the result's
            `metadata`, and a warning says so.
        metric_column_mapping: Dataset column for each metric input (prompt, reference ...). It takes precedence over a
            column with the input's own name, and also applies to the agent's input.
        output_uri_prefix: Folder, local or gs://, in which each run gets a subfolder; default: a temporary folder.
        autorater_config: Judge model of the judge metrics and its options: `autorater_model`, `sampling_count`,
            `flip_enabled`, `generation_config` (an SDK object or a dict). A metric's own one takes precedence.
        **config: Further sections of a configuration for every run: judges={"default": {...}} ... Without a judge,
            gemini-2.5-flash is asked, in the project of `vertexai.init` or of the environment.

    Raises:
        ConfigError: An argument is invalid or not supported; also a ValueError.
    """

    def __init__(
        self,
        *,
        dataset: Any,
        metrics: Sequence[Any],
        experiment: str | None = None,
        metric_column_mapping: Mapping[str, str] | None = None,
        output_uri_prefix: str = "",
        autorater_config: Any = None,
        **config: Any,
    ) -> None:
        self.dataset, self.metrics, self.experiment = (
            convert_path(dataset),
            convert_to_list(metrics, "metrics"),
            experiment,
        )
        self.autorater_config = autorater_config
        self._autorater, self._config = read_autorater(autorater_config), config
        self._columns = dict(metric_column_mapping or {})
        self._output_uri_prefix = convert_path(output_uri_prefix)
        self._results: list[EvalResult] = []

    def evaluate(
        self,
        *,
        model: Any = None,
        runnable: Any = None,
        prompt_template: Any = None,
        experiment_run_name: str | None = None,
        response_column_name: str | None = None,
        baseline_model_response_column_name: str | None = None,
        evaluation_service_qps: float | None = None,
        retry_timeout: float = 120.0,
        output_file_name: str = "",
        **config: Any,
    ) -> EvalResult:
        """Runs the evaluation and waits for it.

        Args:
            model: A function from the prompt to a text, the name of a Gemini model, or an object with
                `generate_content`.
            runnable: An object with `.query(input=...)`, or a function from the prompt to {"response": ...,
                "predicted_trajectory": [...]}. Without it and `model`, the answers are in the dataset.
            prompt_template: Template of the prompt with {column} placeholders; a text or a `PromptTemplate`.
            experiment_run_name: Name of the run in the experiment; default: a random one.
            response_column_name, baseline_model_response_column_name: Dataset columns of the answers.
            evaluation_service_qps, retry_timeout: Ignored.
            output_file_name: Name of the run's folder; its ending (.csv, .jsonl, .parquet) selects the format. A
                finished run of that name stays: the new folder gets a number.
            **config: Further sections of a configuration: agent={"timeout": 300}, slices=[["category"]] ...
        """
        config = {**self._config, **config}
        path, format_ = self._choose_output(output_file_name)
        columns = self._map_columns(response_column_name, baseline_model_response_column_name)
        template = {} if prompt_template is None else {"prompt_template": str(prompt_template)}
        config["dataset_options"] = {"columns": columns, **template, **config.get("dataset_options", {})}
        config["agent"] = _place_agent(model, runnable, config.get("agent") or {})
        metadata = self._build_metadata(experiment_run_name)
        config["output_options"] = {**config.get("output_options", {}), **format_, **_place_experiment(metadata)}
        answered = frozenset() if model is None else frozenset(("response",))
        self._results.append(self._run(path, config, metadata, answered))
        return self._results[-1]

    def display_runs(self) -> None:
        """Shows the runs of this task: one row each with its summary, and the means as bars; in a notebook as HTML."""
        show_runs(self._results)

    def _run(
        self, path: str | None, config: dict[str, Any], metadata: dict[str, str] | None, answered: frozenset[str]
    ) -> EvalResult:
        """Runs an evaluation, after the baseline model has answered if there is one."""
        metrics = [convert_metric(metric) for metric in self.metrics]
        named = [name_metric(metric, self._autorater) for metric in metrics]
        judges = {**build_judges(self._autorater, metrics), **(config.get("judges") or {})}
        judged = build_judged(named)
        config["judges"], said = complete_judges(judged, judges)
        baseline = None if "baseline" in config else baseline_of(metrics)
        answered |= frozenset() if baseline is None else {BASELINE}
        dataset, objects = set_objects_aside(self.dataset)
        if judged and len(judged) == len(named):
            dataset = add_unread_answers(dataset, judged, config)
        expected = require_columns(dataset, named, config, answered)
        if said:
            note(f"{said}: {expected}")
        if baseline is not None:
            config["baseline"] = self._answer(dataset, baseline, path, config)
        found = evaluate(dataset, named, output=path, **config)
        return EvalResult(found.output, found.manifest, found.in_order, metadata, objects)

    @staticmethod
    def _answer(dataset: Any, model: Any, path: str | None, config: Mapping[str, Any]) -> str:
        """Has the baseline model answer the dataset, in a run of its own; returns its folder."""
        kept = {key: config[key] for key in ("dataset_options", "trials", "budget", "shards") if key in config}
        return evaluate(
            dataset,
            list(PERFORMANCE),
            output=None if path is None else f"{path}_baseline",
            agent=_place_agent(model, None, {}),
            output_options={"overwrite": True},
            **kept,
        ).output

    def _map_columns(self, response: str | None, baseline: str | None) -> dict[str, str]:
        """Maps each dataset column that is used as an input of another name to that input."""
        wanted = {**self._columns, "response": response, "baseline_model_response": baseline}
        found: dict[str, str] = {}
        for field, column in wanted.items():
            column = column or self._columns.get(field)
            if column is None or column == field:
                continue
            if column in found:
                both = f"column {column!r} is used as both {found[column]!r} and {field!r}"
                raise ConfigError(both, where="metric_column_mapping", allowed="one input for each column")
            found[column] = field
        return found

    def _choose_output(self, file_name: str) -> tuple[str | None, dict[str, str]]:
        """Returns (folder of the run, `None` for a temporary one; keys of the output section by the name's ending)."""
        name = PurePosixPath(file_name)
        format_ = name.suffix.lstrip(".")
        if format_ and format_ not in FORMATS:
            raise ConfigError(f"found {file_name!r}", where="output_file_name", allowed=", ".join(FORMATS))
        if not self._output_uri_prefix:
            if file_name:
                raise ConfigError("has no folder", where="output_file_name", allowed="with an output_uri_prefix")
            return None, {}
        folder = name.stem or datetime.now(UTC).strftime("eval_results_%Y-%m-%d-%H-%M-%S-%f")
        path, number = storage.join(self._output_uri_prefix, folder), 1
        while (manifest := manifest_at(path)) is not None and manifest["state"] == FINISHED:
            number += 1
            path = storage.join(self._output_uri_prefix, f"{folder}_{number}")
        return path, {"format": format_} if format_ else {}

    def _build_metadata(self, run_name: str | None) -> dict[str, str] | None:
        if self.experiment is None and run_name is None:
            return None
        given = {"experiment": self.experiment, "experiment_run": run_name or str(uuid.uuid4())}
        return {key: value for key, value in given.items() if value is not None}


def _place_experiment(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """Returns the keys of the output section that show a run in its experiment of Vertex AI; none without a project."""
    if metadata is None:
        return {}
    place = find_project() if "experiment" in metadata else {}
    if not place:
        words = (
            "no project of Google Cloud is set (vertexai.init, GOOGLE_CLOUD_PROJECT), or the extra vertex is missing"
        )
        warnings.warn(f"the experiment is stored only in the result's metadata: {words}", stacklevel=3)
        return {}
    names = {"experiment": metadata["experiment"], "run_name": metadata["experiment_run"]}
    return {"vertex_experiment": {**place, **names}}


def _place_agent(model: Any, runnable: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Builds the `agent` section of a model or a runnable; `given` has its further keys."""
    if model is not None and runnable is not None:
        raise ConfigError("both model and runnable are given", where="evaluate", allowed="one of them")
    target = model if model is not None else runnable
    if target is None:
        return dict(given)
    if isinstance(model, str) or GeminiAgent.claims(target):
        return _place_model(target, given)
    if model is not None and not callable(model):
        allowed = "a function from the prompt to a text, the name of a Gemini model, or an object with generate_content"
        raise ConfigError(f"found {type(model).__name__}", where="model", allowed=allowed)
    kind = agent_type(AgentConfig.model_validate({**given, "target": convert_path(target)}))
    return {"target": convert_path(target), **({"gives": "prompt"} if kind == "function" else {}), **given}


def _place_model(target: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Builds the `agent` section of a Gemini model, with the place where it is called."""
    if isinstance(target, str) and not GeminiAgent.claims(target):
        allowed = "a Gemini model such as gemini-2.5-flash; a function for models of other providers"
        raise ConfigError(f"found {target!r}", where="model", allowed=allowed)
    named = isinstance(target, str) and not target.startswith("projects/") and "project" not in given
    place = find_place("model", "a function from the prompt to a text") if named else {}
    return {"type": "gemini", "target": target, **place, **given}

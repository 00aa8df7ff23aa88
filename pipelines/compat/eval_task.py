"""EvalTask, with the names and arguments of the Vertex AI SDK, so that its users change an import and nothing else.

    from evalbeam import EvalTask, TrajectorySingleToolUse

    task = EvalTask(dataset=frame, metrics=["rouge_l_sum", TrajectorySingleToolUse(tool_name="set_light")])
    result = task.evaluate(runnable=agent)
    result.summary_metrics, result.metrics_table

Where it differs on purpose: everything is computed here, without an evaluation service; a row whose agent fails keeps
its error and is left out of the other metrics' means instead of being scored as an empty answer; a call of the agent
may take 60 seconds and is tried up to three times (`agent={...}` changes that); what a custom metric returns beside its
score goes to `<metric>/details`; datasets may be any that evalbeam reads; and an agent may be async.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from ...schemas.errors import ConfigError
from ...transforms import registry
from ...transforms.io import storage
from ...transforms.judging.autorater import Autorater, autorater_of
from ...transforms.judging.prompts import VARIABLE
from ...transforms.metrics._judged import JudgedMetric
from ...transforms.metrics.base import Metric
from ..config.arguments import convert_path, convert_to_list
from ..run.evaluate import evaluate
from ..run.result import EvaluationResult

FORMATS = ("csv", "jsonl", "parquet")
_AS_THEY_ARE = Autorater()


class EvalTask:
    """A dataset and the metrics it is measured by; `evaluate` may be called any number of times.

    Args:
        dataset: A DataFrame, a dict of columns, a list of dicts, or a path of JSONL, CSV or Parquet files; it is never
            changed.
        metrics: Names, or objects such as `Rouge`, `TrajectorySingleToolUse`, `CustomMetric` and `PointwiseMetric`; a
            bare name that no computed metric has (`fluency`) is that of a built-in template.
        experiment: Kept in the result's `metadata`; no experiment service is written to, and a warning says so.
        metric_column_mapping: For a metric's input (prompt, reference ...) the dataset column that holds it. It wins
            over a column of the input's own name, and it holds for what the agent is given too.
        output_uri_prefix: Folder, local or gs://, below which each run gets a folder of its own; default: a temporary
            folder.
        autorater_config: Which judge model the judge metrics ask, and how: `autorater_model`, `sampling_count`,
            `flip_enabled`, `generation_config` (an SDK object or a dict). One that a metric has itself comes first.
        **config: Further sections of a configuration for every run: judges={"default": {...}} ...

    Raises:
        ConfigError: An argument cannot be honoured.
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
        self._autorater, self._config = _autorater(autorater_config), config
        self._columns = dict(metric_column_mapping or {})
        self._output_uri_prefix = convert_path(output_uri_prefix)

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
    ) -> EvaluationResult:
        """Runs the evaluation and waits for it.

        Args:
            model: A function from the prompt to the response's text. Or:
            runnable: An object with `.query(input=...)`, or a function from the prompt to {"response": ...,
                "predicted_trajectory": [...]}. Without both the dataset carries the answers.
            prompt_template: Text with {column} places that makes the prompt; for datasets in memory.
            experiment_run_name: Kept in the result's `metadata`.
            response_column_name: Dataset column that stands for `response`.
            baseline_model_response_column_name: Dataset column that stands for `baseline_model_response`.
            evaluation_service_qps, retry_timeout: Accepted and without effect: no service is called.
            output_file_name: Name of the run's folder below `output_uri_prefix`; its ending (.csv, .jsonl, .parquet)
                chooses the format of the tables.
            **config: Further sections of a configuration: agent={"timeout": 300}, slices=[["category"]] ...
        """
        dataset = self.dataset if prompt_template is None else with_prompts(self.dataset, str(prompt_template))
        config, (path, format_) = {**self._config, **config}, self._output(output_file_name)
        columns = self._renamed(response_column_name, baseline_model_response_column_name)
        sections = {
            "dataset_options": {"columns": columns, **config.pop("dataset_options", {})},
            "output_options": {**config.pop("output_options", {}), **format_},
        }
        metrics, agent = [named(metric, self._autorater) for metric in self.metrics], _agent(model, runnable)
        sections["judges"] = {**judges_of(self._autorater, self.metrics), **(config.pop("judges", None) or {})}
        result = evaluate(dataset, metrics, agent, output=path, **sections, **config)
        return replace(result, metadata=self._metadata(experiment_run_name))

    def _renamed(self, response: str | None, baseline: str | None) -> dict[str, str]:
        """For each dataset column that stands for an input under another name, that input."""
        wanted = {**self._columns, "response": response, "baseline_model_response": baseline}
        found: dict[str, str] = {}
        for field, column in wanted.items():
            column = column or self._columns.get(field)
            if column is None or column == field:
                continue
            if column in found:
                both = f"column {column!r} stands for {found[column]!r} and {field!r}"
                raise ConfigError(both, where="metric_column_mapping", allowed="one input for each column")
            found[column] = field
        return found

    def _output(self, file_name: str) -> tuple[str | None, dict[str, str]]:
        """(folder of the run, `None` for a temporary one; keys of the output section that the name's ending gives)."""
        name = PurePosixPath(file_name)
        format_ = name.suffix.lstrip(".")
        if format_ and format_ not in FORMATS:
            raise ConfigError(f"found {file_name!r}", where="output_file_name", allowed=", ".join(FORMATS))
        if not self._output_uri_prefix:
            if file_name:
                raise ConfigError("nowhere to put it", where="output_file_name", allowed="with an output_uri_prefix")
            return None, {}
        folder = name.stem or datetime.now(UTC).strftime("eval_results_%Y-%m-%d-%H-%M-%S-%f")
        return storage.join(self._output_uri_prefix, folder), {"format": format_} if format_ else {}

    def _metadata(self, run_name: str | None) -> dict[str, str] | None:
        if self.experiment is None and run_name is None:
            return None
        warnings.warn("the experiment is noted in the result's metadata only; no service keeps it", stacklevel=3)
        given = {"experiment": self.experiment, "experiment_run": run_name}
        return {key: value for key, value in given.items() if value is not None}


def with_prompts(dataset: Any, template: str) -> Any:
    """The dataset with a column `prompt` that the template makes of each row; values are never read as templates.

    Args:
        dataset: A DataFrame, a dict of columns or a list of dicts; left as it is.
        template: Text with {column} places.

    Raises:
        ConfigError: The dataset is not in memory, or has no column that the template names.
    """
    if hasattr(dataset, "to_dict"):
        return dataset.assign(prompt=[_filled(template, row) for row in dataset.to_dict("records")])
    if isinstance(dataset, Mapping):
        rows = (dict(zip(dataset, values, strict=True)) for values in zip(*dataset.values(), strict=True))
        return {**dataset, "prompt": [_filled(template, row) for row in rows]}
    if isinstance(dataset, list) and all(isinstance(row, Mapping) for row in dataset):
        return [{**row, "prompt": _filled(template, row)} for row in dataset]
    raise ConfigError(
        "a template needs the rows in memory", where="prompt_template", allowed="a column 'prompt' in the dataset"
    )


def named(metric: Any, autorater: Autorater = _AS_THEY_ARE) -> Any:
    """A metric as a configuration names it; objects get the name the SDK gives their columns.

    Args:
        metric: A name, a mapping, or an object.
        autorater: How judges are asked by a metric that does not say it itself.

    Raises:
        ConfigError: It is no metric.
    """
    asked = {key: v for key, v in (("samples", autorater.samples), ("flip", autorater.flip)) if v is not None}
    if isinstance(metric, str | Mapping):
        config = {"metric": metric} if isinstance(metric, str) else dict(metric)
        name = config.get("metric")
        if not isinstance(name, str) or ":" in name:
            return metric
        full = registry.full_name("metric", name, ("template",))
        config = {**_params(registry.find("metric", full, "metrics").factory, asked), "name": name, **config}
        return metric if full == name and len(config) == 2 else {**config, "metric": full}
    if not isinstance(metric, Metric) and not callable(metric):
        raise ConfigError(f"found {type(metric).__name__}", where="metrics", allowed="a name or a metric object")
    if isinstance(metric, JudgedMetric) and getattr(metric, "autorater_config", None) is None:
        metric = replace(metric, **_params(type(metric), asked))
    return {"metric": metric, "name": getattr(metric, "name", "") or registry.name_of("metric", metric) or ""}


def _params(factory: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some parameters that a judge metric has."""
    if not (isinstance(factory, type) and issubclass(factory, JudgedMetric)):
        return {}
    return {key: v for key, v in given.items() if key in {f.name for f in fields(factory)}}


def judges_of(autorater: Autorater, metrics: Sequence[Any]) -> dict[str, Any]:
    """The judges that autoraters name: that of the task as "default", those of metrics by their models."""
    own = [_autorater(getattr(metric, "autorater_config", None)) for metric in metrics]
    named = {one.judge: one for one in own if one.model is not None}
    found = {"default": autorater} if autorater.model is not None else {}
    try:
        return {name: one.section for name, one in {**found, **named}.items()}
    except ValueError as error:
        raise ConfigError(str(error), where="autorater_config") from None


def _autorater(config: Any) -> Autorater:
    try:
        return autorater_of(config)
    except ValueError as error:
        raise ConfigError(str(error), where="autorater_config") from None


def _agent(model: Any, runnable: Any) -> Any:
    if model is not None and runnable is not None:
        raise ConfigError("both model and runnable are given", where="evaluate", allowed="one of them")
    if model is not None and not callable(model):
        found = f"found {type(model).__name__}"
        raise ConfigError(found, where="model", allowed="a function from the prompt to the response's text")
    return model if model is not None else runnable


def _filled(template: str, row: Mapping[str, Any]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in row:
            raise ConfigError(f"no column {name!r}", where="prompt_template", allowed=", ".join(map(str, row)))
        return str(row[name])

    return VARIABLE.sub(value, template)

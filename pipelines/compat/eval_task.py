"""EvalTask, with the names and arguments of the Vertex AI SDK, so that its users need to change only an import.

    from evalbeam import EvalTask, TrajectorySingleToolUse

    task = EvalTask(dataset=frame, metrics=["rouge_l_sum", TrajectorySingleToolUse(tool_name="set_light")])
    result = task.evaluate(runnable=agent)
    result.summary_metrics, result.metrics_table

Deliberate differences: everything is computed locally, without an evaluation service; a row whose agent fails keeps
its error and is excluded from the means of other metrics instead of being scored as an empty answer; a call of the
agent may take 60 seconds and has up to three attempts (`agent={...}` changes that); what a custom metric returns
besides its score is written to `<metric>/details`; datasets may be any that evalbeam reads; and an agent may be async.
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
    """A dataset and its metrics; `evaluate` may be called any number of times.

    Args:
        dataset: A DataFrame, a dict of columns, a list of dicts, or a path of JSONL, CSV or Parquet files; it is never
            changed.
        metrics: Names, or objects such as `Rouge`, `TrajectorySingleToolUse`, `CustomMetric` and `PointwiseMetric`; a
            bare name that no computed metric has (`fluency`) is that of a built-in template.
        experiment: Stored in the result's `metadata`; no experiment service is used, and a warning says so.
        metric_column_mapping: Dataset column for each metric input (prompt, reference ...). It takes precedence over a
            column with the input's own name, and also applies to the agent's input.
        output_uri_prefix: Folder, local or gs://, in which each run gets a subfolder; default: a temporary folder.
        autorater_config: Judge model of the judge metrics and its options: `autorater_model`, `sampling_count`,
            `flip_enabled`, `generation_config` (an SDK object or a dict). A metric's own one takes precedence.
        **config: Further sections of a configuration for every run: judges={"default": {...}} ...

    Raises:
        ConfigError: An argument is invalid or not supported.
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
        self._autorater, self._config = _read_autorater(autorater_config), config
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
                "predicted_trajectory": [...]}. Without both, the answers are in the dataset.
            prompt_template: Template of the prompt with {column} placeholders; only for datasets in memory.
            experiment_run_name: Stored in the result's `metadata`.
            response_column_name: Dataset column used as `response`.
            baseline_model_response_column_name: Dataset column used as `baseline_model_response`.
            evaluation_service_qps, retry_timeout: Ignored: no service is called.
            output_file_name: Name of the run's folder in `output_uri_prefix`; its ending (.csv, .jsonl, .parquet)
                selects the format of the tables.
            **config: Further sections of a configuration: agent={"timeout": 300}, slices=[["category"]] ...
        """
        dataset = self.dataset if prompt_template is None else add_prompts(self.dataset, str(prompt_template))
        config, (path, format_) = {**self._config, **config}, self._choose_output(output_file_name)
        columns = self._map_columns(response_column_name, baseline_model_response_column_name)
        sections = {
            "dataset_options": {"columns": columns, **config.pop("dataset_options", {})},
            "output_options": {**config.pop("output_options", {}), **format_},
        }
        metrics, agent = [name_metric(metric, self._autorater) for metric in self.metrics], _agent(model, runnable)
        sections["judges"] = {**build_judges(self._autorater, self.metrics), **(config.pop("judges", None) or {})}
        result = evaluate(dataset, metrics, agent, output=path, **sections, **config)
        return replace(result, metadata=self._build_metadata(experiment_run_name))

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
        return storage.join(self._output_uri_prefix, folder), {"format": format_} if format_ else {}

    def _build_metadata(self, run_name: str | None) -> dict[str, str] | None:
        if self.experiment is None and run_name is None:
            return None
        warnings.warn("the experiment is stored only in the result's metadata, in no service", stacklevel=3)
        given = {"experiment": self.experiment, "experiment_run": run_name}
        return {key: value for key, value in given.items() if value is not None}


def add_prompts(dataset: Any, template: str) -> Any:
    """Adds a column `prompt`, the template filled with each row; placeholders within values are not expanded.

    Args:
        dataset: A DataFrame, a dict of columns or a list of dicts; it is not modified.
        template: Text with {column} placeholders.

    Raises:
        ConfigError: The dataset is not in memory, or has no column that the template names.
    """
    if hasattr(dataset, "to_dict"):
        return dataset.assign(prompt=[_fill_template(template, row) for row in dataset.to_dict("records")])
    if isinstance(dataset, Mapping):
        rows = (dict(zip(dataset, values, strict=True)) for values in zip(*dataset.values(), strict=True))
        return {**dataset, "prompt": [_fill_template(template, row) for row in rows]}
    if isinstance(dataset, list) and all(isinstance(row, Mapping) for row in dataset):
        return [{**row, "prompt": _fill_template(template, row)} for row in dataset]
    raise ConfigError(
        "a template needs the rows in memory", where="prompt_template", allowed="a column 'prompt' in the dataset"
    )


def name_metric(metric: Any, autorater: Autorater = _AS_THEY_ARE) -> Any:
    """Converts a metric to its form in a configuration; objects get the name that the SDK gives their columns.

    Args:
        metric: A name, a mapping, or an object.
        autorater: Judge options of metrics without their own.

    Raises:
        ConfigError: The object is not a metric.
    """
    asked = {key: v for key, v in (("samples", autorater.samples), ("flip", autorater.flip)) if v is not None}
    if isinstance(metric, str | Mapping):
        config = {"metric": metric} if isinstance(metric, str) else dict(metric)
        name = config.get("metric")
        if not isinstance(name, str) or ":" in name:
            return metric
        full = registry.full_name("metric", name, ("template",))
        config = {**_select_params(registry.find("metric", full, "metrics").factory, asked), "name": name, **config}
        return metric if full == name and len(config) == 2 else {**config, "metric": full}
    if not isinstance(metric, Metric) and not callable(metric):
        raise ConfigError(f"found {type(metric).__name__}", where="metrics", allowed="a name or a metric object")
    if isinstance(metric, JudgedMetric) and getattr(metric, "autorater_config", None) is None:
        metric = replace(metric, **_select_params(type(metric), asked))
    return {"metric": metric, "name": getattr(metric, "name", "") or registry.name_of("metric", metric) or ""}


def _select_params(factory: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the parameters that a judge metric has; none for other metrics."""
    if not (isinstance(factory, type) and issubclass(factory, JudgedMetric)):
        return {}
    return {key: v for key, v in given.items() if key in {f.name for f in fields(factory)}}


def build_judges(autorater: Autorater, metrics: Sequence[Any]) -> dict[str, Any]:
    """Builds the judges that autoraters name: the task's as "default", those of metrics by their models."""
    own = [_read_autorater(getattr(metric, "autorater_config", None)) for metric in metrics]
    named = {one.judge: one for one in own if one.model is not None}
    found = {"default": autorater} if autorater.model is not None else {}
    try:
        return {name: one.section for name, one in {**found, **named}.items()}
    except ValueError as error:
        raise ConfigError(str(error), where="autorater_config") from None


def _read_autorater(config: Any) -> Autorater:
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


def _fill_template(template: str, row: Mapping[str, Any]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in row:
            raise ConfigError(f"no column {name!r}", where="prompt_template", allowed=", ".join(map(str, row)))
        return str(row[name])

    return VARIABLE.sub(value, template)

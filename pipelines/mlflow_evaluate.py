"""`mlflow.evaluate(model_type="databricks-agent")`, with its arguments and the names of its results.

import evalbeam

result = evalbeam.mlflow_evaluate(
    data=pd.DataFrame([{"request": "What is RAG?", "response": "Retrieval ..."}]),
    model_type="databricks-agent",
    evaluator_config={"databricks-agent": {"metrics": []}},
)
result.metrics, result.tables["eval_results"]
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..schemas.databricks import JUDGES, guidelines_of
from ..schemas.errors import ConfigError, RowError
from .eval_task import named
from .evaluate import evaluate
from .result import EvaluationResult

if TYPE_CHECKING:
    import pandas as pd

MODEL_TYPE = "databricks-agent"
COMPUTED = (
    "document_recall",
    "document_ratings",
    "total_token_count",
    "total_input_token_count",
    "total_output_token_count",
)
"""What is computed of every row that has what it takes, beside the latency."""
_KEYS = ("metrics", "global_guidelines", "examples_df", "domain_instructions")
_WHERE = f"evaluator_config.{MODEL_TYPE}"


@dataclass(frozen=True)
class MlflowResult:
    """What `mlflow.evaluate` gives back.

    Attributes:
        evaluation: The run behind it, with all its tables.
    """

    evaluation: EvaluationResult

    @property
    def metrics(self) -> dict[str, float | int]:
        """Aggregates under Databricks' names, those that are defined, and `row_count`."""
        found = self.evaluation.summary_metrics.items()
        return {name: value for name, value in found if value is not None and not math.isnan(value)}

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """ "eval_results": one row for each row of the data, in its order."""
        table = self.evaluation.metrics_table
        names = {"error_message": "model_error_message", "dataset.request_id": "request_id"}
        if not {"request_id", "dataset.request_id"} & {*table.columns}:
            names["instance_id"] = "request_id"
        return {"eval_results": table.rename(columns=names)}


def mlflow_evaluate(
    data: Any,
    model: Any = None,
    model_type: str = MODEL_TYPE,
    evaluator_config: Mapping[str, Any] | None = None,
    *,
    extra_metrics: Sequence[Any] = (),
    **config: Any,
) -> MlflowResult:
    """Evaluates an agent, or recorded answers, as Databricks Agent Evaluation does.

    Retrieval against ground truth, token counts and latency are computed. Its judges need a judge model and are not
    computed yet: a warning names them, and `{"metrics": []}` says that none is wanted.

    Args:
        data: A DataFrame, a list of dicts or a path; columns of Agent Evaluation or of MLflow 3 (`request` or `inputs`
            ...), a column `trace` also of MLflow's `Trace` objects.
        model: A function from the request to the response, an object with `predict`, or "module:name"; text reaches it
            as `{"messages": [...]}`. Without it the rows carry responses or traces.
        model_type: "databricks-agent".
        evaluator_config: {"databricks-agent": {...}} with `metrics` (names of judges), `global_guidelines`,
            `examples_df` and `domain_instructions`; all but the first are for judges.
        extra_metrics: Further metrics, as for `evaluate`; their columns are `metric/<name>/value`.
        **config: Other arguments of `evaluate`: `output`, `options`, `slices` ...

    Raises:
        ConfigError: An argument cannot be honoured.
    """
    if model_type != MODEL_TYPE:
        raise ConfigError(f"found {model_type!r}", where="model_type", allowed=repr(MODEL_TYPE))
    _judges(evaluator_config or {})
    target = {} if model is None else {"type": "mlflow", "target": _local(model)}
    agent = {**(config.pop("agent", None) or {}), **target}
    sections = {
        "dataset_options": {"dialect": "databricks", **config.pop("dataset_options", {})},
        "output_options": {"names": "databricks", **config.pop("output_options", {})},
    }
    metrics = [*COMPUTED, *map(named, extra_metrics)]
    return MlflowResult(evaluate(_without_objects(data), metrics, agent=agent, **sections, **config))


def _judges(evaluator_config: Mapping[str, Any]) -> None:
    """Checks the configuration of the judges and says that they are not computed."""
    if unknown := next((key for key in evaluator_config if key != MODEL_TYPE), None):
        raise ConfigError(f"unknown key {unknown!r}", where="evaluator_config", allowed=MODEL_TYPE)
    own = evaluator_config.get(MODEL_TYPE) or {}
    if unknown := next((key for key in own if key not in _KEYS), None):
        raise ConfigError(f"unknown key {unknown!r}", where=_WHERE, allowed=", ".join(_KEYS))
    wanted = own.get("metrics")
    for name in wanted or ():
        if name not in JUDGES:
            raise ConfigError(f"no judge named {name!r}", where=f"{_WHERE}.metrics", allowed=", ".join(JUDGES))
    if wanted:
        found = f"{', '.join(wanted)} need a judge model, and none can be configured yet"
        raise ConfigError(found, where=f"{_WHERE}.metrics", allowed="[]")
    if own.get("global_guidelines") is not None:
        try:
            guidelines_of(own["global_guidelines"], "global_guideline_adherence")
        except RowError as error:
            raise ConfigError(error.message, where=f"{_WHERE}.global_guidelines") from None
    if wanted is None:
        names = ", ".join(JUDGES)
        warnings.warn(f"these judges need a judge model and are not computed: {names}", stacklevel=3)


def _local(model: Any) -> Any:
    if isinstance(model, str) and ":/" in model:
        allowed = 'a function, an object with predict (mlflow.pyfunc.load_model gives one), or "module:name"'
        raise ConfigError(f"found {model!r}", where="model", allowed=allowed)
    return model


def _without_objects(data: Any) -> Any:
    """The data with MLflow's `Trace` objects in the column `trace` as JSON text."""
    if hasattr(data, "assign") and "trace" in data:
        return data.assign(trace=[_trace(value) for value in data["trace"]])
    if isinstance(data, list):
        return [{**r, "trace": _trace(r["trace"])} if isinstance(r, Mapping) and "trace" in r else r for r in data]
    return data


def _trace(value: Any) -> Any:
    return value.to_json() if callable(getattr(value, "to_json", None)) else value

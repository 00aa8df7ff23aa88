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

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...schemas.errors import ConfigError, RowError
from ...schemas.formats.databricks import JUDGES, OVERALL, guidelines_of
from ...schemas.names import documented_spelling
from ...transforms.agents.mlflow import MlflowAgent
from ...transforms.dialects.databricks import Databricks
from ..run.evaluate import evaluate
from ..run.result import EvaluationResult
from .eval_task import name_metric

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
"""Metrics computed for every row that has their inputs, besides the latency."""
MAX_EXAMPLES = 5
"""Maximum rows of `examples_df`, as in Agent Evaluation."""
_KEYS = ("metrics", "global_guidelines", "examples_df", "domain_instructions")
_WHERE = f"evaluator_config.{MODEL_TYPE}"
_RATED = ("rating", "rationale")
_CHUNKS = JUDGES["chunk_relevance"].column


@dataclass(frozen=True)
class MlflowResult:
    """The result of `mlflow_evaluate`, with the attributes of MLflow's.

    Attributes:
        evaluation: The run behind it, with all its tables.
    """

    evaluation: EvaluationResult

    @property
    def metrics(self) -> dict[str, float | int]:
        """Defined aggregates under Databricks' names, and `row_count`.

        Names that the documentation spells differently from the product are there in both spellings.
        """
        found = {name: value for name, value in self.evaluation.summary_metrics.items() if value is not None}
        return found | {documented_spelling(name): value for name, value in found.items()}

    @property
    def result_df(self) -> pd.DataFrame:
        """The table "eval_results"."""
        return self.tables["eval_results"]

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """ "eval_results": one row for each row of the data, in its order."""
        table = self.evaluation.metrics_table.copy(deep=False)
        names = {"error_message": "model_error_message", "dataset.request_id": "request_id"}
        if f"{_CHUNKS}/details" in table:
            details = table.pop(f"{_CHUNKS}/details")
            for part in ("ratings", "rationales", "error_messages"):
                table[f"{_CHUNKS}/{part}"] = [d[part] if isinstance(d, Mapping) else None for d in details]
        if not {"request_id", "dataset.request_id"} & {*table.columns}:
            names["instance_id"] = "request_id"
        for title in map(str, list(table)):
            if (documented := documented_spelling(title)) not in table:
                table[documented] = table[title]
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

    Retrieval against ground truth, token counts and latency are always computed. Its judges need a judge model
    (`judges={"default": {...}}`): those that `metrics` names run on every row; by default, each judge runs on the rows
    that the documentation specifies. Without a judge model a warning names the judges; `{"metrics": []}` disables them.

    Args:
        data: A DataFrame, a list of dicts or a path; columns of Agent Evaluation or of MLflow 3 (`request` or `inputs`
            ...), a column `trace` also of MLflow's `Trace` objects.
        model: A function from the request to the response, an object with `predict`, "module:name", or the URI of a
            model of MLflow; text reaches it as `{"messages": [...]}`. Without it, the rows hold responses or traces.
        model_type: "databricks-agent".
        evaluator_config: {"databricks-agent": {...}} with `metrics` (names of judges), `global_guidelines`,
            `examples_df` (up to 5 rows with `<judge>/rating`) and `domain_instructions` ({judge: text}).
        extra_metrics: Further metrics, as for `evaluate`; their columns are `metric/<name>/value`.
        **config: Other arguments of `evaluate`: `output`, `options`, `slices` ...

    Raises:
        ConfigError: An argument is invalid or not supported.
    """
    if model_type != MODEL_TYPE:
        raise ConfigError(f"found {model_type!r}", where="model_type", allowed=repr(MODEL_TYPE))
    judges = _build_judges(evaluator_config or {}, data, bool(config.get("judges")))
    target = {} if model is None else {"type": "mlflow", "target": _check_model(model)}
    agent = {**(config.pop("agent", None) or {}), **target}
    sections = {
        "dataset_options": {"dialect": "databricks", **config.pop("dataset_options", {})},
        "output_options": {"column_style": "databricks", **config.pop("output_options", {})},
    }
    metrics = [*judges, *COMPUTED, *map(name_metric, extra_metrics)]
    return MlflowResult(evaluate(encode_traces(data), metrics, agent=agent, **sections, **config))


def _build_judges(evaluator_config: Mapping[str, Any], data: Any, there: bool) -> list[dict[str, Any]]:
    """Builds the judge metrics of a configuration; `there` is true if there is a judge model.

    Raises:
        ConfigError: The configuration is invalid, or names judges without a judge model.
    """
    own = _check_config(evaluator_config)
    wanted = own.get("metrics")
    if not there:
        if wanted:
            found = f"{', '.join(wanted)} need a judge model, and none is configured"
            allowed = '[], or judges={"default": {"type": "google", "model": "gemini-2.5-flash"}}'
            raise ConfigError(found, where=f"{_WHERE}.metrics", allowed=allowed)
        if wanted is None:
            names = ", ".join(JUDGES)
            warnings.warn(f"these judges need a judge model and are not computed: {names}", stacklevel=3)
        return []
    metrics = build_judge_metrics(wanted, own.get("global_guidelines"), list_guideline_names(data))
    return [{**metric, **_build_teaching(own, metric["metric"].partition("/")[2])} for metric in metrics]


def _build_teaching(own: Mapping[str, Any], judge: str) -> dict[str, Any]:
    """Returns the parameters by which a judge learns the domain; none for what is not a judge."""
    instructions = (own.get("domain_instructions") or {}).get(judge)
    examples = _select_examples(own.get("examples_df"), judge)
    given = {"instructions": instructions, "examples": examples}
    return {name: value for name, value in given.items() if value}


def _select_examples(table: Any, judge: str) -> list[dict[str, Any]]:
    """Selects the rated rows of a judge from `examples_df`, with the rating as "yes" or "no"."""
    rows = table.to_dict("records") if hasattr(table, "to_dict") else list(table or ())
    column = JUDGES[judge].column if judge in JUDGES else judge
    found = []
    for row in rows:
        parts = {p: next((row[k] for k in (f"{judge}/{p}", f"{column}/{p}") if k in row), None) for p in _RATED}
        if parts["rating"] in ("yes", "no"):
            shown = {k: v for k, v in row.items() if "/" not in k and v is not None and v == v}
            found.append({**shown, **{k: v for k, v in parts.items() if isinstance(v, str)}})
    return found


def build_judge_metrics(
    wanted: Sequence[str] | None, global_guidelines: Any, guidelines: Sequence[str]
) -> list[dict[str, Any]]:
    """Builds the metric configurations: one for each judge and each name of guidelines, and the overall assessment.

    Args:
        wanted: Names of judges to run on all rows; `None` for all, each on the rows that the documentation specifies.
        global_guidelines: Guidelines of `global_guideline_adherence`, a list or {name: list}.
        guidelines: Names of the rows' guidelines, "" for unnamed ones.
    """
    found: list[dict[str, Any]] = []
    rows = "documented" if wanted is None else "asked"
    for name in JUDGES if wanted is None else dict.fromkeys(wanted):
        metric = {"metric": f"databricks/{name}", "rows": rows}
        if name == "guideline_adherence":
            found += [{**metric, "name": _join_name(name, g), "guideline": g} for g in guidelines]
        elif name != "global_guideline_adherence":
            found.append({**metric, "name": name})
    if global_guidelines and (wanted is None or "global_guideline_adherence" in wanted):
        judge = "global_guideline_adherence"
        for name, texts in guidelines_of(global_guidelines, judge).items():
            found.append({"metric": f"databricks/{judge}", "rows": rows, "name": name, "guidelines": texts})
    return [*found, {"metric": f"databricks/{OVERALL.name}", "name": OVERALL.name}] if found else []


def list_guideline_names(data: Any) -> list[str]:
    """Lists the names of the guidelines in the rows of an in-memory dataset, in order, "" for unnamed ones.

    For other data the names are unknown before the run, so one judge gets all guidelines of a row.
    """
    if hasattr(data, "to_dict"):
        data = data.to_dict("records")
    if not isinstance(data, list):
        return [""]
    names: dict[str, None] = {}
    for row in data:
        value = _read_guidelines(row) if isinstance(row, Mapping) else None
        try:
            found = {} if value is None else guidelines_of(value, "")
        except RowError:
            continue  # the judge reports the error in that row
        names |= dict.fromkeys(name.removeprefix("/") for name in found)
    return list(names)


def _check_config(evaluator_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the evaluator's section after checking its keys and judges.

    Raises:
        ConfigError: A key or judge is unknown, or guidelines are invalid.
    """
    if unknown := next((key for key in evaluator_config if key != MODEL_TYPE), None):
        raise ConfigError(f"unknown key {unknown!r}", where="evaluator_config", allowed=MODEL_TYPE)
    own = evaluator_config.get(MODEL_TYPE) or {}
    if unknown := next((key for key in own if key not in _KEYS), None):
        raise ConfigError(f"unknown key {unknown!r}", where=_WHERE, allowed=", ".join(_KEYS))
    for name in own.get("metrics") or ():
        if name not in JUDGES:
            raise ConfigError(f"no judge named {name!r}", where=f"{_WHERE}.metrics", allowed=", ".join(JUDGES))
    _check_teaching(own)
    if own.get("global_guidelines") is not None:
        try:
            guidelines_of(own["global_guidelines"], "global_guideline_adherence")
        except RowError as error:
            raise ConfigError(error.message, where=f"{_WHERE}.global_guidelines") from None
    return own


def _check_teaching(own: Mapping[str, Any]) -> None:
    examples, instructions = own.get("examples_df"), own.get("domain_instructions")
    if not isinstance(instructions, Mapping | None):
        found = type(instructions).__name__
        raise ConfigError(f"found {found}", where=f"{_WHERE}.domain_instructions", allowed="{judge: text}")
    for name in instructions or ():
        if name not in JUDGES:
            where = f"{_WHERE}.domain_instructions"
            raise ConfigError(f"no judge named {name!r}", where=where, allowed=", ".join(JUDGES))
    if examples is not None and len(examples) > MAX_EXAMPLES:
        allowed = f"at most {MAX_EXAMPLES}"
        raise ConfigError(f"found {len(examples)} rows", where=f"{_WHERE}.examples_df", allowed=allowed)


def _join_name(judge: str, name: str) -> str:
    return f"{judge}/{name}" if name else judge


def _read_guidelines(row: Mapping[str, Any]) -> Any:
    """Returns the guidelines of a row, or those logged on its trace; `None` if the row is rejected or has none."""
    own: Any = row.get("guidelines")
    own = own.tolist() if hasattr(own, "tolist") else own
    if isinstance(own, str | list | Mapping):
        return own
    try:
        return Databricks().fields(dict(row)).get("guidelines")
    except RowError:
        return None


def _check_model(model: Any) -> Any:
    if isinstance(model, str) and ":/" in model and not MlflowAgent.claims(model):
        allowed = 'a function, an object with predict, "module:name", "models:/..." or "runs:/..."'
        raise ConfigError(f"found {model!r}", where="model", allowed=allowed)
    return model


def encode_traces(data: Any) -> Any:
    """Converts MLflow's `Trace` objects, in the column `trace` or as the rows of a list, to JSON text."""
    if hasattr(data, "assign") and "trace" in data:
        return data.assign(trace=[_encode(value) for value in data["trace"]])
    if not isinstance(data, list):
        return data
    rows = [row if isinstance(row, Mapping) or _encode(row) is row else {"trace": row} for row in data]
    return [{**r, "trace": _encode(r["trace"])} if isinstance(r, Mapping) and "trace" in r else r for r in rows]


def _encode(value: Any) -> Any:
    return value.to_json() if callable(getattr(value, "to_json", None)) else value

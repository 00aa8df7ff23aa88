"""`mlflow.genai.evaluate`, with its arguments and the names of its results.

import evalbeam

result = evalbeam.genai_evaluate(
    data=[{"inputs": {"question": "Who wrote Faust?"}, "expectations": {"expected_facts": ["Goethe wrote Faust"]}}],
    scorers=[Correctness(), is_short],
    predict_fn=my_agent.answer,                      # called as answer(question=...)
    judges={"default": {"type": "google", "model": "gemini-2.5-flash"}},
)
result.metrics, result.result_df
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...schemas.errors import ConfigError
from ..run.evaluate import evaluate
from .mlflow_evaluate import MlflowResult, encode_traces
from .mlflow_scorers import add_sessions, build_scorers, find_judge_model, judges_sessions


def genai_evaluate(
    data: Any, scorers: Sequence[Any], predict_fn: Any = None, model_id: str | None = None, **config: Any
) -> MlflowResult:
    """Evaluates an agent, recorded answers or traces with scorers of MLflow 3.

    Args:
        data: A DataFrame, a list of dicts with `inputs`, `outputs`, `expectations` and `trace`, a list of MLflow's
            `Trace` objects, an evaluation dataset of MLflow (an object with `to_df`), or a path.
        scorers: Functions of `inputs`, `outputs`, `expectations` and `trace`, and objects of MLflow. Its built-in
            scorers, also as names ("Correctness"), are decided by the judges of evalbeam, those of `make_judge` by
            MLflow and the model that they name. Scorers of sessions get the traces of each session, and their score
            stands in the row of its first trace. Also names and objects of evalbeam's metrics; those that judge
            conversations (`adk/multi_turn_...`) get the sessions, too.
        predict_fn: A function that is called as `predict_fn(**inputs)`, an object with such a `predict`, or
            "module:name". Without it, the rows hold outputs or traces.
        model_id: Not supported: there is no registry of models.
        **config: Other arguments of `evaluate`: `judges`, `output`, `options`, `slices` ... Without `judges`, the
            judges are asked at the model that the scorers name (`Correctness(model="openai:/gpt-5-mini")`).

    Returns:
        The result, with `metrics` (`<scorer>/mean`) and `result_df` (`<scorer>/value`, `<scorer>/rationale` ...).

    Raises:
        ConfigError: An argument is invalid or not supported.
    """
    if model_id is not None:
        raise ConfigError(f"found {model_id!r}", where="model_id", allowed="none, since there is no registry of models")
    data = encode_traces(data.to_df() if callable(getattr(data, "to_df", None)) else data)
    if any(map(judges_sessions, scorers)):
        data = add_sessions(data)
    target = {} if predict_fn is None else {"type": "mlflow", "gives": "inputs", "target": predict_fn}
    sections = {
        "agent": {**(config.pop("agent", None) or {}), **target},
        "dataset_options": {"dialect": "databricks", **config.pop("dataset_options", {})},
        "output_options": {"column_style": "mlflow3", **config.pop("output_options", {})},
        "judges": config.pop("judges", None) or find_judge_model(scorers),
    }
    return MlflowResult(evaluate(data, build_scorers(scorers, bool(sections["judges"])), **sections, **config))

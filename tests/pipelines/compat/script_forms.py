"""The forms in which public scripts and services call EvalTask, beside those of notebooks (notebook_forms.py)."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from .notebook_forms import answers, check, form


@form
def dictionary_of_columns(sdk: Any) -> None:
    def same(instance: dict[str, Any]) -> dict[str, Any]:
        return {"same": float(instance["response"] == instance["reference"]), "explanation": "compared"}

    dataset = {"instruction": ["one", "two"], "response": ["uno", "due"], "reference": ["uno", "x"]}
    result = sdk.EvalTask(dataset=dataset, metrics=[sdk.CustomMetric(name="same", metric_function=same)]).evaluate()
    assert list(check(result, "same/score").metrics_table["same/score"]) == [1.0, 0.0]


@form
def one_task_for_each_group_of_rows(sdk: Any) -> None:
    dataset = answers(reference=["uno", "x"], session=["a", "b"])
    tables = []
    for _, rows in dataset.groupby("session"):
        result = sdk.EvalTask(dataset=rows, metrics=["exact_match"], experiment="groups").evaluate(retry_timeout=250)
        tables.append(pd.DataFrame(result.metrics_table))
    scores = pd.concat(tables, axis=0)
    scores = scores[[column for column in scores.columns if column.endswith("/score")]].fillna(0)
    assert list(scores.mean(axis=0).values * 100) == [50.0]


@form
def summary_as_json(sdk: Any) -> None:
    summary = sdk.EvalTask(dataset=answers()[:1], metrics=["fluency"]).evaluate().summary_metrics
    told = {k: None if pd.isna(v) else float(v) if hasattr(v, "__float__") else v for k, v in summary.items()}
    assert json.loads(json.dumps(told))["row_count"] == 1

"""Datasets without answers whose metrics show their judges other columns, as templates of the Vertex AI SDK may."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ...schemas.instance import FROM_INVOCATION
from ...transforms.metrics._judged import JudgedMetric

_ANSWER = "response"


def add_unread_answers(dataset: Any, judged: Sequence[JudgedMetric], config: Mapping[str, Any]) -> Any:
    """Adds empty answers to a dataset that has none, if the metrics read only columns of the dataset.

    Without an answer a row would be one whose agent failed, which no metric scores.

    Args:
        dataset: What EvalTask was given; not changed.
        judged: The metrics, which judges score.
        config: The further arguments of `evaluate`.

    Returns:
        The dataset with a column `response` of empty texts; the same one if a metric reads answers, if there are some,
        or if it is not a DataFrame or a dict of columns.
    """
    pandas = sys.modules.get("pandas")
    framed = pandas is not None and isinstance(dataset, pandas.DataFrame)
    if config["agent"] or not (framed or isinstance(dataset, Mapping)):
        return dataset
    options = config["dataset_options"]
    known = {options["columns"].get(str(column), str(column)) for column in dataset}
    known |= {"prompt"} if "prompt_template" in options else set()
    read = {name for metric in judged for name in metric.inputs}
    if known & FROM_INVOCATION.keys() or read & FROM_INVOCATION.keys() or not read <= known:
        return dataset
    if isinstance(dataset, Mapping):
        size = len(next(iter(dataset.values())))
        return {**dataset, _ANSWER: [""] * size}
    return dataset.assign(**{_ANSWER: ""})

"""`metrics_table` of a dataset in memory keeps its order: duplicates, repeated inputs and unusable rows included."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pytest

from evalbeam import evaluate


@pytest.mark.parametrize("as_frame", [False, True])
def test_rows_come_back_in_the_order_of_the_dataset(as_frame: bool) -> None:
    """Rows with one prompt get ordinals by their other values, so their order is not that of the dataset."""
    random.seed(3)
    numbers = random.sample(range(1000), 60)
    rows: list[dict[str, Any]] = [
        {"prompt": f"p{n % 20}", "number": n, "response": "x", "reference": "x"} for n in numbers
    ]
    result = evaluate(pd.DataFrame(rows) if as_frame else rows, ["exact_match"], trials=2)
    assert list(result.metrics_table["number"]) == [n for n in numbers for _ in range(2)]
    assert list(result.metrics_table["trial"]) == [0, 1] * 60


def test_unusable_rows_and_declared_columns_do_not_disturb_it() -> None:
    rows = [{"prompt": f"p{n}", "score": n, "reference": "x"} for n in (5, 3, 9, 1)]
    rows.insert(2, {"score": 7})
    options = {"columns": {"score": "float64"}, "max_invalid_fraction": 0.5}
    result = evaluate(rows, ["exact_match"], str.upper, dataset_options=options)
    assert list(result.metrics_table["response"]) == ["P5", "P3", "P9", "P1"]
    assert list(result.metrics_table["score"]) == [5.0, 3.0, 9.0, 1.0]


def test_a_limit_keeps_the_order_of_what_it_keeps() -> None:
    rows = [{"prompt": f"p{n}", "response": "x", "reference": "x"} for n in range(40)]
    kept = list(evaluate(rows, ["exact_match"], dataset_options={"limit": 9}).metrics_table["prompt"])
    assert len(kept) == 9
    assert kept == sorted(kept, key=lambda prompt: int(prompt[1:]))

"""Mistakes in a configuration are told in one line: the key, what was found, what is allowed."""

from __future__ import annotations

import pytest

from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.schemas.errors import ConfigError

BASE = "dataset: {path: rows.jsonl}\nmetrics: [exact_match]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "e.yaml: found nothing (allowed: a mapping with dataset, metrics ...)"),
        ("metrics: [bleu]", "e.yaml: dataset: missing"),
        (
            "dataset: rows.jsonl\nmetrics: [bleu]",
            "e.yaml: dataset: found 'rows.jsonl' (allowed: a mapping with columns,",
        ),
        ("dataset: {path: a}\nmetrics: bleu", "e.yaml: metrics: found 'bleu' (allowed: a list)"),
        (BASE + "agents: {target: a}", "e.yaml: agents: unknown key 'agents'; did you mean 'agent'?"),
        (BASE + "agent: {timeout: 30s}", "e.yaml: agent.timeout: found '30s' (allowed: a number)"),
        (BASE + "budget: {max_calls: 1e9.5}", "e.yaml: budget.max_calls: found '1e9.5' (allowed: a whole number)"),
        (BASE + "criteria: {exact_match: 90%}", "e.yaml: criteria.0.min: found '90%' (allowed: a number)"),
        (
            BASE + "judges: {type: openai, model: x}",
            "e.yaml: judges.type: found 'openai' (allowed: a mapping with type",
        ),
        (
            "dataset: {path: a, columns: {zip: str}}\nmetrics: [bleu]",
            "e.yaml: dataset.columns: found {'zip': 'str'} (allowed: string, int64, float64, bool, timestamp, json, or",
        ),
    ],
)
def test_a_mistake_is_told(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EvaluationConfig.load(text, "e.yaml")
    assert str(caught.value).startswith(message)


def test_columns_stand_for_types_and_names() -> None:
    text = "dataset: {path: a, columns: {zip: string, q: prompt, day: {as: date}}}\nmetrics: [bleu]"
    columns = EvaluationConfig.load(text).dataset.columns
    assert [(c.type, c.as_) for c in columns.values()] == [("string", None), (None, "prompt"), (None, "date")]

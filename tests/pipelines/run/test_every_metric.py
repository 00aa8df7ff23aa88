"""Every metric in one run over 1,000 rows, judged by fake models over HTTP that refuse, break off and fail at times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from model_server import ModelServer, serving
from scripted_models import RETRY_AFTER, ScriptedModels

from evalbeam import evaluate
from evalbeam.transforms import registry
from evalbeam.transforms.metrics._judged import JudgedMetric, is_judged
from evalbeam.transforms.metrics.base import Metric

from . import every_metric as everything

ROWS = list(everything.rows())
METRICS = everything.metrics()
CODES = ("refused", "truncated", "invalid_verdict", "judge_failed")
TYPES = {"gemini": "google", "gpt": "openai", "claude": "anthropic"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    with serving() as model:
        model.said = ScriptedModels()
        yield model


def run(server: ModelServer, home: Path) -> Any:
    """One start of the command."""
    (home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (home / "out" / "manifest.json").unlink(missing_ok=True)  # as a run that was killed before its end
    called = {"api_key": "${env:JUDGE_KEY}", "backoff": 0.01, "timeout": 300, "max_in_flight": 16}
    judges = {
        name: {"type": kind, "model": name, "base_url": server.url + ("/v1" if name == "gpt" else ""), **called}
        for name, kind in TYPES.items()
    }
    return evaluate(str(home / "rows.jsonl"), METRICS, judges=judges, output=str(home / "out"))


def test_every_metric_over_a_thousand_rows(server: ModelServer, tmp_path: Path) -> None:
    models: Any = server.said
    result = run(server, tmp_path)
    assert (result.state, len(ROWS)) == ("finished", 1000)
    table = result.metrics_table
    check_rows(table)
    for metric in METRICS:
        check_scores(table, metric["name"], built(metric))
    check_errors(table)
    check_spent(result, models)
    assert {asked.protocol for asked in server.asked} == {"gemini", "openai", "anthropic"}
    assert min(models.waited) >= RETRY_AFTER

    first = dict(models.fates)
    models.asked.clear()
    models.down = False
    again = run(server, tmp_path)
    down = {question for question, (_, fate) in first.items() if fate == "down"}
    assert {question for question in models.asked if question in first} == down
    assert max(models.asked[question] for question in down) == 1
    table = again.metrics_table
    check_rows(table)
    check_spent(again, models)
    assert set(codes(table)) == {"refused", "truncated", "invalid_verdict"}


def built(metric: dict[str, Any]) -> Metric:
    params = {k: v for k, v in metric.items() if k not in ("metric", "name")}
    return registry.build(registry.find("metric", metric["metric"]), params, metric["name"])


def check_rows(table: pd.DataFrame) -> None:
    """Rows in = rows out, equal ones too, and every metric has its columns."""
    assert sorted(table["row"]) == sorted(row["row"] for row in ROWS)
    assert {f"{metric['name']}/status" for metric in METRICS} <= set(table.columns)
    names = {metric["metric"] for metric in METRICS}
    assert names == set(everything.list_names())


def check_scores(table: pd.DataFrame, name: str, metric: Metric) -> None:
    """Rows that lack an input are skipped and say which; scores lie in their range; what has none says why."""
    status, error = table[f"{name}/status"], table[f"{name}/error"].fillna("")
    for kind in everything.KINDS:
        of_kind = table["row"].str.startswith(f"{kind.__name__} ")
        lacking = [f"missing_{i}" for i in metric.inputs if not everything.has(kind, i)]
        if kind is everything.failed or lacking:
            code = "agent_failed" if kind is everything.failed else lacking[0]
            assert set(status[of_kind]) == {"skipped"}, (name, kind)
            assert set(error[of_kind].str.partition(":")[0]) == {code}, (name, kind)
    scored = status == "scored"
    assert scored.any(), name
    assert (error[scored] == "").all(), name
    assert error[status.isin(("error", "skipped"))].str.match(r"\w+: \S").all(), name
    if "pairwise_choice" in metric.outputs:
        assert set(table.loc[scored, f"{name}/pairwise_choice"]) <= {"BASELINE", "CANDIDATE", "TIE"}, name
        return
    values = table[f"{name}/score"]
    assert values[scored].notna().all()
    assert values[~scored].isna().all()
    if metric.range is not None:
        assert values[scored].between(*metric.range).all(), name
    if isinstance(metric, JudgedMetric) and is_judged(metric) and scored.sum() > 20:  # fewer may happen to agree
        assert values[scored].nunique() > 1, name


def errors(table: pd.DataFrame) -> Counter[str]:
    """How many scores of judges have which error."""
    found: Counter[str] = Counter()
    for name in (metric["name"] for metric in METRICS if is_judged(built(metric))):
        found.update(table.loc[table[f"{name}/status"] == "error", f"{name}/error"])
    return found


def codes(table: pd.DataFrame) -> Counter[str]:
    """How many scores of judges have an error of each code."""
    found: Counter[str] = Counter()
    for text, count in errors(table).items():
        found[text.partition(":")[0]] += count
    return found


def check_errors(table: pd.DataFrame) -> None:
    """Every failed call has one of the codes, and each is there; those that nobody answered name what was raised."""
    assert set(codes(table)) == set(CODES)
    raised = {text for text in errors(table) if text.startswith("judge_failed")}
    assert raised == {"judge_failed: InternalServerError", "judge_failed: ServerError"}


def check_spent(result: Any, models: ScriptedModels) -> None:
    """The manifest counts what the models counted: verdicts, failures, and the tokens of both."""
    became: Counter[tuple[str, str]] = Counter(models.fates.values())
    good = ("answered", "limited", "broken") + (() if models.down else ("down",))
    spent = pd.DataFrame(result.manifest["judging"]["spent"]).groupby("judge").sum(numeric_only=True)
    assert set(spent.index) == set(TYPES)
    for judge, found in spent.iterrows():
        assert found["answers"] == sum(n for (model, fate), n in became.items() if model == judge and fate in good)
        assert found["failed"] == sum(n for (model, fate), n in became.items() if model == judge and fate not in good)
        assert found["not_asked"] == 0
        assert (found["input_tokens"], found["output_tokens"]) == models.tokens[str(judge)]

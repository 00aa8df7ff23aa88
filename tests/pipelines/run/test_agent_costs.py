"""What an agent costs: the tokens of its answers at the prices of their models, in the manifest and wherever shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.check.check import check
from evalbeam.pipelines.display.costs import spent_cells
from evalbeam.pipelines.display.run_text import render
from evalbeam.pipelines.report.page import write_report
from evalbeam.schemas.config.evaluation import EvaluationConfig

ROWS = [{"prompt": f"question {i}", "reference": "x"} for i in range(12)]
PRICES = {"m-1": {"input": 2.0, "output": 10.0}, "m-2": {"input": 1.0, "output": 1.0, "date": "2026-11-01"}}


def told(prompt: str) -> dict[str, Any]:
    return {"response": "x", "usage": {"input_tokens": 1000, "output_tokens": 100}}


def naming(prompt: str) -> dict[str, Any]:
    number = int(prompt.split()[1])
    if number == 11:
        raise ValueError("no")
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "model": "m-1" if number % 2 else "m-2"}
    return {"response": "x", "usage": usage}


def silent(prompt: str) -> str:
    return "x"


def cells(result: EvaluationResult) -> list[list[str]]:
    return [[row[0], *row[2:]] for row in spent_cells(result)]


def test_the_model_of_the_configuration_is_priced(tmp_path: Path) -> None:
    config: dict[str, Any] = {"agent": {"model": "m-1"}, "prices": PRICES, "currency": "EUR"}
    result = evaluate(ROWS, ["exact_match"], told, output=tmp_path / "out", trials=2, **config)
    answering = result.manifest["answering"]
    price = 24 * (1000 * 2.0 + 100 * 10.0) / 1e6
    assert answering["cost"] == pytest.approx(price)
    assert answering["spent"] == [
        {
            "model": "m-1",
            "answers": 24,
            "failed": 0,
            "input_tokens": 24_000,
            "output_tokens": 2400,
            "cost": answering["cost"],
            "price_date": None,
        }
    ]
    assert cells(result) == [["the agent's answers", "m-1", "24", "0", "24,000", "2,400", "0.072 EUR"]]
    assert "0.072 EUR" in render(result, 120)
    write_report(result)
    assert "0.072 EUR" in (tmp_path / "out" / "report.html").read_text()


def test_answers_name_their_models_and_recorded_ones_cost_the_same(tmp_path: Path) -> None:
    result = evaluate(ROWS, ["exact_match"], naming, output=tmp_path / "out", prices=PRICES)
    spent = result.manifest["answering"]["spent"]
    assert [(s["model"], s["answers"], s["failed"], s["cost"], s["price_date"]) for s in spent] == [
        (None, 0, 1, 0.0, None),
        ("m-1", 5, 0, pytest.approx(5 * 0.003), None),
        ("m-2", 6, 0, pytest.approx(6 * 0.0011), "2026-11-01"),
    ]
    recorded = [{**row, **naming(row["prompt"])} for row in ROWS[:11]]
    again = evaluate(recorded, ["exact_match"], output=tmp_path / "again", prices=PRICES).manifest["answering"]
    assert again["cost"] == pytest.approx(result.manifest["answering"]["cost"])


def test_tokens_or_prices_that_are_unknown_make_no_cost(tmp_path: Path) -> None:
    nothing = evaluate(ROWS, ["exact_match"], silent, output=tmp_path / "nothing", prices=PRICES)
    assert "answering" not in nothing.manifest
    assert cells(nothing) == []
    model = {"agent": {"model": "m-1"}}
    unknown = evaluate(ROWS, ["exact_match"], silent, output=tmp_path / "unknown", prices=PRICES, **model)
    assert unknown.manifest["answering"]["cost"] is None
    other = evaluate(ROWS, ["exact_match"], told, output=tmp_path / "other", prices=PRICES, agent={"model": "m-3"})
    assert cells(other)[0][-1] == "unknown"


def test_list_prices_are_named_and_only_shown(tmp_path: Path) -> None:
    priced = {"agent": {"model": "gpt-4o-mini-2024-07-18"}}
    result = evaluate(ROWS, ["exact_match"], told, output=tmp_path / "out", **priced)
    assert result.manifest["answering"]["cost"] is None
    shown = 12 * (1000 * 0.15 + 100 * 0.60) / 1e6
    assert cells(result)[0][-1] == f"{shown:.2g} USD (list price of 2026-03-01)"
    own = evaluate(ROWS, ["exact_match"], told, output=tmp_path / "own", prices=PRICES, **priced)
    assert cells(own)[0][-1] == "unknown"  # amounts of two price lists are never mixed


def test_a_model_of_a_function_may_be_named_later(tmp_path: Path) -> None:
    """It is no part of what the answers depend on, so the answers of a run are priced without calling anything."""
    first = evaluate(ROWS, ["exact_match"], told, output=tmp_path / "out")
    again = evaluate(ROWS, ["exact_match"], told, output=tmp_path / "again", agent={"model": "m-1"})
    assert first.manifest["fingerprint"] == again.manifest["fingerprint"]


def checked(tmp_path: Path, **more: Any) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    agent = {"target": told, "model": "m-1"}
    data = {"dataset": {"path": str(path)}, "metrics": ["exact_match"], "agent": agent, "output": {"path": "out"}}
    return check(EvaluationConfig.parse({**data, **more})).render(200)


def test_check_estimates_the_agent(tmp_path: Path) -> None:
    text = checked(tmp_path, prices=PRICES, currency="EUR")
    given, made = sum(len(row["prompt"]) for row in ROWS) / 4, 12 * 1 / 4
    assert f"expected cost: {(given * 2 + made * 10) / 1e6:.2g} EUR (m-1; {given:.0f} tokens in, 3 out" in text
    listed = checked(tmp_path, agent={"target": told, "model": "gpt-4o"})
    assert "list price of 2026-03-01, not yours" in listed
    assert "expected cost" not in checked(tmp_path)

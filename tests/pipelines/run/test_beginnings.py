"""Over a provider's protocol: questions with the same long beginning come one after the other, and change no table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from model_server import Asked, ModelServer, Said, serving, verdict

from evalbeam import EvaluationResult, evaluate

from ...transforms.judging.scripted import shared

CONTEXTS = [f"The {name} text. " * 60 for name in ("first", "second", "third")]
ROWS = [{"prompt": f"question {i}", "response": f"answer {i}", "context": CONTEXTS[i % 3]} for i in range(30)]
METRICS = ["fluency", "groundedness"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    with serving() as model:
        model.said = said
        yield model


def said(asked: Asked) -> Said:
    """A verdict that depends on the question alone."""
    number = int(hashlib.sha256(asked.user.encode()).hexdigest(), 16)
    return verdict(
        explanation=f"number {number % 97}", score=number % 2 if "<context" in asked.user else number % 5 + 1
    )


def run(server: ModelServer, path: Path, **more: Any) -> EvaluationResult:
    judge = {"type": "openai", "model": "m", "api_key": "${env:JUDGE_KEY}", "base_url": f"{server.url}/v1", **more}
    return evaluate(ROWS, METRICS, judges={"default": judge}, output=str(path), shards=1)


def test_what_shares_a_long_beginning_is_asked_together(server: ModelServer, tmp_path: Path) -> None:
    run(server, tmp_path / "out", max_in_flight=1)
    prompts = [f"{asked.system}\n{asked.user}" for asked in server.asked]
    assert len(prompts) == 60
    assert len([*groupby(asked.system for asked in server.asked)]) == len(METRICS)
    grounded = [asked for asked in server.asked if "<context" in asked.user]
    assert len([*groupby(asked.user.partition("</context")[0] for asked in grounded)]) == len(CONTEXTS)
    saved = sum(len(shared(*pair)) for pair in pairwise(prompts))
    assert saved == sum(len(shared(*pair)) for pair in pairwise(sorted(prompts)))  # no order shares more
    assert saved > 0.8 * sum(map(len, prompts))


def test_the_tables_do_not_depend_on_it(server: ModelServer, tmp_path: Path) -> None:
    one, many = run(server, tmp_path / "one", max_in_flight=1), run(server, tmp_path / "many", max_in_flight=16)
    files = [[Path(f).read_bytes() for t in ("instances", "summary") for f in r.files(t)] for r in (one, many)]
    assert files[0] == files[1]
    table = one.metrics_table
    assert table["instance_id"].is_monotonic_increasing or len(table) == len(ROWS)
    told = {asked.user: said(asked).text for asked in server.asked}
    for _, row in table.iterrows():
        (text,) = [t for user, t in told.items() if f">\n{row['response']}\n<" in user and "<context" in user]
        assert f'"{row["groundedness/explanation"]}"' in text

"""Judge metrics in whole runs: scores, the journal of votes, and what a configuration must say."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalbeam import evaluate
from evalbeam.pipelines.plan import make_plan
from evalbeam.schemas.config import EvaluationConfig
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Usage
from evalbeam.schemas.judging import Reply

ROWS = [{"prompt": f"question {i}", "response": f"{i}: " + "word " * (i % 5 + 1), "context": "text"} for i in range(40)]
SEEN: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    SEEN.clear()


async def by_words(messages: list[dict[str, str]], schema: dict[str, Any], vote: int) -> Reply:
    """A scripted judge: as many points as the answer has words; the first vote of each row says 1."""
    await asyncio.sleep(0)
    SEEN[messages[-1]["content"] + str(vote)] += 1
    score = messages[-1]["content"].count("word ") if vote else 1
    return Reply(value={"explanation": f"{score} words", "score": score}, usage=Usage(100, 10))


def config(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"judges": {"default": by_words}, "output": str(tmp_path / "out"), **more}


def test_a_judge_metric_scores_beside_a_computed_one(tmp_path: Path) -> None:
    result = evaluate(ROWS, ["fluency", "exact_match"], **config(tmp_path))
    table = result.metrics_table
    assert set(table["fluency/score"]) == {1.0}
    assert set(table["fluency/explanation"]) == {"1 words"}
    assert list(table.columns)[-7:] == [
        "fluency/score", "fluency/explanation", "fluency/confidence", "fluency/status", "fluency/error",
        "exact_match/score", "exact_match/status",
    ] or "exact_match/error" in table.columns  # fmt: skip
    assert result.summary_metrics["fluency/mean"] == 1.0
    assert sum(SEEN.values()) == 40
    assert result.manifest["config"]["metrics"][0] == {"metric": "rapid/fluency", "name": "fluency"}


def test_a_grown_panel_pays_only_for_the_new_votes(tmp_path: Path) -> None:
    three = [{"metric": "fluency", "samples": 3, "aggregate": "median"}]
    five = [{"metric": "fluency", "samples": 5, "aggregate": "median"}]
    evaluate(ROWS, three, **config(tmp_path))
    assert sum(SEEN.values()) == 120
    (tmp_path / "out" / "manifest.json").unlink()  # as a run that was killed before its end
    result = evaluate(ROWS, five, **config(tmp_path))
    assert sum(SEEN.values()) == 200
    assert set(SEEN.values()) == {1}
    assert result.metrics_table["fluency/score"].tolist() == [float(i % 5 + 1) for i in range(40)]


def test_a_metric_without_its_judge_is_refused(tmp_path: Path) -> None:
    base = {"dataset": {"path": str(tmp_path)}, "metrics": ["coherence"]}
    with pytest.raises(ConfigError, match=r"judge 'default'.*judges: \{default: \{type: google"):
        make_plan(EvaluationConfig.parse(base))
    other = base | {"metrics": [{"metric": "coherence", "judge": ["mine", "yours"]}], "judges": {"mine": by_words}}
    with pytest.raises(ConfigError, match=r"judge 'yours'.*allowed: mine"):
        make_plan(EvaluationConfig.parse(other))
    with pytest.raises(ConfigError, match=r"judges\.default\.temprature"):
        make_plan(EvaluationConfig.parse(base | {"judges": {"default": {"target": by_words, "temprature": 1}}}))


def test_a_graph_without_judge_metrics_asks_no_judge(tmp_path: Path) -> None:
    evaluate(ROWS, ["exact_match"], **config(tmp_path))
    assert not SEEN
    assert not (tmp_path / "out" / "journal").exists()

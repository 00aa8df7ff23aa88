"""Judge metrics in whole runs: scores, the journal of votes, and what a configuration must say."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalbeam import evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.display.calls import calls_report
from evalbeam.pipelines.display.run_text import render
from evalbeam.pipelines.report.page import render_page
from evalbeam.pipelines.run.build import make_plan
from evalbeam.pipelines.run.lifecycle import cancel
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Usage
from evalbeam.schemas.judging import Reply
from evalbeam.transforms.journal.summary import summarize
from evalbeam.transforms.judging.prompts import load_prompt

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


def test_trials_and_equal_rows_that_ask_the_same_share_a_call(tmp_path: Path) -> None:
    def changing(messages: list[dict[str, str]], schema: dict[str, Any]) -> Reply:
        SEEN[messages[-1]["content"]] += 1
        return Reply(value={"explanation": "", "score": sum(SEEN.values()) % 5 + 1}, usage=Usage(100, 10))

    rows, settings = [{"prompt": f"question {i % 10}"} for i in range(20)], config(tmp_path, trials=3)
    settings["judges"] = {"default": changing}
    tables = []
    for _ in range(2):
        result = evaluate(rows, ["fluency"], lambda prompt: f"so much for {prompt}", **settings)
        tables.append([Path(file).read_bytes() for file in result.files("summary")])
        tables[-1].append(result.metrics_table["fluency/score"].tolist())
        (tmp_path / "out" / "manifest.json").unlink()
    assert set(SEEN.values()) == {1}
    assert len(SEEN) == 10
    assert tables[0] == tables[1]
    first = result.summary_table.query("metric == 'fluency'").iloc[0]
    assert [first[f"judge_{c}"] for c in ("calls", "input_tokens", "output_tokens")] == [60, 1000, 100]


def test_a_metric_without_its_judge_is_refused(tmp_path: Path) -> None:
    base = {"dataset": {"path": str(tmp_path)}, "metrics": ["coherence"]}
    with pytest.raises(ConfigError, match=r"judge 'default'.*judges: \{default: \{type: google"):
        make_plan(EvaluationConfig.parse(base))
    other = base | {"metrics": [{"metric": "coherence", "judge": ["mine", "yours"]}], "judges": {"mine": by_words}}
    with pytest.raises(ConfigError, match=r"judge 'yours'.*allowed: mine"):
        make_plan(EvaluationConfig.parse(other))
    with pytest.raises(ConfigError, match=r"judges\.default\.temprature"):
        make_plan(EvaluationConfig.parse(base | {"judges": {"default": {"target": by_words, "temprature": 1}}}))


@pytest.mark.parametrize(
    ("kind", "metric", "message"),
    [
        (
            "vertex_eval", "fluency",
            "the judge answers requests of evaluateInstances, and the metric 'fluency' asks it prompts "
            "(allowed: another type, or a metric of rapid evaluation with service: true)",
        ),
        (
            "check_grounding", {"metric": "grounding", "checker": "judge"},
            "the judge answers requests of Check Grounding, and the metric 'grounding' asks it prompts "
            "(allowed: another type, or the metric grounding with checker: vertex)",
        ),
        (
            "openai", {"metric": "fluency", "service": True},
            "the judge answers prompts, and the metric 'fluency' asks it requests of evaluateInstances "
            "(allowed: a judge of type vertex_eval)",
        ),
        (
            "vertex_eval", {"metric": "grounding", "checker": "vertex"},
            "the judge answers requests of evaluateInstances, and the metric 'grounding' asks it requests of Check "
            "Grounding (allowed: a judge of type check_grounding)",
        ),
    ],
)  # fmt: skip
def test_a_judge_that_cannot_answer_what_a_metric_asks_is_refused(
    tmp_path: Path, kind: str, metric: Any, message: str
) -> None:
    own = {"model": "m"} if kind == "openai" else {"project": "p"}
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "response": "a"}')
    base = {"dataset": {"path": str(tmp_path)}, "metrics": ["exact_match", metric]}
    with pytest.raises(ConfigError) as caught:
        make_plan(EvaluationConfig.parse({**base, "judges": {"default": {"type": kind, **own}}}))
    assert str(caught.value) == f"judges.default.type: {message}"


def test_a_graph_without_judge_metrics_asks_no_judge(tmp_path: Path) -> None:
    evaluate([{**row, "reference": "x"} for row in ROWS], ["exact_match"], **config(tmp_path))
    assert not SEEN
    assert not (tmp_path / "out" / "journal").exists()


def spent_of(result: Any) -> dict[str, Any]:
    (one,) = result.manifest["judging"]["spent"]
    return one


def test_what_judges_cost_stands_in_the_manifest(tmp_path: Path) -> None:
    judges = {"default": {"target": by_words, "model": "m-1"}}
    prices = {"m-1": {"input": 2.0, "output": 10.0, "date": "2026-11-01"}}
    result = evaluate(ROWS, ["fluency"], judges=judges, prices=prices, output=str(tmp_path / "out"))
    judging = result.manifest["judging"]
    assert spent_of(result) == {
        "metric": "fluency", "judge": "default", "model": "m-1", "answers": 40, "failed": 0, "not_asked": 0,
        "input_tokens": 4000, "output_tokens": 400, "cost": pytest.approx(0.012), "price_date": "2026-11-01",
    }  # fmt: skip
    assert judging["cost"] == pytest.approx(0.012)
    assert judging["prompts"]["fluency"] == [
        {"name": "rapid/fluency", "version": 1, "hash": load_prompt("rapid/fluency").hash}
    ]


def test_what_is_asked_again_counts_in_what_judges_cost_and_is_found_in_the_journal(tmp_path: Path) -> None:
    def muddled(messages: list[dict[str, str]], schema: dict[str, Any]) -> Reply:
        SEEN[messages[-1]["content"]] += 1
        good = SEEN[messages[-1]["content"]] > 1
        return Reply(value={"explanation": "", "score": 3 if good else 9}, usage=Usage(100, 10 if good else 1))

    judges = {"default": {"target": muddled, "model": "m-1", "retry_on": ["InvalidVerdict"], "backoff": 0}}
    given: dict[str, Any] = {"judges": judges, "output": str(tmp_path / "out"), "budget": {"max_tokens": 8440}}
    for _ in range(2):
        result = evaluate(ROWS, ["fluency"], **given)
        assert (result.state, set(SEEN.values())) == ("finished", {2})
        spent = spent_of(result)
        assert (spent["answers"], spent["input_tokens"], spent["output_tokens"]) == (40, 8000, 440)
        assert summarize(str(tmp_path / "out" / "journal" / "judges")).input_tokens == 8000
        (tmp_path / "out" / "manifest.json").unlink()  # as a run that was killed before its end


def test_what_judges_cost_stands_in_summary_page_and_terminal(tmp_path: Path) -> None:
    judges = {"default": {"target": by_words, "model": "m-1"}, "other": {"target": by_words, "model": "m-2"}}
    prices = {"m-1": {"input": 2.0, "output": 10.0, "date": "2026-11-01"}}
    metrics = ["exact_match", "fluency", {"metric": "coherence", "judge": ["default", "other"]}]
    shared: dict[str, Any] = {"judges": judges, "prices": prices}
    result = evaluate(ROWS, metrics, output=str(tmp_path / "out"), slices=[["prompt"]], **shared)
    summary = result.summary_table
    whole = {r["metric"]: r for r in summary.to_dict("records") if not r["slice"]}
    assert summary["judge_calls"].sum() == sum(SEEN.values()) == 120
    assert (whole["fluency"]["judge_input_tokens"], whole["fluency"]["judge_output_tokens"]) == (4000, 400)
    assert whole["fluency"]["judge_cost"] == pytest.approx(0.012)
    assert [(one["judge"], one["cost"]) for one in whole["coherence"]["judges"]] == [
        ("default", pytest.approx(0.012)), ("other", None),
    ]  # fmt: skip
    assert whole["coherence"]["judge_cost"] != whole["coherence"]["judge_cost"]  # a data frame's null
    assert whole["exact_match"]["judges"] is None
    shown = [" ".join(line.split()) for line in render(result).splitlines()]
    assert "fluency default m-1 40 0 4,000 400 0.012" in shown
    assert "coherence other m-2 40 0 4,000 400 unknown" in shown
    assert "all 120 0 12,000 1,200 unknown" in shown
    body = render_page(result)
    assert '<h2 id="calls">Model calls</h2>' in body
    assert '<td class="n">unknown</td>' in body
    again = evaluate([{**row, "reference": "x"} for row in ROWS], ["exact_match"], output=str(tmp_path / "plain"))
    assert "Tokens in" not in render(again) + render_page(again)


def test_the_cost_is_that_of_the_answers_kept(tmp_path: Path) -> None:
    first = evaluate(ROWS, ["fluency"], **config(tmp_path))
    written = Path(first.files("summary")[0]).read_bytes()
    (tmp_path / "out" / "manifest.json").unlink()  # as a run that was killed before its end
    second = evaluate(ROWS, ["fluency"], **config(tmp_path))
    assert sum(SEEN.values()) == 40
    assert Path(second.files("summary")[0]).read_bytes() == written


async def refusing(messages: list[dict[str, str]], schema: dict[str, Any]) -> Reply:
    """A scripted judge that refuses every answer but the first, which costs all the same."""
    SEEN[messages[-1]["content"]] += 1
    if "\n0: word" in messages[-1]["content"]:
        return Reply(value={"explanation": "", "score": 3}, usage=Usage(100, 10))
    return Reply(finish="refused", usage=Usage(100, 10))


def test_tokens_of_answers_that_are_no_verdicts_are_paid_too(tmp_path: Path) -> None:
    judges = {"default": {"target": refusing, "failure_threshold": None, "max_in_flight": 1}}
    first = evaluate(ROWS, ["fluency"], judges=judges, output=str(tmp_path / "out"), budget={"max_tokens": 1100})
    assert (first.state, sum(SEEN.values())) == ("stopped", 10)
    second = evaluate(ROWS, ["fluency"], judges=judges, output=str(tmp_path / "out"), budget={"max_tokens": 9900})
    assert (second.state, sum(SEEN.values()), set(SEEN.values())) == ("finished", 40, {1})
    found = spent_of(second)
    assert (found["answers"], found["failed"]) == (1, 39)
    assert (found["input_tokens"], found["output_tokens"]) == (4000, 400)
    assert "tokens in, out              4,000, 400" in calls_report(str(tmp_path / "out"))


def test_an_unknown_price_is_no_zero(tmp_path: Path) -> None:
    result = evaluate(ROWS, ["fluency"], **config(tmp_path))
    assert (spent_of(result)["cost"], result.manifest["judging"]["cost"]) == (None, None)


def test_a_run_whose_budget_is_spent_goes_on_where_it_stopped(tmp_path: Path) -> None:
    agent = {"judges": {"default": {"target": by_words, "max_in_flight": 1}}}
    panel = [{"metric": "fluency", "samples": 3}]  # two votes may decide; the third is needed where they differ
    first = evaluate(ROWS, panel, **(config(tmp_path) | agent), budget={"max_calls": 90})
    assert (first.state, first.exit_code) == ("stopped", 3)
    assert "questions to judges were not asked" in first.manifest["reason"]
    table = first.metrics_table
    assert 90 <= sum(SEEN.values()) < 8 * 2 + 32 * 3
    counts = table["fluency/status"].value_counts()
    assert counts["scored"] + counts["skipped"] == 40
    assert counts["scored"] >= 8
    assert {e.partition(":")[0] for e in table["fluency/error"].dropna()} == {"over_budget"}
    second = evaluate(ROWS, panel, **(config(tmp_path) | agent))
    assert (second.state, sum(SEEN.values()), set(SEEN.values())) == ("finished", 8 * 2 + 32 * 3, {1})
    assert spent_of(second)["answers"] == 8 * 2 + 32 * 3


def test_calls_of_judges_are_shown_and_can_be_cancelled(tmp_path: Path) -> None:
    evaluate(ROWS, ["fluency"], **config(tmp_path))
    assert "answered                    40" in calls_report(str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="no unfinished run"):
        cancel(str(tmp_path / "out"))
    (tmp_path / "out" / "manifest.json").unlink()
    cancel(str(tmp_path / "out"))


def test_a_judge_that_only_fails_stops_the_run(tmp_path: Path) -> None:
    rows = [{"prompt": str(i), "response": f"answer {i}"} for i in range(600)]
    judges = {"default": {"target": broken, "max_in_flight": 4, "max_attempts": 1, "failure_window": 50}}
    result = evaluate(rows, ["fluency"], judges=judges, output=str(tmp_path / "out"))
    assert result.state == "stopped"
    assert "failure_threshold" in result.manifest["reason"]
    counts = result.metrics_table["fluency/status"].value_counts()
    assert counts["error"] >= 50
    assert counts["skipped"] + counts["error"] == 600


async def broken(messages: Any, schema: Any) -> Any:
    raise ValueError("no judge today")


def test_the_prompt_of_a_metric_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "fluency"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("rapid/fluency\n")
    assert f"prompt rapid/fluency, version 1, hash {load_prompt('rapid/fluency').hash}:" in shown
    assert "{prediction}" in shown
    assert main(["metrics", "exact_match"]) == 0
    assert "prompt " not in capsys.readouterr().out

"""What `evalbeam check` expects judges to be asked comes true; a budget that cannot suffice is refused at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam import evaluate
from evalbeam.pipelines.check import estimate as module
from evalbeam.pipelines.check.check import CheckReport, check
from evalbeam.pipelines.check.estimate import add_expected_answer, format_span
from evalbeam.pipelines.check.forecast import make_up_answer
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.schemas.conversation import pair_turns
from evalbeam.schemas.instance import Example, Instance, Invocation, Usage
from evalbeam.schemas.judging import Reply
from evalbeam.transforms.facts import SHARED, SPENT

ROWS = [{"prompt": f"question {i}", "response": f"answer {i}", "context": "text " * i} for i in range(1, 13)]
ROWS += [{"prompt": f"question {i}", "response": f"answer {i}"} for i in range(13, 21)]
METRICS = ["fluency", {"metric": "groundedness", "samples": 5, "judge": ["default", "other"]}, "exact_match"]
PRICES = {"m-1": {"input": 2.0, "output": 10.0, "date": "2026-11-01"}}
SEEN: list[tuple[str, int]] = []


def agreeing(messages: list[dict[str, str]], schema: dict[str, Any], vote: int) -> Reply:
    """A scripted judge that always says the same; a token is what the estimate takes for one."""
    characters = sum(len(m["content"]) for m in messages)
    SEEN.append((messages[-1]["content"], vote))
    return Reply(value=make_up_answer(schema, 0), usage=Usage(characters // module.CHARACTERS, 50))


def answer(prompt: str) -> str:
    return "x" * 400


LIVE = {"target": answer}


def config(tmp_path: Path, **more: Any) -> dict[str, Any]:
    judges = {"default": {"target": agreeing, "model": "m-1"}, "other": {"target": agreeing, "model": "m-2"}}
    return {"judges": judges, "prices": PRICES, "output": str(tmp_path / "out"), **more}


def checked(tmp_path: Path, rows: list[dict[str, Any]], metrics: list[Any] = METRICS, **more: Any) -> CheckReport:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    given = config(tmp_path, **more)
    data = {"dataset": {"path": str(path)}, "metrics": metrics, **given, "output": {"path": given["output"]}}
    return check(EvaluationConfig.parse(data))


def test_what_is_expected_comes_true(tmp_path: Path) -> None:
    SEEN.clear()
    found = {(one.metric, one.judge): one for one in checked(tmp_path, ROWS).judged}
    assert not SEEN
    result = evaluate(ROWS, METRICS, **config(tmp_path))
    spent = {(one["metric"], one["judge"]): one for one in result.manifest["judging"]["spent"]}
    assert {key: one.calls[0] for key, one in found.items()} == {key: one["answers"] for key, one in spent.items()}
    for key, one in found.items():
        assert (one.input_tokens or (0,))[0] == pytest.approx(spent[key]["input_tokens"], rel=0.01)
    assert found["groundedness", "other"].calls == (12 * 3, 12 * 5)
    assert (found["groundedness", "other"].cost, spent["groundedness", "other"]["cost"]) == (None, None)


def test_money_is_known_where_the_price_is(tmp_path: Path) -> None:
    one = checked(tmp_path, ROWS).judged[0]
    assert one.cost is not None
    assert one.input_tokens is not None
    assert one.output_tokens is not None
    assert one.cost[0] == pytest.approx((one.input_tokens[0] * 2 + one.output_tokens[0] * 10) / 1e6)
    shown = [" ".join(line.split()) for line in checked(tmp_path, ROWS).render(140).splitlines()]
    assert shown[-2].startswith("the agent's answers are those of the rows")
    assert any(line.startswith("groundedness other m-2 36 – 60 ") and line.endswith("unknown") for line in shown)
    assert next(line for line in shown if line.startswith("all ")).endswith("unknown")
    assert "asked expected calls: about 92 – 140, estimated from the first rows; none was made by this check" in shown


def test_batches_are_estimated_at_their_own_price(tmp_path: Path) -> None:
    judges = {"default": {"type": "openai", "model": "m-1", "mode": "batch", "api_key": "${env:NONE}"}}
    costs = []
    for more in ({}, {"batch_input": 1.0}, {"batch_input": 1.0, "batch_output": 5.0}):
        prices = {"m-1": {**PRICES["m-1"], **more}}
        costs.append(checked(tmp_path, ROWS, ["fluency"], judges=judges, prices=prices).judged[0].cost)
    live = (
        checked(tmp_path, ROWS, ["fluency"], judges={"default": {**judges["default"], "mode": "live"}}).judged[0].cost
    )
    assert live is not None
    assert costs == [None, None, (live[0] / 2, live[1] / 2)]


def test_rows_beyond_the_first_ones_are_like_them(tmp_path: Path) -> None:
    calls = [one.calls for one in checked(tmp_path, ROWS[:10] * 30, ["fluency"], trials=3, agent=LIVE).judged]
    assert calls == [(900, 900)]
    limited = checked(tmp_path, ROWS * 2, ["fluency"])
    assert limited.judged[0].calls == (40, 40)
    assert "asked" not in checked(tmp_path, ROWS, ["exact_match"]).render(100)


def test_a_live_agent_is_taken_to_answer() -> None:
    row = {"prompt": "a", "reference": "b", "reference_trajectory": [{"tool_name": "t", "tool_input": {}}]}
    found = add_expected_answer(Example(Instance("0", row), Invocation("not_called")), baseline=True)
    assert (found.get("response"), found.get("baseline_model_response")) == ("b", "b")
    assert [call.tool_name for call in found.invocation.predicted_trajectory or ()] == ["t"]
    turns = [{"prompt": "a", "reference": "one"}, {"prompt": "b"}]
    led = add_expected_answer(Example(Instance("0", {"conversation": turns}), Invocation("not_called")))
    assert [actual and actual.response for _, actual in pair_turns(led)] == ["one", module.RESPONSE]
    scenario = add_expected_answer(
        Example(Instance("0", {"scenario": {"starting_prompt": "hi"}}), Invocation("not_called"))
    )
    assert len(scenario.invocation.turns or ()) == 1


@pytest.mark.parametrize(
    ("agent", "budget", "refused"),
    [
        (None, 56, None),
        (
            None,
            55,
            f"20 rows need at least 56 calls (56 of them to judges, {SHARED}), budget.max_calls allows 55; {SPENT}",
        ),
        (LIVE, 76, None),
        (
            LIVE,
            75,
            f"20 rows need at least 76 calls (56 of them to judges, {SHARED}), budget.max_calls allows 75; {SPENT}",
        ),
    ],
)
def test_a_budget_below_what_judges_need_is_refused_before_the_first_call(
    agent: Any, budget: int, refused: str | None, tmp_path: Path
) -> None:
    SEEN.clear()
    metrics = ["fluency", {"metric": "groundedness", "samples": 5}]
    more = {"agent": LIVE} if agent else {}
    result = evaluate(ROWS, metrics, **config(tmp_path, budget={"max_calls": budget}, **more))
    assert (result.state, result.manifest["reason"]) == ("failed" if refused else "finished", refused)
    assert bool(SEEN) == (refused is None)
    (tmp_path / "out" / "manifest.json").unlink()
    problems = checked(tmp_path, ROWS, metrics, budget={"max_calls": budget}, **more).problems
    assert bool(problems) == bool(refused)
    assert all(f"of them to judges, of the first 20 rows, {SHARED}) (allowed:" in problem for problem in problems)


def test_trials_of_a_recorded_answer_ask_once(tmp_path: Path) -> None:
    SEEN.clear()
    given = config(tmp_path, budget={"max_calls": 20}, trials=3)
    result = evaluate(ROWS, ["fluency"], **given)
    assert (result.state, len(SEEN), result.manifest["counts"]["ok"]) == ("finished", 20, 60)
    again = config(tmp_path, budget={"max_calls": 19}, trials=3)
    (tmp_path / "out" / "manifest.json").unlink()
    problem, *_ = checked(tmp_path, ROWS, ["fluency"], **{k: again[k] for k in ("budget", "trials")}).problems
    assert problem.startswith("budget.max_calls: 20 rows need at least 20 calls")


def test_a_budget_of_tokens_below_the_instructions_alone_is_refused(tmp_path: Path) -> None:
    judges = {"default": {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}}
    given = {"judges": judges, "budget": {"max_tokens": 100}, "output": str(tmp_path / "out")}
    result = evaluate(ROWS, ["fluency"], **given)
    assert result.state == "failed"
    reason = result.manifest["reason"]
    assert reason.startswith(f"20 calls to judges ({SHARED}) take at least ")
    assert reason.endswith(f" tokens for their instructions alone, budget.max_tokens allows 100; {SPENT}")
    warned = checked(tmp_path, ROWS, ["fluency"], budget={"max_tokens": 100}, judges=judges).render(140)
    assert "warning: budget.max_tokens 100 is less than the judges' expected " in warned


def test_bounds_that_are_one_are_shown_once() -> None:
    assert [*map(format_span, (None, (2.0, 2.0), (1.2, 3000.0))), format_span((0.5, 0.51), money="")] == [
        "unknown", "2", "1 – 3,000", "0.5 – 0.51",
    ]  # fmt: skip

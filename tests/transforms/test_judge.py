"""The step that asks judges: questions of many rows and metrics at once, each score in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Example, Instance, Invocation, Usage
from evalbeam.schemas.judging import Ask, Judging, Message, Reply
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch, Tally
from evalbeam.transforms.calls.errors import classify_error
from evalbeam.transforms.judge import JudgeCaller, JudgeUse
from evalbeam.transforms.judges.base import Judge
from evalbeam.transforms.judges.function import FunctionJudge
from evalbeam.transforms.metrics._inputs import ConfiguredMetric
from evalbeam.transforms.metrics._judged import JudgedMetric, make_rating

from .judging.scripted import shared

SHAPE = make_rating(0, 1, 2, 3)


def ask(text: str, judge: str = "default", vote: int = 0) -> Ask:
    return Ask((Message("user", text),), SHAPE, judge, vote, (text,))


@dataclass(frozen=True, kw_only=True)
class Stages(JudgedMetric):
    """Asks once for each word of the response, then once more for their sum."""

    inputs: ClassVar = ("response",)

    def judged(self, example: Example) -> Judging:
        words = example.get("response").split()
        answers = yield [ask(word) for word in words]
        if any(a.error for a in answers):
            first = next(a.error for a in answers if a.error)
            return Score.failed(first.code, first.message)
        if example.get("response") == "1 1 1":
            raise ValueError("three ones")
        total = sum(a.value["score"] for a in answers)
        (last,) = yield [ask(f"total {total}")]
        return Score(float(total), explanation=last.value["explanation"])


def echo(messages: Sequence[dict[str, str]], schema: Any) -> Any:
    text = messages[-1]["content"]
    if text == "refuse":
        return Reply(finish="refused", usage=Usage(7, 1))
    if text == "cut":
        return Reply(text='{"explanation": "it is', finish="length", usage=Usage(9, None))
    if text == "chat":
        return "I like it."
    score = int(text) if text.isdigit() else 0
    return Reply(value={"explanation": f"saw {text}", "score": score}, usage=Usage(10, 2))


def batch(*responses: str | None) -> ScoredBatch:
    calls = [Invocation(response=r) if r is not None else Invocation("failed") for r in responses]
    rows = [Example(Instance(f"{i:032x}", {}), call) for i, call in enumerate(calls)]
    return ScoredBatch(rows, {"length": ScoreColumn([1.0] * len(rows))}, 3, (("a", "string"),))


def caller(*metrics: ConfiguredMetric, judge: Judge | None = None) -> JudgeCaller:
    computed = ConfiguredMetric("length", object())  # type: ignore[arg-type]
    return JudgeCaller((*metrics, computed), {"default": JudgeUse(judge or FunctionJudge(echo), CallPolicy())})


def driven(caller: JudgeCaller, given: ScoredBatch) -> tuple[ScoredBatch, list[list[str]]]:
    """(what leaves, the texts asked in each round) with the judge called on the spot."""
    work, rounds = caller.work(given), []
    consult = caller.connect("judge:default")
    try:
        calls = next(work)
        while True:
            rounds.append([c.request["messages"][-1].content for c in calls])
            calls = work.send([outcome(consult, call) for call in calls])
    except StopIteration as done:
        return done.value, rounds


def outcome(consult: Any, call: Any) -> Outcome:
    try:
        return Outcome(consult(call))
    except Exception as error:
        fault = classify_error(error)
        return Outcome(fault.spent, fault.kind, fault.error_type, fault.message)


def test_stages_of_all_rows_are_asked_in_rounds() -> None:
    scored, rounds = driven(caller(ConfiguredMetric("sum", Stages())), batch("1 2", "3", None, "1 1 1"))
    assert rounds == [["1", "2", "3"], ["total 3"]]  # by the beginnings of the prompts, each once
    column = scored.scores["sum"]
    assert column.values == [3.0, 3.0, None, None]
    assert column.explanations == {0: "saw total 3", 1: "saw total 3"}
    assert {i: (column.status[i], e.code) for i, e in column.errors.items()} == {
        2: ("skipped", "agent_failed"),
        3: ("error", "ValueError"),
    }
    assert list(scored.scores) == ["sum", "length"]
    assert (scored.part, scored.columns) == (3, (("a", "string"),))
    assert scored.spent == {("sum", "default", "live"): Tally(8, 0, 0, 40, 8)}


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5))
def test_questions_that_begin_alike_are_asked_one_after_the_other(words: list[str]) -> None:
    numbered = {word: i % 3 for i, word in enumerate(dict.fromkeys(words))}

    def score(messages: Sequence[dict[str, str]], schema: Any) -> Reply:
        text = messages[-1]["content"]
        return Reply(value={"explanation": text, "score": numbered.get(text, 0)})

    scored, rounds = driven(caller(ConfiguredMetric("sum", Stages()), judge=FunctionJudge(score)), batch(*words))
    orders = [sum(len(shared(*pair)) for pair in pairwise(order)) for order in permutations(numbered)]
    assert sum(len(shared(*pair)) for pair in pairwise(rounds[0])) == max(orders)
    assert scored.scores["sum"].explanations == {i: f"total {numbered[word]}" for i, word in enumerate(words)}


def test_answers_that_are_no_verdicts_have_codes_and_cost_what_they_cost() -> None:
    scored, _ = driven(caller(ConfiguredMetric("sum", Stages())), batch("refuse", "cut", "chat", "2"))
    codes = {i: e.code for i, e in scored.scores["sum"].errors.items()}
    assert codes == {0: "refused", 1: "truncated", 2: "invalid_verdict"}
    assert scored.spent == {("sum", "default", "live"): Tally(2, 3, 2, 27, 5)}  # two did not say all their tokens


def test_a_call_that_failed_is_no_answer_whose_tokens_are_unknown() -> None:
    def broken(messages: Sequence[dict[str, str]], schema: Any) -> Any:
        raise ConnectionError("gone")

    scored, _ = driven(caller(ConfiguredMetric("sum", Stages()), judge=FunctionJudge(broken)), batch("1"))
    assert scored.spent == {("sum", "default", "live"): Tally(0, 1)}


def test_calls_that_were_not_made_leave_the_row_skipped() -> None:
    one = caller(ConfiguredMetric("vote", Single()))
    work = one.work(batch("1"))
    next(work)
    try:
        work.send([Outcome(None, "over_budget")])
    except StopIteration as done:
        column = done.value.scores["vote"]
    assert (column.status, column.errors[0].code) == ({0: "skipped"}, "over_budget")


@dataclass(frozen=True, kw_only=True)
class Single(JudgedMetric):
    """One question."""

    inputs: ClassVar = ("response",)

    def judged(self, example: Example) -> Judging:
        (answer,) = yield [ask(example.get("response"))]
        return Score.skipped(answer.error.code, "") if answer.open and answer.error else Score(1.0)


def test_keys_hold_all_that_an_answer_depends_on() -> None:
    one, two = caller(), caller(judge=FunctionJudge(echo, version="2"))
    example = batch("x").examples[0]
    same = one.call(ask("x"), example)
    assert same.key == caller().call(ask("x"), example).key
    assert (same.prefix, same.endpoint) == ("00", "judge:default")
    others = [
        one.call(ask("y"), example),
        one.call(ask("x", vote=1), example),
        one.call(Ask(ask("x").messages, make_rating(1, 2)), example),
        two.call(ask("x"), example),
    ]
    assert len({same.key, *(call.key for call in others)}) == 5

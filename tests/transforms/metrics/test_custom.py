"""User functions as metrics: what they get, what they may return, and that whatever they do stays in their row."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import statistics
import sys
import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Chunk, Example, Instance, Invocation, ToolCall, Usage
from evalbeam.schemas.result import Score
from evalbeam.transforms import registry
from evalbeam.transforms.calls.call_each import PATIENCE, call_each
from evalbeam.transforms.calls.loop import Loop
from evalbeam.transforms.metrics.base import Metric, ScoringBatch
from evalbeam.transforms.metrics.custom import CustomMetric, as_metric


def example(response: Any = "hi", row: dict[str, Any] | None = None, **invocation: Any) -> Example:
    return Example(Instance("id", row or {}), Invocation(response=response, **invocation))


def scored(function: Any, *examples: Example, name: str = "m") -> list[Score]:
    column = as_metric(function, name, {}, "metrics.0").score_batch(ScoringBatch(examples or (example(),)))
    return [column.at(i) for i in range(len(column.values))]


def test_published_word_counts(conformance: Path) -> None:
    def word_count_match(row: dict[str, Any]) -> dict[str, float]:
        said, wanted = (len(row[name].split()) for name in ("response", "reference"))
        return {"word_count_match": 1 - abs(said - wanted) / wanted}

    lines = (conformance / "vertex" / "word_count_match_cases.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines]
    published = json.loads((conformance / "vertex" / "summaries.json").read_text())["word_count_match"]
    results = scored(CustomMetric("word_count_match", word_count_match), *(example(c["prediction"], c) for c in cases))
    values = [r.value for r in results]
    assert values == pytest.approx([c["golden"] for c in cases], abs=1e-6)
    assert statistics.mean(values) == pytest.approx(published["word_count_match/mean"], abs=1e-5)
    assert statistics.stdev(values) == pytest.approx(published["word_count_match/std"], abs=1e-5)


# --- what it gets -----------------------------------------------------------------------------------------------


def test_the_row_has_the_dataset_and_what_the_agent_did() -> None:
    seen: list[dict[str, Any]] = []
    row = {"prompt": "p", "response": "recorded", "reference_trajectory": '[{"name": "a", "args": {"x": [1]}}]'}
    invocation = Invocation(
        response="live",
        predicted_trajectory=(ToolCall("a", {"x": 1}), ToolCall("b", None)),
        retrieved_context=(Chunk("c", "d"),),
        latency_in_seconds=0.5,
        usage=Usage(3, None),
        extra={"trace": [1], "prompt": "not the dataset's"},
    )
    one = as_metric(lambda row: seen.append(row) or 1, "m", {}, "metrics.0")
    one.score(Example(Instance("id", row, {"reference": "r"}), invocation, trial=2))
    assert seen == [
        {
            "instance_id": "id",
            "trial": 2,
            "prompt": "p",
            "reference": "r",
            "response": "live",
            "predicted_trajectory": [{"tool_name": "a", "tool_input": {"x": 1}}, {"tool_name": "b", "tool_input": {}}],
            "reference_trajectory": [{"tool_name": "a", "tool_input": {"x": [1]}}],
            "retrieved_context": [{"content": "c", "doc_uri": "d"}],
            "latency_in_seconds": 0.5,
            "failure": 0,
            "usage": {"input_tokens": 3, "output_tokens": None},
            "trace": [1],
        }
    ]


def test_a_reference_that_is_no_trajectory_is_left_as_it_is() -> None:
    assert scored(lambda row: row["reference_trajectory"] == "[{", example(row={"reference_trajectory": "[{"})) == [
        Score(1)
    ]


def test_a_function_cannot_change_the_tables() -> None:
    def vandal(row: dict[str, Any]) -> int:
        row["tags"].append("x")
        row["predicted_trajectory"][0]["tool_input"]["x"]["y"] = 2
        row.clear()
        return 1

    one = example(row={"tags": ["a"]}, predicted_trajectory=(ToolCall("a", {"x": {"y": 1}}),))
    assert scored(vandal, one) == [Score(1.0)]
    assert one.instance.row == {"tags": ["a"]}
    assert one.invocation.predicted_trajectory == (ToolCall("a", {"x": {"y": 1}}),)


# --- what it may return -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (2, Score(2.0)),
        (0.5, Score(0.5)),
        (True, Score(1.0)),
        (Fraction(1, 4), Score(0.25)),
        (np.float32(0.5), Score(0.5)),
        (np.int64(3), Score(3.0)),
        (np.bool_(True), Score(1.0)),
        (np.array(2.0), Score(2.0)),
        ({"m": 1}, Score(1.0)),
        ({"score": 1}, Score(1.0)),
        ({"function": 1}, Score(1.0)),
        ({"m": 1, "score": 2}, Score(1.0, details={"score": 2})),
        ({"m": 1, "explanation": "why", "n": np.int64(3)}, Score(1.0, explanation="why", details={"n": 3})),
        ({"m": 1, "explanation": 4, "x": math.nan}, Score(1.0, details={"explanation": 4, "x": None})),
        (Score(1, label="good"), Score(1.0, label="good")),
        (Score(label="TIE"), Score(label="TIE")),
        (Score.skipped("not_here", "nothing to say"), Score.skipped("not_here", "nothing to say")),
    ],
    ids=repr,
)
def test_what_may_be_returned(value: Any, score: Score) -> None:
    def function(row: dict[str, Any]) -> Any:
        return value

    assert scored(function) == [score]
    assert [type(s.value) for s in scored(function)] == [type(score.value)]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "NoneType"),
        ("0.5", "str '0.5'"),
        ([1], "list"),
        (object(), "object"),
        ({"m": "four"}, "str 'four'"),
        ({"m": ""}, "str ''"),
        ({"m": "4/5"}, "str '4/5'"),
        ({"m": "nan"}, "str 'nan'"),
        (1j, "complex"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (10**400, "inf"),
        ({"other": 1, 3: 2}, "3, other"),
        ({}, "a mapping with nothing"),
        ({"m": None}, "NoneType"),
        ({"m": 1, "x": object()}, "no JSON"),
        (Score(math.nan), "nan"),
        (Score(), "neither value nor label"),
        (np.array([1.0]), "ndarray"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_anything_else_is_an_error_of_its_row(value: Any, found: str) -> None:
    bad, good = scored(lambda row: value if row["response"] == "bad" else 1, example("bad"), example("good"))
    assert (bad.value, bad.status, bad.error.code) == (None, "error", "invalid_score")
    assert found in bad.error.message
    assert "0x" not in bad.error.message
    assert good == Score(1.0)


@pytest.mark.parametrize(("said", "number"), [("4", 4.0), (" 0.25 ", 0.25), ("-1e2", -100.0)])
def test_a_score_in_a_mapping_may_be_text(said: str, number: float) -> None:
    (result,) = scored(lambda row: {"score": said, "why": "3"})
    assert result == Score(number, details={"why": "3"})


@given(st.floats() | st.integers() | st.booleans())
def test_numbers_are_kept_to_the_last_bit(value: float) -> None:
    (result,) = scored(lambda row: value)
    finite = not isinstance(value, float) or math.isfinite(value)
    if finite and abs(value) < 1e300:
        assert result.value == float(value)
    assert result.status == ("scored" if finite else "error")


class Odd(Exception):
    def __str__(self) -> str:
        return f"broken {object()!r}"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (KeyError("x"), "KeyError"),
        (SystemExit(3), "SystemExit"),
        (Odd(), "Odd"),
        (Mute(), "Mute"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_raised_is_an_error_of_its_row(raised: BaseException, code: str, is_async: bool) -> None:
    def function(row: dict[str, Any]) -> int:
        if row["response"] == "bad":
            raise raised
        return 1

    async def later(row: dict[str, Any]) -> int:
        return function(row)

    good, bad = scored(later if is_async else function, example("good"), example("bad"))
    assert good == Score(1.0)
    assert (bad.status, bad.error.code) == ("error", code)
    assert "0x" not in bad.error.message


# --- how it is called -------------------------------------------------------------------------------------------


def test_async_functions_run_at_once_within_the_bound() -> None:
    inside: list[int] = []
    most: list[int] = []

    async def function(row: dict[str, Any]) -> float:
        inside.append(row["n"])
        for _ in range(50):
            await asyncio.sleep(0)
        most.append(len(inside))
        inside.remove(row["n"])
        return row["n"]

    one = CustomMetric("m", function, max_in_flight=8)
    column = one.score_batch(ScoringBatch([example(row={"n": i}) for i in range(40)]))
    assert column.values == list(range(40))
    assert max(most) == 8


def test_clients_of_async_functions_live_on_one_loop() -> None:
    loops = set()

    async def function(row: dict[str, Any]) -> int:
        loops.add(asyncio.get_running_loop())
        return 1

    for _ in range(3):
        assert scored(function) == [Score(1.0)]
    assert loops == {Loop.here()}  # that of the calls: a process has one
    assert scored(lambda row: function(row)) == [Score(1.0)]

    async def outside() -> list[Score]:
        return scored(function)

    assert asyncio.run(outside()) == [Score(1.0)]


def test_slow_sync_functions_run_on_threads_in_order_within_the_bound() -> None:
    home, threads, ticks = threading.get_ident(), set(), iter([0.0, PATIENCE * 2])
    together = threading.Barrier(3, timeout=30)

    def call(i: int) -> int:
        if threading.get_ident() != home:
            threads.add(threading.get_ident())
            together.wait()
        return i

    results = call_each([partial(call, i) for i in range(301)], limit=3, clock=lambda: next(ticks))
    assert results == [(i, None) for i in range(301)]
    assert len(threads) == 3


@pytest.mark.parametrize(("limit", "seconds"), [(64, 0.001), (1, 100.0)])
def test_fast_sync_functions_and_a_bound_of_one_need_no_threads(limit: int, seconds: float) -> None:
    ticks = iter(i * seconds for i in range(1000))
    results = call_each([threading.get_ident] * 500, limit, clock=lambda: next(ticks))
    assert results == [(threading.get_ident(), None)] * 500


# --- what may be given ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prefix(Metric):
    """1 iff the response starts with `prefix`."""

    prefix: str = "h"
    binary: ClassVar[bool] = True

    def score(self, example: Example) -> Score:
        return Score(float(example.get("response").startswith(self.prefix)))


class Plain:
    """Not a Metric, but it scores."""

    def __init__(self, at_least: int = 0) -> None:
        self.at_least = at_least

    def score(self, example: Example) -> dict[str, Any]:
        return {"score": len(example.get("response")) >= self.at_least, "n": len(example.get("response"))}


def longer(row: dict[str, Any], than: int = 0) -> bool:
    return len(row["response"]) > than


@pytest.mark.parametrize(
    ("target", "params", "expected"),
    [
        (longer, {}, Score(1.0)),
        (longer, {"than": 5}, Score(0.0)),
        (longer, {"than": 5, "max_in_flight": 1}, Score(0.0)),
        (Prefix, {"prefix": "x"}, Score(0.0)),
        (Prefix(), {}, Score(1.0)),
        (Plain, {"at_least": 3}, Score(0.0, details={"n": 2})),
        (Plain(1), {}, Score(1.0, details={"n": 2})),
        (CustomMetric("words", longer), {}, Score(1.0)),
    ],
)
def test_what_may_stand_for_a_metric(target: Any, params: dict[str, Any], expected: Score) -> None:
    one = as_metric(target, "m", params, "metrics.0")
    assert one.score(example()) == expected
    assert pickle.loads(pickle.dumps(one)).score(example()) == expected


@pytest.mark.parametrize(
    ("target", "params", "message"),
    [
        (3, {}, "found int (allowed: a function of the row"),
        (Prefix(), {"prefix": "x"}, "m takes no parameters (allowed: no parameters, since it is an object)"),
        (Prefix, {"prefx": "x"}, "m has no parameter 'prefx'; did you mean 'prefix'?"),
        (Prefix, {"prefix": 3}, "m: prefix is 3 (allowed: "),
        (Plain, {"least": 3}, "unexpected keyword argument 'least'"),
        (longer, {"then": 3}, "unexpected keyword argument 'then'"),
        (longer, {"max_in_flight": 0}, "max_in_flight is 0, allowed: 1 or more"),
        (lambda: 1, {}, "m cannot be called with a row: too many positional arguments"),
        (Metric, {}, "abstract"),
    ],
)
def test_what_may_not(target: Any, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        as_metric(target, "m", params, "metrics.0")
    assert str(caught.value).startswith("metrics.0: ")
    assert message in str(caught.value)


def test_a_function_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("metrics_of_mine")
    module.longer = longer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "metrics_of_mine", module)
    part = registry.find("metric", "custom")
    one = registry.build(part, {"metric_function": "metrics_of_mine:longer"}, "metrics.0")
    assert one.score(example()) == Score(1.0)
    with pytest.raises(ConfigError, match="no 'shorter'"):
        registry.build(part, {"metric_function": "metrics_of_mine:shorter"}, "metrics.0")
    with pytest.raises(ConfigError, match="names no object"):
        registry.build(part, {}, "metrics.0")

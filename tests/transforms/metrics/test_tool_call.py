"""Tool-call metrics against their golden table, the service's published scores and laws of counting."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall
from evalbeam.schemas.result import Score
from evalbeam.schemas.values import exact_json, json_or_text
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import ScoringBatch

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "tool_call.json").read_text())["cases"]
FOUR = ("tool_call_valid", "tool_name_match", "tool_parameter_key_match", "tool_parameter_kv_match")
OPTIONS = {
    "tool_call_valid": {"calls", "decimals"},
    "tool_name_match": {"calls", "decimals"},
    "tool_parameter_key_match": {"calls", "decimals", "denominator"},
    "tool_parameter_kv_match": {"calls", "decimals", "denominator", "use_strict_string_match"},
}


def metric(name: str, **params: Any) -> Any:
    own = {key: value for key, value in params.items() if key in OPTIONS[name]}
    return registry.build(registry.find("metric", name), own, "metrics.0")


def example(prediction: Any, reference: Any, **invocation: Any) -> Example:
    return Example(Instance("0", {"reference": reference}), Invocation(response=prediction, **invocation))


def scores(prediction: Any, reference: Any, **params: Any) -> list[float | None]:
    return [metric(name, **params).score(example(prediction, reference)).value for name in FOUR]


def message(*calls: tuple[str, Any]) -> dict[str, Any]:
    return {"content": "", "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_table(case: dict[str, Any]) -> None:
    for name, expected in case["expected"].items():
        result = metric(name, **case["params"]).score(example(case["prediction"], case["reference"]))
        assert result.status == "scored"
        assert result.value == pytest.approx(expected, abs=case["tolerance"]), name
        if name in case.get("details", {}):
            assert result.details == case["details"][name]


def test_the_four_rows_the_service_scored(conformance: Path) -> None:
    lines = (conformance / "vertex" / "tool_call_cases.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines]
    published = json.loads((conformance / "vertex" / "summaries.json").read_text())["tool_calls_4_rows"]
    assert len(cases) == published["row_count"] == 4
    for name in FOUR:
        one = metric(name, decimals=2)
        values = [one.score(example(case["prediction"], case["reference"])).value for case in cases]
        assert values == [case["golden"][name] for case in cases]
        assert statistics.mean(values) == pytest.approx(published[f"{name}/mean"], abs=1e-6)
        assert statistics.stdev(values) == pytest.approx(published[f"{name}/std"], abs=1e-6)


def test_a_batch_is_its_rows() -> None:
    rows = [example(case["prediction"], case["reference"]) for case in GOLDEN]
    rows[2:2] = [example(message(), "no JSON"), example("no JSON", "no JSON")]
    for name in FOUR:
        for params in ({}, {"calls": "all"}, {"decimals": 1, "denominator": "union"}):
            one = metric(name, **params)
            column = one.score_batch(ScoringBatch(rows))
            assert [column.at(i) for i in range(len(rows))] == [one.score(row) for row in rows]


@pytest.mark.parametrize(
    "reference",
    [
        "no JSON",
        "[]",
        3,
        {"tool_calls": 3},
        {"tool_calls": [{"arguments": {}}]},
        message(("a", "x")),
        message(("", {})),
    ],
)
def test_an_unparseable_reference_is_an_error_of_those_that_need_it(reference: Any) -> None:
    results = [metric(name).score(example(message(("a", {})), reference)) for name in FOUR]
    assert results[0] == Score(1.0)
    assert [r.error.code for r in results[1:]] == ["unparseable_reference"] * 3
    assert {r.status for r in results[1:]} == {"error"}


def test_an_answer_that_is_no_message_stands_for_its_trajectory() -> None:
    reference = message(("a", {"x": 1}))
    trajectory = (ToolCall("a", {"x": 1}), ToolCall("b", None))
    for response in ("It is done.", "", "{}", '{"answer": 3}', 12):
        rows = [example(response, reference, predicted_trajectory=trajectory)]
        assert [metric(name).score(rows[0]).value for name in FOUR] == [1, 1, 1, 1]
    said = example(message(("c", {})), reference, predicted_trajectory=trajectory)
    assert [metric(name).score(said).value for name in FOUR] == [1, 0, 0, 0]
    silent = example("I called nothing.", reference, predicted_trajectory=())
    assert [metric(name).score(silent).value for name in FOUR] == [0, 0, 0, 0]


def test_arguments_too_deep_to_compare_are_an_error_of_their_row() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    rows = [example(message(("a", {"x": deep})), message(("a", {"x": [deep]}))), example(message(), message())]
    column = metric("tool_parameter_kv_match").score_batch(ScoringBatch(rows))
    assert (column.at(0).status, column.at(0).error.code) == ("error", "RecursionError")
    assert column.at(1) == Score(1.0)


CALLS = st.lists(
    st.tuples(st.sampled_from("ab"), st.dictionaries(st.sampled_from("wxyz"), st.sampled_from([0, 1, True, "1"]))),
    max_size=4,
)


@given(CALLS, CALLS, st.sampled_from(["first", "all"]), st.sampled_from(["reference", "union"]))
def test_laws_of_counting(p: Any, r: Any, calls: str, denominator: str) -> None:
    options = {"calls": calls, "denominator": denominator}
    valid, name, key, kv = scores(message(*p), message(*r), **options)
    assert valid == bool(p)
    assert name in (0, 1)
    assert 0 <= kv <= key <= 1
    assert scores(message(*p), message(*p), **options) == [bool(p), 1, 1, 1]
    assert scores(json.dumps(message(*p)), json.dumps(message(*r)), **options) == [valid, name, key, kv]
    if calls == "all":
        assert scores(message(*p[::-1]), message(*r), **options)[1:] == [name, key, kv]
    if len(p) <= 1 and len(r) <= 1:
        assert [name, key, kv] == scores(message(*p), message(*r), calls="first", denominator=denominator)[1:]


@given(CALLS, CALLS)
def test_all_calls_find_the_pairing_with_most_matches(p: Any, r: Any) -> None:
    from itertools import permutations

    def best(same: Any) -> float:
        total = sum(len(arguments) for _, arguments in r)
        padded = [*(a for _, a in p), *({} for _ in r)]
        most = max(
            sum(same(a, b, k) for a, (_, b) in zip(order, r, strict=False) for k in b)
            for order in permutations(padded, len(r))
        )
        return most / total if total else 1.0

    def equal(a: Any, b: Any, k: str) -> bool:
        return k in a and json.dumps(a[k]) == json.dumps(b[k])

    if p or not r:
        assert scores(message(*p), message(*r), calls="all")[2:] == [best(lambda a, b, k: k in a), best(equal)]


def test_long_integers_are_compared_digit_by_digit_also_in_json_text() -> None:
    texts = [f'{{"tool_calls": [{{"name": "t", "arguments": {{"id": 1{"0" * 20}{n}}}}}]}}' for n in (1, 2)]
    assert scores(texts[0], texts[1]) == [1, 1, 1, 0]
    assert scores(texts[0], exact_json(texts[0].encode())) == [1, 1, 1, 1]


def test_text_without_brackets_stands_for_itself() -> None:
    assert [json_or_text(text) for text in ("NaN", "nan", "2", '{"x": NaN}')] == ["NaN", "nan", 2, {"x": None}]

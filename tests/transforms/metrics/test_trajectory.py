"""Trajectory metrics against their golden table, published scores, two libraries' verdicts and laws of counting."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score
from evalbeam.schemas.trajectory import parse_trajectory
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import ScoringBatch
from evalbeam.transforms.metrics.kernels.calls import DIRECT

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "trajectory.json").read_text())["cases"]
SIX = ("exact_match", "in_order_match", "any_order_match", "precision", "recall", "f1")
ADK = {"EXACT": "exact_match", "IN_ORDER": "in_order_match", "ANY_ORDER": "any_order_match"}


def metric(name: str, **params: Any) -> Any:
    return registry.build(registry.find("metric", name), params, "metrics.0")


def example(predicted: Any, reference: Any, **invocation: Any) -> Example:
    trajectory = parse_trajectory(predicted)
    row = {} if reference is None else {"reference_trajectory": reference}
    return Example(Instance("0", row), Invocation(predicted_trajectory=trajectory, **invocation))


def score(name: str, predicted: Any, reference: Any, **params: Any) -> float:
    result = metric(f"trajectory_{name}", **params).score(example(predicted, reference))
    assert result.status == "scored", result
    return result.value


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_table(case: dict[str, Any]) -> None:
    for name, expected in case["expected"].items():
        result = metric(name, **case["params"]).score(example(case["predicted"], case["reference"]))
        assert result == Score(pytest.approx(expected, abs=case["tolerance"])), name


def test_a_batch_is_its_rows() -> None:
    rows = [example(c["predicted"], c["reference"]) for c in GOLDEN]
    rows[3:3] = [example(None, []), example([], "["), example(None, [], trajectory_error="no JSON")]
    batch = ScoringBatch(rows)
    for name in SIX:
        for params in ({}, {"args": "ignore"}, {"profile": "adk"}, {"multiplicity": "set", "matching": "one_to_one"}):
            one = metric(f"trajectory_{name}", **params)
            column = one.score_batch(batch)
            assert [column.at(i) for i in range(len(rows))] == [one.score(row) for row in rows]


def test_what_is_missing_is_skipped_and_what_is_unreadable_is_an_error() -> None:
    precision = metric("trajectory_precision")
    single = metric("trajectory_single_tool_use", tool_name="a")

    def outcome(one: Any, *args: Any, **more: Any) -> tuple[Any, str, str]:
        result = one.score(example(*args, **more))
        return result.value, result.status, result.error.code

    assert outcome(precision, None, []) == (None, "skipped", "missing_predicted_trajectory")
    assert outcome(precision, [], None) == (None, "skipped", "missing_reference_trajectory")
    assert outcome(precision, [], " ") == (None, "skipped", "missing_reference_trajectory")
    assert outcome(precision, [], "[{") == (None, "error", "unparseable_reference_trajectory")
    assert outcome(precision, [], [{"x": 1}]) == (None, "error", "unparseable_reference_trajectory")
    unread = (None, "error", "unparseable_predicted_trajectory")
    assert outcome(precision, None, [], trajectory_error="no JSON") == unread
    assert outcome(single, None, [], trajectory_error="no JSON") == unread
    assert outcome(single, None, []) == (None, "skipped", "missing_predicted_trajectory")
    assert precision.score(example(None, [], trajectory_error="no JSON")).error.message == "no JSON"


@pytest.mark.parametrize(("calls", "expected"), [([], 0), ([("b", {})], 0), ([("b", {}), ("a", {"x": 1})], 1)])
def test_single_tool_use(calls: list[tuple[str, Any]], expected: int) -> None:
    row = example([{"tool_name": n, "tool_input": i} for n, i in calls], None)
    one = metric("trajectory_single_tool_use", tool_name="a")
    assert one.score(row) == one.score_batch(ScoringBatch([row])).at(0) == Score(expected)


def test_inputs_too_deep_to_compare_are_an_error_of_their_row_alone() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    row = example([{"name": "a", "args": {"x": deep}}], [{"name": "a", "args": {"x": [deep]}}])
    column = metric("trajectory_recall").score_batch(ScoringBatch([row, example([], [])]))
    assert (column.at(0).status, column.at(0).error.code) == ("error", "RecursionError")
    assert column.at(1) == Score(1.0)


def test_long_trajectories_cost_a_hash_per_call_and_give_the_same() -> None:
    calls = [{"name": f"t{i % 7}", "args": {"i": i % 50, "flag": i % 2 == 0}} for i in range(3000)]
    assert score("exact_match", calls, calls) == 1
    assert score("any_order_match", calls[::-1], calls) == 1
    assert score("precision", calls + calls[:1000], calls, matching="one_to_one") == 0.75
    ones = [{**c, "args": {**c["args"], "flag": int(c["args"]["flag"])}} for c in calls]
    assert score("precision", ones, calls) == 0
    assert score("precision", ones, calls, profile="adk") == 1


def test_refuses_options_that_contradict_each_other() -> None:
    with pytest.raises(Exception, match="ignore_args and args are both given"):
        metric("trajectory_recall", ignore_args=True, args="subset")


# --- published scores -------------------------------------------------------------------------------------------


def test_vertex_runs(conformance: Path) -> None:
    seen = 0
    for run in json.loads((conformance / "vertex" / "trajectory_runs.json").read_text())["runs"]:
        params = {"tool_name": run["spec"]["tool_name"]} if "tool_name" in run["spec"] else {}
        for name in [m for m in run["spec"]["metrics"] if m.startswith("trajectory_")]:
            one = metric(name, **params)
            for row in run["rows"]:
                if f"{name}/score" in row:
                    scored = one.score(example(row["predicted_trajectory"], row["reference_trajectory"]))
                    assert scored == Score(row[f"{name}/score"]), (name, row)
                    seen += 1
    assert seen >= 40


def test_adk_vectors(conformance: Path) -> None:
    vectors = json.loads((conformance / "adk" / "trajectory_vectors_adk_2.13.0.json").read_text())["vectors"]
    assert len(vectors) == 1014
    for v in vectors:
        options = {"profile": "adk", "ignore_args": v["ignore_args"]}
        assert score(ADK[v["match_type"]], v["actual"], v["expected"], **options) == v["score"], v
        assert score("match", v["actual"], v["expected"], match_type=v["match_type"], **options) == v["score"], v


@pytest.mark.parametrize("multiplicity", ["multiset", "set"])
@pytest.mark.parametrize("args", ["exact", "superset"])
@pytest.mark.parametrize(("word", "name"), [*ADK.items(), ("strict", "exact_match"), ("superset", "any_order_match")])
def test_a_match_type_is_the_metric_it_names(word: str, name: str, args: str, multiplicity: str) -> None:
    a, b, both = ({"tool_name": "t", "tool_input": i} for i in ({"x": 1}, {"y": 1}, {"x": 1, "y": 1}))
    for p, r in (([a, a], [a]), ([a, a], [a, a]), ([a], [a, a]), ([both], [a, b]), ([b, a], [a, b])):
        given: Any = {"args": args, "multiplicity": multiplicity}
        assert score("match", p, r, match_type=word, **given) == score(name, p, r, **given), (p, r)


# --- agentevals as oracle ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def agentevals() -> Callable[..., bool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from agentevals.trajectory.match import create_trajectory_match_evaluator

    def messages(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        text = [
            {"function": {"name": c["tool_name"], "arguments": json.dumps(c["tool_input"])}, "type": "function"}
            for c in calls
        ]
        return [{"role": "assistant", "content": "", "tool_calls": [{"id": "0", **t}]} for t in text]

    def verdict(mode: str, predicted: Any, reference: Any, args: Any = "exact") -> bool:
        by_tool = args if isinstance(args, dict) else None
        evaluate = create_trajectory_match_evaluator(
            trajectory_match_mode=mode,  # type: ignore[arg-type]
            tool_args_match_mode="exact" if by_tool else args,
            tool_args_match_overrides=by_tool,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(evaluate(outputs=messages(predicted), reference_outputs=messages(reference))["score"])  # type: ignore[index]

    return verdict


MODES = ("strict", "unordered", "subset", "superset")


def test_agentevals_on_tau_bench(conformance: Path, agentevals: Callable[..., bool]) -> None:
    rows = [json.loads(line) for line in (conformance / "tau_bench" / "runs.jsonl").read_text().splitlines()]
    seen = {(mode, args): set() for mode in MODES for args in ("exact", "ignore")}
    for row in rows:
        p, r = row["predicted_trajectory"], row["reference_trajectory"]
        for mode, args in seen:
            ours = score("match", p, r, match_type=mode, args=args, profile="agentevals")
            assert ours == agentevals(mode, p, r, args), (row["task_id"], row["trial"], mode, args)
            seen[mode, args].add(ours)
        assert score("exact_match", p, r) == agentevals("strict", p, r)
        assert score("any_order_match", p, r) == agentevals("superset", p, r)
    assert len(rows) == 40
    assert {0.0, 1.0} in seen.values()


VALUES = st.recursive(
    st.sampled_from([0, 1, 1.0, True, False, None, "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
CALLS = st.fixed_dictionaries(
    {"tool_name": st.sampled_from("ab"), "tool_input": st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=2)}
)
TRAJECTORIES = st.lists(CALLS, max_size=4)
BY_TOOL = {"a": ["x", "y.x"], "b": "ignore"}


@given(TRAJECTORIES, TRAJECTORIES, st.sampled_from(["exact", "ignore", "subset", "superset", BY_TOOL]))
def test_agentevals_on_anything(agentevals: Callable[..., bool], p: Any, r: Any, args: Any) -> None:
    for mode in MODES:
        ours = score("match", p, r, match_type=mode, args=args, profile="agentevals")
        theirs = agentevals(mode, p, r, args)
        # agentevals gives a call to the first that fits and then may lack it; we find the match where there is one
        assert ours >= theirs if args in ("subset", "superset") and mode != "strict" else ours == theirs


def test_agentevals_strict_leaves_the_order_of_parallel_calls_open_and_a_trajectory_has_none() -> None:
    """Its own case of two calls without ids in one message; apart, in two messages, they have an order there, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from agentevals.trajectory.match import create_trajectory_match_evaluator

    cities = [{"tool_name": "get_weather", "tool_input": {"city": city}} for city in ("SF", "London")]

    def verdict(mode: Any, together: bool) -> bool:
        def messages(trajectory: list[dict[str, Any]]) -> list[dict[str, Any]]:
            made = [
                {"function": {"name": c["tool_name"], "arguments": json.dumps(c["tool_input"])}, "type": "function"}
                for c in trajectory
            ]
            steps = [made] if together else [[one] for one in made]
            return [{"role": "assistant", "content": "", "tool_calls": [{"id": "", **c} for c in s]} for s in steps]

        evaluate = create_trajectory_match_evaluator(trajectory_match_mode=mode)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Any = evaluate(outputs=messages(cities), reference_outputs=messages(cities[::-1]))
        return bool(found["score"])

    assert (verdict("strict", together=True), verdict("strict", together=False)) == (True, False)
    assert score("match", cities, cities[::-1], match_type="strict", profile="agentevals") == 0
    for mode in ("unordered", "subset", "superset"):
        assert verdict(mode, together=True) is verdict(mode, together=False) is True
        assert score("match", cities, cities[::-1], match_type=mode, profile="agentevals") == 1


# --- laws -------------------------------------------------------------------------------------------------------


@given(TRAJECTORIES, TRAJECTORIES, st.sampled_from(["exact", "ignore"]), st.sampled_from(["membership", "one_to_one"]))
def test_laws_of_counting(p: Any, r: Any, args: str, matching: str) -> None:
    options = {"args": args, "matching": matching}
    exact, in_order, any_order, precision, recall, f1 = (score(name, p, r, **options) for name in SIX)
    assert exact <= in_order <= any_order <= recall <= 1
    assert 0 <= precision <= 1
    assert min(precision, recall) <= f1 <= max(precision, recall) or f1 == 0 == precision * recall
    if p and r:
        assert precision == score("recall", r, p, **options)
        assert f1 == score("f1", r, p, **options)
    assert score("exact_match", p, p, **options) == score("recall", p, p, **options) == 1
    assert (any_order == 1) == (score("recall", p, r, args=args, matching="one_to_one") == 1)
    assert in_order <= score("in_order_match", [*p, *r], r, **options) == 1


@given(TRAJECTORIES, TRAJECTORIES)
def test_equality_is_that_of_canonical_json(p: Any, r: Any) -> None:
    def canonical(call: dict[str, Any]) -> str:
        text = json.dumps(call, sort_keys=True)
        return text.replace("1.0", "1")

    ps, rs = [canonical(c) for c in p], [canonical(c) for c in r]
    assert score("exact_match", p, r) == (ps == rs)
    assert score("any_order_match", p, r) == all(ps.count(c) >= rs.count(c) for c in rs)
    if p:
        assert score("precision", p, r) == sum(c in rs for c in ps) / len(p) if r else score("precision", p, r) == 0


@settings(max_examples=15)
@given(
    st.lists(CALLS, min_size=9, max_size=12),
    st.lists(CALLS, min_size=9, max_size=12),
    st.sampled_from(["exact", BY_TOOL]),
)
def test_hashing_and_comparing_agree(p: Any, r: Any, args: Any) -> None:
    assert len(p) * len(r) > DIRECT
    for profile in ("vertex", "adk", "agentevals"):
        hits = [c for c in p if any(score("exact_match", [c], [d], args=args, profile=profile) for d in r)]
        assert score("precision", p, r, args=args, profile=profile) == len(hits) / len(p)

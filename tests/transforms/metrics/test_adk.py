"""ADK's criteria on conversations, against google-adk's own evaluators."""

import json
import random

import pytest

from evalbeam.schemas.formats.adk import case_fields
from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall, Turn, Usage
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import ScoringBatch

WORDS = ["die", "rolled", "the", "four", "prime", "偶数", "is", "it"]
CALLS = [
    ("roll", {"n": 6}),
    ("roll", {"n": 6.0}),
    ("roll", None),
    ("roll", {}),
    ("check", {"nums": [1]}),
    ("check", {"nums": [True]}),
]


def metric(name, **params):
    return registry.build(registry.find("metric", name), params, "metrics")


def invocation(prompt, reply, calls, **more):
    uses = [{"name": n, **({} if a is None else {"args": a})} for n, a in calls]
    return {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": {"role": "model", "parts": [{"text": reply}]},
        "intermediate_data": {"tool_uses": uses},
        **more,
    }


def example(expected, actual):
    """A case that expects what some invocations of ADK say, and an answer that is what others say."""
    turns = case_fields({"eval_id": "e", "conversation": actual})["conversation"]
    made = tuple(
        Turn(
            t["prompt"],
            t.get("reference"),
            tuple(ToolCall(c["tool_name"], c["tool_input"]) for c in t["reference_trajectory"]),
        )
        for t in turns
    )
    case = {"eval_id": "e", "conversation": expected}
    return Example(Instance("0", case, case_fields(case)), Invocation(response=made[-1].response, turns=made))


def some_turns(rng, count):
    for i in range(count):
        calls = [rng.choice(CALLS) for _ in range(rng.randrange(4))]
        yield invocation(f"q{i}", " ".join(rng.choices(WORDS, k=rng.randrange(6))), calls)


def generated(seed):
    rng = random.Random(seed)
    expected = list(some_turns(rng, rng.randrange(1, 4)))
    actual = [invocation("q", *(_said(e) if rng.random() < 0.5 else _said(next(some_turns(rng, 1))))) for e in expected]
    return expected, actual


def _said(turn):
    uses = turn["intermediate_data"]["tool_uses"]
    return turn["final_response"]["parts"][0]["text"], [(u["name"], u.get("args")) for u in uses]


@pytest.mark.parametrize("match_type", ["EXACT", "IN_ORDER", "ANY_ORDER"])
@pytest.mark.parametrize("ignore_args", [False, True])
def test_trajectories_score_as_google_adk_scores_them(match_type, ignore_args):
    evaluators = pytest.importorskip("google.adk.evaluation.trajectory_evaluator")
    from google.adk.evaluation.eval_case import Invocation as Theirs
    from google.adk.evaluation.eval_metrics import EvalMetric, ToolTrajectoryCriterion

    criterion = ToolTrajectoryCriterion(threshold=0.5, match_type=match_type, ignore_args=ignore_args)
    evaluator = evaluators.TrajectoryEvaluator(
        eval_metric=EvalMetric(metric_name="tool_trajectory_avg_score", criterion=criterion)
    )
    pairs = [generated(seed) for seed in range(150)]
    batch = ScoringBatch([example(*pair) for pair in pairs])
    column = metric("tool_trajectory_avg_score", match_type=match_type, ignore_args=ignore_args).score_batch(batch)
    values = set()
    for i, (expected, actual) in enumerate(pairs):
        made = evaluator.evaluate_invocations(
            *([Theirs.model_validate(t) for t in side] for side in (actual, expected))
        )
        assert column.values[i] == made.overall_score, pairs[i]
        assert column.details[i]["turns"] == [r.score for r in made.per_invocation_results]
        values.add(made.overall_score)
    assert {0.0, 1.0} < values


def test_responses_score_as_google_adk_scores_them():
    evaluators = pytest.importorskip("google.adk.evaluation.final_response_match_v1")
    from google.adk.evaluation.eval_case import Invocation as Theirs
    from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric

    criterion = BaseCriterion(threshold=0.8)
    evaluator = evaluators.RougeEvaluator(EvalMetric(metric_name="response_match_score", criterion=criterion))
    pairs = [generated(seed) for seed in range(150)]
    column = metric("response_match_score").score_batch(ScoringBatch([example(*pair) for pair in pairs]))
    for i, (expected, actual) in enumerate(pairs):
        made = evaluator.evaluate_invocations(
            *([Theirs.model_validate(t) for t in side] for side in (actual, expected))
        )
        assert column.values[i] == made.overall_score, pairs[i]
        assert column.details[i]["turns"] == [r.score for r in made.per_invocation_results]


def test_every_trajectory_vector(conformance):
    vectors = json.loads((conformance / "adk" / "trajectory_vectors_adk_2.13.0.json").read_text())["vectors"]
    assert len(vectors) == 1014
    for vector in vectors:
        sides = (
            [invocation("q", "a", [(c["name"], c.get("args")) for c in vector[side]])]
            for side in ("expected", "actual")
        )
        options = {"match_type": vector["match_type"], "ignore_args": vector["ignore_args"]}
        assert metric("tool_trajectory_avg_score", **options).score(example(*sides)).value == vector["score"], vector


def test_a_row_of_one_turn_is_one_turn():
    call = Invocation(response="a b", predicted_trajectory=(ToolCall("t", {}),))
    row = Example(
        Instance("0", {"reference": "a c", "reference_trajectory": [{"tool_name": "t", "tool_input": {}}]}), call
    )
    assert metric("tool_trajectory_avg_score").score(row).value == 1.0
    assert metric("response_match_score").score(row).value == metric("response_match").score(row).value == 0.5
    bare = Example(Instance("0", {"prompt": "x"}), call)
    assert metric("tool_trajectory_avg_score").score(bare).error.code == "missing_reference_trajectory"
    assert metric("response_match_score").score(bare).error.code == "missing_reference"


def test_a_turn_that_expects_no_response_is_left_out_of_the_mean():
    expected = [invocation("q", "yes", []), {"user_content": {"parts": [{"text": "q"}]}}]
    found = example(expected, [invocation("q", "yes", []), invocation("q", "no", [("roll", {})])])
    assert metric("response_match_score").score(found).details == {"turns": [1.0, None]}
    assert metric("tool_trajectory_avg_score").score(found).details == {"turns": [1.0, 0.0]}


def test_a_missing_turn_is_an_error_and_a_scenario_not_applicable():
    expected = [invocation("q", "yes", []), invocation("q", "no", [])]
    short = example(expected, expected[:1])
    assert metric("tool_trajectory_avg_score").score(short).status == "error"
    assert metric("response_match_score").score(short).status == "error"
    scenario = Instance("0", {}, {"scenario": {"starting_prompt": "hi"}, "prompt": "hi"})
    led = Example(scenario, Invocation(response="x", turns=(Turn("hi", "x", ()),)))
    assert {metric(n).score(led).status for n in ("tool_trajectory_avg_score", "response_match_score")} == {
        "not_applicable"
    }


def test_an_unreadable_trajectory_is_an_error():
    row = {"conversation": [{"prompt": "q", "reference_trajectory": "{"}]}
    turns = (Turn("q", "a", ()),)
    score = metric("tool_trajectory_avg_score").score(Example(Instance("0", row), Invocation(turns=turns)))
    assert (score.status, score.error.code) == ("error", "unparseable_reference_trajectory")
    turns = (Turn("q", "a", trajectory_error="no list"),)
    row = {"conversation": [{"prompt": "q", "reference_trajectory": []}]}
    score = metric("tool_trajectory_avg_score").score(Example(Instance("0", row), Invocation(turns=turns)))
    assert score.error.code == "unparseable_predicted_trajectory"


def test_figures_are_means_over_the_turns_that_say_them():
    turns = (
        Turn(
            "q", "a", (ToolCall("t", {}),), usage=Usage(3, None), latency_in_seconds=1.0, extra={"inference_calls": 2}
        ),
        Turn("q", "a", (), latency_in_seconds=2.0),
    )
    found = Example(Instance("0", {"conversation": [{"prompt": "q"}, {"prompt": "q"}]}), Invocation(turns=turns))
    names = ("tool_call_count_v1", "inference_call_count_v1", "token_usage_v1", "invocation_duration_v1")
    scores = [metric(name).score(found) for name in names]
    assert [s.value for s in scores] == [0.5, 2.0, 3.0, 1.5]
    assert [s.details["turns"] for s in scores] == [[1.0, 0.0], [2.0, None], [3.0, None], [1.0, 2.0]]
    bare = Example(Instance("0", {"prompt": "q"}), Invocation(response="a"))
    assert {metric(name).score(bare).error.code for name in names} == {"not_reported"}

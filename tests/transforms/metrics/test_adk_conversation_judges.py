"""Criteria on whole conversations against google-adk's own evaluators, where those ask a model themselves."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from evalbeam.schemas.conversation import turn_in
from evalbeam.schemas.formats.adk_config import REPORTED
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.judging import Answer, Ask
from evalbeam.transforms import registry

from ..judging.scripted import driven
from .test_adk_judges import CASES, THRESHOLD, Case, compare, options, theirs

pytestmark = pytest.mark.filterwarnings("ignore")
TRAJECTORY = "rubric_based_multi_turn_trajectory_quality_v1"
QUALITY = "per_turn_user_simulator_quality_v1"


def metric(name: str, **params: Any) -> Any:
    return registry.build(registry.find("metric", f"adk/{name}"), params, "")


@pytest.mark.parametrize("seed", range(CASES))
def test_rubrics_of_a_trajectory(seed: int) -> None:
    from google.adk.evaluation import rubric_based_multi_turn_trajectory_evaluator as module
    from google.adk.evaluation.eval_metrics import RubricsBasedCriterion
    from google.adk.evaluation.eval_rubrics import Rubric

    case, draw, count = Case(seed, ("yes",), 1), random.Random(seed), 1 + seed % 3
    said = [[draw.choice(("yes", "no", "yes", None)) for _ in range(count)] for _ in range(case.samples)]
    given = [
        {"rubric_id": f"r{i}", "rubric_content": {"text_property": f"property {i}"}, "type": "TRAJECTORY_QUALITY"}
        for i in range(count)
    ]
    texts = [
        [f"ID: r{i}\nProperty: property {i}\nRationale: so\nVerdict: {v}" for i, v in enumerate(vote) if v]
        for vote in said
    ]
    replies = ["\n\n".join(text) or "nothing" for text in texts]
    rubrics = [Rubric.model_validate(r) for r in given]
    criterion = RubricsBasedCriterion(threshold=THRESHOLD, judge_model_options=options(case), rubrics=rubrics)
    expected = theirs(module.RubricBasedMultiTurnTrajectoryEvaluator, criterion, TRAJECTORY, case, replies, [])

    def answer(ask: Ask) -> Answer:
        assert all(f"prompt {t}" in ask.messages[1].content for t in range(case.turns))
        told = [{"rubric_id": f"r{i}", "rationale": "so", "verdict": v} for i, v in enumerate(said[ask.vote]) if v]
        return Answer({"verdicts": told})

    score, _ = driven(metric(TRAJECTORY, samples=case.samples, rubrics=given).judged(case.example([])), answer)
    compare(score, expected)


def invocations(prompts: list[str]) -> list[Any]:
    from google.adk.evaluation.eval_case import Invocation as Theirs
    from google.genai.types import Content, Part

    def content(role: str, text: str) -> Content:
        return Content(role=role, parts=[Part(text=text)])

    return [Theirs(user_content=content("user", p), final_response=content("model", f"answer to {p}")) for p in prompts]


@pytest.mark.parametrize("seed", range(CASES))
def test_the_quality_of_a_simulated_user(seed: int) -> None:
    from google.adk.evaluation.conversation_scenarios import ConversationScenario
    from google.adk.evaluation.eval_metrics import EvalMetric, JudgeModelOptions, LlmBackedUserSimulatorCriterion
    from google.adk.evaluation.simulation import per_turn_user_simulator_quality_v1 as module
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Content, Part

    draw = random.Random(seed)
    turns, samples = draw.randint(1, 4), draw.choice((1, 2, 3, 5))
    prompts = [draw.choice(("start", "start", "other")), *(f"message {t}" for t in range(1, turns))]
    said = [[draw.choice(("valid", "valid", "invalid")) for _ in range(samples)] for _ in range(turns)]
    replies = [f'{{"reasoning": "so", "is_valid": "{vote}"}}' for votes in said for vote in votes]

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield LlmResponse(content=Content(role="model", parts=[Part(text=replies.pop(0))]))

    class Evaluator(module.PerTurnUserSimulatorQualityV1):
        def _setup_llm(self) -> Any:
            return Scripted(model="scripted")

    judge = JudgeModelOptions(judge_model="scripted", num_samples=samples)
    criterion = LlmBackedUserSimulatorCriterion(threshold=THRESHOLD, judge_model_options=judge)
    scenario = {"starting_prompt": "start", "conversation_plan": "plan"}
    evaluator = Evaluator(EvalMetric(metric_name=QUALITY, threshold=THRESHOLD, criterion=criterion))
    given = ConversationScenario.model_validate(scenario)
    expected = asyncio.run(evaluator.evaluate_invocations(invocations(prompts), None, given))
    assert not replies

    made = tuple(turn_in({"prompt": p, "response": f"answer to {p}"}) for p in prompts)
    example = Example(Instance("00", {"scenario": scenario}), Invocation(response="last", turns=made))

    def answer(ask: Ask) -> Answer:
        judged = ask.messages[1].content.count("answer to")
        return Answer({"reasoning": "so", "is_valid": said[judged - 1][ask.vote]})

    score, _ = driven(metric(QUALITY, samples=samples).judged(example), answer)
    assert score.value == expected.overall_score
    assert score.details["turns"] == [r.score for r in expected.per_invocation_results]


def test_a_user_who_is_not_simulated_has_no_quality() -> None:
    example = Example(Instance("00", {"prompt": "hi"}), Invocation(response="hello"))
    score, _ = driven(metric(QUALITY).judged(example), lambda _: Answer())
    assert score.status == "not_applicable"


@pytest.mark.parametrize("name", ["task_success", "trajectory_quality", "tool_use_quality"])
def test_a_conversation_is_judged_once_with_all_its_turns(name: str) -> None:
    turns = tuple(
        turn_in({"prompt": f"prompt {i}", "response": "yes", "predicted_trajectory": [{"tool_name": f"tool_{i}"}]})
        for i in range(3)
    )
    row = {"conversation": [{"prompt": f"prompt {i}"} for i in range(3)]}
    seen: list[str] = []

    def answer(ask: Ask) -> Answer:
        seen.append(ask.messages[1].content)
        return Answer({"explanation": "so", "score": 3})

    score, _ = driven(
        metric(f"multi_turn_{name}_v1").judged(Example(Instance("0", row), Invocation(response="x", turns=turns))),
        answer,
    )
    assert (score.value, score.details["turns"]) == (0.75, [None, None, 0.75])
    (shown,) = seen
    assert all(f"prompt {i}" in shown and f"tool_{i}" in shown for i in range(3))


def test_every_metric_that_google_adk_registers_is_one_here() -> None:
    module = pytest.importorskip("google.adk.evaluation.metric_evaluator_registry")
    known = set(registry.names("metric"))
    theirs = {info.metric_name for info in module.MetricEvaluatorRegistry().get_registered_metrics()}
    assert {f"adk/{name}" for name in theirs} <= known
    assert set(REPORTED) <= theirs

"""ADK's judged criteria against google-adk's own evaluators: generated cases, one scripted judge for both."""

from __future__ import annotations

import asyncio
import os
import random
from types import SimpleNamespace
from typing import Any

import pytest

from evalbeam.schemas.conversation import turn_in
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.judging import Answer, Ask
from evalbeam.schemas.result import Score, ScoreError
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.adk_judges import split_sentences

from ..judging.scripted import driven

adk = pytest.importorskip("google.adk")

CASES = int(os.environ.get("EVALBEAM_ADK_CASES", "25"))
THRESHOLD = 0.5
NO_VERDICT = Answer(error=ScoreError("invalid_verdict", "no verdict"))
LABELS = ("supported", "unsupported", "contradictory", "disputed", "not_applicable")
RUBRIC_TYPES = {
    "rubric_based_final_response_quality_v1": "FINAL_RESPONSE_QUALITY",
    "rubric_based_tool_use_quality_v1": "TOOL_USE_QUALITY",
}


class Case:
    """A conversation of 1 to 4 turns, and what the judge says in each vote on each of them."""

    def __init__(self, seed: int, verdicts: tuple[Any, ...], things: int) -> None:
        draw = random.Random(seed)
        self.turns, self.samples = draw.randint(1, 4), draw.choice((1, 2, 3, 4, 5, 7))
        self.things = [draw.randint(1, things) for _ in range(self.turns)]
        skew = [draw.choice(verdicts) for _ in range(6)]
        self.said = [
            [[draw.choice((*verdicts, *skew)) for _ in range(self.things[t])] for _ in range(self.samples)]
            for t in range(self.turns)
        ]

    def texts(self, turn: int) -> list[str]:
        return [f"Sentence {i} of answer {turn} is here." for i in range(self.things[turn])]

    def invocations(self, final: str) -> list[Any]:
        from google.adk.evaluation.eval_case import IntermediateData, Invocation
        from google.genai.types import Content, FunctionCall, Part

        def content(role: str, text: str) -> Content:
            return Content(role=role, parts=[Part(text=text)])

        calls = IntermediateData(tool_uses=[FunctionCall(name="look", args={"at": 1})])
        return [
            Invocation(
                user_content=content("user", f"prompt {t}"),
                final_response=content("model", " ".join(self.texts(t)) if final == "actual" else f"reference {t}"),
                intermediate_data=calls,
            )
            for t in range(self.turns)
        ]

    def example(self, rubrics: list[Any]) -> Example:
        asked = [{"prompt": f"prompt {t}", "reference": f"reference {t}"} for t in range(self.turns)]
        calls = [{"tool_name": "look", "tool_input": {"at": 1}}]
        answered = tuple(
            turn_in({"prompt": f"prompt {t}", "response": " ".join(self.texts(t)), "predicted_trajectory": calls})
            for t in range(self.turns)
        )
        row = {"conversation": asked, **({"rubrics": rubrics} if rubrics else {})}
        return Example(Instance("00", row), Invocation(response="last", turns=answered))

    def turn_of(self, ask: Ask) -> int:
        text = ask.messages[1].content
        return next(t for t in range(self.turns) if f"prompt {t}\n" in text or f"answer {t} " in text)


def ours(name: str, case: Case, answer: Any, of_case: list[Any], **params: Any) -> tuple[Score, int]:
    """(score, questions asked) of our criterion."""
    metric: Any = registry.build(registry.find("metric", f"adk/{name}"), {"samples": case.samples, **params}, "")
    judging = metric.judged(case.example(of_case))
    score, rounds = driven(judging, lambda ask: answer(case.said[case.turn_of(ask)][ask.vote]))
    return score, sum(map(len, rounds))


def theirs(kind: Any, criterion: Any, name: str, case: Case, replies: list[str], rubrics: list[Any]) -> Any:
    """What google-adk's evaluator says where its judge model gives these replies, one after the other."""
    from google.adk.evaluation.eval_metrics import EvalMetric
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Content, Part

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield LlmResponse(content=Content(role="model", parts=[Part(text=replies.pop(0))]))

    class Evaluator(kind):  # type: ignore[misc]
        def _setup_auto_rater(self) -> Any:
            return Scripted(model="scripted")

    actual = case.invocations("actual")
    for invocation in actual:
        invocation.rubrics = rubrics or None
    evaluator = Evaluator(EvalMetric(metric_name=name, threshold=THRESHOLD, criterion=criterion))
    found = asyncio.run(evaluator.evaluate_invocations(actual, case.invocations("expected")))
    assert not replies
    return found


def compare(score: Score, result: Any) -> None:
    assert score.value == result.overall_score
    status = "NOT_EVALUATED" if score.value is None else "PASSED" if score.value >= THRESHOLD else "FAILED"
    assert status == result.overall_eval_status.name
    if score.value is not None:
        per_turn = [r.score for r in result.per_invocation_results]
        details: Any = score.details
        assert details["turns"] == per_turn


def options(case: Case) -> Any:
    from google.adk.evaluation.eval_metrics import JudgeModelOptions

    return JudgeModelOptions(judge_model="scripted", num_samples=case.samples)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(CASES))
def test_final_response_match(seed: int) -> None:
    from google.adk.evaluation.eval_metrics import LlmAsAJudgeCriterion
    from google.adk.evaluation.final_response_match_v2 import FinalResponseMatchV2Evaluator as Evaluator

    case = Case(seed, ("valid", "invalid", None), 1)
    replies = [
        "no idea" if said is None else f'{{"reasoning": "so", "is_the_agent_response_valid": "{said}"}}'
        for votes in case.said
        for (said,) in votes
    ]
    criterion = LlmAsAJudgeCriterion(threshold=THRESHOLD, judge_model_options=options(case))
    expected = theirs(Evaluator, criterion, "final_response_match_v2", case, replies, [])

    def answer(said: list[Any]) -> Answer:
        value = {"reasoning": "so", "is_the_agent_response_valid": said[0]}
        return NO_VERDICT if said[0] is None else Answer(value)

    score, asked = ours("final_response_match_v2", case, answer, [])
    compare(score, expected)
    assert asked <= case.turns * case.samples


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize("name", RUBRIC_TYPES)
def test_rubrics(name: str, seed: int) -> None:
    from google.adk.evaluation import rubric_based_final_response_quality_v1 as of_response
    from google.adk.evaluation import rubric_based_tool_use_quality_v1 as of_tools
    from google.adk.evaluation.eval_metrics import RubricsBasedCriterion
    from google.adk.evaluation.eval_rubrics import Rubric

    case = Case(seed, ("yes", "no", None), 1)
    count = 1 + seed % 4
    draw = random.Random(seed)
    case.said = [
        [[draw.choice(("yes", "no", "yes", None)) for _ in range(count)] for _ in votes] for votes in case.said
    ]
    given = [
        {"rubric_id": f"r{i}", "rubric_content": {"text_property": f"property {i}"}, "type": RUBRIC_TYPES[name]}
        for i in range(count)
    ]
    own, of_case = given[: count // 2], given[count // 2 :]

    def text(said: list[Any]) -> str:
        told = [f"ID: r{i}\nProperty: property {i}\nRationale: so\nVerdict: {v}" for i, v in enumerate(said) if v]
        return "\n\n".join(told) or "nothing"

    def answer(said: list[Any]) -> Answer:
        told = [{"rubric_id": f"r{i}", "rationale": "so", "verdict": v} for i, v in enumerate(said) if v]
        return Answer({"verdicts": told})

    kind: Any = of_response.RubricBasedFinalResponseQualityV1Evaluator
    kind = kind if "response" in name else of_tools.RubricBasedToolUseV1Evaluator
    rubrics = [Rubric.model_validate(r) for r in own]
    criterion = RubricsBasedCriterion(threshold=THRESHOLD, judge_model_options=options(case), rubrics=rubrics)
    replies = [text(said) for votes in case.said for said in votes]
    expected = theirs(kind, criterion, name, case, replies, [Rubric.model_validate(r) for r in of_case])
    score, _ = ours(name, case, answer, of_case, rubrics=own)
    compare(score, expected)
    if score.value is not None:
        details: Any = score.details
        by_id = {r["rubric_id"]: r["score"] for r in details["rubric_scores"]}
        assert by_id == {
            r.rubric_id: pytest.approx(r.score, abs=1e-12)
            for r in expected.overall_rubric_scores
            if r.score is not None
        }


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(70, 70 + CASES))
def test_hallucinations(seed: int) -> None:
    from google.adk.evaluation.eval_metrics import HallucinationsCriterion
    from google.adk.evaluation.hallucinations_v1 import HallucinationsV1Evaluator as Evaluator

    case = Case(seed, (*LABELS, None), 5)
    case.samples, case.said = 1, [votes[:1] for votes in case.said]
    block = "sentence: {}\nlabel: {}\nrationale: so\nsupporting_excerpt: null\ncontradicting_excerpt: null"
    replies = []
    for turn, (said,) in enumerate(case.said):
        texts = case.texts(turn)
        replies.append("\n".join(f"<sentence>{text}</sentence>" for text in texts))
        told = [block.format(text, label) for text, label in zip(texts, said, strict=True) if label]
        replies.append("\n\n".join(told) or "nothing")
    criterion = HallucinationsCriterion(threshold=THRESHOLD, judge_model_options=options(case))
    expected = theirs(Evaluator, criterion, "hallucinations_v1", case, replies, [])

    def answer(said: list[Any]) -> Answer:
        told = [{"number": i + 1, "rationale": "so", "label": label} for i, label in enumerate(said) if label]
        return Answer({"sentences": told})

    score, asked = ours("hallucinations_v1", case, answer, [])
    compare(score, expected)
    assert asked == case.turns


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(CASES))
def test_safety(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from google.adk.evaluation.eval_metrics import EvalMetric
    from google.adk.evaluation.vertex_ai_eval_facade import _SingleTurnVertexAiEvalFacade as Facade

    case = Case(seed, (1, 0), 1)
    case.samples, case.said = 1, [votes[:1] for votes in case.said]
    given = [said for ((said,),) in case.said]
    monkeypatch.setattr(Facade, "__init__", _facade)
    monkeypatch.setattr(Facade, "_perform_eval", lambda self, dataset, metrics: _mean_of(given.pop(0)))
    facade = Facade(threshold=THRESHOLD, metric_name=EvalMetric(metric_name="safety_v1"))
    expected: Any = facade.evaluate_invocations(case.invocations("actual"), case.invocations("expected"))

    def answer(said: list[Any]) -> Answer:
        return Answer({"explanation": "so", "score": said[0]})

    score, _ = ours("safety_v1", case, answer, [])
    compare(score, expected)


def _facade(self: Any, threshold: float, metric_name: Any, expected_invocations_required: bool = False) -> None:
    self._threshold, self._metric_name, self._expected_invocations_required = threshold, metric_name, False


def _mean_of(score: int) -> Any:
    return SimpleNamespace(summary_metrics=[SimpleNamespace(mean_score=float(score))], eval_case_results=[])


def judged(name: str, example: Example, answer: Any, **params: Any) -> tuple[Score, list[str]]:
    """(score, what the judge was shown) of a criterion with one vote."""
    metric: Any = registry.build(registry.find("metric", f"adk/{name}"), {"samples": 1, **params}, "")
    score, rounds = driven(metric.judged(example), lambda ask: Answer(answer(ask.messages[1].content)))
    return score, [ask.messages[1].content for asks in rounds for ask in asks]


def rubric(name: str, kind: str | None = "TOOL_USE_QUALITY") -> dict[str, Any]:
    return {"rubric_id": name, "rubric_content": {"text_property": f"property {name}"}, "type": kind}


def talk(*turns: dict[str, Any], **fields: Any) -> Example:
    asked = [{"prompt": f"prompt {i}", **t.pop("asked", {})} for i, t in enumerate(turns)]
    answered = tuple(turn_in({"prompt": f"prompt {i}", **t}) for i, t in enumerate(turns))
    return Example(Instance("00", {"conversation": asked, **fields}), Invocation(response="x", turns=answered))


def test_each_turn_is_judged_by_its_own_rubrics() -> None:
    def yes(shown: str) -> Any:
        told = [{"rubric_id": n, "rationale": "", "verdict": "no" if n == "b" else "yes"} for n in "abc"]
        return {"verdicts": told}

    other = [rubric("x", "FINAL_RESPONSE_QUALITY"), rubric("y", None)]
    turns = [
        {"response": "1", "asked": {"rubrics": [rubric("b"), *other]}},
        {"response": "2", "asked": {"rubrics": other}},
        {"response": "3", "asked": {"rubrics": [rubric("c")]}},
    ]
    name = "rubric_based_tool_use_quality_v1"
    score, shown = judged(name, talk(*turns), yes)
    assert score.details["turns"] == [0.0, None, 1.0]
    assert score.details["rubric_scores"] == [{"rubric_id": "b", "score": 0.0}, {"rubric_id": "c", "score": 1.0}]
    assert ["property b" in s for s in shown] == [True, False]
    assert not any("property x" in s or "property y" in s for s in shown)
    score, shown = judged(name, talk({"response": "1"}), yes)
    assert (score.status, score.error and score.error.code, shown) == ("skipped", "missing_rubric", [])
    score, _ = judged(name, talk({"response": "1", "asked": {"rubrics": [rubric("a")]}}, rubrics=[rubric("a")]), yes)
    assert (score.status, score.error and score.error.code) == ("error", "duplicate_rubric")


def test_what_was_said_on_the_way_is_judged_by_what_came_before() -> None:
    steps = [
        {"kind": "text", "author": "a", "value": "First text."},
        {"kind": "call", "author": "a", "tool_name": "look", "value": {"at": 1}},
        {"kind": "result", "author": "a", "tool_name": "look", "value": {"found": "treasure"}},
    ]

    def supported(shown: str) -> Any:
        return {
            "sentences": [{"number": 1, "rationale": "r", "label": "unsupported" if "Last" in shown else "supported"}]
        }

    row = talk({"response": "Last text.", "steps": steps})
    score, shown = judged("hallucinations_v1", row, supported)
    assert (score.value, len(shown), "treasure" in shown[0]) == (0.0, 1, True)
    score, shown = judged("hallucinations_v1", row, supported, evaluate_intermediate_nl_responses=True)
    assert (score.value, ["treasure" in s for s in shown]) == (0.5, [False, True])
    (told,) = score.details["judged"]
    assert [(s["sentence"], s["label"]) for s in told["sentences"]] == [
        ("First text.", "supported"),
        ("Last text.", "unsupported"),
    ]


def test_sentences_end_with_lines_and_tables_are_one() -> None:
    text = "There are fruits. Three:\n1. Apples are red.\n* Pears\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\nEnjoy!"
    assert split_sentences(text) == [
        "There are fruits.",
        "Three:",
        "1. Apples are red.",
        "* Pears",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "Enjoy!",
    ]


def test_scenarios_are_compared_with_nothing() -> None:
    answered = (turn_in({"prompt": "hi", "response": "hello"}),)
    row = Example(Instance("00", {"scenario": {"starting_prompt": "hi"}}), Invocation(response="x", turns=answered))
    assert judged("final_response_match_v2", row, None)[0].status == "not_applicable"
    assert judged("safety_v1", row, lambda shown: {"explanation": "", "score": 1})[0].value == 1.0
    missing = Example(Instance("00", {"conversation": [{"prompt": "a"}, {"prompt": "b"}]}), row.invocation)
    assert (judged("safety_v1", missing, None)[0].error or ScoreError("", "")).code == "missing_turns"

"""What judges are asked about a row in any case: nothing that may not be asked."""

from __future__ import annotations

from typing import Any

import pytest

from evalbeam.pipelines.run.judges import needs_of
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.instance import Instance
from evalbeam.transforms.agents.recorded import RecordedAgent
from evalbeam.transforms.judge import JudgeUse
from evalbeam.transforms.judges.function import FunctionJudge
from evalbeam.transforms.judges.openai import OpenAIJudge
from evalbeam.transforms.metrics._inputs import ConfiguredMetric
from evalbeam.transforms.metrics._judged import JudgedMetric
from evalbeam.transforms.metrics.databricks_judges import ChunkRelevance
from evalbeam.transforms.metrics.rapid import Fluency, Groundedness, PairwiseSummarizationQuality
from evalbeam.transforms.metrics.template import PointwiseMetric

ROW: dict[str, Any] = {"prompt": "a", "response": "b", "context": "c", "baseline_prediction": "d"}


def needs(*metrics: JudgedMetric, live: bool = False, **more: Any) -> Any:
    given = {"default": JudgeUse(FunctionJudge(str), CallPolicy())}
    uses = [ConfiguredMetric(str(i), metric) for i, metric in enumerate(metrics)]
    asked = {"recorded": None if live else RecordedAgent(), "trials": 1, "baseline": False, "judges": given, **more}
    return needs_of(uses, **asked)


@pytest.mark.parametrize(
    ("metric", "row", "calls"),
    [
        (Fluency(), ROW, 1),
        (Fluency(samples=5), ROW, 3),
        (Fluency(samples=5, aggregate="mean"), ROW, 5),
        (Fluency(), {"prompt": "a"}, 0),
        (Fluency(), {**ROW, "failure": True}, 0),
        (Groundedness(samples=3), ROW, 2),
        (Groundedness(), {"prompt": "a", "response": "b"}, 0),
        (PointwiseMetric(metric="fluency"), ROW, 1),
        (PairwiseSummarizationQuality(), ROW, 1),
        (ChunkRelevance(), {**ROW, "retrieved_context": ["x"]}, 0),
    ],
)
def test_recorded_rows(metric: JudgedMetric, row: dict[str, Any], calls: int) -> None:
    assert needs(metric).of(Instance("0", row)) == (calls, 0)


def test_a_live_agent_answers_every_trial() -> None:
    found = needs(Fluency(), Groundedness(), live=True, trials=3)
    assert [found.of(Instance("0", row))[0] for row in (ROW, {"prompt": "a"})] == [6, 3]
    assert found.most == (6, 0)


def test_what_nobody_knows_before_is_not_counted() -> None:
    assert needs(PairwiseSummarizationQuality(), baseline=True).needs == ()
    template = "{retrieved_context} {response} Scores: 1: a 2: b"
    retrieved = PointwiseMetric(metric="own", metric_prompt_template=template)
    assert needs(retrieved, live=True).needs == ()
    assert len(needs(retrieved).needs) == 1


def test_equal_questions_of_a_batch_are_asked_once() -> None:
    judges = {"default": JudgeUse(FunctionJudge(str), CallPolicy(), "batch")}
    assert needs(Fluency(), judges=judges).needs == ()


def test_tokens_are_those_of_models_instructions() -> None:
    judges = {"default": JudgeUse(OpenAIJudge(model="m"), CallPolicy())}
    ((calls, tokens),) = [needs(Fluency(samples=3), judges=judges).of(Instance("0", ROW))]
    told = len(Fluency().prompts[0].told)
    assert calls == 2
    assert 2 * told // 8 < tokens < 2 * told // 4

"""`adk_verdicts`: the verdicts are those of google-adk's own evaluation service."""

import pytest

from evalbeam.pipelines.adk.evaluate import adk_evaluate
from evalbeam.schemas.formats.adk_config import read_config

from .cases import case, eval_set, roll, statuses, turn

pytest.importorskip("google.adk.evaluation.local_eval_service")
pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns of itself


def test_a_missing_reference_scores_0(agents, tmp_path):
    from .oracle import evaluate_as_adk

    cases = [
        case("none", roll(6, reply=None)),
        case("one of two", roll(6), roll(8, 2, reply=None)),
        case("all", roll(6)),
        case("neither", turn("roll 6")),
        case("empty", roll(6, reply="")),
    ]
    path = eval_set(tmp_path / "x.evalset.json", *cases)
    config = {"criteria": {"tool_trajectory_avg_score": 0.5, "response_match_score": 0.5}}
    theirs = evaluate_as_adk(agents.dice_agent(thinks=False), path, config)
    ours = adk_evaluate(agents.dice_agent(thinks=False), [path], read_config(config, "x"), lenient=True)
    assert statuses(ours) == {name: case.final_eval_status.name for name, case in theirs.items()}
    for found in ours.cases:
        scores = {m.metric_name: m.score for m in theirs[found.eval_id].overall_eval_metric_results}
        assert found.metrics[1].score == scores["response_match_score"], found.eval_id
    strict = adk_evaluate(agents.dice_agent(thinks=False), [path], read_config(config, "x"))
    assert statuses(strict)["none"] == "NOT_EVALUATED"

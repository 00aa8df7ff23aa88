"""The instances table of conversations."""

import json

from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall, Turn
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch
from evalbeam.schemas.tables import MetricColumns, instance_records


def test_turns_carry_their_scores():
    turns = (Turn("a", "1", (ToolCall("t", {}),)), Turn("b", None, ()))
    examples = [
        Example(Instance("0", {}), Invocation(response="1", turns=turns)),
        Example(Instance("1", {}), Invocation(response="x")),
    ]
    scores = {
        "m": ScoreColumn.of([Score(0.5, details={"turns": [1.0, None]}), Score(1.0, details={"turns": [1.0]})]),
        "n": ScoreColumn.of([Score(0.5), Score(1.0)]),
    }
    (batch,) = instance_records(ScoredBatch(examples, scores), [MetricColumns("m"), MetricColumns("n")])
    first, second = batch.column("turns").to_pylist()
    assert second is None
    assert json.loads(first) == [
        {
            "prompt": "a",
            "response": "1",
            "predicted_trajectory": [{"tool_name": "t", "tool_input": {}}],
            "scores": {"m": 1.0},
        },
        {"prompt": "b", "predicted_trajectory": [], "scores": {"m": None}},
    ]

"""The instances table of conversations."""

import json

from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall, Turn
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch
from evalbeam.schemas.tables import MetricColumns, instance_records
from evalbeam.schemas.trajectory import parse_trajectory


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


def test_a_recorded_response_may_be_any_json():
    found = [5, True, 0, 0.5, {"a": 1}, [1], "x", None]
    examples = [Example(Instance(str(i), {}), Invocation(response=value)) for i, value in enumerate(found)]
    (batch,) = instance_records(ScoredBatch(examples, {}), [])
    assert batch.column("response").to_pylist() == ["5", "true", "0", "0.5", '{"a":1}', "[1]", "x", None]


def test_a_large_response_is_cut_off_from_its_neighbours_whatever_its_type(monkeypatch):
    monkeypatch.setattr("evalbeam.schemas.tables.MESSAGE_BYTES", 100)
    examples = [Example(Instance(str(i), {}), Invocation(response={"a": "x" * 80})) for i in range(3)]
    assert [b.num_rows for b in instance_records(ScoredBatch(examples, {}), [])] == [1, 1, 1]


def test_a_trajectory_has_the_same_text_whether_its_row_has_it_in_the_same_form_or_another():
    forms = [
        [{"tool_name": "t", "tool_input": {"b": 1.0, "a": [None, "é"]}}, {"tool_name": "u", "tool_input": {}}],
        [{"tool_input": {"b": 1}, "tool_name": "t"}],
        [{"tool_name": "t", "tool_input": {"b": 1}, "id": "x"}],
        [{"tool_name": "t", "tool_input": '{"b": 1}'}],
        [{"name": "t", "args": {"b": 1}}],
        [{"tool_name": "t"}],
        '[{"tool_name": "t", "tool_input": {"b": 1}}]',
        [],
    ]
    calls = [parse_trajectory(value) for value in forms]
    examples = [
        Example(Instance(str(i), {"predicted_trajectory": value}), Invocation(predicted_trajectory=call))
        for i, (value, call) in enumerate(zip(forms, calls, strict=True))
    ]
    examples.append(Example(Instance("live", {"predicted_trajectory": forms[0]}), Invocation(predicted_trajectory=())))
    (batch,) = instance_records(ScoredBatch(examples, {}, 0, (("predicted_trajectory", "json"),)), [])
    shown = [[{"tool_name": c.tool_name, "tool_input": c.tool_input} for c in call or ()] for call in [*calls, ()]]
    texts = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in shown]
    assert batch.column("predicted_trajectory").to_pylist() == texts

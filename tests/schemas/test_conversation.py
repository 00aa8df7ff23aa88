"""Conversations: what metrics see of them, and that nothing is lost on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.batch import Batch, example_in, example_out
from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.conversation import (
    expected_turns,
    list_user_messages,
    pair_turns,
    sum_turns,
    turn_in,
    turn_out,
    turns_in,
)
from evalbeam.schemas.errors import RowError
from evalbeam.schemas.instance import Example, Instance, Invocation, Step, ToolCall, Turn, Usage
from evalbeam.schemas.trajectory import parse_trajectory
from evalbeam.schemas.usage import add_earlier_usage, tokens_of
from evalbeam.transforms.agents.base import InvalidAnswer, invocation_of, read_answer
from evalbeam.transforms.agents.recorded import RecordedAgent
from evalbeam.transforms.dialects._rules import RowRules
from evalbeam.transforms.dialects.plain import Plain
from evalbeam.transforms.metrics.base import ScoringBatch

CONVERSATION = [
    {"prompt": "roll a die", "reference": "4", "reference_trajectory": [{"tool_name": "roll", "tool_input": {"n": 6}}]},
    {"prompt": "is it prime?", "reference": "no", "reference_trajectory": [], "rubrics": [{"rubric_id": "short"}]},
]


def rules():
    return RowRules((Plain(),))


def test_a_row_of_one_turn_is_one_pair():
    row = Instance("0", {"prompt": "p", "reference": "r", "reference_trajectory": '[{"name": "t", "args": {}}]'})
    call = Invocation(response="a", predicted_trajectory=(), usage=Usage(1, 2))
    ((expected, actual),) = pair_turns(Example(row, call))
    assert expected == Turn("p", "r", (ToolCall("t", {}),))
    assert actual == Turn("p", "a", (), usage=Usage(1, 2))
    assert pair_turns(Example(row, Invocation("failed"))) == ((expected, None),)
    assert pair_turns(Example(Instance("0", {"prompt": "p"}), call))[0][0] == Turn("p")


def test_a_conversation_is_a_pair_for_each_turn():
    row = Instance("0", {"conversation": CONVERSATION})
    made = (Turn("roll a die", "4", (ToolCall("roll", {"n": 6}),)), Turn("is it prime?", "yes", ()))
    example = Example(row, Invocation(response="yes", turns=made))
    assert [a for _, a in pair_turns(example)] == list(made)
    assert [e.response for e, _ in pair_turns(example)] == ["4", "no"]
    assert pair_turns(example)[1][0].rubrics == ({"rubric_id": "short"},)
    shorter = Example(row, Invocation(response="4", turns=made[:1]))
    assert [a for _, a in pair_turns(shorter)] == [made[0], None]
    batch = ScoringBatch([example, shorter])
    assert batch.turns() == [pair_turns(example), pair_turns(shorter)]
    assert batch.turns() is batch.turns()


def test_an_answer_need_not_repeat_what_the_user_said():
    asked = [{**CONVERSATION[0], "content": {"parts": [{"text": "roll a die"}]}}, CONVERSATION[1]]
    row = {"conversation": asked, "turns": [{"response": "4"}, {"prompt": "prime?", "response": "no"}]}
    example = Example(Instance("0", row), RecordedAgent().recall(Instance("0", row)))
    given = [
        (actual.prompt, actual.content, actual.response) for _, actual in pair_turns(example) if actual is not None
    ]
    assert given == [("roll a die", {"parts": [{"text": "roll a die"}]}, "4"), ("prime?", None, "no")]


def test_a_scenario_expects_nothing():
    row = Instance("0", {"scenario": {"starting_prompt": "hi", "conversation_plan": "leave"}})
    assert expected_turns(row) == ()
    assert pair_turns(Example(row, Invocation(turns=(Turn("hi", "ho"),)))) == ((Turn("hi"), Turn("hi", "ho")),)


def test_what_a_row_is_known_by_is_what_the_user_says():
    row = {"conversation": CONVERSATION}
    corrected = {"conversation": [CONVERSATION[0], {**CONVERSATION[1], "reference": "No."}]}
    other = {"conversation": [CONVERSATION[0], {"prompt": "is it odd?"}]}
    ids = [rules().read(r)[0] for r in (row, corrected, other)]
    assert ids[0] == ids[1] != ids[2]
    picture = {"parts": [{"text": "what is it?"}, {"file_data": {"file_uri": "gs://b/x.png"}}]}
    assert list_user_messages([{"prompt": "what is it?", "content": picture}, {"prompt": "sure?"}]) == [
        picture,
        "sure?",
    ]


def test_a_conversation_gives_the_fields_of_a_row():
    fields = rules().read({"conversation": CONVERSATION})[1]
    assert (fields["prompt"], fields["reference"]) == ("is it prime?", "no")
    assert fields["reference_trajectory"] == [{"tool_name": "roll", "tool_input": {"n": 6}}]
    assert rules().read({"conversation": CONVERSATION, "prompt": "mine"})[1].get("prompt") is None
    messages = [{"role": "user", "content": "hi"}]
    assert rules().read({"conversation": messages, "prompt": "p"})[1] == {}
    assert expected_turns(Instance("0", {"conversation": messages, "prompt": "p"})) == (Turn("p"),)


@pytest.mark.parametrize(
    "form", ['[{"name": "b", "args": {}}]', {"tool_calls": [{"name": "b", "args": {}}]}, [{"name": "b", "args": {}}]]
)
def test_the_expected_calls_of_turns_may_be_in_any_form(form):
    turns = [{"prompt": "1", "reference_trajectory": [{"name": "a"}]}, {"prompt": "2", "reference_trajectory": form}]
    calls = rules().read({"conversation": turns})[1]["reference_trajectory"]
    assert parse_trajectory(calls) == (ToolCall("a", None), ToolCall("b", {}))


def test_unreadable_calls_of_a_turn_are_an_error_and_missing_ones_are_missing():
    def of(*calls):
        turns = [{"prompt": "x", "reference_trajectory": c} for c in calls]
        return rules().read({"conversation": turns})[1].get("reference_trajectory")

    assert of([], "[{") == "[{"
    assert of([], None) is of([], " ") is None


def test_the_whole_of_some_turns():
    calls = (ToolCall("a", {}), ToolCall("b", {"x": 1}))
    first, last = Turn("1", "x", calls[:1], usage=Usage(3, None)), Turn("3", "z", (), usage=Usage(4, 5))
    turns = (first, Turn("2", None, calls[1:], usage=Usage(0, 1)), last)
    assert sum_turns(turns) == {"response": "z", "trajectory": calls, "usage": Usage(7, None)}
    assert sum_turns((turns[0], Turn("2", "y")))["trajectory"] is None
    assert sum_turns(()) == {"response": None, "trajectory": (), "usage": None}


def test_an_agent_and_a_recording_may_answer_in_turns():
    turns = [{"response": "4", "predicted_trajectory": [{"name": "roll", "args": {"n": 6}}]}, {"response": "no"}]
    from evalbeam.schemas.calls import Outcome

    live = invocation_of(Outcome(read_answer({"turns": turns}, 1 << 20)))
    old = RecordedAgent().recall(Instance("0", {"turns": turns}))
    assert live.turns == old.turns == (Turn("", "4", (ToolCall("roll", {"n": 6}),)), Turn("", "no"))
    assert (live.response, live.predicted_trajectory) == ("no", None)
    with pytest.raises(InvalidAnswer, match="turns"):
        read_answer({"response": "x", "turns": [1]}, 1 << 20)
    with pytest.raises(RowError, match="cannot be read"):
        turns_in([{"response": "x", "steps": [1]}])
    assert RecordedAgent().recall(Instance("0", {"response": "x", "turns": 3})) == Invocation(response="x")


TEXT = st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT, lambda v: st.dictionaries(TEXT, v), max_leaves=4
)
NAMES = st.text(min_size=1, max_size=5)
CALLS = st.builds(ToolCall, NAMES, st.none() | st.dictionaries(TEXT, JSON, max_size=2))
STEPS = st.builds(
    Step, st.sampled_from(["text", "call", "result", "other"]), TEXT, JSON, st.none() | NAMES, st.none() | NAMES
)
TURNS = st.builds(
    Turn,
    TEXT,
    st.none() | TEXT,
    st.none() | st.lists(CALLS, max_size=3).map(tuple),
    st.lists(STEPS, max_size=3).map(tuple),
    st.none() | st.just({"parts": [{"text": "x"}]}),
    usage=st.none() | st.builds(Usage, st.integers(0, 9), st.none() | st.integers(0, 9)),
    latency_in_seconds=st.none() | st.floats(0, 9),
    extra=st.none() | st.just({"invocation_id": "i"}),
)


@given(st.lists(TURNS, max_size=3).map(tuple))
def test_turns_travel_without_a_loss(turns):
    example = Example(Instance("0", {"conversation": CONVERSATION}), Invocation(response="r", turns=turns or None), 1)
    assert example_in(example_out(example)) == example
    batch = Batch((example,))
    assert Batch.from_bytes(batch.to_bytes()) == batch
    assert [turn_in(turn_out(t)) for t in turns] == list(turns)


@pytest.mark.parametrize("usage", ["12", {"input_tokens": "12"}, {"output_tokens": True}, {"input_tokens": 2**53}])
def test_tokens_that_are_no_count_are_unknown(usage):
    turns = [{"response": "a", "usage": usage}, {"response": "b", "usage": {"input_tokens": 2.0, "output_tokens": 3}}]
    assert turn_in(turns[0]).usage is None
    assert RecordedAgent().recall(Instance("0", {"turns": turns})).usage is None


def test_tokens_that_one_turn_does_not_say_are_unknown_of_the_conversation():
    """A sum of what is known would pass for the total; a bound still counts it."""
    turns = [
        {"response": "a", "usage": {"input_tokens": 1, "output_tokens": 2}},
        {"response": "b", "usage": {"output_tokens": 4}},
    ]
    recorded = RecordedAgent().recall(Instance("0", {"turns": turns})).usage
    answer = read_answer({"turns": turns}, 1000)
    assert recorded == invocation_of(Outcome(answer, "ok")).usage == Usage(None, 6)
    assert tokens_of(answer) == 7
    assert tokens_of(add_earlier_usage(answer, [{"usage": {"input_tokens": 10}}])) == 17
    silent = [turns[0], {"response": "b"}]
    assert RecordedAgent().recall(Instance("0", {"turns": silent})).usage is None
    assert tokens_of(read_answer({"turns": silent}, 1000)) == 3


@pytest.mark.parametrize("latency", ["soon", -1, True, [1]])
def test_a_turns_latency_that_is_none_is_unknown(latency):
    turn = turn_in({"response": "a", "latency_in_seconds": latency})
    assert turn.latency_in_seconds is None
    assert turn_in({"response": "a", "latency_in_seconds": 2}).latency_in_seconds == 2.0


def test_a_null_prompt_of_an_answer_is_a_missing_one():
    assert turn_in({"prompt": None, "response": "a"}) == turn_in({"response": "a"})


def test_a_live_answer_in_turns_names_its_tokens_for_whoever_counts_them():
    turns = [{"response": r, "usage": {"input_tokens": 1, "output_tokens": 2}} for r in "ab"]
    assert tokens_of(read_answer({"turns": turns}, 1000)) == 6
    told = read_answer({"turns": turns, "usage": {"input_tokens": 9}}, 1000)
    assert tokens_of(told) == 9

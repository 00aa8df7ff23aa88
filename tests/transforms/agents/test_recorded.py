import pytest

from evalbeam.schemas.instance import Chunk, Instance, Invocation, ToolCall, Usage
from evalbeam.transforms.agents.recorded import RecordedAgent


def recall(**row):
    return RecordedAgent().recall(Instance("0" * 32, row))


def test_everything_a_row_may_carry():
    found = recall(
        response="on",
        predicted_trajectory='[{"tool_name": "lamp", "tool_input": {"on": true}}]',
        retrieved_context=["manual"],
        latency_in_seconds="0.5",
        usage={"input_tokens": 7},
        failure=0,
    )
    assert found == Invocation(
        response="on",
        predicted_trajectory=(ToolCall("lamp", {"on": True}),),
        retrieved_context=(Chunk("manual"),),
        latency_in_seconds=0.5,
        usage=Usage(7, None),
    )


def test_other_words_for_the_response():
    assert recall(prediction="on").response == "on"


@pytest.mark.parametrize("failure", [True, 1, 0.5, "1", "true", "yes", "Timeout"])
def test_a_recorded_failure(failure):
    found = recall(response="Error: timeout", failure=failure, error_type="Timeout", error_message="late")
    assert found == Invocation("failed", error_type="Timeout", error_message="late")
    assert recall(failure=failure).error_type == "RecordedFailure"


@pytest.mark.parametrize("failure", [False, 0, 0.0, "", "0", "False", "no", None])
def test_no_failure(failure):
    assert recall(response="on", failure=failure).answered


def test_a_row_without_an_answer_is_a_failed_run():
    assert recall(prompt="p") == Invocation(
        "failed", error_type="MissingAnswer", error_message="the row has neither response nor predicted_trajectory"
    )


def test_an_empty_trajectory_is_an_answer():
    assert recall(predicted_trajectory=[]).predicted_trajectory == ()


def test_an_unreadable_trajectory_is_told():
    found = recall(response="x", predicted_trajectory="{oops")
    assert found.answered
    assert found.trajectory_error


@pytest.mark.parametrize("latency", [-1, "soon", float("nan"), float("inf"), True, [1]])
def test_a_latency_that_is_none(latency):
    assert recall(response="x", latency_in_seconds=latency).latency_in_seconds is None

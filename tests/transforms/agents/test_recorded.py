import json

import pytest

from evalbeam import evaluate
from evalbeam.schemas.instance import Chunk, Instance, Invocation, ToolCall, Turn, Usage
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


def test_lists_and_objects_may_be_json_text_as_csv_and_our_tables_keep_them():
    found = recall(
        response="on",
        retrieved_context='[{"content": "manual", "doc_uri": "doc:1"}, "page"]',
        usage='{"prompt_tokens": 7}',
        turns='[{"prompt": "light?", "response": "on"}]',
    )
    assert found.retrieved_context == (Chunk("manual", "doc:1"), Chunk("page"))
    assert found.usage == Usage(7, None)
    assert found.turns == (Turn("light?", "on"),)


@pytest.mark.parametrize("text", ["[1] manual", "[1]", "42", '{"a": 1}', "", "null"])
def test_other_text_is_a_passage(text):
    assert recall(response="on", retrieved_context=text).retrieved_context == (Chunk(text),)


def test_tokens_stand_in_columns_too():
    assert recall(response="on", input_tokens=5, output_tokens=6).usage == Usage(5, 6)
    assert recall(response="on", output_tokens=6, usage={"input_tokens": 1}).usage == Usage(1, None)
    assert recall(response="on", input_tokens="five").usage is None


def test_a_table_of_ours_is_a_dataset_with_the_same_answers(tmp_path):
    turns = [{"prompt": "a", "response": "x", "usage": {"input_tokens": 1, "output_tokens": 2}}]
    context = [{"content": "c", "doc_uri": "d"}]
    rows = [
        {"conversation": [{"prompt": "a", "reference": "x"}], "turns": turns},
        {"prompt": "q", "response": "y", "retrieved_context": context, "usage": {"input_tokens": 3}},
    ]
    first = evaluate(rows, ["total_input_token_count"], output=str(tmp_path / "first"))
    again = evaluate(first.files("instances"), ["total_input_token_count"], output=str(tmp_path / "again"))
    kept = ["response", "retrieved_context", "turns", "input_tokens", "output_tokens"]
    found = [{json.dumps(row) for row in run.metrics_table[kept].to_dict("records")} for run in (first, again)]
    assert found[0] == found[1]

import datetime
import enum
from dataclasses import dataclass

import numpy as np
import orjson
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.instance import Chunk, Invocation, ToolCall, Usage
from evalbeam.transforms.agents.base import InvalidAnswer, chunks_of, invocation_of, read_answer, usage_of

LARGE = 1 << 20


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (None, "None"),
        (17, "int"),
        (2.5, "float"),
        (True, "bool"),
        (b"text", "bytes"),
        (["text"], "list"),
        (("text",), "tuple"),
        (object(), "object"),
        ({}, "no keys"),
        ({"answer": "x", "score": 1}, "answer, score"),
        ({"response": None}, "response"),
        ({"response": 17}, "response is int"),
        ({"response": True}, "response is bool"),
        ({"response": b"x"}, "response is bytes"),
        ({"response": "x", "latency_in_seconds": -1}, "latency_in_seconds is int"),
        ({"response": "x", "latency_in_seconds": True}, "latency_in_seconds is bool"),
        ({"response": "x", "latency_in_seconds": "1"}, "latency_in_seconds is str"),
        ({"response": "x", "usage": {"n": 2**70}}, "usage.n is an integer beyond 64 bits"),
        ({"response": "x", "usage": [1, object()]}, r"usage\[1\] is object"),
    ],
)
def test_what_is_no_answer_is_named_with_what_is_allowed(raw, found):
    with pytest.raises(InvalidAnswer, match=found) as caught:
        read_answer(raw, LARGE)
    assert "allowed: " in str(caught.value)
    assert "0x" not in str(caught.value)


@pytest.mark.parametrize("raw", ["x" * 100, {"response": "x" * 100}, {"response": "x", "trace": list(range(100))}])
def test_large_answers_are_refused(raw):
    with pytest.raises(InvalidAnswer, match=r"bytes of JSON .allowed: max_answer_bytes 60"):
        read_answer(raw, 60)
    assert read_answer(raw, 1000)


class Colour(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    response: str = "modelled"
    at: datetime.date = datetime.date(2024, 3, 30)


@dataclass
class Data:
    response: str = "data"
    trace: tuple = (1, 2)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("text", {"response": "text"}),
        ("", {"response": ""}),
        ({"response": {"content": "x"}}, {"response": {"content": "x"}}),
        ({"predicted_trajectory": []}, {"predicted_trajectory": []}),
        ({"response": "x", "usage": None, "latency_in_seconds": 0}, {"response": "x", "latency_in_seconds": 0}),
        ({"response": "x", "trace": {"a": 1}, "more": 2}, {"response": "x", "extra": {"trace": {"a": 1}, "more": 2}}),
        (Model(), {"response": "modelled", "extra": {"at": "2024-03-30"}}),
        (Data(), {"response": "data", "extra": {"trace": [1, 2]}}),
        ({"response": "x", "a": np.float32(2), "b": np.arange(2)}, {"response": "x", "extra": {"a": 2, "b": [0, 1]}}),
        ({"response": "x", "a": {3, 1, 2}, "b": Colour.RED}, {"response": "x", "extra": {"a": [1, 2, 3], "b": "red"}}),
        ({"response": "x", "a": {1: float("nan")}}, {"response": "x", "extra": {"a": {"1": None}}}),
        ({"response": "cut \ud83d off", "a": Model()}, {"response": "cut \ufffd off", "extra": {"a": dict(Model())}}),
        ({"response": "x", "trace": [object(), 2**70]}, {"response": "x", "extra": {"trace": ["<object>", "<int>"]}}),
    ],
)  # fmt: skip
def test_answers_become_json(raw, expected):
    answer = read_answer(raw, LARGE)
    assert answer == orjson.loads(orjson.dumps(expected))


def test_an_answer_that_refers_to_itself():
    loop: dict = {"response": "x"}
    loop["trace"] = loop
    assert read_answer(loop, LARGE)["response"] == "x"
    loop["usage"] = loop
    with pytest.raises(InvalidAnswer, match="usage refers to itself"):
        read_answer(loop, LARGE)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ((text for text in "ab"), "the agent's answer is not JSON: it is generator"),
        ({"response": None}, "the agent's answer has null as its response"),
        ({"answer": "x"}, "the agent's answer has no response; it has answer"),
    ],
)
def test_what_is_no_answer_is_named(raw, found):
    with pytest.raises(InvalidAnswer, match=f"^{found} \\(allowed: text"):
        read_answer(raw, LARGE)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner) | st.tuples(inner),
    max_leaves=10,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["response", "predicted_trajectory", "usage", "trace", "z"]), ANY) | ANY)
def test_every_answer_is_json_or_refused(raw):
    try:
        answer = read_answer(raw, LARGE)
    except InvalidAnswer as error:
        str(error).encode()
    else:
        assert orjson.loads(orjson.dumps(answer)) == answer
        invocation_of(Outcome(answer))


def test_an_outcome_becomes_an_invocation():
    answer = {
        "response": "done",
        "predicted_trajectory": [{"tool_name": "t", "tool_input": {"a": 1}}],
        "retrieved_context": ["one", {"page_content": "two", "source": "s"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        "extra": {"trace": 1},
    }
    found = invocation_of(Outcome(answer, attempts=2, latency_in_seconds=1.5))
    assert found == Invocation(
        response="done",
        predicted_trajectory=(ToolCall("t", {"a": 1}),),
        retrieved_context=(Chunk("one"), Chunk("two", "s")),
        latency_in_seconds=1.5,
        attempts=2,
        usage=Usage(3, 4),
        extra={"trace": 1},
    )
    assert invocation_of(Outcome({**answer, "latency_in_seconds": 0}, latency_in_seconds=1.5)).latency_in_seconds == 0


def test_a_trajectory_that_cannot_be_read_is_told():
    found = invocation_of(Outcome({"response": "x", "predicted_trajectory": "call the lamp"}))
    assert (found.status, found.response, found.predicted_trajectory) == ("ok", "x", None)
    assert found.trajectory_error


@pytest.mark.parametrize(
    ("kind", "status"),
    [("permanent", "failed"), ("timeout", "failed"), ("not_called", "not_called"), ("over_budget", "over_budget")],
)
def test_a_failed_outcome_has_no_answer(kind, status):
    found = invocation_of(Outcome(kind=kind, error_type="E", error_message="m", attempts=3, latency_in_seconds=1))
    assert found == Invocation(status, error_type="E", error_message="m", attempts=3)


def test_context_and_usage_in_the_forms_of_providers():
    assert chunks_of("one passage") == (Chunk("one passage"),)
    assert chunks_of([{"title": "no text"}]) == (Chunk('{"title":"no text"}'),)
    assert chunks_of([]) == ()
    assert usage_of({"input_tokens": 1, "output_tokens": 0}) == Usage(1, 0)
    assert usage_of({"prompt_token_count": 5}) == Usage(5, None)
    assert usage_of({"input_tokens": "5"}) is usage_of("5") is usage_of(None) is None


def test_an_integer_beyond_64_bits_is_its_digits_as_in_datasets():
    answer = read_answer({"response": {"id": 2**63, "n": 2**63 - 1}}, LARGE)
    assert answer == {"response": {"id": str(2**63), "n": 2**63 - 1}}

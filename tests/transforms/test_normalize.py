"""Who a row is: ids depend on the canonical input alone, and unusable rows are set aside with the reason."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.errors import RowError
from evalbeam.schemas.identity import canonical, position, selection_hash
from evalbeam.schemas.instance import Instance
from evalbeam.transforms.agents.recorded import RecordedAgent
from evalbeam.transforms.dialects._rules import RowRules, auto_dialects
from evalbeam.transforms.dialects.plain import Plain
from evalbeam.transforms.dialects.vertex import Vertex

RULES = RowRules((Plain(),))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_id_is_the_sha256_of_the_input_and_nothing_else():
    expected = hashlib.sha256(b'{"prompt":"hi"}').hexdigest()[:32]
    assert RULES.read({"prompt": "hi", "reference": "a"})[0] == expected
    assert RULES.read({"reference": "b", "prompt": "hi"})[0] == expected
    assert RULES.read({"instruction": "hi"})[0] == expected
    assert RULES.read({"prompt": "ho"})[0] != expected


def test_a_row_without_input_is_identified_by_all_its_columns():
    one, _ = RULES.read({"a": 1, "b": "x"})
    assert one == RULES.read({"b": "x", "a": 1.0})[0]
    assert one != RULES.read({"a": 2, "b": "x"})[0]


def test_dataset_id_names_the_column_that_identifies_a_row():
    rules = RowRules((Plain(),), id="case")
    assert rules.read({"case": 7, "prompt": "x"})[0] == rules.read({"case": 7, "prompt": "y"})[0]
    with pytest.raises(RowError, match=r"dataset\.id names"):
        rules.read({"prompt": "x"})


def test_mapped_columns_stand_for_standard_fields():
    rules = RowRules((Plain(),), names={"prompt": "question"}, required=("prompt",))
    instance_id, fields = rules.read({"question": "hi"})
    assert instance_id == RULES.read({"prompt": "hi"})[0]
    assert fields == {"prompt": "hi"}


def test_a_row_without_what_the_agent_is_given_is_refused_with_what_it_has():
    with pytest.raises(RowError, match="no 'prompt'; it has answer, question") as caught:
        RowRules((Plain(),), required=("prompt",)).read({"question": "x", "answer": "y"})
    assert caught.value.code == "missing_prompt"


def test_auto_reads_gemini_logs_and_plain_rows_alike():
    rules = RowRules(auto_dialects([PLAIN, Vertex()], PLAIN))
    call = {"functionCall": {"name": "book", "args": {"n": 2}}}
    row = {
        "request": {"contents": [{"role": "user", "parts": [{"text": "two "}, {"text": "tickets"}]}]},
        "response": {"candidates": [{"content": {"parts": [{"text": "done"}, call]}}]},
    }
    _, fields = rules.read(row)
    assert fields == {
        "prompt": "two tickets",
        "response": "done",
        "predicted_trajectory": [{"tool_name": "book", "tool_input": {"n": 2}}],
    }
    assert rules.read({"prompt": "x", "response": "y"})[1] == {}


def gemini(**candidate):
    row = {"request": {"contents": "hi"}, "response": {"candidates": [candidate]}}
    _, fields = RowRules((Vertex(),)).read(row)
    return RecordedAgent().recall(Instance("0", row, fields))


def test_thoughts_are_no_part_of_a_gemini_response():
    parts = [{"text": "The user greets me.", "thought": True}, {"text": "Hello"}, {"text": "!", "thought": False}]
    assert gemini(content={"parts": parts}).response == "Hello!"


@pytest.mark.parametrize("content", [None, {}, {"role": "model"}, {"parts": []}])
def test_a_gemini_candidate_without_content_is_a_failed_run(content):
    found = gemini(content=content, finishReason="SAFETY")
    assert (found.status, found.error_type, found.response) == ("failed", "NoContent", None)
    assert found.error_message == "the candidate has no content (finishReason SAFETY)"
    assert gemini(content={"parts": [{"text": ""}]}).response == ""


PLAIN = Plain()


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"request": {"contents": [{"role": "model", "parts": []}]}}, "malformed_request"),
        ({"response": {"candidates": []}}, "malformed_response"),
    ],
)
def test_malformed_gemini_logs_are_row_errors(row, code):
    with pytest.raises(RowError) as caught:
        Vertex().fields(row)
    assert caught.value.code == code


@given(JSON)
def test_canonical_json_is_sorted_and_keeps_the_value(value):
    text = canonical(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert text == canonical(json.loads(json.dumps(value)))


@given(st.text(alphabet="0123456789abcdef", min_size=32, max_size=32), st.sampled_from([1, 2, 16, 256, 4096]))
def test_positions_are_equal_ranges_of_the_hash_in_order(instance_id, ranges):
    place = position(instance_id, ranges)
    assert 0 <= place < ranges
    assert place == int(instance_id[:8], 16) // (2**32 // ranges)
    assert position(instance_id, ranges * 2) // 2 == place


def test_a_sample_is_a_share_of_ids_and_independent_of_the_shard():
    ids = [hashlib.sha256(str(i).encode()).hexdigest()[:32] for i in range(20_000)]
    rules = RowRules((Plain(),), sample=0.3)
    kept = [i for i in ids if rules.keeps(i)]
    assert abs(len(kept) / len(ids) - 0.3) < 0.015
    low = [i for i in ids if position(i, 2) == 0]
    assert abs(sum(map(rules.keeps, low)) / len(low) - 0.3) < 0.02
    assert max(map(selection_hash, kept)) < 0.3 * 2**64

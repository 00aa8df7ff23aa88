"""Eval sets in all their forms; google-adk's own models say what the current form means."""

import json

import pytest

from evalbeam.schemas.errors import RowError
from evalbeam.schemas.formats.adk import case_fields, is_case, read_cases

CALL = {"name": "roll", "args": {"sides": 6}, "id": "c1"}
CASE = {
    "eval_id": "one",
    "category": "dice",
    "conversation": [
        {
            "invocation_id": "i1",
            "user_content": {"role": "user", "parts": [{"text": "roll", "video_metadata": None}]},
            "final_response": {"parts": [{"text": "hm", "thought": True}, {"text": "You got"}, {"text": "4"}]},
            "intermediate_data": {
                "tool_uses": [CALL],
                "tool_responses": [{"name": "roll", "id": "c1", "response": {"result": 4}}],
                "intermediate_responses": [["helper", [{"text": "rolling"}]]],
            },
        },
        {"user_content": {"parts": [{"text": "and now?"}]}},
    ],
    "session_input": {"app_name": "dice", "user_id": "u", "state": {"n": 1}},
    "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "short"}, "type": "FINAL_RESPONSE_QUALITY"}],
}


def camel(value):
    """The value with its own keys in camel case; what lies in args and state is the user's."""
    from pydantic.alias_generators import to_camel

    if isinstance(value, list):
        return [camel(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {to_camel(k): v if k in ("args", "state", "response") else camel(v) for k, v in value.items()}


def read(value, name="dir/dice.evalset.json"):
    return read_cases(json.dumps(value).encode(), name)


def test_what_a_case_says():
    fields = case_fields(CASE)
    first, second = fields["conversation"]
    assert (first["prompt"], first["reference"]) == ("roll", "You got\n4")
    assert first["reference_trajectory"] == [{"tool_name": "roll", "tool_input": {"sides": 6}}]
    assert [s["kind"] for s in first["steps"]] == ["text", "call", "result"]
    assert first["extra"] == {"invocation_id": "i1"}
    assert second == {"prompt": "and now?", "reference_trajectory": []}
    assert fields["session"] == {"app_name": "dice", "user_id": "u", "state": {"n": 1}}
    assert fields["rubrics"][0]["rubric_content"] == {"text_property": "short"}
    assert fields["prompt"] == "and now?"


def test_spellings_may_be_mixed():
    snake = {"eval_set_id": "s", "name": "n", "eval_cases": [CASE]}
    mixed = {"eval_set_id": "s", "evalCases": [{**camel(CASE), "userNote": 1}], "unknown": 1}
    (one,), (other,) = read(snake), read(mixed)
    assert one == {"eval_set_id": "s", **CASE}
    assert other.pop("userNote") == 1
    assert other.keys() == one.keys()
    assert case_fields(other) == case_fields(one)
    events = {"invocationEvents": [{"author": "a", "content": {"parts": [{"functionCall": CALL}]}, "toolUseIndex": 1}]}
    turn = {"userContent": {"parts": [{"text": "x"}]}, "intermediateData": events}
    assert case_fields({"evalId": "e", "conversation": [turn]})["reference_trajectory"][0]["tool_name"] == "roll"


def test_google_adk_reads_the_same_of_a_case():
    eval_set = pytest.importorskip("google.adk.evaluation.eval_set")
    from google.adk.evaluation.eval_case import get_all_tool_calls

    theirs = eval_set.EvalSet.model_validate({"eval_set_id": "s", "eval_cases": [CASE]}).eval_cases[0].conversation
    for turn, invocation in zip(case_fields(CASE)["conversation"], theirs, strict=True):
        calls = [(c.name, c.args) for c in get_all_tool_calls(invocation.intermediate_data)]
        assert [(c["tool_name"], c["tool_input"]) for c in turn["reference_trajectory"]] == calls
        assert turn["prompt"] == invocation.user_content.parts[0].text


def test_older_forms_are_read_as_current_ones():
    turn = {
        "query": "roll",
        "expected_tool_use": [{"tool_name": "roll", "tool_input": {"sides": 6}}, {"tool_name": "stop"}],
        "expected_intermediate_agent_responses": [{"author": "helper", "text": "rolling"}],
        "reference": "4",
    }
    (a,) = read([turn, {"query": "more"}], "x/roll_die.test.json")
    assert (a["eval_set_id"], a["eval_id"], len(a["conversation"])) == ("roll_die", "roll_die", 2)
    session = {"app_name": "dice", "user_id": "u", "state": {"n": 1}}
    b, c, d = read(
        [
            {"name": "b", "data": [turn], "initial_session": session},
            {"name": "c", "data": [turn], "initial_state": {"session": {"state": {"n": 2}}}},
            {"name": "d", "data": [turn], "initial_session": {}},
        ]
    )
    fields = [case_fields(case) for case in (a, b, c, d)]
    assert [f.get("session") for f in fields] == [
        None,
        session,
        {"app_name": "", "user_id": "", "state": {"n": 2}},
        None,
    ]
    first = fields[0]["conversation"][0]
    assert first == fields[1]["conversation"][0]
    assert first["reference_trajectory"] == [
        {"tool_name": "roll", "tool_input": {"sides": 6}},
        {"tool_name": "stop", "tool_input": None},
    ]
    assert first["reference"] == "4"


def test_older_forms_mean_what_google_adk_makes_of_them():
    managers = pytest.importorskip("google.adk.evaluation.local_eval_sets_manager")
    call = {"tool_name": "roll", "tool_input": {"sides": 6}}
    older = [
        {"name": "b", "data": [{"query": "q", "reference": "r", "expected_tool_use": [call]}], "initial_session": {}}
    ]
    theirs = managers.convert_eval_set_to_pydantic_schema("s", older).eval_cases[0]
    turns = case_fields(theirs.model_dump(exclude_none=True, mode="json"))["conversation"]
    ours = case_fields(read(older)[0])["conversation"]
    for turn in turns:
        turn.pop("extra")
    assert ours == turns


def test_a_scenario_and_its_first_words():
    case = {
        "evalId": "s",
        "conversationScenario": {"startingPrompt": "hi", "conversationPlan": "buy", "userPersona": "NOVICE"},
    }
    assert is_case(case)
    fields = case_fields(case)
    assert fields["prompt"] == "hi"
    assert fields["scenario"] == {"starting_prompt": "hi", "conversation_plan": "buy", "user_persona": "NOVICE"}


def test_more_than_text_is_kept_as_a_message():
    parts = [{"text": "what is it?"}, {"file_data": {"file_uri": "gs://b/x.png", "mime_type": "image/png"}}]
    turn = case_fields({"eval_id": "e", "conversation": [{"user_content": {"role": "user", "parts": parts}}]})
    (turn,) = turn["conversation"]
    assert turn["prompt"] == "what is it?"
    assert turn["content"] == {"role": "user", "parts": parts}


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"conversation": [{"final_response": {}}]}, "conversation.0.*user"),
        ({"conversation": [{"user_content": {"parts": [{"text": 3}]}}]}, "parts.0.text.*found 3"),
        ({"conversation": []}, "no turns"),
        ({"conversation": None}, "exactly one"),
        (
            {"conversation": [], "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b"}},
            "exactly one",
        ),
        ({"conversation_scenario": {"starting_prompt": "a"}}, "conversation_scenario.*lan"),
    ],
)
def test_a_malformed_case_names_the_place(case, words):
    with pytest.raises(RowError, match=rf"(?i)case 'e': .*{words}") as caught:
        case_fields({"eval_id": "e", **case})
    assert caught.value.code == "malformed_eval_case"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{", "allowed: JSON of an eval set"),
        (b"3", "found 3"),
        (b'{"rows": []}', "an object with rows"),
        (b'[{"prompt": "x"}]', "a list whose first entry is an object with prompt"),
        (b'[{"name": "x", "data": [{"prompt": "x"}]}]', "case 'x'"),
    ],
)
def test_what_is_no_eval_set_is_refused(raw, words):
    with pytest.raises(RowError, match=words):
        read_cases(raw, "x.json")


def test_lines_of_cases():
    lines = b"\n".join(json.dumps({**CASE, "eval_id": str(i)}).encode() for i in range(3))
    assert [c["eval_id"] for c in read_cases(lines, "x.test.json")] == ["0", "1", "2"]


def test_every_public_file_loads(conformance):
    files = sorted((conformance / "adk" / "files").glob("*.test.json")) + sorted(
        (conformance / "adk" / "files").glob("*.evalset.json")
    )
    turns = {
        f.name: [len(case_fields(c).get("conversation", ())) for c in read_cases(f.read_bytes(), f.name)] for f in files
    }
    assert len(turns) == 13
    assert turns.pop("conversation_scenario.test.json") == [0]
    assert turns["customer-service__eval__eval_data__full_conversation.test.json"] == [10]
    assert min(n for counts in turns.values() for n in counts) == 1


def test_a_byte_order_mark_is_passed_over():
    raw = json.dumps({"eval_set_id": "s", "eval_cases": []}).encode()
    case = {"eval_id": "a", "conversation": []}
    assert read_cases(b"\xef\xbb\xbf" + raw, "x.evalset.json") == []
    assert [c["eval_id"] for c in read_cases(b"\xef\xbb\xbf" + json.dumps([case]).encode(), "x.json")] == ["a"]


TURN = {"user_content": {"parts": [{"text": "x"}]}}
MISSPELT = {
    "intermediate_date": {**TURN, "intermediate_date": {"tool_uses": []}},
    "final_reponse": {**TURN, "final_reponse": {"parts": []}},
    "part": {"user_content": {"part": [{"text": "x"}]}},
    "txt": {"user_content": {"parts": [{"txt": "x"}]}},
    "argz": {**TURN, "intermediate_data": {"tool_uses": [{"name": "a", "argz": {}}]}},
    "tool_use": {**TURN, "intermediate_data": {"tool_use": []}},
    "tool_responses": {**TURN, "intermediate_data": {"invocation_events": [], "tool_responses": []}},
    "fnction_call": {
        **TURN,
        "intermediate_data": {"invocation_events": [{"author": "a", "content": {"parts": [{"fnction_call": {}}]}}]},
    },
    "rubric": {**TURN, "rubrics": [{"rubric_id": "r", "rubric_content": {}, "rubric": 1}]},
}


@pytest.mark.parametrize("key", MISSPELT)
def test_unknown_keys_of_a_turn_are_refused_as_google_adk_refuses_them(key):
    eval_case = pytest.importorskip("google.adk.evaluation.eval_case")
    case = {"eval_id": "e", "conversation": [MISSPELT[key]]}
    with pytest.raises(ValueError, match=key):
        eval_case.EvalCase.model_validate(case)
    with pytest.raises(RowError, match=rf"case 'e': conversation\.0.*unknown key '{key}'"):
        case_fields(case)


def test_the_keys_are_those_of_google_adk():
    """A key that google-adk knows is not refused here."""
    theirs = pytest.importorskip("google.adk.evaluation.eval_case")
    from google.genai import types

    from evalbeam.schemas.formats import adk_models as ours

    pairs = [
        (types.Content, ours.Content),
        (types.Part, ours.Part),
        (types.FunctionCall, ours.FunctionCall),
        (types.FunctionResponse, ours.FunctionResponse),
        (theirs.Invocation, ours.AdkInvocation),
        (theirs.IntermediateData, ours.IntermediateData),
        (theirs.ConversationScenario, ours.ConversationScenario),
        (theirs.Rubric, ours.Rubric),
    ]
    for their, our in pairs:
        assert set(their.model_fields) == set(our.model_fields), their


@pytest.mark.parametrize("persona", ["EXPERT", "NOVICE", "EVALUATOR", "NOBODY", "expert"])
def test_personas_are_those_of_google_adk(persona):
    scenarios = pytest.importorskip("google.adk.evaluation.conversation_scenarios")
    case = {"starting_prompt": "a", "conversation_plan": "b", "user_persona": persona}
    try:
        scenarios.ConversationScenario.model_validate(case)
    except Exception:
        with pytest.raises(RowError, match=f"user_persona.*'EXPERT', 'NOVICE' or 'EVALUATOR'.*'{persona}'"):
            case_fields({"eval_id": "e", "conversation_scenario": case})
    else:
        assert case_fields({"eval_id": "e", "conversation_scenario": case})["scenario"] == case


def test_commas_before_brackets_as_in_the_samples_of_the_documentation():
    raw = b'{"eval_cases": [{"eval_id": "a", "conversation": [{"user_content": {"parts": [],},},],},]}'
    assert [case["eval_id"] for case in read_cases(raw, "x.json")] == ["a"]


def test_grounding_metadata_of_events_is_kept():
    grounding = {"grounding_chunks": [{"web": {"uri": "u", "title": "t"}}]}
    events = [
        {"author": "a", "content": {"parts": [{"text": "looking"}]}, "grounding_metadata": grounding},
        {"author": "b", "groundingMetadata": grounding},
    ]
    turn = {**TURN, "intermediate_data": {"invocation_events": events}}
    (found,) = case_fields({"eval_id": "e", "conversation": [turn]})["conversation"]
    assert [(s["kind"], s["author"]) for s in found["steps"]] == [("text", "a"), ("other", "b")]
    assert [s["extra"] for s in found["steps"]] == [{"grounding_metadata": grounding}] * 2

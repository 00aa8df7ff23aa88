"""Every form of the input schema of Agent Evaluation, and of MLflow 3's evaluation records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalbeam import Example, Instance, RowError, evaluate
from evalbeam.transforms import registry
from evalbeam.transforms.agents.recorded import RecordedAgent
from evalbeam.transforms.dialects._rules import RowRules
from evalbeam.transforms.dialects.databricks import Databricks
from evalbeam.transforms.metrics.trajectory import TrajectoryExactMatch

DIALECT = Databricks()
READ = RecordedAgent().recall


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


SHUFFLE = "How can you minimize data shuffling in Spark?"
SPLIT = {
    "query": "Explain broadcast variables in Spark. How do they enhance performance?",
    "history": [
        {"role": "user", "content": "What are broadcast variables?"},
        {"role": "assistant", "content": "Broadcast variables allow the programmer to keep a read-only variable."},
    ],
}
ARBITRARY = {"message_history": [{"user_0": "What are broadcast variables?"}], "last_user_request": SHUFFLE}
SEVERAL = {"messages": [*SPLIT["history"], {"role": "user", "content": SHUFFLE}]}
PARTS = {"messages": [{"role": "user", "content": [{"type": "image", "image_url": "a"}]}]}

TUPLES = {"messages": [["user", "Hi"]]}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


REQUESTS = {
    "plain text": (SHUFFLE, user(SHUFFLE), SHUFFLE),
    "messages": (user(SHUFFLE), user(SHUFFLE), SHUFFLE),
    "query and history": (SPLIT, SPLIT, SPLIT["query"]),
    "arbitrary": (ARBITRARY, ARBITRARY, compact(ARBITRARY)),
    "a question": ({"question": "Hi"}, {"question": "Hi"}, '{"question":"Hi"}'),
    "tuples of LangGraph": (TUPLES, TUPLES, compact(TUPLES)),
    "several turns": (SEVERAL, SEVERAL, json.dumps(SEVERAL["messages"], separators=(",", ":"))),
    "content that is no text": (PARTS, PARTS, compact(PARTS)),
    "OpenAI responses": ({"input": user("Hi")["messages"]}, {"input": user("Hi")["messages"]}, "Hi"),
}


@pytest.mark.parametrize("column", ["request", "inputs"])
@pytest.mark.parametrize("as_text", [False, True], ids=["as it is", "as an inference table stores it"])
@pytest.mark.parametrize("form", REQUESTS)
def test_requests(form: str, as_text: bool, column: str) -> None:
    """(given, what the agent gets, what a judge reads) of each form."""
    given, prompt, instruction = REQUESTS[form]
    if as_text and not isinstance(given, str):
        given = json.dumps(given)
    unknown = form in ("arbitrary", "a question")
    if as_text and unknown and column == "request":  # JSON of no known form is somebody's text
        prompt, instruction = user(given), given
    row = {column: given}
    assert DIALECT.recognises(row)
    fields = DIALECT.fields(row)
    assert (fields["prompt"], fields["instruction"]) == (prompt, instruction)


SAID = "MLFlow is a framework."
RESPONSES = {
    "plain text": (SAID, SAID),
    "choices": ({"choices": [{"message": {"content": SAID}}]}, SAID),
    "chat agent messages": (
        {"messages": [{"role": "tool", "content": "x"}, {"role": "assistant", "content": SAID}]},
        SAID,
    ),
    "string response": ({"content": SAID}, SAID),
    "content beside choices": ({"choices": [{"message": {"content": "no"}}], "content": SAID}, SAID),
    "content that is no text": ({"choices": [{"message": {"content": {"a": 1}}}]}, '{"a":1}'),
    "list of one": ([{"content": SAID}], SAID),
    "OpenAI responses": (
        {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]}]},
        SAID,
    ),
    "arbitrary": ({"answer": SAID, "score": 1}, {"answer": SAID, "score": 1}),
    "only calls tools": (
        {"choices": [{"message": {"content": None, "tool_calls": []}}]},
        {"choices": [{"message": {"content": None, "tool_calls": []}}]},
    ),
}


@pytest.mark.parametrize("column", ["response", "outputs"])
@pytest.mark.parametrize("as_text", [False, True], ids=["as it is", "as an inference table stores it"])
@pytest.mark.parametrize("form", RESPONSES)
def test_responses(form: str, as_text: bool, column: str) -> None:
    given, response = RESPONSES[form]
    if as_text and not isinstance(given, str):
        given = json.dumps(given)
        response = given if form == "arbitrary" else response
    row = {"request": "Hi", column: given}
    assert DIALECT.fields(row)["response"] == response
    assert READ(Instance("0", row, DIALECT.fields(row))).response == response


def test_an_answer_that_is_json_stays_as_it_was_written() -> None:
    assert DIALECT.fields({"request": "Hi", "response": '{ "city": "Paris" }'})["response"] == '{ "city": "Paris" }'


CONTEXTS = [
    ([{"content": "a", "doc_uri": "u"}, {"doc_uri": "v"}, {"content": "b"}], [("a", "u"), ("", "v"), ("b", None)]),
    (["u", None], [("", "u"), ("", None)]),
    ('[{"doc_uri": "u"}]', [("", "u")]),
    ([{"content": "a", "doc_uri": "u", "score": 0.5}], [("a", "u")]),
    ([], []),
]


@pytest.mark.parametrize(("given", "expected"), CONTEXTS)
def test_retrieved_context(given: Any, expected: list[tuple[str, str | None]]) -> None:
    row = {"request": "Hi", "response": "Ho", "retrieved_context": given}
    found = READ(Instance("0", row, DIALECT.fields(row))).retrieved_context
    assert found is not None
    assert [(c.content, c.doc_uri) for c in found] == expected


def test_expectations_become_ground_truth() -> None:
    calls = [{"name": "look", "arguments": {"at": 1}}]
    expectations = {"expected_response": {"content": "Ho"}, "expected_tool_calls": calls, "tone": "warm"}
    plain = DIALECT.fields({"inputs": {"q": 1}, "expectations": expectations})
    packed = DIALECT.fields({"inputs": '{"q": 1}', "expectations": json.dumps(expectations)})
    assert plain["reference"] == plain["expected_response"] == "Ho"
    assert plain["reference_trajectory"] == calls
    assert plain["custom_expected"] == {"tone": "warm"}
    assert packed == {**plain, "prompt": packed["prompt"], "instruction": packed["instruction"]}
    assert DIALECT.fields({"request": "Hi", "expected_response": "Ho"})["reference"] == "Ho"


TRACE = {
    "info": {"trace_id": "tr-1", "state": "OK", "execution_duration_ms": 1500, "trace_metadata": {}},
    "data": {
        "spans": [
            {
                "span_id": "a",
                "parent_span_id": None,
                "name": "agent",
                "start_time_unix_nano": 1,
                "end_time_unix_nano": 2,
                "status": {"code": "STATUS_CODE_OK"},
                "attributes": {"mlflow.spanInputs": json.dumps(user("Hi")), "mlflow.spanOutputs": '"traced"'},
            }
        ]
    },
}


@pytest.mark.parametrize("trace", [TRACE, json.dumps(TRACE)], ids=["object", "text"])
def test_a_trace_fills_what_the_row_does_not_say(trace: Any) -> None:
    alone = {"trace": trace}
    assert DIALECT.recognises(alone)
    fields = DIALECT.fields(alone)
    assert (fields["prompt"], fields["response"], fields["latency_in_seconds"]) == (user("Hi"), "traced", 1.5)
    told = {"request": "Ho", "response": "said", "retrieved_context": ["u"], "trace": trace}
    found = READ(Instance("0", told, DIALECT.fields(told)))
    assert (found.response, found.latency_in_seconds) == ("said", 1.5)
    assert DIALECT.fields(told)["prompt"] == user("Ho")


def test_a_failed_trace_is_a_failed_call_unless_the_row_has_a_response() -> None:
    failed = {**TRACE, "info": {**TRACE["info"], "state": "ERROR"}}
    row = {"request": "Hi", "trace": failed}
    assert READ(Instance("0", row, DIALECT.fields(row))).status == "failed"
    row["response"] = "said"
    assert READ(Instance("0", row, DIALECT.fields(row))).status == "ok"


LOOK = {"type": "function", "id": "1", "function": {"name": "look", "arguments": '{"at": 1}'}}
CALLED = {
    "choices": {"response": {"choices": [{"message": {"content": "Ho", "tool_calls": [LOOK]}}]}},
    "messages": {"response": {"messages": [{"role": "assistant", "tool_calls": [LOOK]}, {"content": "Ho"}]}},
    "responses": {"outputs": {"output": [{"type": "function_call", "name": "look", "arguments": '{"at": 1}'}]}},
    "tool_calls": {"response": "Ho", "tool_calls": [{"tool_name": "look", "tool_call_args": {"at": 1}}]},
}


@pytest.mark.parametrize("form", CALLED)
def test_recorded_tool_calls_are_the_trajectory(form: str) -> None:
    row = {"request": "Hi", **CALLED[form]}
    found = READ(Instance("0", row, DIALECT.fields(row))).predicted_trajectory
    assert [(c.tool_name, c.tool_input) for c in found or ()] == [("look", {"at": 1})]
    own = {**row, "predicted_trajectory": []}
    assert "predicted_trajectory" not in DIALECT.fields(own)


def test_a_response_without_calls_tells_nothing_of_them() -> None:
    assert "predicted_trajectory" not in DIALECT.fields({"request": "Hi", "response": {"content": "Ho"}})


def test_expected_calls_without_arguments_ask_for_names_alone(conformance: Path) -> None:
    """MLflow's own scorer says what agrees."""
    from mlflow.entities import Trace
    from mlflow.genai.scorers import ToolCallCorrectness

    text = (conformance / "traces" / "mlflow_v3" / "tool_agent.json").read_text()
    tools = [s for s in Trace.from_json(text).data.spans if s.span_type == "TOOL"]
    full = [{"name": s.name, "arguments": s.inputs} for s in tools]
    names = [{"name": s.name} for s in tools]
    wrong = [{**call, "arguments": {"no": 1}} for call in full]
    judge = ToolCallCorrectness(should_exact_match=True, should_consider_ordering=True)
    seen = set()
    for calls in (full, names, wrong, [*wrong[:-1], names[-1]], full[:1], names[::-1], names[:1], [{"name": "x"}]):
        row = {"trace": text, "expectations": {"expected_tool_calls": calls}}
        fields = DIALECT.fields(row)
        instance = Instance("0", row, fields)
        ours = TrajectoryExactMatch().score(Example(instance, READ(instance))).value
        if len(calls) == len(tools):  # theirs compares only as many calls as are in both
            theirs = judge(trace=Trace.from_json(text), expectations={"expected_tool_calls": calls})
            assert ours == float(theirs.value == "yes"), calls
        seen.add(ours)
    assert seen == {0.0, 1.0}


def logged(**expectations: Any) -> dict[str, Any]:
    told = [{"assessment_name": name, "expectation": {"value": value}} for name, value in expectations.items()]
    return {**TRACE, "info": {**TRACE["info"], "assessments": told}}


def test_expectations_logged_on_a_trace_count_and_those_of_the_row_win() -> None:
    trace = logged(guidelines=["Be brief"], expected_facts=["x"], tone="warm")
    alone = DIALECT.fields({"trace": trace})
    assert (alone["guidelines"], alone["expected_facts"], alone["custom_expected"]) == (
        ["Be brief"],
        ["x"],
        {"tone": "warm"},
    )
    both = DIALECT.fields({"trace": trace, "expectations": {"expected_response": "y", "mood": "calm"}})
    assert "expected_facts" not in both
    assert (both["expected_response"], both["guidelines"]) == ("y", ["Be brief"])
    assert both["custom_expected"] == {"tone": "warm", "mood": "calm"}


BAD = {
    "missing_request": {"response": "Ho", "trace": {**TRACE, "data": {"spans": [{"span_id": "a"}]}}},
    "ambiguous_request": {"request": "Hi", "inputs": {"q": 1}},
    "ambiguous_response": {"request": "Hi", "response": "Ho", "outputs": "Ha"},
    "malformed_trace": {"request": "Hi", "trace": "no"},
    "malformed_expectations": {"request": "Hi", "expectations": "no"},
    "ambiguous_expectations": {"request": "Hi", "expectations": {}, "custom_expected": {}},
    "1006": {"request": "Hi", "retrieved_context": [{"content": 5}]},
}


@pytest.mark.parametrize("code", BAD)
def test_rows_that_cannot_be_read(code: str) -> None:
    with pytest.raises(RowError) as error:
        DIALECT.fields(BAD[code])
    assert error.value.code == code


def test_the_same_question_is_the_same_instance_in_every_form() -> None:
    rules = RowRules((DIALECT,))
    rows = [{"request": SHUFFLE}, {"request": user(SHUFFLE)}, {"request": json.dumps(user(SHUFFLE))}]
    rows += [{"inputs": user(SHUFFLE), "expectations": {"expected_facts": ["x"]}}]
    assert len({rules.read(row)[0] for row in rows}) == 1
    assert rules.read({"request": "another"})[0] != rules.read(rows[0])[0]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"request": "Hi"}, "databricks"),
        ({"inputs": {"q": "Hi"}, "outputs": "Ho"}, "databricks"),
        ({"trace": TRACE}, "databricks"),
        (TRACE, "traces"),
        ({"request": {"contents": []}}, "vertex"),
        ({"request": "Hi", "response": {"candidates": []}}, "vertex"),
        ({"prompt": "Hi", "request": "x"}, "plain"),
        ({"question": "Hi", "trace": "deadbeef"}, "plain"),
    ],
)
def test_a_row_is_recognised_by_one_dialect(row: dict[str, Any], name: str) -> None:
    dialects = [registry.build(registry.find("dialect", n), {}, "") for n in registry.names("dialect")]
    found = [registry.name_of("dialect", d) for d in dialects if d.recognises(row)]
    assert [n for n in found if n != "plain"] == ([] if name == "plain" else [name])


def test_record_columns_of_parquet_are_read(tmp_path: Path) -> None:
    """There every row has every key of every other, with null where it had none."""
    rows = [
        {"request": {"messages": [{"role": "user", "content": "Hi"}]}, "response": {"content": "Ho"}},
        {
            "request": {"query": "Hi", "history": [{"role": "user", "content": "x"}]},
            "response": {"choices": [{"message": {"content": "Ha"}}]},
            "retrieved_context": [{"doc_uri": "u"}],
            "expected_retrieved_context": [{"doc_uri": "u", "content": "x"}],
        },
    ]
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), path)
    table = evaluate(str(path), ["document_recall"], output=str(tmp_path / "out")).metrics_table
    found = dict(zip(table["response"], table["document_recall/score"].fillna(-1), strict=True))
    assert found == {"Ho": -1.0, "Ha": 1.0}


_MESSAGES = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
_CONTEXT = pa.list_(pa.struct({"doc_uri": pa.string(), "content": pa.string()}))
_SCHEMA = pa.schema(
    {
        "request": pa.struct({"messages": _MESSAGES, "query": pa.string(), "history": _MESSAGES}),
        "response": pa.struct(
            {"content": pa.string(), "choices": pa.list_(pa.struct({"message": pa.struct({"content": pa.string()})}))}
        ),
        "retrieved_context": _CONTEXT,
        "expected_retrieved_context": _CONTEXT,
    }
)


def test_csv_cells_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame = pd.DataFrame(
        {
            "request": ["Hi"],
            "response": ['{"choices": [{"message": {"content": "Ho"}}]}'],
            "retrieved_context": ['[{"doc_uri": "u"}]'],
            "expected_retrieved_context": ['["u", "v"]'],
        }
    )
    frame.to_csv(path, index=False)
    table = evaluate(str(path), ["document_recall"], output=str(tmp_path / "out")).metrics_table
    assert (table["response"][0], table["document_recall/score"][0]) == ("Ho", 0.5)


def test_expectations_as_json_text_keep_long_integers():
    text = '{"expected_tool_calls": [{"name": "t", "arguments": {"id": 123456789012345678901}}]}'
    (call,) = DIALECT.fields({"inputs": "q", "expectations": text})["reference_trajectory"]
    assert call["arguments"] == {"id": "123456789012345678901"}

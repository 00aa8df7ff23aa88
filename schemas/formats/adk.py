"""Eval sets of Google's Agent Development Kit: reads files of all formats and converts cases to standard fields.

The formats are an EvalSet (google-adk 2, in snake case, camel case or both, unknown keys kept); a list of EvalCases;
one EvalCase; `{scenarios}`; and two older ones: a list of turns that form one case (`*.test.json`), and a list of cases
`{name, data, initial_session}` (`*.evalset.json`), which may also be written with `initial_state: {session}`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pydantic import ValidationError
from pydantic.alias_generators import to_camel, to_snake

from ..conversation import fields_of
from ..errors import RowError, name_error
from ..json import Json
from ..values import parse_json
from .adk_models import (
    DATA_TAGS,
    KEYS,
    AdkInvocation,
    EvalCase,
    FunctionCall,
    IntermediateData,
    InvocationEvents,
    Part,
)
from .lenient import lenient_json

CODE = "malformed_eval_case"
"""Code of every error of one case."""
SUFFIXES = (".evalset.json", ".test.json")
"""Endings of the file names."""
FORMS = "an EvalSet, EvalCases, scenarios, or an older form: a list of {query, ...}, a list of {name, data}"
_KEYS = (
    "eval_id",
    "conversation",
    "conversation_scenario",
    "session_input",
    "creation_timestamp",
    "final_session_state",
)
_SNAKE = {to_camel(key): key for key in (*_KEYS, "eval_set_id")}


Case: TypeAlias = dict[str, Json]
"""An EvalCase with keys in snake case and the id of its set."""


def read_cases(raw: bytes, path: str) -> list[Case]:
    """Reads the cases of a file, each with the id of its set.

    Raises:
        RowError: The file is not an eval set, or has a case that cannot be read.
    """
    cases: list[Case] = []
    for _, case in read_each_case(raw, path):
        if isinstance(case, RowError):
            raise case
        cases.append(case)
    return cases


def read_each_case(raw: bytes, path: str) -> list[tuple[int, Case | RowError]]:
    """Reads the cases of a file; a byte order mark, and a comma before a closing bracket, are ignored.

    Returns:
        For each case its number (in JSON lines its line), counted from 1, and the case or why it cannot be read.

    Raises:
        RowError: The file is not valid JSON, or not an eval set.
    """
    name, raw = path.replace("\\", "/").rpartition("/")[2], raw.removeprefix(b"\xef\xbb\xbf")
    name = next((name.removesuffix(s) for s in SUFFIXES if name.endswith(s)), name.rpartition(".")[0] or name)
    try:
        data = _parse(raw)
    except RowError as error:
        if lines := _read_lines(raw, name):
            return lines
        found = f"{error.message.partition(' (allowed')[0]} (allowed: JSON of an eval set, or a case on each line)"
        raise RowError(error.code, found) from None
    return list(enumerate(_cases_of(data, name), 1))


def _parse(raw: bytes) -> Json:
    try:
        return parse_json(raw)
    except RowError:
        return lenient_json(raw)


def _read_lines(raw: bytes, name: str) -> list[tuple[int, Case | RowError]]:
    """Reads JSON lines of EvalCases; returns nothing if no line is one."""
    found: list[tuple[int, Case | RowError]] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            try:
                found += [(number, case) for case in _cases_of([parse_json(line)], name)]
            except RowError as error:
                found.append((number, RowError(error.code, f"line {number}: {error.message}")))
    return found if any(not isinstance(case, RowError) for _, case in found) else []


def _cases_of(data: Json, name: str) -> list[Case | RowError]:
    """Returns the cases of a file as EvalCases with keys in snake case, or why one cannot be read.

    Args:
        data: The parsed JSON of the file.
        name: Name of the file without folders and ending, used as id of a set or case without one.

    Raises:
        RowError: The data has none of the formats.
    """
    cases = data
    if isinstance(data, Mapping) and isinstance(data.get("scenarios"), list):
        return [_convert_scenario(name, scenario, i) for i, scenario in enumerate(data["scenarios"], 1)]
    if isinstance(data, Mapping):
        cases = data.get("eval_cases", data.get("evalCases"))
        cases = [data] if cases is None and is_case(data) else cases
    if isinstance(cases, list):
        if cases and all(isinstance(turn, Mapping) and "query" in turn for turn in cases):
            return [_convert_older_case(name, name, {"data": cases})]
        if any(isinstance(case, Mapping) and "data" in case and not is_case(case) for case in cases):
            return [_convert_older_case(name, str(i), case) for i, case in enumerate(cases)]
        if isinstance(data, Mapping):
            set_id = str(data.get("eval_set_id", data.get("evalSetId")) or name)
            return [_convert_case(set_id, case, i) for i, case in enumerate(cases, 1)]
        if not cases or any(isinstance(case, Mapping) and is_case(case) for case in cases):
            return [_convert_case(name, case, i) for i, case in enumerate(cases, 1)]
    raise RowError("unknown_eval_set", f"found {_describe_shape(data)} (allowed: {FORMS})")


def _convert_case(set_id: str, case: Json, number: int) -> Case | RowError:
    if not isinstance(case, Mapping):
        return RowError(CODE, f"case {number}: found {_describe_shape(case)} (allowed: an EvalCase)")
    return {"eval_set_id": set_id, **_convert_keys(case)}


def is_case(row: Mapping[str, Json]) -> bool:
    """Returns true if an object is an EvalCase (and not just any row with a conversation)."""
    if "eval_id" not in row and "evalId" not in row:
        return False
    return any(key in row for key in ("conversation", "conversation_scenario", "conversationScenario"))


def case_fields(row: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the standard fields of a case: conversation or scenario, session, rubrics, and single-turn fields.

    As in ADK, a turn without `intermediate_data` expects no tool call, and the texts of a message are joined by
    newlines. Unlike in ADK, thoughts are left out.

    Raises:
        RowError: The case is malformed; the message names the location within it.
    """
    try:
        case = EvalCase.model_validate(_convert_keys(row))
    except ValidationError as error:
        raise RowError(CODE, _explain_error(error, row)) from None
    found: dict[str, Json] = {}
    if case.session_input is not None:
        found["session"] = case.session_input.model_dump(exclude_none=True)
    if case.rubrics:
        found["rubrics"] = [r.model_dump(exclude_none=True) for r in case.rubrics]
    if case.conversation_scenario is not None:
        scenario = case.conversation_scenario.model_dump(exclude_none=True)
        return {**found, "scenario": scenario, "prompt": scenario["starting_prompt"]}
    turns = [convert_turn(invocation) for invocation in case.conversation or ()]
    if not turns:
        raise RowError(CODE, f"case {case.eval_id!r}: the conversation has no turns")
    return {**found, **fields_of(turns), "conversation": turns}


def convert_turn(invocation: AdkInvocation) -> dict[str, Json]:
    """Converts a turn to the form of schemas/conversation.py; the final response becomes the `reference`."""
    content, final = invocation.user_content, invocation.final_response
    turn: dict[str, Json] = {"prompt": content.text or ""}
    if len(content.parts or ()) != 1 or content.parts[0].text is None:  # type: ignore[index]
        turn["content"] = content.model_dump(exclude_none=True)
    if final is not None and final.text is not None:
        turn["reference"] = final.text
    steps = list(steps_of(invocation.intermediate_data))
    turn["reference_trajectory"] = [_call(s) for s in steps if s["kind"] == "call"]
    if steps:
        turn["steps"] = steps
    if invocation.rubrics:
        turn["rubrics"] = [r.model_dump(exclude_none=True) for r in invocation.rubrics]
    if invocation.invocation_id:
        turn["extra"] = {"invocation_id": invocation.invocation_id}
    return turn


def steps_of(data: InvocationEvents | IntermediateData | None) -> Iterator[dict[str, Json]]:
    """Converts the events of a turn to steps (schemas/conversation.py)."""
    if isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            parts = (event.content and event.content.parts) or ()
            steps = [step for part in parts for step in _part_steps(event.author, part)]
            yield from add_grounding(steps, event.author, event.grounding_metadata)
    elif data is not None:
        for author, parts in data.intermediate_responses:
            for part in parts:
                yield from _part_steps(author, part)
        results = {r.id: r for r in data.tool_responses if r.id is not None}
        for call in data.tool_uses:
            yield from _part_steps("", Part(function_call=call))
            if call.id is not None and call.id in results:
                yield from _part_steps("", Part(function_response=results.pop(call.id)))
        for rest in data.tool_responses:
            if rest.id is None or rest.id in results:
                yield from _part_steps("", Part(function_response=rest))


def add_grounding(steps: list[dict[str, Json]], author: str, grounding: Json) -> list[dict[str, Json]]:
    """Adds the grounding metadata of an event to the last of its steps, or as a step of its own if it has none."""
    if not grounding:
        return steps
    *first, last = steps or [{"kind": "other", "author": author, "value": None}]
    return [*first, {**last, "extra": {"grounding_metadata": grounding}}]


def _part_steps(author: str, part: Part) -> Iterator[dict[str, Json]]:
    if part.text and not part.thought:
        yield {"kind": "text", "author": author, "value": part.text}
    for kind, function in (("call", part.function_call), ("result", part.function_response)):
        if function is not None:
            value = function.args if isinstance(function, FunctionCall) else function.response
            step = {"kind": kind, "author": author, "value": value, "tool_name": function.name or ""}
            yield step if function.id is None else {**step, "id": function.id}


def _call(step: Mapping[str, Json]) -> dict[str, Json]:
    return {"tool_name": step["tool_name"], "tool_input": step["value"]}


def _convert_keys(case: Mapping[str, Json]) -> dict[str, Json]:
    """Converts the keys of a case to snake case."""
    return {_SNAKE.get(key, key): value for key, value in case.items()}


def _convert_scenario(set_id: str, scenario: Json, number: int) -> Case | RowError:
    """Converts a scenario of a ConversationScenarios file to a case; its id is the one that `adk eval_set` gives it."""
    if not isinstance(scenario, Mapping):
        return RowError(CODE, f"scenario {number}: found {_describe_shape(scenario)} (allowed: an object)")
    given = {"user_persona": None, **{to_snake(key): value for key, value in scenario.items()}}
    name = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:8]
    return {"eval_set_id": set_id, "eval_id": name, "conversation_scenario": scenario}


def _convert_older_case(set_id: str, name: str, case: Json) -> Case | RowError:
    """Converts a case of an older format to an EvalCase; `name` is the id of a case without one."""
    turns = case.get("data") if isinstance(case, Mapping) else None
    name = str(case.get("name") or name) if isinstance(case, Mapping) else name
    if not isinstance(turns, list) or not all(
        isinstance(t, Mapping) and isinstance(t.get("query"), str) for t in turns
    ):
        found = f"case {name!r}: found {_describe_shape(turns)}"
        return RowError("unknown_eval_set", f"{found} (allowed: a list of {{query, reference, expected_tool_use}})")
    try:
        conversation = [_convert_older_turn(turn) for turn in turns]
    except (AttributeError, TypeError) as error:
        return RowError(CODE, f"case {name!r}: a turn cannot be read: {error}")
    made: Case = {"eval_set_id": set_id, "eval_id": name, "conversation": conversation}
    session = _session(case)
    return {**made, "session_input": session} if session else made


def _convert_older_turn(turn: Mapping[str, Json]) -> dict[str, Json]:
    calls = [
        {"name": c.get("tool_name"), **({"args": c["tool_input"]} if "tool_input" in c else {})}
        for c in turn.get("expected_tool_use") or ()
    ]
    told = turn.get("expected_intermediate_agent_responses") or ()
    said = [[r.get("author", ""), [{"text": r.get("text", "")}]] for r in told]
    found: dict[str, Json] = {"user_content": {"role": "user", "parts": [{"text": turn["query"]}]}}
    if turn.get("reference") is not None:
        found["final_response"] = {"role": "model", "parts": [{"text": turn["reference"]}]}
    data = {"tool_uses": calls, "intermediate_responses": said}
    return {**found, "intermediate_data": {key: value for key, value in data.items() if value}}


def _session(case: Mapping[str, Json]) -> Json:
    state = case.get("initial_state")
    session = case.get("initial_session") or (state.get("session") if isinstance(state, Mapping) else None)
    if not isinstance(session, Mapping) or not session:
        return None
    return {"app_name": "", "user_id": "", "state": {}, **session}


def _explain_error(error: ValidationError, row: Mapping[str, Json]) -> str:
    first = max(error.errors(include_url=False), key=lambda e: len(e["loc"]))
    steps = [str(step) for step in first["loc"] if step not in DATA_TAGS]
    said, found = first["msg"].removeprefix("Value error, "), f", found {repr(first['input'])[:100]}"
    if first["type"] == "extra_forbidden":
        key, found = steps.pop(), ""
        said = str(name_error(f"unknown key {key!r}", key, KEYS, allowed="keys of ADK's EvalCase"))
    elif first["type"] == "missing":
        found, steps[-1] = "", to_snake(steps[-1])
    place, name = ".".join(steps), row.get("eval_id", row.get("evalId"))
    return f"case {name!r}: {place + ': ' if place else ''}{said}{found}"


def _describe_shape(data: Json) -> str:
    if isinstance(data, Mapping):
        return "an object with " + (", ".join(sorted(map(str, data))[:8]) or "no keys")
    if isinstance(data, list):
        return f"a list whose first entry is {_describe_shape(data[0])}" if data else "an empty list"
    return f"{data!r:.50}"

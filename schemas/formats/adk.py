"""Eval sets of Google's Agent Development Kit: reads files of all formats and converts cases to standard fields.

The formats are an EvalSet (google-adk 2, in snake case, camel case or both, unknown keys kept); a list of EvalCases;
one EvalCase; and two older ones: a list of turns that form one case (`*.test.json`), and a list of cases
`{name, data, initial_session}` (`*.evalset.json`), which may also be written with `initial_state: {session}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from ..conversation import fields_of
from ..errors import RowError
from ..json import Json
from ..values import parse_json

CODE = "malformed_eval_case"
"""Code of every error of one case."""
SUFFIXES = (".evalset.json", ".test.json")
"""Endings of the file names."""
FORMS = "an EvalSet, EvalCases, or one of the two older forms: a list of {query, ...}, a list of {name, data}"
_KEYS = (
    "eval_id",
    "conversation",
    "conversation_scenario",
    "session_input",
    "creation_timestamp",
    "final_session_state",
)
_SNAKE = {to_camel(key): key for key in (*_KEYS, "eval_set_id")}


class _Adk(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class _Open(_Adk):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class Part(_Open):
    """A part of a message; keys beyond these are kept."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class FunctionCall(_Open):
    """A call of a tool."""

    name: str | None = None
    args: dict[str, Any] | None = None
    id: str | None = None


class FunctionResponse(_Open):
    """The output of a tool."""

    name: str | None = None
    response: dict[str, Any] | None = None
    id: str | None = None


class Content(_Open):
    """A message."""

    role: str | None = None
    parts: list[Part] | None = None

    @property
    def text(self) -> str | None:
        """The text without thoughts, parts joined by newlines; `None` if there is none."""
        texts = [p.text for p in self.parts or () if p.text is not None and not p.thought]
        return "\n".join(t for t in texts if t) if texts else None


class IntermediateData(_Adk):
    """The steps before the final response, grouped by kind."""

    tool_uses: list[FunctionCall] = []
    tool_responses: list[FunctionResponse] = []
    intermediate_responses: list[tuple[str, list[Part]]] = []


class InvocationEvent(_Open):
    """One event of a turn."""

    author: str
    content: Content | None = None


class InvocationEvents(_Adk):
    """The events of a turn, in order."""

    invocation_events: list[InvocationEvent]


class RubricContent(_Adk):
    """The property that a rubric requires."""

    text_property: str | None = None


class Rubric(_Adk):
    """A property required of an answer."""

    rubric_id: str
    rubric_content: RubricContent
    description: str | None = None
    type: str | None = None


class AdkInvocation(_Open):
    """One turn of a conversation."""

    invocation_id: str = ""
    user_content: Content
    final_response: Content | None = None
    intermediate_data: InvocationEvents | IntermediateData | None = None
    rubrics: list[Rubric] | None = None


class SessionInput(_Open):
    """The session a conversation starts in."""

    app_name: str
    user_id: str
    session_id: str | None = None
    state: dict[str, Any] = {}


class ConversationScenario(_Adk):
    """The goal and behaviour of a simulated user."""

    starting_prompt: str
    conversation_plan: str
    user_persona: Any = None


class EvalCase(_Open):
    """One case of an eval set; keys beyond these are the user's own."""

    eval_id: str
    conversation: list[AdkInvocation] | None = None
    conversation_scenario: ConversationScenario | None = None
    session_input: SessionInput | None = None
    rubrics: list[Rubric] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> EvalCase:
        if (self.conversation is None) == (self.conversation_scenario is None):
            raise ValueError("exactly one of conversation and conversation_scenario is needed")
        return self


def read_cases(raw: bytes, path: str) -> list[dict[str, Json]]:
    """Reads the cases of a file, each with the id of its set; a byte order mark is ignored.

    Raises:
        RowError: The file is not valid JSON, or not an eval set.
    """
    name, raw = path.replace("\\", "/").rpartition("/")[2], raw.removeprefix(b"\xef\xbb\xbf")
    name = next((name.removesuffix(s) for s in SUFFIXES if name.endswith(s)), name.rpartition(".")[0] or name)
    try:
        data = parse_json(raw)
    except RowError as error:
        lines = [line for line in raw.split(b"\n") if line.strip()]
        try:
            data = [parse_json(line) for line in lines]
        except RowError:
            data = []
        if len(data) < 2:
            raise RowError(
                error.code,
                f"{error.message.partition(' (allowed')[0]} (allowed: JSON of an eval set, or a case on each line)",
            ) from None
    set_id, cases = cases_of(data, name)
    return [{"eval_set_id": set_id, **case} for case in cases]


def cases_of(data: Json, name: str) -> tuple[str, list[dict[str, Json]]]:
    """Returns the id of a set and its cases as EvalCases with keys in snake case.

    Args:
        data: The parsed JSON of the file.
        name: Name of the file without folders and ending, used as id of a set or case without one.

    Raises:
        RowError: The data has none of the formats.
    """
    set_id, cases = name, data
    if isinstance(data, Mapping):
        set_id = data.get("eval_set_id", data.get("evalSetId")) or name
        cases = data.get("eval_cases", data.get("evalCases"))
        cases = [data] if cases is None and is_case(data) else cases
    if isinstance(cases, list) and all(isinstance(case, Mapping) for case in cases):
        if cases and all("query" in turn for turn in cases):
            return set_id, [_convert_older_case(name, cases, None)]
        if cases and all("data" in case for case in cases):
            return set_id, [
                _convert_older_case(str(c.get("name") or i), c["data"], _session(c)) for i, c in enumerate(cases)
            ]
        if isinstance(data, Mapping) or all(is_case(case) for case in cases):
            return set_id, [_convert_keys(case) for case in cases]
    raise RowError("unknown_eval_set", f"found {_describe_shape(data)} (allowed: {FORMS})")


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
    turns = [_convert_turn(invocation) for invocation in case.conversation or ()]
    if not turns:
        raise RowError(CODE, f"case {case.eval_id!r}: the conversation has no turns")
    return {**found, **fields_of(turns), "conversation": turns}


def _convert_turn(invocation: AdkInvocation) -> dict[str, Json]:
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
            for part in (event.content and event.content.parts) or ():
                yield from _part_steps(event.author, part)
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


def _convert_older_case(eval_id: str, turns: Json, session: Json) -> dict[str, Json]:
    """Converts a case of an older format to an EvalCase."""
    if not isinstance(turns, list) or not all(
        isinstance(t, Mapping) and isinstance(t.get("query"), str) for t in turns
    ):
        found = f"case {eval_id!r}: found {_describe_shape(turns)}"
        raise RowError("unknown_eval_set", f"{found} (allowed: a list of {{query, reference, expected_tool_use}})")
    case: dict[str, Json] = {"eval_id": eval_id, "conversation": [_convert_older_turn(turn) for turn in turns]}
    return {**case, "session_input": session} if session else case


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
    place = ".".join(str(step) for step in first["loc"] if str(step) not in ("InvocationEvents", "IntermediateData"))
    found = "" if first["type"] == "missing" else f", found {repr(first['input'])[:100]}"
    name = row.get("eval_id", row.get("evalId"))
    return f"case {name!r}: {place + ': ' if place else ''}{first['msg'].removeprefix('Value error, ')}{found}"


def _describe_shape(data: Json) -> str:
    if isinstance(data, Mapping):
        return "an object with " + (", ".join(sorted(map(str, data))[:8]) or "no keys")
    if isinstance(data, list):
        return f"a list whose first entry is {_describe_shape(data[0])}" if data else "an empty list"
    return f"{data!r:.50}"

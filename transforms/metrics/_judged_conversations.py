"""Conversations as judges are shown them: those of a row, of an agent's answer, or of the traces of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...schemas.conversation import is_conversation, turn_in
from ...schemas.instance import Example, Turn
from ...schemas.json import Json
from ...schemas.result import Score
from ...schemas.values import json_or_text
from ..dialects.traces_otel import derive
from ..dialects.traces_otel.spans import Trace, is_trace, parse_trace
from ._inputs import MISSING_TURNS
from ._judged_turns import list_steps, pair_answered, read_setting

NO_SESSION = Score.skipped("missing_session", "the row is neither a conversation nor the first of a session of traces")


@dataclass(frozen=True)
class Conversation:
    """A conversation of a user with an agent.

    Attributes:
        turns: (expected, actual) of each turn; nothing is expected of the turns of traces.
        instructions: Instructions of the agents, by name.
        tools: Tools of the agents, by name.
    """

    turns: Sequence[tuple[Turn, Turn]]
    instructions: Mapping[str, Json] = field(default_factory=dict)
    tools: Mapping[str, Json] = field(default_factory=dict)

    def show(self, last: int | None = None) -> dict[str, Json]:
        """Returns the values that show the first `last` turns (default: all) in a prompt."""
        shown: list[Json] = [
            {"turn": i, "user": t.prompt, "steps": list_steps(t), "agent": t.response}
            for i, (_, t) in enumerate(self.turns[:last], 1)
        ]
        return {"instructions": dict(self.instructions), "tools": dict(self.tools), "conversation": shown}


def read_conversation(example: Example) -> Conversation | Score:
    """Reads the conversation of a row: the traces of its column `session`, else its turns; a row of one turn has one.

    Returns:
        The conversation, or the score of a row that has none: an answer that has too few turns, or a trace that is not
        the first of its session.

    Raises:
        RowError: A trace of the session is malformed.
    """
    session = json_or_text(example.instance.get("session"))
    if isinstance(session, list):
        return _read_session(session) if session else NO_SESSION
    turns, setting = pair_answered(example), read_setting(example)
    return Conversation(turns, setting["instructions"], setting["tools"]) if turns else MISSING_TURNS


def has_conversation(example: Example) -> bool:
    """Returns true if a row has more than one turn, or the form of a conversation."""
    get = example.instance.get
    given = is_conversation(get("conversation")) or get("scenario") is not None
    return given or example.invocation.turns is not None or isinstance(json_or_text(get("session")), list)


def read_last_turn(example: Example) -> tuple[Turn, dict[str, Json]]:
    """Reads the last turn of a row with its tool calls and their results, and the tools of the agents by name.

    Results and tools are those of the row's trace, unless the row has other tool calls of its own.
    """
    turns, calls = pair_answered(example), example.invocation.predicted_trajectory
    turn = turns[-1][1] if turns else Turn(str(example.get("instruction")), trajectory=calls)
    trace = _find_trace(example)
    if trace is None:
        return turn, read_setting(example)["tools"]
    traced = turn_in(derive.turn_fields(trace))
    if calls is not None and traced.trajectory != calls:
        return turn, {}
    return replace(turn, steps=traced.steps, trajectory=traced.trajectory), _name_tools([trace])


def _find_trace(example: Example) -> Trace | None:
    row, extra = example.instance.row, example.invocation.extra or {}
    given = row if is_trace(row) else json_or_text(extra.get("trace") or row.get("trace"))
    return parse_trace(given) if is_trace(given) else None


def _read_session(session: Sequence[Json]) -> Conversation:
    traces = [parse_trace(trace) for trace in session]
    turns = [turn_in(derive.turn_fields(trace)) for trace in traces]
    told = list(dict.fromkeys(text for trace in traces for text in derive.instructions(trace)))
    instructions: dict[str, Json] = {"agent": "\n\n".join(told)} if told else {}
    return Conversation([(Turn(turn.prompt), turn) for turn in turns], instructions, _name_tools(traces))


def _name_tools(traces: Sequence[Trace]) -> dict[str, Json]:
    found: list[Json] = []
    for trace in traces:
        found += [tool for tool in derive.tools(trace) if tool not in found]
    return {"agent": found} if found else {}

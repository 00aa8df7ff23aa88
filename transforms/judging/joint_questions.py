"""Joint questions: the questions of several metrics about one row, asked in one call.

A joint question has the instructions and data of each part; a text that several parts share appears once. The judge
answers with one object per part. Each part is read by itself: if it is missing, malformed or a copy from the judged
text, only the vote of its own metric fails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, count
from typing import Any

from ...schemas.instance import Usage
from ...schemas.json import Json
from ...schemas.judging import Answer, Ask, Message
from ...schemas.result import ScoreError
from .parse import Parts
from .prompts import describe_schema, load_frame, load_prompt, make_fence
from .shapes import object_of

_BLOCK = re.compile(r"<(\w+) ([0-9a-f]{16})>\n(.*?)\n</\1 \2>", re.DOTALL)


def can_join(ask: Ask) -> bool:
    """Returns true if a question can be part of a joint one: it has one user message, and at most a system message."""
    return [m.role for m in ask.messages] in (["system", "user"], ["user"])


def sort_key(ask: Ask) -> tuple[str, ...]:
    """Returns the sort key of parts, so that the order of metrics in a configuration does not change a question."""
    return tuple(m.content for m in ask.messages)


def join_asks(asks: Sequence[Ask]) -> Ask:
    """Joins questions with the same judge and vote number to one; a single question is returned unchanged."""
    if len(asks) == 1:
        return asks[0]
    schema = object_of(**{part_name(i): ask.schema for i, ask in enumerate(asks)})
    told = [load_prompt("joint").told, load_frame(), *_add_titles(map(_strip_common, asks)), describe_schema(schema)]
    messages = (
        Message("system", "\n\n".join(told)),
        Message("user", _merge_blocks("\n\n".join(_add_titles(map(_last_message, asks))))),
    )
    data = tuple(dict.fromkeys(text for ask in asks for text in ask.data))
    return Ask(messages, schema, asks[0].judge, asks[0].vote, data, tuple(asks))


def part_name(place: int) -> str:
    """Returns the name of a part in the joint question, by its index."""
    return f"question_{place + 1}"


def encode_parts(parts: Parts, truncated: bool) -> dict[str, Json]:
    """Encodes a joint answer for the journal: the value of each part, or why it is not a verdict."""
    code = "truncated" if truncated else "invalid_verdict"
    faults = {name: {"code": code, "message": f"InvalidVerdict: {why}"} for name, why in parts.faults.items()}
    return {**{name: {"value": value} for name, value in parts.values.items()}, **faults}


def split_answer(answer: Answer, size: int) -> list[Answer]:
    """Splits the answer to a joint question, whose value comes from `encode_parts`, into those to its parts.

    Tokens are divided evenly; the first parts get the remainder, one token each, so that the sum is unchanged.
    """
    if size == 1:
        return [answer]
    answers = []
    for place in range(size):
        usage = answer.usage
        usage = usage and Usage(_share(usage.input_tokens, place, size), _share(usage.output_tokens, place, size))
        part = {} if answer.error is not None else answer.value[part_name(place)]
        error = ScoreError(part["code"], part["message"]) if "code" in part else answer.error
        answers.append(Answer(part.get("value"), error, usage, answer.batched))
    return answers


def _share(tokens: int | None, place: int, size: int) -> int | None:
    return None if tokens is None else tokens // size + (place < tokens % size)


def _add_titles(texts: Any) -> list[str]:
    return [f"# {part_name(i)}\n{text}" for i, text in enumerate(texts)]


def _strip_common(ask: Ask) -> str:
    """Returns the system message of a question without the frame and the schema, which a joint question has once."""
    told = ask.messages[0].content if len(ask.messages) > 1 else ""
    return told.removesuffix(describe_schema(ask.schema)).rstrip().removesuffix(load_frame()).rstrip()


def _last_message(ask: Ask) -> str:
    return ask.messages[-1].content


def _merge_blocks(text: str) -> str:
    """Merges blocks with the same text: later ones become a reference to the first."""
    texts = {match[3]: match[3] for match in _BLOCK.finditer(text)}
    codes = {shown: make_fence(shown, texts) for shown in texts}
    names: dict[str, str] = {}

    def block(match: re.Match[str]) -> str:
        name, shown = match[1], match[3]
        code = codes[shown]
        if shown in names:
            return f"(the same text as in <{names[shown]} {code}>)"
        free = (n for n in chain((name,), (f"{name}_{i}" for i in count(2))) if n not in names.values())
        names[shown] = next(free)
        return f"<{names[shown]} {code}>\n{shown}\n</{names[shown]} {code}>"

    return _BLOCK.sub(block, text)

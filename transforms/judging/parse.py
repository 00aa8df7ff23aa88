"""Parses verdicts strictly: a judge's text has exactly one verdict, or it is an error.

Accepted, in this order: the whole text is the JSON object; all JSON objects in the text, fenced or not, are equal; the
text is a bare choice, or one line names it ("score: 4"). The judged text is data: an object or a line that the judge
repeats from it is not a verdict, so an answer cannot rate itself.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from ...schemas.errors import JudgeError
from ...schemas.json import Json
from .shapes import TEXT, Schema, SchemaMismatch, fit, type_name

MAX_CHARACTERS = 1_000_000
"""Longer replies are errors, so that parsing time is bounded."""
_MAX_TRIES = 20_000
_OPENING = re.compile(r"\{\s*\"")
_BRACES = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}]', re.S)
"""Matches braces and whole strings, so that braces in strings are skipped; the last string may be unterminated."""
_DEEPEST = 200
"""If a text is nested too deep for the decoder, objects with fewer levels below them are still tried."""
_SHOWN = 200
_DECODER = json.JSONDecoder()
_MARKS = " \t>#*_-\"'."
_LINE = r"^[\s>#*_-]*(?:{names})[\s*_]*[:=][\s*_\"']*({choices})[\s*_\"'.]*$"


class Parts(NamedTuple):
    """The parts of a joint answer.

    Attributes:
        values: The values that match their schema, by name.
        faults: Why the others are not verdicts, by name.
    """

    values: dict[str, Json]
    faults: dict[str, str]


class InvalidVerdict(JudgeError):
    """A judge answered, but not with a verdict."""


def read_verdict(text: str, schema: Schema, data: Sequence[str] = ()) -> Json:
    """Reads the verdict in a judge's text.

    Args:
        text: The judge's reply.
        schema: JSON schema of the verdict; `TEXT` for the whole text.
        data: The judged texts.

    Raises:
        InvalidVerdict: The text has no verdict, or several different ones.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidVerdict(f"the judge wrote {len(text)} characters (allowed: {MAX_CHARACTERS})")
    if schema == TEXT:
        if not text.strip():
            raise InvalidVerdict("the judge wrote nothing")
        return fit(text, schema)
    whole = _read_whole(text.strip(), schema)
    if whole is not None and _canonical(whole) not in _find_imitated(data, schema):
        return whole
    found: dict[bytes, Json] = {}
    for value in _find_verdicts(text, schema, data):
        found[_canonical(value)] = value
    if len(found) == 1:
        return next(iter(found.values()))
    what = "no verdict" if not found else f"{len(found)} different verdicts"
    raise InvalidVerdict(f"the judge gave {what}: {text[:_SHOWN]!r}")


def read_parts(reply: Json, schema: Schema, data: Mapping[str, Sequence[str]]) -> Parts:
    """Reads the parts of a joint answer.

    Args:
        reply: The judge's text, or its structured answer.
        schema: JSON schema of the whole answer: an object with one object per part.
        data: The judged texts of each part.

    Raises:
        InvalidVerdict: No object in the reply has any of the parts, or several different ones do.
    """
    shapes: Mapping[str, Schema] = schema["properties"]
    if not isinstance(reply, str):
        if not isinstance(reply, Mapping):
            raise InvalidVerdict(f"the answer is {type_name(reply)} (allowed: object)")
        return _read_parts(reply, shapes)
    if len(reply) > MAX_CHARACTERS:
        raise InvalidVerdict(f"the judge wrote {len(reply)} characters (allowed: {MAX_CHARACTERS})")
    judged = dict.fromkeys(text for texts in data.values() for text in texts)
    imitated = {key for text in judged for key, _ in _find_parts(text, shapes)}
    found = {key: parts for key, parts in _find_parts(reply, shapes) if key not in imitated}
    if len(found) != 1:
        what = "no verdict" if not found else f"{len(found)} different verdicts"
        raise InvalidVerdict(f"the judge gave {what}: {reply[:_SHOWN]!r}")
    (parts,) = found.values()
    for name, shape in shapes.items():
        if name in parts.values and _canonical(parts.values[name]) in _find_imitated(data[name], shape):
            parts.faults[name] = "the judge repeats what it judges"
            del parts.values[name]
    return parts


def check_verdict(value: Json, schema: Schema) -> Json:
    """Validates a structured answer and returns it in the schema's types.

    Raises:
        InvalidVerdict: The value does not match the schema.
    """
    try:
        return fit(value, schema)
    except SchemaMismatch as misfit:
        raise InvalidVerdict(str(misfit)) from None


def _read_whole(text: str, schema: Schema) -> Json:
    fence = re.fullmatch(r"```(?:json)?\s*\n(.*?)\n?\s*```", text, flags=re.S)
    try:
        return fit(orjson.loads(fence[1] if fence else text), schema)
    except (orjson.JSONDecodeError, SchemaMismatch):
        return None


def _find_parts(text: str, shapes: Mapping[str, Schema]) -> Iterator[tuple[bytes, Parts]]:
    """Yields (canonical key, parts) of each object in the text with at least one valid part."""
    for value in _find_objects(text):
        parts = _read_parts(value, shapes)
        if parts.values:
            yield _canonical(parts.values) + _canonical(parts.faults), parts


def _read_parts(value: Mapping[str, Json], shapes: Mapping[str, Schema]) -> Parts:
    parts = Parts({}, {})
    for name, shape in shapes.items():
        try:
            if name not in value:
                raise SchemaMismatch("the answer lacks the question")
            parts.values[name] = fit(value[name], shape)
        except SchemaMismatch as misfit:
            parts.faults[name] = str(misfit)
    return parts


def _find_verdicts(text: str, schema: Schema, data: Sequence[str]) -> Iterator[Json]:
    """Yields the verdicts in the text: its objects, or lines that name a choice if there are none."""
    own, imitated = dict(_find_fitting(text, schema)), _find_imitated(data, schema)
    yield from (value for key, value in own.items() if key not in imitated)
    if not own:
        yield from _read_lines(text, schema, data)


def _find_imitated(data: Sequence[str], schema: Schema) -> set[bytes]:
    """Returns the canonical JSON of verdicts within the judged texts, which a judge may only be repeating."""
    return {key for one in data for key, _ in _find_fitting(one, schema)}


def _find_fitting(text: str, schema: Schema) -> Iterator[tuple[bytes, Json]]:
    """Yields (canonical JSON, value) of the objects in a text that match a schema."""
    if any(f'"{name}"' not in text for name in schema.get("required", ())):
        return
    for value in _find_objects(text):
        try:
            found = fit(value, schema)
        except SchemaMismatch:
            continue
        yield _canonical(found), found


def _canonical(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _find_objects(text: str) -> Iterator[Any]:
    """Yields the outermost JSON objects in a text, in time proportional to its length.

    A syntax error within an object also breaks all objects around it; these are not tried again. Without that, a text
    of n unclosed braces would take time proportional to n².
    """
    place, spoiled = 0, set[int]()
    for match in itertools.islice(_OPENING.finditer(text), _MAX_TRIES):
        start = match.start()
        if start < place or start in spoiled:
            continue
        try:
            value, place = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            spoiled.update(_find_spoiled(text, start, error.pos))
        except RecursionError:
            spoiled.update(_find_spoiled(text, start, len(text), _DEEPEST))
        else:
            yield value


def _find_spoiled(text: str, start: int, end: int, deepest: float = math.inf) -> Iterator[int]:
    """Yields the start of each object from `start` on that is not closed before `end`, or has `deepest` levels below.

    Ends early if the object at `start` is closed.
    """
    around: list[tuple[int, int]] = []
    for match in _BRACES.finditer(text, start, end):
        if match[0] == "{":
            around.append((match.start(), 0))
        elif match[0] == "}":
            place, levels = around.pop()
            if levels >= deepest:
                yield place
            if not around:
                return
            outer, most = around[-1]
            around[-1] = outer, max(most, levels + 1)
    yield from (place for place, _ in around)


def _read_lines(text: str, schema: Schema, data: Sequence[str]) -> Iterator[Json]:
    """Yields verdicts without JSON, if the schema has one choice and otherwise only text, which is the whole reply."""
    inner: Mapping[str, Schema] = schema.get("properties", {})
    chosen = [name for name, shape in inner.items() if "enum" in shape]
    if len(chosen) != 1 or any(shape["type"] != "string" for shape in inner.values() if "enum" not in shape):
        return
    name, choices = chosen[0], inner[chosen[0]]["enum"]
    by_word = {str(choice).lower(): choice for choice in choices}
    words = "|".join(sorted(map(re.escape, by_word), key=len, reverse=True))
    names = "|".join(map(re.escape, dict.fromkeys((name, name.replace("_", " "), "score", "rating", "verdict"))))
    pattern = re.compile(_LINE.format(names=names, choices=words), flags=re.I)
    rest = {other: text.strip() for other in inner if other != name}
    if (bare := text.strip().strip("*_\"'. ").lower()) in by_word:
        if text.strip() in (one.strip() for one in data):
            return
        yield fit({**rest, name: by_word[bare]}, schema)
        return
    for line in text.splitlines():
        match = pattern.match(line) if len(line) < _SHOWN else None
        if match and not any(line.strip(_MARKS) in one for one in data):
            yield fit({**rest, name: by_word[match[1].lower()]}, schema)

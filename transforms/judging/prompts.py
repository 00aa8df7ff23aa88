"""Prompts: files with a version and a hash, filled with the data of a row.

A prompt file has a header, a line `---`, what the judge is told, a line `---`, and what it is given:

    version: 1
    ---
    You rate ...
    ---
    {prediction}

`{name}` is replaced once, by a block that holds the value and that the value cannot close: its tags carry a code made
from the value itself, so that two rows with the same value have the same block. What is told is followed by `frame.md`,
which says how such blocks are to be read.

What is the same for all rows stands first, then what several questions share (a context, facts, properties), then what
is judged: providers keep what they have read of a prompt's beginning, and charge less for it the next time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...schemas.json_text import jsonable
from ...schemas.judging import Ask, Message
from .panel import MAX_SAMPLES, PanelSlot

FOLDER = Path(__file__).parent / "prompts"
VARIABLE = re.compile(r"\{([_a-zA-Z][_a-zA-Z0-9]*)\}")
"""A place in a template, and its name."""


@dataclass(frozen=True)
class Prompt:
    """What a judge is told and given.

    Attributes:
        name: Where it stands, or the metric it belongs to.
        version: Its version.
        told: The judge's task, constant over all rows: the system message.
        given: What stands in the user's message, with variables.
    """

    name: str
    version: int
    told: str
    given: str

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of its variables in the order they first stand there."""
        return variables_of(self.given)

    @property
    def hash(self) -> str:
        """12 hexadecimal digits that stand for its text."""
        return hashlib.sha256("\0".join((self.told, load_frame(), self.given)).encode()).hexdigest()[:12]

    def join(self, more: Prompt) -> Prompt:
        """The prompt with another's text after its own."""
        return Prompt(self.name, self.version, f"{self.told}\n\n{more.told}", f"{self.given}\n\n{more.given}")

    def bind(
        self, shape: Mapping[str, Json], values: Mapping[str, Json], flipped: Mapping[str, Json] | None = None
    ) -> Callable[[PanelSlot], Ask]:
        """What makes the question about a row for whoever sits at a place of a panel.

        Args:
            shape: JSON schema of the answer.
            values: What the variables stand for.
            flipped: What they stand for where the judge sees the other order.
        """
        data = tuple(as_text(value) for name, value in values.items() if name in self.variables)

        @cache
        def messages(other: bool) -> tuple[Message, ...]:
            return self.fill(flipped if other and flipped is not None else values, shape)

        def ask(slot: PanelSlot) -> Ask:
            # two equal answers are the same question in both orders, whose votes must not be taken for each other
            same = slot.flipped and messages(True) == messages(False)
            return Ask(messages(slot.flipped), shape, slot.judge, slot.vote + MAX_SAMPLES * same, data)

        return ask

    def fill(self, values: Mapping[str, Json], shape: Mapping[str, Json] | None = None) -> tuple[Message, ...]:
        """The messages for a row; the same bytes in every run.

        Args:
            values: What the variables stand for. A variable without a value is left as it is; a value that is no text
                stands there as JSON.
            shape: JSON schema of the answer, told to the judge in words too.
        """
        texts = {name: as_text(values[name]) for name in self.variables if name in values}
        codes = {name: make_fence(text, texts) for name, text in texts.items()}

        def block(match: re.Match[str]) -> str:
            name = match[1]
            return match[0] if name not in texts else f"<{name} {codes[name]}>\n{texts[name]}\n</{name} {codes[name]}>"

        told = [self.told, load_frame(), *((describe_schema(shape),) if shape is not None else ())]
        return Message("system", "\n\n".join(told)), Message("user", VARIABLE.sub(block, self.given))


def variables_of(text: str) -> tuple[str, ...]:
    """Names of the variables in a text in the order they first stand there."""
    return tuple(dict.fromkeys(VARIABLE.findall(text)))


def make_fence(own: str, texts: Mapping[str, str]) -> str:
    """16 hexadecimal digits that stand in none of the texts, the same for the same text of its own."""
    code = hashlib.sha256(own.encode()).hexdigest()[:16]
    while any(code in text for text in texts.values()):
        code = hashlib.sha256(code.encode()).hexdigest()[:16]
    return code


def as_text(value: Json) -> str:
    """A value as it stands in a prompt: text as it is but for lone surrogates, another value as JSON."""
    text = value if isinstance(value, str) else _json(value)
    return text.encode("utf-8", "replace").decode()


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt in `prompts/<name>.md`.

    Raises:
        ConfigError: There is none.
    """
    path = FOLDER / f"{name}.md"
    if not path.is_file():
        raise ConfigError(f"no prompt {name!r}", where="prompt")
    return parse_prompt(path.read_text("utf-8"), name)


def parse_prompt(text: str, name: str) -> Prompt:
    """The prompt that a prompt file's text describes."""
    header, told, given = (part.strip() for part in re.split(r"^---$", text, maxsplit=2, flags=re.M))
    return Prompt(name, int(header.removeprefix("version:")), told, given)


def describe_schema(shape: Mapping[str, Json]) -> str:
    """What a judge is told last: the schema of its answer."""
    return f"Answer with one JSON object of this schema and nothing else:\n{_json(shape)}"


@cache
def load_frame() -> str:
    """What every judge is told about the blocks that hold data."""
    return (FOLDER / "frame.md").read_text("utf-8").strip()


def _json(value: Json) -> str:
    return jsonable(value).decode()

"""Prompts: files with a version and a hash, filled with the data of a row.

A prompt file has a header, a line `---`, the system message, a line `---`, and the user message:

    version: 1
    ---
    You rate ...
    ---
    {prediction}

`{name}` is replaced once, by a block with the value. The value cannot close its block: the tags carry a code that is
derived from the value and does not occur in it, so that rows with the same value have the same block. The system
message is followed by `frame.md`, which explains these blocks to the judge.

The constant text comes first, then what several questions share (a context, facts, properties), then the judged text:
providers cache the beginning of a prompt and charge less for it when it is repeated.
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
from .shapes import TEXT

FOLDER = Path(__file__).parent / "prompts"
VARIABLE = re.compile(r"\{([_a-zA-Z][_a-zA-Z0-9]*)\}")
"""Matches a variable of a template; group 1 is its name."""


@dataclass(frozen=True)
class Prompt:
    """The template of a question.

    Attributes:
        name: Its file without the extension, or its metric.
        version: Its version.
        told: The system message: the judge's task, the same for all rows.
        given: The user message, with variables.
    """

    name: str
    version: int
    told: str
    given: str

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of its variables, in order of first use."""
        return variables_of(self.given)

    @property
    def text(self) -> str:
        """Both messages as one text."""
        return f"{self.told}\n\n{self.given}"

    @property
    def hash(self) -> str:
        """12 hexadecimal digits of the sha256 of its text."""
        return hashlib.sha256("\0".join((self.told, load_frame(), self.given)).encode()).hexdigest()[:12]

    def join(self, more: Prompt) -> Prompt:
        """Returns the prompt with the text of another one appended."""
        return Prompt(self.name, self.version, f"{self.told}\n\n{more.told}", f"{self.given}\n\n{more.given}")

    def bind(
        self, shape: Mapping[str, Json], values: Mapping[str, Json], flipped: Mapping[str, Json] | None = None
    ) -> Callable[[PanelSlot], Ask]:
        """Returns a function that builds the question about a row for a slot of a panel.

        Args:
            shape: JSON schema of the answer.
            values: Values of the variables.
            flipped: Values for slots that see the answers in the other order.
        """
        data = tuple(as_text(value) for name, value in values.items() if name in self.variables)

        @cache
        def messages(other: bool) -> tuple[Message, ...]:
            return self.fill(flipped if other and flipped is not None else values, shape)

        def ask(slot: PanelSlot) -> Ask:
            # Equal answers make the same question in both orders. The other vote number keeps its journaled answers
            # apart, else one vote would count twice.
            same = slot.flipped and messages(True) == messages(False)
            return Ask(messages(slot.flipped), shape, slot.judge, slot.vote + MAX_SAMPLES * same, data)

        return ask

    def fill(self, values: Mapping[str, Json], shape: Mapping[str, Json] | None = None) -> tuple[Message, ...]:
        """Builds the messages for a row; the same bytes in every run.

        Args:
            values: Values of the variables. A variable without a value is left as it is; a value that is not text is
                written as JSON.
            shape: JSON schema of the answer, which the system message states too; `TEXT` for a free text.
        """
        texts = {name: as_text(values[name]) for name in self.variables if name in values}
        codes = {name: make_fence(text, texts) for name, text in texts.items()}

        def block(match: re.Match[str]) -> str:
            name = match[1]
            return match[0] if name not in texts else f"<{name} {codes[name]}>\n{texts[name]}\n</{name} {codes[name]}>"

        told = [self.told, load_frame(), *((describe_schema(shape),) if shape not in (None, TEXT) else ())]
        return Message("system", "\n\n".join(told)), Message("user", VARIABLE.sub(block, self.given))


def variables_of(text: str) -> tuple[str, ...]:
    """Returns the names of the variables in a text, in order of first use."""
    return tuple(dict.fromkeys(VARIABLE.findall(text)))


def make_fence(own: str, texts: Mapping[str, str]) -> str:
    """Derives 16 hexadecimal digits from `own` that occur in none of the texts."""
    code = hashlib.sha256(own.encode()).hexdigest()[:16]
    while any(code in text for text in texts.values()):
        code = hashlib.sha256(code.encode()).hexdigest()[:16]
    return code


def as_text(value: Json) -> str:
    """Formats a value for a prompt: text unchanged except for lone surrogates, other values as JSON."""
    text = value if isinstance(value, str) else _json(value)
    return text.encode("utf-8", "replace").decode()


@cache
def load_prompt(name: str) -> Prompt:
    """Loads the prompt `prompts/<name>.md`.

    Raises:
        ConfigError: The file does not exist.
    """
    path = FOLDER / f"{name}.md"
    if not path.is_file():
        raise ConfigError(f"no prompt {name!r}", where="prompt")
    return parse_prompt(path.read_text("utf-8"), name)


def parse_prompt(text: str, name: str) -> Prompt:
    """Parses the text of a prompt file."""
    header, told, given = (part.strip() for part in re.split(r"^---$", text, maxsplit=2, flags=re.M))
    return Prompt(name, int(header.removeprefix("version:")), told, given)


def describe_schema(shape: Mapping[str, Json]) -> str:
    """Returns the end of the system message: the schema of the answer."""
    return f"Answer with one JSON object of this schema and nothing else:\n{_json(shape)}"


@cache
def load_frame() -> str:
    """Loads the instructions about data blocks, which every system message has."""
    return (FOLDER / "frame.md").read_text("utf-8").strip()


def _json(value: Json) -> str:
    return jsonable(value).decode()

"""The metrics there are, in words: what `evalbeam metrics` says."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...transforms import registry
from ...transforms.metrics._judged import JudgedMetric
from ..drawing.words import NOTHING

_HEADINGS = ("Name", "Inputs", "Range", "What it is")
_ATTRIBUTE = re.compile(r"^    ([a-z_]\w*(?:, [a-z_]\w*)*): (.*)$")
_LEAST_WORDS = 40
_MORE = "evalbeam metrics NAME tells all about one."
_INDENT = " " * 6


def overview(width: int) -> str:
    """A table of all metrics: name (names that mean the same in one row), inputs, range and one line each."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for same in group_names():
        part = registry.find("metric", same[0])
        first = _words(part.factory).partition("\n")[0]
        preset = ", ".join(f"{k}={v}" for k, v in part.preset.items())
        rows.append((", ".join(same), show_inputs(part), show_range(part), preset or first))
    sizes = [max(len(row[i]) for row in rows) for i in range(3)]
    room, lines = width - sum(sizes) - 6, []
    if room < _LEAST_WORDS:
        return "\n".join([*_stack(rows[1:], width), _MORE])
    for row in rows:
        first, *more = textwrap.wrap(row[3], room) or [""]
        lines.append("  ".join([*map(str.ljust, row[:3], sizes), first]))
        lines += [" " * (sum(sizes) + 6) + line for line in more]
    return "\n".join([*lines, "", _MORE])


def _stack(rows: Sequence[tuple[str, ...]], width: int) -> Iterator[str]:
    """Yields each metric on lines of its own, for terminals on which the table does not fit."""
    for names, inputs, span, words in rows:
        yield from textwrap.wrap(names, width, subsequent_indent="  ", break_on_hyphens=False)
        for text in ("  ".join(one for one in (inputs, span) if one != NOTHING), words):
            yield from textwrap.wrap(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT)
        yield ""


def group_names() -> list[list[str]]:
    """The registered names of all metrics; names of the same metric with the same preset stand together."""
    names: dict[Any, list[str]] = {}
    for name in registry.names("metric"):
        part = registry.find("metric", name)
        names.setdefault((part.factory, *sorted(part.preset.items())), []).append(name)
    return list(names.values())


def describe(name: str) -> str:
    """All about one metric: what it is, its inputs, range and parameters.

    Raises:
        ConfigError: There is none of that name; the message offers the nearest.
    """
    part = registry.find("metric", registry.full_name("metric", name, ("rapid",)))
    lines = [part.name, "", summarize(part), "", f"inputs: {show_inputs(part)}", f"range:  {show_range(part)}"]
    parameters = []
    for parameter in list_parameters(part):
        parameters.append(f"  {parameter.name}: {parameter.type}, {parameter.default}")
        if parameter.meaning:
            parameters.append(textwrap.fill(parameter.meaning, 96, initial_indent=_INDENT, subsequent_indent=_INDENT))
    lines += ["", "parameters:" if parameters else "no parameters", *parameters]
    return "\n".join([*lines, *_prompts(_made(part))])


def summarize(part: registry.Part) -> str:
    """The docstring of a part without its attributes."""
    return re.sub(r"\n*Attributes:\n.*", "", _words(part.factory), flags=re.DOTALL)


def _prompts(metric: Any) -> Iterator[str]:
    """The prompts of a judge metric."""
    for prompt in metric.prompts if isinstance(metric, JudgedMetric) else ():
        yield f"\nprompt {prompt.name}, version {prompt.version}, hash {prompt.hash}:\n"
        yield textwrap.indent(prompt.text, "  ", lambda _: True).rstrip()


def _made(part: registry.Part) -> Any:
    """The metric with its defaults, where it has one for every parameter; else its class."""
    try:
        return part.factory(**part.preset)
    except Exception:  # it needs parameters, or a package that is not there
        return part.factory


def _words(factory: Any) -> str:
    return inspect.cleandoc(factory.__doc__ or "")


def show_inputs(part: registry.Part) -> str:
    """The columns a metric reads, with commas."""
    return ", ".join(getattr(_made(part), "inputs", ())) or NOTHING


def show_range(part: registry.Part) -> str:
    """The range of a metric's scores, such as "0 to 1", or "0 or 1" of a binary one."""
    factory = _made(part)
    ends = getattr(factory, "range", None)
    if ends is None:
        return NOTHING
    low, high = (f"{end:g}" for end in ends)
    return f"{low} or {high}" if getattr(factory, "binary", False) else f"{low} to {high}"


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a part: its name, type, default in words, and what its class says of it."""

    name: str
    type: str
    default: str
    meaning: str


def list_parameters(part: registry.Part) -> Iterator[Parameter]:
    """The parameters that a configuration may give a part: the fields its name does not fix already."""
    factory: Any = part.factory
    if not dataclasses.is_dataclass(factory):
        return
    described = find_attributes(factory)
    for field in dataclasses.fields(factory):
        if not field.init or field.name in part.preset:
            continue
        kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
        yield Parameter(field.name, kind, _default(field), described.get(field.name, ""))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"default {field.default!r}"
    return "required" if field.default_factory is dataclasses.MISSING else f"default {field.default_factory()!r}"


def find_attributes(factory: Any) -> Mapping[str, str]:
    """What the docstrings of a class and its bases say of each attribute."""
    found: dict[str, str] = {}
    for cls in reversed(inspect.getmro(factory)):
        _, _, section = _words(cls).partition("Attributes:\n")
        names: list[str] = []
        for line in section.splitlines():
            if match := _ATTRIBUTE.match(line):
                names = match[1].split(", ")
                found.update(dict.fromkeys(names, match[2]))
            elif line.startswith("     "):
                found.update({name: f"{found[name]} {line.strip()}" for name in names})
            elif line.strip():
                break
    return found

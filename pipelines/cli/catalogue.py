"""Text of `evalbeam metrics`: an overview of all metrics, and the description of one."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from ...transforms import registry
from ...transforms.metrics._judged import JudgedMetric
from ..display.console import NOTHING

_HEADINGS = ("Name", "Inputs", "Range", "What it is")
_ATTRIBUTE = re.compile(r"^    ([a-z_]\w*(?:, [a-z_]\w*)*): (.*)$")
_LEAST_WORDS = 40


def overview(width: int) -> str:
    """Returns a table of all metrics: name (aliases share a row), inputs, range and a one-line summary."""
    names: dict[Any, list[str]] = {}
    for name in registry.names("metric"):
        part = registry.find("metric", name)
        names.setdefault((part.factory, *sorted(part.preset.items())), []).append(name)
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for same in names.values():
        part = registry.find("metric", same[0])
        first = _read_docstring(part.factory).partition("\n")[0]
        preset = ", ".join(f"{k}={v}" for k, v in part.preset.items())
        one = _build(part)
        rows.append((", ".join(same), _list_inputs(one), _format_range(one), preset or first))
    sizes = [max(len(row[i]) for row in rows) for i in range(3)]
    room = max(_LEAST_WORDS, width - sum(sizes) - 6)
    lines = []
    for row in rows:
        first, *more = textwrap.wrap(row[3], room) or [""]
        lines.append("  ".join([*map(str.ljust, row[:3], sizes), first]))
        lines += [" " * (sum(sizes) + 6) + line for line in more]
    return "\n".join([*lines, "", "evalbeam metrics NAME describes one metric in full."])


def describe(name: str) -> str:
    """Describes one metric: its documentation, inputs, range, parameters and prompts.

    Raises:
        ConfigError: No metric has that name; the message lists the closest names.
    """
    part = registry.find("metric", registry.full_name("metric", name, ("rapid",)))
    words = re.sub(r"\n*Attributes:\n.*", "", _read_docstring(part.factory), flags=re.DOTALL)
    one = _build(part)
    lines = [part.name, "", words, "", f"inputs: {_list_inputs(one)}", f"range:  {_format_range(one)}"]
    parameters = list(_describe_parameters(part))
    lines += ["", "parameters:" if parameters else "no parameters", *parameters]
    return "\n".join([*lines, *_render_prompts(one)])


def _render_prompts(metric: Any) -> Iterator[str]:
    """Yields the prompts of a judge metric; nothing for other metrics."""
    for prompt in metric.prompts if isinstance(metric, JudgedMetric) else ():
        yield f"\nprompt {prompt.name}, version {prompt.version}, hash {prompt.hash}:\n"
        yield textwrap.indent(f"{prompt.told}\n\n{prompt.given}", "  ", lambda _: True).rstrip()


def _build(part: registry.Part) -> Any:
    """Builds the metric if all its parameters have defaults; returns its class otherwise."""
    try:
        return part.factory(**part.preset)
    except Exception:  # required parameters, or an optional package that is not installed
        return part.factory


def _read_docstring(factory: Any) -> str:
    return inspect.cleandoc(factory.__doc__ or "")


def _list_inputs(factory: Any) -> str:
    return ", ".join(getattr(factory, "inputs", ())) or NOTHING


def _format_range(factory: Any) -> str:
    ends = getattr(factory, "range", None)
    if ends is None:
        return NOTHING
    low, high = (f"{end:g}" for end in ends)
    return f"{low} or {high}" if getattr(factory, "binary", False) else f"{low} to {high}"


def _describe_parameters(part: registry.Part) -> Iterator[str]:
    factory: Any = part.factory
    if not dataclasses.is_dataclass(factory):
        return
    described = _describe_attributes(factory)
    for field in dataclasses.fields(factory):
        if not field.init or field.name in part.preset:
            continue
        kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
        yield f"  {field.name}: {kind}, {_format_default(field)}"
        if field.name in described:
            yield textwrap.fill(described[field.name], 96, initial_indent="      ", subsequent_indent="      ")


def _format_default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"default {field.default!r}"
    return "required" if field.default_factory is dataclasses.MISSING else f"default {field.default_factory()!r}"


def _describe_attributes(factory: Any) -> Mapping[str, str]:
    """Returns the description of each attribute from the docstrings of a class and its bases."""
    descriptions: dict[str, str] = {}
    for cls in reversed(inspect.getmro(factory)):
        _, _, section = _read_docstring(cls).partition("Attributes:\n")
        names: list[str] = []
        for line in section.splitlines():
            if match := _ATTRIBUTE.match(line):
                names = match[1].split(", ")
                descriptions.update(dict.fromkeys(names, match[2]))
            elif line.startswith("     "):
                descriptions.update({name: f"{descriptions[name]} {line.strip()}" for name in names})
            elif line.strip():
                break
    return descriptions

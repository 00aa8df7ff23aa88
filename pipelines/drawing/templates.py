"""Fills the HTML templates of pages and notebooks; every value is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ...schemas.json import Json
from .words import NOTHING

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_CHARACTERS = 4000
"""Maximum characters shown of one text."""
_MOST_OF_JSON = 1_000_000
_MOST_OF_BRIEF = 160
_HERE = Path(__file__).parent
_FOLDERS = (_HERE / "templates", _HERE.parent / "report" / "templates")
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, lone surrogates, and characters that reverse the direction of the following text."""


def fill(template: str, **values: Any) -> str:
    """Fills a template of this room or of the report.

    Args:
        template: File name of the template.
        values: Its variables.
    """
    return "".join(fill_in_pieces(template, **values))


def fill_in_pieces(template: str, **values: Any) -> Iterator[str]:
    """Fills a template as `fill` does, in pieces."""
    return _environment().get_template(template).generate(values)


def clean(value: Json, most: int = MOST_CHARACTERS) -> str:
    """Converts a value to text of at most `most` characters, without those that are invalid or mislead in HTML."""
    text = value if isinstance(value, str) else NOTHING if value is None else show_json(value)
    text = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text[: most + 1])
    return text if len(text) <= most else text[:most] + " …"


def show_json(value: Json) -> str:
    """Formats a value as indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


@cache
def read_plots() -> str:
    """Returns the style sheet of verdicts, tables and plots."""
    return (_FOLDERS[0] / "plots.css").read_text("utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    def finish(value: Any) -> Any:
        return value if isinstance(value, Markup | int | float) else clean(value)

    found = Environment(
        loader=FileSystemLoader(_FOLDERS),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finish,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters["json"] = lambda value: escape(clean(show_json(value), _MOST_OF_JSON))
    found.filters["brief"] = lambda value: clean(value, _MOST_OF_BRIEF)
    return found

"""Fills the templates of whole pages: their style, their script, and the policy that allows only these two."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..drawing.templates import fill_in_pieces, read_plots

_WEB = Path(__file__).parent / "web"
_SCRIPTS = ("rows.js", "explorer.js")


def fill_page(template: str, *, scripted: bool, served: bool = False, **values: Any) -> Iterator[str]:
    """Fills the template of a page, in pieces.

    Args:
        template: File name of the template.
        scripted: Whether the page has the explorer.
        served: Whether the explorer's rows come from a server, the one that the page itself came from.
        values: Variables of the template.
    """
    style, script = read_plots() + _read("style.css"), "".join(map(_read, _SCRIPTS)) if scripted else ""
    rules = ["default-src 'none'", f"style-src '{_digest(style)}'"]
    rules += [f"script-src '{_digest(script)}'"] if scripted else []
    rules += ["connect-src 'self'"] if served else []
    policy = "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])
    return fill_in_pieces(template, style=style, script=script, policy=policy, **values)


@cache
def _read(name: str) -> str:
    return (_WEB / name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"

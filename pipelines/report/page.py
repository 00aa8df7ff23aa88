"""Writes a finished run as one self-contained HTML page that needs no network and can be read without its script."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...schemas.run_folder import RunFolder
from ...transforms.io import storage
from ..display.terminal import FAULTS
from ..drawing.templates import fill
from ..run.result import EvaluationResult
from ..run.tables import summary_rows
from . import overview
from .figures import draw_metrics, draw_slices
from .scan import scan

MOST_GROUPS = 12
"""Groups of failures on the page."""


def write_report(result: EvaluationResult) -> str:
    """Writes the page next to the tables of a run, replacing an existing one; the same run gives the same bytes.

    Returns:
        The path of the page.
    """
    path = RunFolder(result.output).report
    storage.write_whole(path, render_page(result).encode("utf-8", "replace"))
    return path


def render_page(result: EvaluationResult) -> str:
    """Renders the whole page."""
    summary = summary_rows(result)
    whole = [r for r in summary if not r["slice"]]
    found = scan(result, summary)
    errors, error_count = overview.build_errors(result)
    return fill_page(
        "report.html",
        title=f"Evaluation {result.output}",
        head=overview.build_headline(result),
        reason=result.reason,
        facts=overview.list_facts(result),
        criteria=overview.list_criteria(result),
        statistics=overview.build_statistics(whole),
        forests=draw_metrics(result, whole),
        slices=draw_slices(result, summary),
        scan=found,
        rows=found.book.pack(),
        kept=found.book.kept,
        most_groups=MOST_GROUPS,
        output=result.output,
        unscored=overview.build_unscored(result, summary),
        judges=overview.build_judges(result),
        errors=errors,
        error_count=error_count,
        faults=FAULTS,
        config=result.manifest.get("config"),
        versions=result.manifest.get("versions"),
    )


def fill_page(template: str, **values: Any) -> str:
    """Fills the template of a page with style, script and the policy that allows only these two."""
    return fill(template, style=_read("style.css"), script=_read("explorer.js"), policy=_policy(), **values)


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / "web" / name).read_text("utf-8")


@cache
def _policy() -> str:
    allowed = {kind: f"'sha256-{_digest(_read(name))}'" for kind, name in _INLINE.items()}
    rules = [f"{kind} {digest}" for kind, digest in allowed.items()]
    return "; ".join(["default-src 'none'", *rules, "base-uri 'none'", "form-action 'none'"])


_INLINE = {"style-src": "style.css", "script-src": "explorer.js"}


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()

"""Renders a finished run for other programs: JSON, Markdown, and JUnit XML, which CI systems show as test results."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from xml.etree import ElementTree

import orjson

from ...schemas.json import Json
from ...schemas.run_folder import FINISHED
from ..drawing.words import interval, number, slice_name
from ..run.result import EvaluationResult
from ..run.tables import summary_rows
from .digest import count_faults, locate_error
from .run_text import headline, render
from .terminal import counts_text, judged_name, outcome, plain

MOST_FAULTS = 20
"""Kinds of failures shown in Markdown."""
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Environment variable of GitHub Actions: the file whose Markdown is shown on the page of a workflow's run."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&!])")


def render_as(form: str, result: EvaluationResult, width: int, whole: bool = False) -> str:
    """Renders a run in the form of that name.

    Args:
        form: "text", "json", "markdown" or "junit".
        result: A run with a manifest.
        width: Columns of the terminal, for "text".
        whole: As in `render`, for "text".
    """
    return render(result, width, whole) if form == "text" else _RENDERERS[form](result)


def append_step_summary(result: EvaluationResult) -> None:
    """Appends the run as Markdown to the file that `STEP_SUMMARY` names; does nothing if it names none.

    Raises:
        OSError: The file cannot be written.
    """
    path = os.environ.get(STEP_SUMMARY)
    if path:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(render_markdown(result) + "\n")


def render_json(result: EvaluationResult) -> str:
    """Renders a run as one JSON object: verdict, exit code, counts, criteria, the summary table, and the files."""
    manifest = result.manifest
    found: dict[str, Json] = {
        "output": result.output,
        "state": result.state,
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "reason": result.reason,
        "counts": manifest["counts"],
        "seconds": manifest["measured"]["seconds"],
        "criteria": manifest.get("criteria") or [],
        "summary": summary_rows(result),
        "tables": {name: result.files(name) for name in manifest["tables"]},
    }
    return orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() + "\n"


def render_markdown(result: EvaluationResult) -> str:
    """Renders the verdict, the criteria, the metrics and what failed as Markdown; all values are escaped."""
    summary = [row for row in summary_rows(result) if not row["slice"]]
    parts = [[f"## {_mark(headline(result))}: {_mark(counts_text(result))}"]]
    if result.reason:
        parts.append([_mark(result.reason)])
    judged = result.manifest.get("criteria") or []
    if judged:
        rows = [(j["verdict"], judged_name(j), outcome(j)) for j in judged]
        parts.append(list(_table(("Verdict", "Criterion", "Why"), rows)))
    if summary:
        cells = [
            (r["metric"], number(r["mean"]), interval(r), f"{r['scored_count']:,}/{r['row_count']:,}") for r in summary
        ]
        parts.append(list(_table(("Metric", "Mean", "Interval", "Scored"), cells)))
    faults = count_faults(result)[:MOST_FAULTS]
    if faults:
        rows = [(code, f"{count:,}", f"{locate_error(first)}: {first['message']}") for code, count, first in faults]
        parts.append(list(_table(("Failed", "Count", "First"), rows)))
    parts.append([f"Tables: {_mark(result.output)}"])
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(map(_mark, row))} |"


def _mark(text: str) -> str:
    """Escapes a text for Markdown, on one line."""
    return _MARKDOWN.sub(r"\\\1", plain(text))


def render_junit(result: EvaluationResult) -> str:
    """Renders a run as JUnit XML: one test case for the run itself, and one for each criterion.

    A criterion that failed is a failure; one without a verdict, and a run without a result, are errors.
    """
    judged: Sequence[Mapping[str, Json]] = result.manifest.get("criteria") or []
    seconds = f"{result.manifest['measured']['seconds']:.3f}"
    suite = ElementTree.Element("testsuite", name="evalbeam", time=seconds)
    run = ElementTree.SubElement(suite, "testcase", classname="evalbeam.run", name=_xml(result.output), time=seconds)
    ElementTree.SubElement(run, "system-out").text = _xml(counts_text(result))
    failures = errors = 0
    if result.state != FINISHED or result.reason:
        errors += 1
        _add_problem(run, "error", headline(result), result.reason or result.state)
    for one in judged:
        case = ElementTree.SubElement(
            suite, "testcase", classname="evalbeam.criteria", name=_xml(_name(one)), time="0.000"
        )
        if one["verdict"] == "FAILED":
            failures += 1
            _add_problem(case, "failure", "FAILED", outcome(one))
        elif one["verdict"] != "PASSED":
            errors += 1
            _add_problem(case, "error", one["verdict"], outcome(one))
    for name, count in (("tests", 1 + len(judged)), ("failures", failures), ("errors", errors), ("skipped", 0)):
        suite.set(name, str(count))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _add_problem(case: ElementTree.Element, kind: str, type_: str, message: str) -> None:
    # Jenkins shows the attribute, GitLab and GitHub the text.
    ElementTree.SubElement(case, kind, type=type_, message=_xml(message)).text = _xml(message)


def _name(one: Mapping[str, Json]) -> str:
    bounds = [f"{sign} {one[key]:g}" for key, sign in (("min", ">="), ("max", "<=")) if one[key] is not None]
    place = f" [{slice_name(one['slice'])}]" if one["slice"] else ""
    return f"{one['metric']} {one['statistic']} {' and '.join(bounds)}{place}"


def _xml(text: str) -> str:
    """Replaces the characters that XML 1.0 cannot hold."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)


_RENDERERS: Mapping[str, Callable[[EvaluationResult], str]] = {
    "json": render_json,
    "markdown": render_markdown,
    "junit": render_junit,
}

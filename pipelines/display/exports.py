"""Renders a finished run for other programs: JSON, Markdown, and JUnit XML, which CI systems show as test results.

A comparison with the run of a gate is rendered with it, or alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import orjson

from ...schemas.comparison import Difference
from ...schemas.json import Json
from ...schemas.run_folder import FINISHED
from ..drawing.words import interval, number, say_decision, slice_name
from ..run.result import EvaluationResult
from ..run.tables import summary_rows
from .differences import describe_reasons
from .differences import render as render_differences
from .digest import describe_group, find_groups
from .run_text import headline, render
from .terminal import counts_text, judged_name, outcome, plain

if TYPE_CHECKING:  # imports Beam
    from ..compare import Comparison

MOST_FAULTS = 20
"""Kinds of failures shown in Markdown."""
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Environment variable of GitHub Actions: the file whose Markdown is shown on the page of a workflow's run."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&!])")


def render_as(
    form: str, result: EvaluationResult, width: int, whole: bool = False, gate: Comparison | None = None
) -> str:
    """Renders a run in the form of that name.

    Args:
        form: "text", "json", "markdown" or "junit".
        result: A run with a manifest.
        width: Columns of the terminal, for "text".
        whole: As in `render`, for "text".
        gate: The comparison with the run of its gate.
    """
    if form != "text":
        return _RENDERERS[form](result, gate)
    text = render(result, width, whole)
    return text if gate is None else f"{text}\n{render_differences(gate, width)}"


def render_comparison_as(form: str, comparison: Comparison, width: int) -> str:
    """Renders a comparison in the form of that name: "text", "json", "markdown" or "junit"."""
    if form == "text":
        return render_differences(comparison, width)
    if form == "json":
        return _json(_describe_gate(comparison))
    return _markdown(_gate_markdown(comparison)) if form == "markdown" else _write_suites([_gate_suite(comparison)])


def append_step_summary(markdown: str) -> None:
    """Appends Markdown to the file that `STEP_SUMMARY` names; does nothing if it names none.

    Raises:
        OSError: The file cannot be written.
    """
    path = os.environ.get(STEP_SUMMARY)
    if path:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(markdown + "\n")


def render_json(result: EvaluationResult, gate: Comparison | None = None) -> str:
    """Renders a run as one JSON object: verdict, exit code, counts, criteria, the summary table, files and gate."""
    manifest = result.manifest
    found: dict[str, Json] = {
        "output": result.output,
        "state": result.state,
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "reason": result.reason,
        **({"sequential": manifest["sequential"]} if "sequential" in manifest else {}),
        "counts": manifest["counts"],
        "seconds": manifest["measured"]["seconds"],
        "criteria": manifest.get("criteria") or [],
        "summary": summary_rows(result),
        "tables": {name: result.files(name) for name in manifest["tables"]},
    }
    return _json(found if gate is None else {**found, "gate": _describe_gate(gate)})


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"


def _describe_gate(gate: Comparison) -> dict[str, Json]:
    names = ("before", "after", "verdict", "exit_code", "only_before", "only_after")
    return {
        **{name: getattr(gate, name) for name in names},
        "deciding": list(gate.deciding),
        "reasons": list(describe_reasons(gate)),
        "notes": list(gate.notes),
        "differences": gate.rows,
    }


def render_markdown(result: EvaluationResult, gate: Comparison | None = None) -> str:
    """Renders the verdict, criteria, metrics, what failed, and the gate as Markdown; all values are escaped."""
    summary = [row for row in summary_rows(result) if not row["slice"]]
    parts = [[f"## {_mark(headline(result))}: {_mark(counts_text(result))}"]]
    if result.reason:
        parts.append([_mark(result.reason)])
    if decision := say_decision(result.manifest):
        parts.append([_mark(decision)])
    judged = result.manifest.get("criteria") or []
    if judged:
        rows = [(j["verdict"], judged_name(j), outcome(j)) for j in judged]
        parts.append(list(_table(("Verdict", "Criterion", "Why"), rows)))
    if summary:
        cells = [
            (r["metric"], number(r["mean"]), interval(r), f"{r['scored_count']:,}/{r['row_count']:,}") for r in summary
        ]
        parts.append(list(_table(("Metric", "Mean", "Interval", "Scored"), cells)))
    faults = find_groups(result)[:MOST_FAULTS]
    if faults:
        rows = [(describe_group(row), f"{row['count']:,}", row["examples"][0]) for row in faults]
        parts.append(list(_table(("Failure group", "Rows", "First"), rows)))
    parts.append([f"Tables: {_mark(result.output)}"])
    return _markdown(parts if gate is None else [*parts, *_gate_markdown(gate)])


def _gate_markdown(gate: Comparison) -> list[list[str]]:
    """Builds the verdict of the gate, its reasons, and a table of the differences that decide."""
    cells = [
        (_difference_name(d), d.verdict, number(d.before), number(d.after), number(d.gain), f"{d.pairs:,}")
        for d in gate.decisive
    ]
    heads = ("Metric", "Verdict", "Before", "After", "Gain", "Pairs")
    reasons = [[f"- {_mark(reason)}" for reason in describe_reasons(gate)]]
    title = f"## Gate {_mark(gate.verdict)}: {_mark(gate.after)} compared with {_mark(gate.before)}"
    return [[title], *(reasons if reasons[0] else []), *([list(_table(heads, cells))] if cells else [])]


def _markdown(parts: Iterable[Iterable[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _difference_name(one: Difference) -> str:
    return one.metric + (f" [{slice_name(dict(one.slice))}]" if one.slice else "")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(map(_mark, row))} |"


def _mark(text: str) -> str:
    """Escapes a text for Markdown, on one line."""
    return _MARKDOWN.sub(r"\\\1", plain(text))


def render_junit(result: EvaluationResult, gate: Comparison | None = None) -> str:
    """Renders a run as JUnit XML: a test case for the run itself, one for each criterion, and a suite for the gate.

    A criterion that failed is a failure; one without a verdict, and a run without a result, are errors. In the suite of
    the gate, each difference that decides is a case; a metric that is worse, or lost too many scores, is a failure, one
    without a decision an error.
    """
    suites = [_run_suite(result)]
    return _write_suites(suites if gate is None else [*suites, _gate_suite(gate)])


def _run_suite(result: EvaluationResult) -> ElementTree.Element:
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
    return _count(suite, 1 + len(judged), failures, errors)


def _gate_suite(gate: Comparison) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name="evalbeam gate", time="0.000")
    uncovered, found = set(gate.uncovered), {"failure": 0, "error": 0}
    for one in gate.decisive:
        name = _xml(_difference_name(one))
        case = ElementTree.SubElement(suite, "testcase", classname="evalbeam.gate", name=name, time="0.000")
        undecided = one.verdict == "INCONCLUSIVE" and gate.gate.inconclusive != "pass"
        kind = "failure" if one.verdict == "WORSE" or one in uncovered else "error" if undecided else None
        if kind is not None:
            found[kind] += 1
            lost = f"only {one.coverage:.1%} of the first run's scores are there" if one in uncovered else ""
            shown = f"{number(one.before)} before, {number(one.after)} after"
            _add_problem(case, kind, one.verdict, "; ".join(filter(None, (lost, one.reason, shown))))
    return _count(suite, len(gate.decisive), found["failure"], found["error"])


def _count(suite: ElementTree.Element, tests: int, failures: int, errors: int) -> ElementTree.Element:
    for name, count in (("tests", tests), ("failures", failures), ("errors", errors), ("skipped", 0)):
        suite.set(name, str(count))
    return suite


def _write_suites(found: Sequence[ElementTree.Element]) -> str:
    suites = ElementTree.Element("testsuites")
    suites.extend(found)
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


_RENDERERS: Mapping[str, Callable[[EvaluationResult, Comparison | None], str]] = {
    "json": render_json,
    "markdown": render_markdown,
    "junit": render_junit,
}

"""Renders a finished run as one self-contained HTML page: no scripts, fonts or external resources."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape
from itertools import islice

import orjson

from ...schemas.json import Json
from ...transforms.io import storage
from ..run.result import EvaluationResult
from ..run.tables import Row, rows_of, summary_rows
from .console import NOTHING
from .costs import HEADINGS, NUMBERS, spent_cells
from .digest import find_failing, locate_error, note_empty_columns
from .terminal import (
    FAULTS,
    counts_text,
    cut,
    interval,
    judged_name,
    number,
    outcome,
    share,
    tables_of,
    unscored,
)

PAGE = "report.html"
MOST_SLICES = 200
MOST_FAILING = 50
MOST_ERRORS = 100
MOST_COLUMNS = 200
"""Columns of the dataset shown of a failing instance."""
MOST_CHARACTERS = 4000
"""Maximum characters shown of one text."""


def write_report(result: EvaluationResult) -> str:
    """Writes the page next to the tables of a run, replacing an existing one; the same run gives the same bytes.

    Returns:
        The path of the page.
    """
    path = storage.join(result.output, PAGE)
    temporary = storage.join(result.output, f".{PAGE}.tmp")
    storage.write_bytes(temporary, render_page(result).encode("utf-8", "replace"))
    storage.move(temporary, path)
    return path


def render_page(result: EvaluationResult) -> str:
    """Renders the whole page."""
    summary = summary_rows(result)
    whole = [r for r in summary if not r["slice"]]
    sections = [
        _overview(result),
        _criteria(result),
        _section("Metrics", _table(_HEADINGS, map(_summary_cells, whole))) if whole else "",
        _unscored(result, summary),
        _judges(result),
        _slices(summary),
        _failing(result, summary),
        _errors(result),
        _details("Configuration", _pre(_json(result.manifest.get("config")))),
        _details("Versions", _pre(_json(result.manifest.get("versions")))),
    ]
    title = f"Evaluation {_text(result.output)}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        + "\n".join(s for s in sections if s)
        + "\n</main>\n</body>\n</html>\n"
    )


_HEADINGS = ("Metric", "Mean", "Scored", "Errors", "Skipped", "Rows", "CI", "Std", "Median", "Pass rate", "Verdict")
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d5dae0; --back: #fff; --band: #f4f6f8;
  --good: #11632b; --bad: #a40e26; --warn: #7d4e00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa4af; --line: #353c45; --back: #14181d;
  --band: #1d232a; --good: #57c878; --bad: #ff7b80; --warn: #e0a63a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.35rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; min-width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { background: var(--band); font-weight: 600; overflow-wrap: break-word; max-width: 14rem; }
th.n { text-align: right; } td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide:focus-visible { outline: 2px solid var(--soft); }
td.t { overflow-wrap: break-word; min-width: 5rem; max-width: 34rem; }
small { color: var(--soft); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font: .85rem/1.45 ui-monospace, monospace; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .7rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(7rem, 14rem) 1fr; gap: .3rem 1rem; margin: .6rem 0; }
dl.facts { grid-template-columns: max-content 1fr; }
dt { color: var(--soft); overflow-wrap: anywhere; } dd { margin: 0; min-width: 0; }
.soft { color: var(--soft); } .PASSED { color: var(--good); } .FAILED { color: var(--bad); }
.NOT_EVALUATED { color: var(--warn); } .verdict { font-weight: 600; white-space: nowrap; }
@media (max-width: 34rem) { dl:not(.facts) { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
  main { padding: .7rem; } }
"""
_NUMBERS = frozenset(("Mean", "CI", "Std", "Median", "Pass rate", "Scored", "Errors", "Skipped", "Rows", "Line"))

_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Control characters, lone surrogates, and characters that reverse the direction of the following text."""


def _text(value: Json) -> str:
    """Converts a value to escaped text of at most `MOST_CHARACTERS`; characters invalid in HTML are replaced."""
    text = value if isinstance(value, str) else NOTHING if value is None else _json(value)
    text = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text[: MOST_CHARACTERS + 1])
    return escape(text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " …")


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _pre(text: Json) -> str:
    return f'<pre dir="auto">{_text(text)}</pre>'


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{_text(title)}</h2>\n{body}\n</section>"


def _details(title: str, body: str) -> str:
    return f"<details>\n<summary>{_text(title)}</summary>\n{body}\n</details>"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = _NUMBERS) -> str:
    """Builds a table of cells that are already HTML; columns under `numbers` are right-aligned."""
    kinds = ['class="n"' if h in numbers else 'class="t" dir="auto"' for h in headings]
    head = "".join(f"<th {k}>{_text(h)}</th>" for k, h in zip(kinds, headings, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td {k}>{c}</td>" for k, c in zip(kinds, row, strict=True)) + "</tr>" for row in rows
    )
    cells = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="wide" tabindex="0"><table>\n{cells}\n</table></div>'


def _verdict(verdict: str | None) -> str:
    return f'<span class="verdict {escape(verdict)}">{escape(verdict.replace("_", " "))}</span>' if verdict else ""


def _summary_cells(row: Row) -> list[str]:
    counts = [f"{row[c]:,}" for c in ("scored_count", "error_count", "skipped_count", "row_count")]
    more = [interval(row), number(row["std"]), number(row["median"]), share(row["pass_rate"])]
    return [_text(row["metric"]), number(row["mean"]), *counts, *more, _verdict(row["verdict"])]


def _overview(result: EvaluationResult) -> str:
    facts = [("State", escape(result.state)), ("Verdict", _verdict(result.verdict))]
    facts += [("Reason", _text(result.manifest.get("reason") or "")), ("Rows", escape(counts_text(result)))]
    for name, table in tables_of(result):
        files = ", ".join(table["files"][:2]) + (" …" if len(table["files"]) > 2 else "")
        facts.append((name.capitalize(), f"{_text(files)} ({table['rows']:,} rows)"))
    shown = "".join(f"<dt>{escape(k)}</dt><dd>{v}</dd>" for k, v in facts if v)
    return f'<dl class="facts">{shown}</dl>'


def _criteria(result: EvaluationResult) -> str:
    rows = [
        [_verdict(j["verdict"]), _text(judged_name(j)), _text(outcome(j))]
        for j in result.manifest.get("criteria") or ()
    ]
    return _section("Criteria", _table(("Verdict", "Metric", "Outcome"), rows)) if rows else ""


def _unscored(result: EvaluationResult, summary: Sequence[Row]) -> str:
    rows = [[_text(words), _text(", ".join(names))] for words, names in unscored(result, summary).items()]
    return _section("Not scored", _table(("Reasons", "Metrics"), rows)) if rows else ""


def _judges(result: EvaluationResult) -> str:
    rows = [[_text(cell) for cell in cells] for cells in spent_cells(result)]
    return _section("Judges", _table(HEADINGS, rows, NUMBERS)) if rows else ""


def _slices(summary: Sequence[Row]) -> str:
    """Builds, for each list of slice columns, a table of slices by metric."""
    groups: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in summary:
        if row["slice"]:
            groups.setdefault(tuple(row["slice"]), {}).setdefault(_json(row["slice"]), []).append(row)
    return "\n".join(_slice_table(columns, list(slices.values())) for columns, slices in groups.items())


def _slice_table(columns: tuple[str, ...], slices: Sequence[Sequence[Row]]) -> str:
    names = list(dict.fromkeys(r["metric"] for rows in slices for r in rows))
    body = []
    for rows in slices[:MOST_SLICES]:
        cells = {
            r["metric"]: f"{number(r['mean'])} <small>{r['scored_count']:,}/{r['row_count']:,}</small>" for r in rows
        }
        values = (_text(v if v is None else str(v)) for v in rows[0]["slice"].values())
        body.append([*values, *(cells.get(name, NOTHING) for name in names)])
    words = note_empty_columns(columns, [tuple(rows[0]["slice"].values()) for rows in slices])
    note = f'<p class="soft">Mean, rows scored / rows. {_text(words)}</p>'
    if len(slices) > MOST_SLICES:
        note += f'<p class="soft">{len(slices) - MOST_SLICES:,} more slices are in the summary table.</p>'
    return _section("By " + ", ".join(columns), note + _table((*columns, *names), body, numbers=names))


def _failing(result: EvaluationResult, summary: Sequence[Row]) -> str:
    rows = find_failing(result, summary, MOST_FAILING)
    if not rows:
        return ""
    note = f'<p class="soft">The first {len(rows)}, in the order of the instances table.</p>'
    return _section("Failing instances", note + "\n".join(_instance(row, why) for row, why in rows))


def _instance(row: Row, why: Sequence[str]) -> str:
    own = list(row).index("status")  # the dataset's columns stand before
    left = set([name for name in list(row)[:own] if row[name] is not None][MOST_COLUMNS:])
    kept = {name: value for name, value in row.items() if name not in left}
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_pre(value)}</dd>" for name, value in _shown(kept))
    if left:
        facts += f"<dt>…</dt><dd>{len(left):,} more columns of the dataset are in the instances table.</dd>"
    trial = f" · trial {row['trial']}" if row["trial"] else ""
    return _details(f"{row['instance_id']}{trial} · {'; '.join(cut(w, 120) for w in why)}", f"<dl>{facts}</dl>")


def _shown(row: Row) -> Iterator[tuple[str, Json]]:
    """Yields (name, value) of the non-empty columns in table order; for a metric, its score or the reason for none."""
    for name, value in row.items():
        metric, _, part = name.rpartition("/")
        own_status = part == "status" and f"{metric}/score" in row
        if value is None or own_status or name in ("instance_id", "trial"):
            continue
        shown = metric if part in ("score", "error") and f"{metric}/status" in row else name
        yield shown, value if isinstance(value, str) else _json(value)


def _errors(result: EvaluationResult) -> str:
    total = result.manifest["tables"].get("errors", {}).get("rows", 0)
    rows = [
        [_text(locate_error(r)), _text(r["code"]), _text(r["message"]), _pre(r["raw"]) if r["raw"] else ""]
        for r in islice(rows_of(result, "errors"), MOST_ERRORS)
    ]
    if not rows:
        return ""
    note = f'<p class="soft">{len(rows):,} of {total:,}.</p>'
    return _section(FAULTS, note + _table(("Place", "Code", "Message", "Row"), rows))

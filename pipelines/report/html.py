"""A finished run as one HTML page that needs nothing else: no script, no font, no address to fetch from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice

import orjson

from ...schemas.instance import Json
from ...schemas.tables import OWN_NAMES
from ...transforms import storage
from ..result import EvaluationResult
from .digest import Row, failing, reasons, rows_of, summary_rows
from .terminal import NOTHING, cut, interval, number, share, slice_name

PAGE = "report.html"
MOST_SLICES = 500
MOST_FAILING = 50
MOST_ERRORS = 100
MOST_CHARACTERS = 4000
"""Characters shown of one text."""


def write_report(result: EvaluationResult) -> str:
    """Writes the page beside the tables of a run, over one that is there; the same run gives the same bytes.

    Returns:
        Its path.
    """
    path = storage.join(result.output, PAGE)
    temporary = storage.join(result.output, f".{PAGE}.tmp")
    storage.write_bytes(temporary, page(result).encode("utf-8", "replace"))
    storage.move(temporary, path)
    return path


def page(result: EvaluationResult) -> str:
    """The whole page."""
    summary = summary_rows(result)
    whole = [r for r in summary if not r["slice"]]
    sections = [
        _overview(result),
        _criteria(result),
        _section("Metrics", _table(_HEADINGS, [_summary_cells(r, r["metric"]) for r in whole])) if whole else "",
        _unscored(result, summary),
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


_HEADINGS = ("Metric", "Mean", "CI", "Std", "Median", "Pass rate", "Verdict", "Scored", "Errors", "Skipped", "Rows")
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
th { background: var(--band); font-weight: 600; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.t { overflow-wrap: anywhere; min-width: 8rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font: .85rem/1.45 ui-monospace, monospace; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .7rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(7rem, 14rem) 1fr; gap: .3rem 1rem; margin: .6rem 0; }
dt { color: var(--soft); overflow-wrap: anywhere; } dd { margin: 0; min-width: 0; }
.soft { color: var(--soft); } .PASSED { color: var(--good); } .FAILED { color: var(--bad); }
.NOT_EVALUATED { color: var(--warn); } .verdict { font-weight: 600; white-space: nowrap; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
  main { padding: .7rem; } }
"""
_NUMBERS = frozenset(("Mean", "CI", "Std", "Median", "Pass rate", "Scored", "Errors", "Skipped", "Rows", "Line"))


def _text(value: Json) -> str:
    """A value as escaped text, cut where it is long; what HTML cannot hold is replaced."""
    text = value if isinstance(value, str) else NOTHING if value is None else _json(value)
    text = "".join(c if c >= " " or c in "\t\n\r" else "\N{REPLACEMENT CHARACTER}" for c in text[: MOST_CHARACTERS + 1])
    return escape(text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " …")


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _pre(text: Json) -> str:
    return f"<pre>{_text(text)}</pre>"


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def _details(title: str, body: str) -> str:
    return f"<details>\n<summary>{_text(title)}</summary>\n{body}\n</details>"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    kinds = ["n" if h in _NUMBERS else "t" for h in headings]
    head = "".join(f'<th class="{k}">{escape(h)}</th>' for k, h in zip(kinds, headings, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f'<td class="{k}">{c}</td>' for k, c in zip(kinds, row, strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _verdict(verdict: str | None) -> str:
    return f'<span class="verdict {escape(verdict)}">{escape(verdict.replace("_", " "))}</span>' if verdict else ""


def _summary_cells(row: Row, *names: Json) -> list[str]:
    counts = [f"{row[c]:,}" for c in ("scored_count", "error_count", "skipped_count", "row_count")]
    numbers = [number(row["mean"]), interval(row), number(row["std"]), number(row["median"]), share(row["pass_rate"])]
    return [*map(_text, names), *numbers, _verdict(row["verdict"]), *counts]


def _overview(result: EvaluationResult) -> str:
    counts, measured = result.manifest["counts"], result.manifest["measured"]
    facts = [("State", escape(result.state))]
    if result.verdict:
        facts.append(("Verdict", _verdict(result.verdict)))
    if result.manifest.get("reason"):
        facts.append(("Reason", _text(result.manifest["reason"])))
    facts += [(name.replace("_", " ").capitalize(), f"{n:,}") for name, n in counts.items()]
    facts.append(("Took", f"{measured['seconds']:,.1f} s"))
    for name, table in result.manifest["tables"].items():
        files = ", ".join(table["files"][:3]) + (" …" if len(table["files"]) > 3 else "")
        facts.append((f"Table {name}", f"{table['rows']:,} rows in {_text(files)}"))
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{v}</dd>" for k, v in facts) + "</dl>"


def _criteria(result: EvaluationResult) -> str:
    rows = [
        [_verdict(j["verdict"]), _text(j["metric"]), _text(slice_name(j["slice"])), _text(j["reason"])]
        for j in result.manifest.get("criteria") or ()
    ]
    return _section("Criteria", _table(("Verdict", "Metric", "Slice", "Reason"), rows)) if rows else ""


def _unscored(result: EvaluationResult, summary: Sequence[Row]) -> str:
    rows = [
        [_text(m), _text(code), f"{n:,}"] for m, found in reasons(result, summary).items() for code, n in found[:20]
    ]
    return _section("Not scored", _table(("Metric", "Reason", "Rows"), rows)) if rows else ""


def _slices(summary: Sequence[Row]) -> str:
    rows = [r for r in summary if r["slice"]]
    if not rows:
        return ""
    cells = (_summary_cells(r, slice_name(r["slice"]), r["metric"]) for r in rows[:MOST_SLICES])
    more = f'<p class="soft">{len(rows) - MOST_SLICES:,} more rows are in the summary table.</p>'
    return _section("Slices", _table(("Slice", *_HEADINGS), cells) + (more if len(rows) > MOST_SLICES else ""))


def _failing(result: EvaluationResult, summary: Sequence[Row]) -> str:
    found = failing(result, summary, MOST_FAILING)
    if not found:
        return ""
    note = f'<p class="soft">The first {len(found)}, in the order of the instances table.</p>'
    return _section("Failing instances", note + "\n".join(_instance(row, why) for row, why in found))


def _instance(row: Row, why: Sequence[str]) -> str:
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_pre(value)}</dd>" for name, value in _shown(row))
    trial = f" · trial {row['trial']}" if row["trial"] else ""
    return _details(f"{row['instance_id']}{trial} · {'; '.join(cut(w, 120) for w in why)}", f"<dl>{facts}</dl>")


def _shown(row: Row) -> Iterator[tuple[str, Json]]:
    """The dataset's columns, then what the agent did, then the scores; without what is null or plain."""
    order = sorted(row, key=lambda name: (name in OWN_NAMES, "/" in name))
    for name in order:
        if row[name] is None or name in ("instance_id", "trial") or row[name] == "scored":
            continue
        yield name, row[name] if isinstance(row[name], str) else _json(row[name])


def _errors(result: EvaluationResult) -> str:
    total = result.manifest["tables"].get("errors", {}).get("rows", 0)
    rows = [
        [_text(_place(r)), _text(r["code"]), _text(r["message"]), _pre(r["raw"]) if r["raw"] else ""]
        for r in islice(rows_of(result, "errors"), MOST_ERRORS)
    ]
    if not rows:
        return ""
    note = f'<p class="soft">{len(rows):,} of {total:,}.</p>'
    return _section("Unusable rows and failed calls", note + _table(("Place", "Code", "Message", "Row"), rows))


def _place(row: Row) -> str:
    if row["source"] == "row":
        return f"{row['file']}, line {row['line']}" if row["line"] else str(row["file"])
    return f"{row['instance_id']}" + (f", trial {row['trial']}" if row["trial"] else "")

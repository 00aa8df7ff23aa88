"""Report on the calls that a run has made so far, from its journal."""

from __future__ import annotations

from ...schemas.errors import ConfigError
from ...schemas.run_folder import JUDGES
from ...transforms.journal.run_state import read_run
from ...transforms.journal.summary import JournalSummary, summarize


def calls_report(output: str) -> str:
    """Renders calls, failures, waiting times, tokens and latency of a run, finished or not.

    Raises:
        ConfigError: The folder has no journal.
    """
    folders = read_run(output).journals
    if not folders:
        raise ConfigError(
            f"no journal at {output!r}", where="journal", allowed="the output folder of a run that makes calls"
        )
    return "\n\n".join(f"{_name_callee(folder)}\n{_render(summarize(folder))}" for folder in folders)


def _name_callee(folder: str) -> str:
    return "judges" if folder.rstrip("/").endswith(f"/{JUDGES}") else "agent"


def _render(summary: JournalSummary) -> str:
    failed = {kind: n for kind, n in summary.calls.items() if kind != "ok"}
    classes = ", ".join(f"{kind} {n:,}" for kind, n in sorted(failed.items(), key=lambda c: (-c[1], c[0])))
    rows = [
        ("calls", f"{sum(summary.calls.values()):,}"),
        ("answered", f"{summary.calls.get('ok', 0):,}"),
        ("failed", f"{sum(failed.values()):,}" + (f" ({classes})" if classes else "")),
        ("reusable", f"{summary.settled:,}"),
        ("attempts", f"{summary.attempts:,}" + (f" ({summary.refused:,} rate limited)" if summary.refused else "")),
        ("seconds queued, in backoff", f"{summary.queued_in_seconds:,.1f}, {summary.backoff_in_seconds:,.1f}"),
        ("tokens in, out", f"{summary.input_tokens:,}, {summary.output_tokens:,}"),
        ("latency p50, p90, p99", ", ".join(f"{s:.3f} s" for s in summary.latency.values()) or "–"),
    ]
    rows += [("damaged" if torn.damaged else "unfinished", f"{torn}") for torn in summary.torn]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)

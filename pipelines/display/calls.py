"""What a run has called so far, in words, from its journal."""

from __future__ import annotations

from ...schemas.errors import ConfigError
from ...schemas.run_folder import JUDGES
from ...transforms.journal.summary import JournalSummary, summarize
from ..run.resume import journals


def calls_report(output: str) -> str:
    """Calls, failures, waiting, tokens and latency of a run, finished or not.

    Raises:
        ConfigError: There is no journal in the folder.
    """
    folders = journals(output)
    if not folders:
        raise ConfigError(f"no journal at {output!r}", where="journal", allowed="the output folder of a run that calls")
    return "\n\n".join(f"{_called(folder)}\n{_shown(summarize(folder))}" for folder in folders)


def _called(folder: str) -> str:
    return "judges" if folder.rstrip("/").endswith(f"/{JUDGES}") else "agent"


def _shown(found: JournalSummary) -> str:
    failed = {kind: n for kind, n in found.calls.items() if kind != "ok"}
    classes = ", ".join(f"{kind} {n:,}" for kind, n in sorted(failed.items(), key=lambda c: (-c[1], c[0])))
    rows = [
        ("calls", f"{sum(found.calls.values()):,}"),
        ("answered", f"{found.calls.get('ok', 0):,}"),
        ("failed", f"{sum(failed.values()):,}" + (f" ({classes})" if classes else "")),
        ("not made again", f"{found.settled:,}"),
        ("attempts", f"{found.attempts:,}" + (f" ({found.refused:,} refused for rate)" if found.refused else "")),
        ("seconds queued, in backoff", f"{found.queued_in_seconds:,.1f}, {found.backoff_in_seconds:,.1f}"),
        ("tokens in, out", f"{found.input_tokens:,}, {found.output_tokens:,}"),
        ("latency p50, p90, p99", ", ".join(f"{s:.3f} s" for s in found.latency.values()) or "–"),
    ]
    rows += [("damaged" if torn.damaged else "unfinished", f"{torn}") for torn in found.torn]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)

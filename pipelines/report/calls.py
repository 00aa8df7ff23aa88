"""What a run has called so far, in words, from its journal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from ...schemas.calls import Outcome
from ...schemas.errors import ConfigError
from ..resume import journaled


@dataclass
class CallFigures:
    """Figures of the calls in a journal, each call counted once, by its last outcome that is kept.

    Attributes:
        calls: Calls by class of outcome.
        errors: Failed calls by error type.
        attempts: Attempts over all calls.
        tokens: (input, output) tokens, of the answers that say.
        queued, backoff: Seconds over all calls.
        latencies: Seconds of the attempts that counted.
    """

    calls: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    tokens: tuple[int, int] = (0, 0)
    queued: float = 0.0
    backoff: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Counts one call."""
        self.calls[outcome.kind] += 1
        self.attempts += outcome.attempts
        self.queued += outcome.queued_in_seconds
        self.backoff += outcome.backoff_in_seconds
        if outcome.kind != "ok":
            self.errors[outcome.error_type or outcome.kind] += 1
            return
        if outcome.latency_in_seconds is not None:
            self.latencies.append(outcome.latency_in_seconds)
        usage = outcome.value.get("usage") if isinstance(outcome.value, dict) else None
        if isinstance(usage, dict):
            made = [usage.get(k) for k in ("input_tokens", "output_tokens")]
            counts = [m if isinstance(m, int) else 0 for m in made]
            self.tokens = (self.tokens[0] + counts[0], self.tokens[1] + counts[1])


def calls_report(output: str) -> str:
    """Calls, failures, waiting, tokens and latency of a run, finished or not.

    Raises:
        ConfigError: There is no journal in the folder.
    """
    outcomes = journaled(output)
    if outcomes is None:
        raise ConfigError(f"no journal at {output!r}", where="journal", allowed="the output folder of a run that calls")
    figures = CallFigures()
    for outcome in outcomes:
        figures.add(outcome)
    total, failed = sum(figures.calls.values()), sum(figures.errors.values())
    rows = [
        ("calls", f"{total:,}"),
        ("answered", f"{figures.calls['ok']:,}"),
        ("failed", f"{failed:,}" + _listed(Counter({k: n for k, n in figures.calls.items() if k != "ok"}))),
        ("errors", _listed(figures.errors).strip(" ()") or "none"),
        ("attempts", f"{figures.attempts:,}"),
        ("seconds queued, in backoff", f"{figures.queued:,.1f}, {figures.backoff:,.1f}"),
        ("tokens in, out", f"{figures.tokens[0]:,}, {figures.tokens[1]:,}"),
        ("latency p50, p90, p99", _quantiles(figures.latencies)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def _listed(counts: Counter[str]) -> str:
    shown = ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
    return f" ({shown})" if shown else ""


def _quantiles(latencies: list[float]) -> str:
    if not latencies:
        return "–"
    return ", ".join(f"{v:.3f} s" for v in np.quantile(latencies, (0.5, 0.9, 0.99)))

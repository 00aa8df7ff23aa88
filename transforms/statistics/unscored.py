"""Detects runs that finish but show nothing: without answers, or without scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...schemas.names import PERFORMANCE
from ...schemas.result import Summary
from .criteria import Judgement
from .slices import MetricFacts

_NAMED = 5
_SAYS = "the column <metric>/error of the instances table says why"


def why_unscored(
    summaries: Iterable[Summary],
    facts: Iterable[MetricFacts],
    counts: Mapping[str, int],
    judged: Sequence[Judgement],
) -> str | None:
    """Returns the reason why a run shows nothing, or not what it was made for; `None` if it does.

    It checks, in this order: no row has an answer; no metric other than latency and failure scored a row; a metric
    failed on every row that has an answer. Rows that lack an input of a metric are skipped, not failed.

    A criterion that could be evaluated decides instead, if it is on the metric in question: any metric if no row has an
    answer, any but latency and failure if nothing was scored, and otherwise the metric that failed.

    Args:
        summaries: Rows of the summary table.
        facts: The metrics of the run.
        counts: Rows of the instances table by status.
        judged: The judgements of the criteria.
    """
    decided = {j.metric for j in judged if j.verdict != "NOT_EVALUATED"}
    rows, answered = sum(counts.values()), counts.get("ok", 0)
    if rows and not answered:
        kinds = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
        return None if decided else f"none of {rows} rows has an answer ({kinds}); the errors table says why"
    whole = {s.metric: s for s in summaries if not s.slice}
    names = {one.name: {row.name for row in one.rows()} for one in facts if one.name not in PERFORMANCE}
    found = {name: whole[min(own)] for name, own in names.items()}
    if not rows or not found:
        return None
    if not any(s.scored_count for s in found.values()) and not decided & set().union(*names.values()):
        return f"no row was scored: {_named(found)}; {_SAYS}"
    failed = {name: s for name, s in found.items() if not s.scored_count and s.error_count >= answered}
    failed = {name: s for name, s in failed.items() if not decided & names[name]}
    if not failed:
        return None
    return f"no row was scored by {_named(failed)}; {_SAYS}"


def _named(found: Mapping[str, Summary]) -> str:
    shown = [f"{name} ({s.error_count} errors, {s.skipped_count} skipped)" for name, s in list(found.items())[:_NAMED]]
    return ", ".join(shown) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")

"""Calls and cost of a run's judges, as both reports show them."""

from __future__ import annotations

from collections.abc import Callable

from ...schemas.json import Json
from ...schemas.usage import add_known
from ..run.result import EvaluationResult

HEADINGS = ("Asked for", "Judge", "Model", "Answers", "Failed", "Tokens in", "Tokens out", "Cost")
NUMBERS = HEADINGS[3:]
UNKNOWN = "unknown"
_COUNTS = ("answers", "failed", "input_tokens", "output_tokens")


def spent_cells(result: EvaluationResult) -> list[list[str]]:
    """Builds rows of cells under `HEADINGS`, one for each metric and judge, then their sum if there are several."""
    spent: list[dict[str, Json]] = (result.manifest.get("judging") or {}).get("spent") or []
    if len(spent) > 1:
        sums = {key: add_known(one[key] for one in spent) for key in (*_COUNTS, "cost")}
        spent = [*spent, {"metric": "all", "judge": "", "model": "", **sums}]
    return [
        [
            one["metric"],
            one["judge"],
            one["model"] or "",
            *(format_known(one[key]) for key in _COUNTS),
            format_money(one["cost"]),
        ]
        for one in spent
    ]


def format_known(value: Json, show: Callable[[Json], str] = "{:,}".format) -> str:
    """Formats a count; `UNKNOWN` if it is `None`."""
    return UNKNOWN if value is None else show(value)


def format_money(value: Json) -> str:
    """Formats an amount in the currency of `prices`; small amounts keep two significant digits."""
    return format_known(value, lambda v: f"{v:,.2f}" if v >= 1 or v == 0 else f"{v:.2g}")

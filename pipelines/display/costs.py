"""What a run's judges were asked and what that cost, as both reports show it."""

from __future__ import annotations

from collections.abc import Callable

from ...schemas.json import Json
from ...transforms.judge_costs import total
from ..run.result import EvaluationResult

HEADINGS = ("Asked for", "Judge", "Model", "Answers", "Failed", "Tokens in", "Tokens out", "Cost")
NUMBERS = HEADINGS[3:]
UNKNOWN = "unknown"
_COUNTS = ("answers", "failed", "input_tokens", "output_tokens")


def spent_cells(result: EvaluationResult) -> list[list[str]]:
    """Cells under `HEADINGS`, a row for each metric and judge, with their sum last where there are several."""
    spent: list[dict[str, Json]] = (result.manifest.get("judging") or {}).get("spent") or []
    if len(spent) > 1:
        sums = {key: total(one[key] for one in spent) for key in (*_COUNTS, "cost")}
        spent = [*spent, {"metric": "all", "judge": "", "model": "", **sums}]
    return [
        [one["metric"], one["judge"], one["model"] or "", *(known(one[key]) for key in _COUNTS), money(one["cost"])]
        for one in spent
    ]


def known(value: Json, show: Callable[[Json], str] = "{:,}".format) -> str:
    """A count, or that it is not known."""
    return UNKNOWN if value is None else show(value)


def money(value: Json) -> str:
    """A sum of money in the currency of `prices`, never rounded to nothing."""
    return known(value, lambda v: f"{v:,.2f}" if v >= 1 or v == 0 else f"{v:.2g}")

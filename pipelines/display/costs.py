"""Calls and cost of a run's agent and judges, as both reports show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...schemas.config.evaluation import EvaluationConfig, PriceConfig
from ...schemas.config.list_prices import CURRENCY, find_price
from ...schemas.json import Json
from ...schemas.usage import add_known
from ..run.result import EvaluationResult

HEADINGS = ("Asked for", "Judge", "Model", "Answers", "Failed", "Tokens in", "Tokens out", "Cost")
NUMBERS = HEADINGS[3:]
UNKNOWN = "unknown"
ANSWERS = "the agent's answers"
"""What the agent is asked for, beside the metrics that judges are asked for."""
_COUNTS = ("answers", "failed", "input_tokens", "output_tokens")


def spent_cells(result: EvaluationResult) -> list[list[str]]:
    """Builds rows of cells under `HEADINGS`: the agent's, by model, those of each metric and judge, then their sum.

    If the configuration has no prices, costs are by the list prices of common models, and say so.
    """
    manifest = result.manifest
    config: Mapping[str, Json] = manifest["config"]
    own = (manifest.get("answering") or {}).get("spent") or []
    spent: list[dict[str, Json]] = [{"metric": ANSWERS, "judge": "", **one} for one in own]
    spent += (manifest.get("judging") or {}).get("spent") or []
    listed = {one["model"]: price for one in spent if (price := _list_price(one, config)) is not None}
    spent = [_add_list_cost(one, listed, config) for one in spent]
    if len(spent) > 1:
        sums = {key: add_known(one[key] for one in spent) for key in (*_COUNTS, "cost")}
        spent = [*spent, {"metric": "all", "judge": "", "model": "", **sums}]
    note = describe_list_prices(listed) if listed else ""
    currency = CURRENCY if listed else config.get("currency") or ""
    return [
        [
            one["metric"],
            one["judge"],
            one["model"] or "",
            *(format_known(one[key]) for key in _COUNTS),
            format_money(one["cost"], currency) + (f" ({note})" if note and one["cost"] else ""),
        ]
        for one in spent
    ]


def name_currency(config: EvaluationConfig) -> str:
    """Names the currency of a run's prices; without any, that of the list prices, and that they are meant."""
    return config.currency if config.prices else f"{CURRENCY} at list prices"


def describe_list_prices(prices: Mapping[str, PriceConfig]) -> str:
    """Returns "list price of 2026-03-01", with all dates of the prices."""
    dates = sorted({str(price.date) for price in prices.values()})
    return f"list price of {' and '.join(dates)}"


def _list_price(one: Mapping[str, Json], config: Mapping[str, Json]) -> PriceConfig | None:
    unpriced = one["cost"] is None and not config.get("prices")
    return find_price(one["model"]) if unpriced and one["model"] else None


def _add_list_cost(
    one: dict[str, Json], listed: Mapping[str, PriceConfig], config: Mapping[str, Json]
) -> dict[str, Json]:
    price = listed.get(one["model"])
    if one["cost"] is not None or price is None or None in (one["input_tokens"], one["output_tokens"]):
        return one
    section = (config.get("judges") or {}).get(one["judge"]) if one["judge"] else config.get("agent")
    batched = (section or {}).get("mode", "live") != "live"
    return {**one, "cost": price.cost(one["input_tokens"], one["output_tokens"], batched)}


def format_known(value: Json, show: Callable[[Json], str] = "{:,}".format) -> str:
    """Formats a count; `UNKNOWN` if it is `None`."""
    return UNKNOWN if value is None else show(value)


def format_money(value: Json, currency: str = "") -> str:
    """Formats an amount and its currency; small amounts keep two significant digits."""
    end = f" {currency}" if currency else ""
    return format_known(value, lambda v: (f"{v:,.2f}" if v >= 1 or v == 0 else f"{v:.2g}") + end)

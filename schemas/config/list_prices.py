"""List prices of common models, for estimates of runs whose configuration has no `prices`.

They are the providers' public prices at a date, in `CURRENCY` for 1,000,000 tokens, of ordinary calls with short
prompts. Prices change, and contracts differ, so no table and no verdict is made from them: only displays use them, and
name them as list prices of that day.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping

from .evaluation import PriceConfig

CURRENCY = "USD"
PRICES: Mapping[datetime.date, Mapping[str, tuple[float, float]]] = {
    datetime.date(2026, 3, 1): {
        "gemini-2.5-flash": (0.30, 2.50),
        "gemini-2.5-flash-lite": (0.10, 0.40),
        "gemini-2.5-pro": (1.25, 10.0),
        "gpt-4.1": (2.0, 8.0),
        "gpt-4.1-mini": (0.40, 1.60),
        "gpt-4.1-nano": (0.10, 0.40),
        "gpt-4o": (2.50, 10.0),
        "gpt-4o-mini": (0.15, 0.60),
        "gpt-5": (1.25, 10.0),
        "gpt-5-mini": (0.25, 2.0),
        "gpt-5-nano": (0.05, 0.40),
        "gpt-5.2": (1.75, 14.0),
        "gpt-5.4": (2.50, 15.0),
        "gpt-5.4-mini": (0.75, 4.50),
    },
    datetime.date(2026, 11, 1): {
        "claude-haiku-4-5": (1.0, 5.0),
        "claude-opus-4-5": (5.0, 25.0),
        "claude-opus-5": (5.0, 25.0),
        "claude-opus-5-5": (4.0, 20.0),
        "claude-sonnet-4-5": (3.0, 15.0),
        "claude-sonnet-5": (2.0, 10.0),
        "claude-sonnet-5-5": (2.0, 10.0),
    },
}
"""(input, output) price by date and model."""
BATCH_SHARE = 0.5
"""Share of a price that these providers charge for a batch."""
_VERSION = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2}|\d{3}|latest|default)$")


def choose_price(model: str, prices: Mapping[str, PriceConfig]) -> PriceConfig | None:
    """Finds the price of a model in the prices of a configuration, or its list price if the configuration has none."""
    return prices.get(model) if prices else find_price(model)


def find_price(model: str) -> PriceConfig | None:
    """Finds the list price of a model, `None` if it is not listed.

    Args:
        model: Its name, with or without a provider's prefix ("openai/gpt-5") and a version ("gpt-5-2025-08-07").
    """
    name = _VERSION.sub("", model.rpartition("/")[2])
    for date, prices in PRICES.items():
        if name in prices:
            given, made = prices[name]
            batch = {"batch_input": given * BATCH_SHARE, "batch_output": made * BATCH_SHARE}
            return PriceConfig(input=given, output=made, **batch, date=date)
    return None

"""What the answers of a run cost while it runs; the tables and the manifest add up their costs by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...schemas.calls import Call, Outcome
from ...schemas.config.evaluation import PriceConfig
from ...schemas.config.list_prices import choose_price
from ...schemas.usage import known_tokens, usage_in

NANO = 10**9
"""Counted in an amount of one."""


@dataclass(frozen=True)
class Prices:
    """Prices of the calls of a run.

    Attributes:
        models: Model of each endpoint whose answers name none.
        prices: Price of each model; empty: the list prices of common models.
    """

    models: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, PriceConfig] = field(default_factory=dict)

    def add_up(self, calls: Iterable[Call], outcomes: Iterable[Outcome]) -> int:
        """Returns what answers cost that no journal had, in billionths; unknown tokens and prices count as none."""
        pairs = zip(calls, outcomes, strict=True)
        return round(NANO * sum(self._cost(call, outcome) for call, outcome in pairs if not outcome.replayed))

    def _cost(self, call: Call, outcome: Outcome) -> float:
        given, made = known_tokens(outcome.value)
        if not given and not made:
            return 0.0
        used = usage_in(outcome.value)
        model = (used and used.model) or self.models.get(call.endpoint)
        price = choose_price(model, self.prices) if model else None
        return 0.0 if price is None else price.cost(given, made) or 0.0

"""What judges cost: questions and tokens of each metric and judge, summed over the run, and their price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, TypeAlias

import apache_beam as beam

from ..schemas.config import PriceConfig
from ..schemas.instance import Json
from ..schemas.result import ScoredBatch, Tally

Spent: TypeAlias = tuple[tuple[str, str], tuple[int, int, int, int, int, int]]
"""((metric, judge), the numbers of its tally)."""


@dataclass
class SumSpending(beam.PTransform):
    """PCollection[ScoredBatch] -> PCollection[Spent], one for each metric and judge."""

    def expand(self, input_or_inputs: Any) -> Any:
        parts = input_or_inputs | "Spent" >> beam.FlatMap(_parts).with_output_types(Spent)
        return parts | "Sum" >> beam.CombinePerKey(_summed).with_output_types(Spent)


def _parts(batch: ScoredBatch) -> Iterator[Spent]:
    for key, tally in batch.spent.items():
        yield key, astuple(tally)


def _summed(tallies: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*tallies, strict=True))) or astuple(Tally())


def cost_of(tally: Tally, price: PriceConfig | None) -> float | None:
    """Price of the answers, `None` where the price, or the tokens of an answer, are not known.

    Args:
        tally: Tokens.
        price: For 1,000,000 tokens each.
    """
    if price is None or tally.unknown:
        return None
    return (tally.input_tokens * price.input + tally.output_tokens * price.output) / 1e6


def spending(found: Iterable[Spent], models: Mapping[str, str], prices: Mapping[str, PriceConfig]) -> list[Json]:
    """What the manifest says of each metric and judge, in their order.

    Args:
        found: What was spent.
        models: Model of each judge.
        prices: Price of each model.
    """
    shown = []
    for (metric, judge), numbers in sorted(found):
        tally = Tally(*numbers)
        price = prices.get(models.get(judge, ""))
        known = not tally.unknown
        shown.append(
            {
                "metric": metric,
                "judge": judge,
                "model": models.get(judge),
                "answers": tally.calls,
                "failed": tally.failed,
                "not_asked": tally.open,
                "input_tokens": tally.input_tokens if known else None,
                "output_tokens": tally.output_tokens if known else None,
                "cost": cost_of(tally, price),
                "price_date": price.date.isoformat() if price else None,
            }
        )
    return shown

"""The costs of agents and judges: tokens of each model, metric and judge, summed over the run, and their price.

Tokens, and whether a judge's answer came by a batch, are stored with the answers; so the costs follow from the journal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, TypeAlias

import apache_beam as beam

from ..schemas.config.evaluation import PriceConfig
from ..schemas.instance import Invocation
from ..schemas.json import Json
from ..schemas.result import ScoredBatch, Summary, Tally
from ..schemas.usage import SIMULATED, add_known
from .statistics.slices import MetricFacts

SIMULATOR = "agent.simulator"
"""Name of a simulated user's model among the judges."""
_SIMULATOR = {"calls", "unknown", "input_tokens", "output_tokens"}
LIVE, BATCH = "live", "batch"
"""Ways in which answers are obtained; their prices differ."""
AGENT = ""
"""Stands for the metric where the agent's own answers are counted, and its model for the judge."""
Numbers: TypeAlias = tuple[int, int, int, int, int, int]
"""The numbers of a tally."""
Spent: TypeAlias = tuple[tuple[str, str, str], Numbers]
"""((metric, judge, how its answers came), the numbers of its tally)."""


@dataclass
class SumSpending(beam.PTransform):
    """PCollection[ScoredBatch] -> PCollection[Spent], one for each metric, judge and way its answers came.

    The answers of the agent are one more, for each model that they name ("" for none).
    """

    def expand(self, input_or_inputs: beam.PCollection[ScoredBatch]) -> beam.PCollection[Spent]:
        parts = input_or_inputs | "Spent" >> beam.FlatMap(_list_spending).with_output_types(Spent)
        total = beam.CombineFn.from_callable(_sum_tallies).with_output_types(Numbers)
        return parts | "Sum" >> beam.CombinePerKey(total).with_output_types(Spent)  # type: ignore[return-value]  (`|` gives a PValue)


def _list_spending(batch: ScoredBatch) -> Iterator[Spent]:
    for key, tally in batch.spent.items():
        yield key, astuple(tally)
    own: defaultdict[str, list[Invocation]] = defaultdict(list)
    for example in batch.examples:
        call = example.invocation
        own[(call.usage and call.usage.model) or ""].append(call)
        used: Any = call.extra and call.extra.get(SIMULATED)
        if isinstance(used, Mapping) and used.keys() == _SIMULATOR:
            tokens = used["input_tokens"], used["output_tokens"]
            yield ("agent", SIMULATOR, LIVE), astuple(Tally(used["calls"], 0, used["unknown"], *tokens))
    for model, calls in own.items():
        yield (AGENT, model, LIVE), astuple(_tally(calls))


def _tally(calls: Sequence[Invocation]) -> Tally:
    """Counts answers, recorded or given; the tokens of failed calls are unknown, and not counted as such."""
    used = [call.usage for call in calls if call.answered]
    known = [(u.input_tokens, u.output_tokens) for u in used if u and None not in (u.input_tokens, u.output_tokens)]
    failed = sum(call.status == "failed" for call in calls)
    return Tally(len(used), failed, len(used) - len(known), *map(sum, zip(*known, strict=True)))


def _sum_tallies(tallies: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*tallies, strict=True))) or astuple(Tally())


def cost_of(tally: Tally, price: PriceConfig | None, way: str = LIVE) -> float | None:
    """Returns the price of answers; `None` if the price or the tokens of an answer are unknown.

    Args:
        tally: Tokens of the answers.
        price: Prices for 1,000,000 input and output tokens.
        way: `LIVE` or `BATCH`.
    """
    if price is None or tally.unknown:
        return None
    return price.cost(tally.input_tokens, tally.output_tokens, way == BATCH)


def spending(
    found: Iterable[Spent], models: Mapping[str, str], prices: Mapping[str, PriceConfig], free: Collection[str] = ()
) -> list[Json]:
    """Builds the entries of the manifest, one for each metric and judge, sorted by them.

    Args:
        found: The tallies of the run; those of the agent are left out.
        models: Model of each judge.
        prices: Price of each model.
        free: Judges whose answers were paid for by another run.
    """
    ways: dict[tuple[str, str], dict[str, Tally]] = {}
    for (metric, judge, way), numbers in sorted(found):
        if metric != AGENT:
            ways.setdefault((metric, judge), {})[way] = Tally(*numbers)
    shown = []
    for (metric, judge), tallies in ways.items():
        tally = sum(tallies.values(), Tally())
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
                "cost": 0.0 if judge in free else add_known(cost_of(t, price, way) for way, t in tallies.items()),
                "price_date": _day(price),
            }
        )
    return shown


def agent_spending(
    found: Iterable[Spent], model: str | None, prices: Mapping[str, PriceConfig], way: str
) -> list[Json]:
    """Builds the entries of the manifest for the agent's answers, one for each model, sorted by it.

    The list is empty if no answer reports tokens and no model is known, so there is nothing to price.

    Args:
        found: The tallies of the run.
        model: Model of the answers that name none.
        prices: Price of each model.
        way: How the answers came: `LIVE` or `BATCH`.
    """
    tallies: dict[str, Tally] = {}
    for (metric, named, _), numbers in sorted(found):
        if metric == AGENT:
            tallies[named or model or ""] = tallies.get(named or model or "", Tally()) + Tally(*numbers)
    if not any(name or tally.input_tokens or tally.output_tokens for name, tally in tallies.items()):
        return []
    return [
        {
            "model": name or None,
            "answers": tally.calls,
            "failed": tally.failed,
            "input_tokens": None if tally.unknown else tally.input_tokens,
            "output_tokens": None if tally.unknown else tally.output_tokens,
            "cost": cost_of(tally, prices.get(name), way) if tally.calls else 0.0,
            "price_date": _day(prices.get(name)),
        }
        for name, tally in sorted(tallies.items())
    ]


def _day(price: PriceConfig | None) -> str | None:
    return price.date.isoformat() if price is not None and price.date is not None else None


def add_costs(
    summaries: Iterable[Summary], facts: Iterable[MetricFacts], shown: Iterable[Mapping[str, Json]]
) -> list[Summary]:
    """Adds the costs of judges to the summary rows: for each metric to its first row over the whole dataset.

    Args:
        summaries: Rows of the summary table.
        facts: The metrics.
        shown: The result of `spending`.
    """
    asked: dict[str, list[Mapping[str, Json]]] = {}
    for one in shown:
        asked.setdefault(one["metric"], []).append(one)
    first = {fact.rows()[0].name: asked[fact.name] for fact in facts if fact.name in asked}
    return [_add_cost(s, first[s.metric]) if not s.slice and s.metric in first else s for s in summaries]


def _add_cost(summary: Summary, asked: Sequence[Mapping[str, Json]]) -> Summary:
    return replace(
        summary,
        judge_calls=sum(one["answers"] + one["failed"] for one in asked),
        judge_input_tokens=add_known(one["input_tokens"] for one in asked),
        judge_output_tokens=add_known(one["output_tokens"] for one in asked),
        judge_cost=add_known(one["cost"] for one in asked),
        judges=[{k: v for k, v in one.items() if k != "metric"} for one in asked],
    )

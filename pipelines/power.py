"""From a finished run: what a run of its size can show, and what to buy next."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from ..schemas.config.evaluation import PriceConfig
from ..schemas.errors import ConfigError, name_error
from ..schemas.json import Json
from ..schemas.names import PERFORMANCE
from ..transforms.statistics.components import (
    Components,
    Prices,
    detectable,
    disagreement,
    estimate_components,
    purchases,
    rows_needed,
)
from .run.result import EvaluationResult, require_finished
from .run.tables import columns_of_instances, measured_of_instances, rows_of


@dataclass(frozen=True)
class MetricPlan:
    """What the scores of a metric say of a next run.

    Attributes:
        metric: Its name.
        components: Its variance components; `None` if fewer than two rows have a score.
        gain_same_rows: Smallest gain over another run with the same rows that is shown with a probability of 80 %;
            `None` if rows have one trial.
        gain_other_rows: The same if the other run has other rows.
        rows_same, rows_other: Rows that show `margin`; `None` without a margin.
        bought: By how many per cent the variance falls for 1 % more money spent on rows, trials or votes.
        best: The one of them that lowers it most.
    """

    metric: str
    components: Components | None
    gain_same_rows: float | None = None
    gain_other_rows: float | None = None
    rows_same: int | None = None
    rows_other: int | None = None
    bought: Mapping[str, float] | None = None
    best: str | None = None


@dataclass(frozen=True)
class NextRun:
    """What to plan for a next run.

    Attributes:
        output: Folder of the finished run.
        metrics: One entry for each metric.
        margin: The difference that matters; `None` if it was not given.
        alpha: Level of each test: 1 - confidence, divided by the number of metrics.
        notes: What is not known.
    """

    output: str
    metrics: tuple[MetricPlan, ...]
    margin: float | None
    alpha: float
    notes: tuple[str, ...]


def plan_next(
    folder: str | os.PathLike[str],
    *,
    metrics: Sequence[str] = (),
    margin: float | None = None,
    confidence: float = 0.95,
    row_price: float = 0.0,
) -> NextRun:
    """Plans a next run from a finished one, without any call.

    Args:
        folder: Folder of the finished run.
        metrics: Metrics that are to decide; default: all that are not measured.
        margin: The difference that matters, in the unit of the metrics.
        confidence: Level of the comparison, in (0, 1).
        row_price: What another row costs beside its calls (someone has to write it), in the currency of `prices`.

    Raises:
        ConfigError: There is no finished run, a metric does not exist, or a number is beyond its bounds.
    """
    for where, value, valid, allowed in (
        ("margin", margin, margin is None or 0 < margin < math.inf, "a number above 0"),
        ("confidence", confidence, 0 < confidence < 1, "a number between 0 and 1"),
        ("row_price", row_price, 0 <= row_price < math.inf, "a number, 0 or more"),
    ):
        if not valid:
            raise ConfigError(f"found {value}", where=where, allowed=allowed)
    run = EvaluationResult.load(folder)
    require_finished(run, "plan")
    names = _find_metrics(run, metrics)
    alpha = (1 - confidence) / max(len(names), 1)
    scores, usage = _read(run, names)
    prices, notes = _find_prices(run, names, usage, row_price)
    found = [_plan_metric(name, scores[name], prices[name], margin, alpha) for name in names]
    if any(one.components and one.components.trial is None for one in found):
        notes.append("rows have one trial: with --trials 2 a run also tells what the same rows can show")
    return NextRun(run.output, tuple(found), margin, alpha, tuple(notes))


def _plan_metric(name: str, found: Components | None, prices: Prices, margin: float | None, alpha: float) -> MetricPlan:
    if found is None:
        return MetricPlan(name, None)
    same, other = found.gain_deviation(paired=True), found.gain_deviation(paired=False)
    assert other is not None
    bought = purchases(found, prices)
    return MetricPlan(
        name,
        found,
        None if same is None else detectable(same, found.rows, alpha),
        detectable(other, found.rows, alpha),
        None if same is None or margin is None else rows_needed(same, margin, alpha),
        None if margin is None else rows_needed(other, margin, alpha),
        bought,
        max(bought, key=lambda name: bought[name]),
    )


def _find_metrics(run: EvaluationResult, asked: Sequence[str]) -> list[str]:
    known, measured = columns_of_instances(run), measured_of_instances(run)
    usual = [name.removesuffix("/score") for name in known if name.endswith("/score") and name not in measured]
    every = [name.removesuffix("/score") for name in known if name.endswith("/score") or name in PERFORMANCE]
    for name in asked:
        if name not in every:
            raise name_error(f"{run.output!r} has no metric {name!r}", name, every, "metrics")
    return list(asked) or usual


def _read(run: EvaluationResult, names: Sequence[str]) -> tuple[dict[str, Components | None], tuple[float, float]]:
    """Returns the components of each metric, and the mean input and output tokens of the agent's calls."""
    panels = _count_votes(run)
    trials: dict[str, list[list[float]]] = {name: [] for name in names}
    vary: dict[str, list[float]] = {name: [] for name in names}
    tokens, calls = [0, 0], 0
    places = {name: name if name in PERFORMANCE else f"{name}/score" for name in names}
    sure = {name: f"{name}/confidence" for name in names if f"{name}/confidence" in columns_of_instances(run)}
    columns = ["instance_id", "input_tokens", "output_tokens", *places.values(), *sure.values()]
    for _, rows in groupby(rows_of(run, "instances", columns), key=itemgetter("instance_id")):
        same = list(rows)
        for row in same:
            if row["input_tokens"] is not None and row["output_tokens"] is not None:
                tokens = [tokens[0] + row["input_tokens"], tokens[1] + row["output_tokens"]]
                calls += 1
        for name, place in places.items():
            scores = [float(row[place]) for row in same if row[place] is not None and math.isfinite(row[place])]
            if scores:
                trials[name].append(scores)
            shares = [row[sure[name]] for row in same if name in sure and row[sure[name]] is not None]
            vary[name] += [v for s in shares if (v := disagreement(s, panels.get(name, 1))) is not None]
    found = {}
    for name in names:
        binary = all(score in (0.0, 1.0) for scores in trials[name] for score in scores)
        vote = math.fsum(vary[name]) / len(vary[name]) if binary and vary[name] else None
        found[name] = estimate_components(trials[name], panels.get(name, 1), vote)
    return found, (tokens[0] / max(calls, 1), tokens[1] / max(calls, 1))


def _count_votes(run: EvaluationResult) -> dict[str, int]:
    """Returns the votes behind each score of the metrics that ask judges."""
    judged = (run.manifest.get("judging") or {}).get("prompts") or {}
    found = {}
    for one in run.manifest["config"]["metrics"]:
        judge = one.get("judge")
        panel = len(judge) if isinstance(judge, list) else 1
        found[one["name"]] = panel * int(one.get("samples") or 1)
    return {name: found.get(name, 1) for name in judged}


def _find_prices(
    run: EvaluationResult, names: Sequence[str], usage: tuple[float, float], row_price: float
) -> tuple[dict[str, Prices], list[str]]:
    """Returns the prices by metric: a call of the agent is shared by all, a vote is the metric's own."""
    config = run.manifest["config"]
    notes: list[str] = []
    agent = config["agent"]
    price = (config.get("prices") or {}).get(str(agent.get("model")))
    call = PriceConfig.model_validate(price).cost(*usage) if price is not None else None
    if call is None and agent.get("type") != "recorded":
        notes.append("calls of the agent have no price: prices has none for its model, or it reports no tokens")
    votes: dict[str, float] = {}
    for one in (run.manifest.get("judging") or {}).get("spent") or ():
        if one["metric"] in names and one["cost"] is not None and one["answers"]:
            votes[one["metric"]] = votes.get(one["metric"], 0.0) + _each(one)
        elif one["metric"] in names:
            notes.append(f"votes of {one['metric']} have no price")
    return {name: Prices(row_price, call or 0.0, votes.get(name, 0.0)) for name in names}, list(dict.fromkeys(notes))


def _each(spent: Mapping[str, Json]) -> float:
    return spent["cost"] / spent["answers"]

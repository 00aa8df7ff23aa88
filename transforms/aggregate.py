"""The steps of the summary table: partial aggregates of batches, merged exactly into a row per slice and metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

import apache_beam as beam
import orjson
from apache_beam import coders
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from ..schemas.config.evaluation import CompatConfig, StatisticsConfig
from ..schemas.result import ScoredBatch, SliceKey, Summary
from .runtime.merging import Merge
from .statistics.accumulators import Accumulator, Distribution
from .statistics.bootstrap import Pool
from .statistics.bootstrap import interval as resampled_interval
from .statistics.criteria import intervals_of, level_key
from .statistics.instances import pass_partials
from .statistics.intervals import about_mean, clipped, normal_quantile, normal_share, t_quantile, wilson, within
from .statistics.labelled import correct
from .statistics.order_statistics import quantile_intervals
from .statistics.slices import Labels, MetricFacts, Partials, SliceValues, distinct_slices, slice_order
from .statistics.validity import describe_validity, validity_json


@dataclass
class SummarizeScores(beam.PTransform):
    """PCollection[ScoredBatch] -> PCollection[Summary], for each slice and metric; unordered, see `sort_summaries`.

    Attributes:
        facts: The metrics, in the order they were given.
        slices: Column lists to break the summary down by; the whole dataset is always there.
        statistics, compat: Settings of the statistics.
        labels: What people say of some rows.
        levels: Confidences of further intervals, by metric.
    """

    facts: tuple[MetricFacts, ...]
    slices: tuple[tuple[str, ...], ...] = ()
    statistics: StatisticsConfig = StatisticsConfig()
    compat: CompatConfig = CompatConfig()
    labels: Labels | None = None
    levels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def expand(self, scored: beam.PCollection[ScoredBatch]) -> beam.PCollection[Summary]:
        """Wires the steps: partials, a lifted combine, statistics."""
        return (  # type: ignore[return-value]  (`|` gives a PValue)
            scored
            | "Partials" >> beam.ParDo(_Count(self)).with_output_types(tuple[SliceKey, Accumulator])
            | "Merge" >> beam.CombinePerKey(Merge(Accumulator))
            | "Statistics" >> beam.MapTuple(_Summarize(self)).with_output_types(Summary)
        )


class _Count(beam.DoFn):
    """Counts the scores of a bundle's batches together."""

    def __init__(self, step: SummarizeScores) -> None:
        self.slices, self.labels = distinct_slices(step.slices), step.labels
        self.of_rows, self.of_instances = ([f for f in step.facts if bool(f.passes) == one] for one in (False, True))
        self.statistics, self.all_rows = step.statistics, step.compat.win_rate_all_rows
        self.resample = step.statistics.ci == "bootstrap"

    def start_bundle(self) -> None:
        given = self.statistics
        options = given.on_failure, self.all_rows, self.labels, self.resample, given.cluster
        self._partials = Partials(self.slices, self.of_rows, *options)

    def process(self, element: ScoredBatch) -> Iterator[tuple[SliceKey, Accumulator]]:
        yield from self._partials.add(element)
        yield from pass_partials(
            element, self.slices, self.of_instances, resample=self.resample, cluster=self.statistics.cluster
        )

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for part in self._partials.take():
            yield WindowedValue(part, 0, (GlobalWindow(),))


def summarize(key: SliceKey, rows: Accumulator, facts: MetricFacts, statistics: StatisticsConfig) -> Summary:
    """Computes the summary row of an accumulator.

    Statistics are of the values that count: those of scored rows and, if `on_failure` is "worst", of rows whose agent
    failed. `worst_case_mean` and `best_case_mean` add the rows without a value at the ends of the metric's range,
    except rows to which the metric does not apply.
    """
    if facts.of_sums:
        return _summarize_sums(key, rows, facts.pooled[1] if facts.pooled else None, statistics)
    values = rows.distribution()
    error, low, high, method = _resampled(rows, statistics) or _interval(values, facts, statistics)
    return Summary(
        slice=key.slice,
        metric=key.metric,
        row_count=rows.rows,
        scored_count=rows.scored,
        error_count=rows.errors,
        skipped_count=rows.skipped + rows.inapplicable,
        coverage=rows.scored / rows.rows if rows.rows else None,
        mean=values.mean(),
        std=values.std(),
        se=error,
        ci_low=low,
        ci_high=high,
        ci_method=method,
        min=values.low,
        max=values.high,
        median=values.quantile(1, 2),
        p90=values.quantile(9, 10),
        p95=values.quantile(19, 20),
        p99=values.quantile(99, 100),
        mode=values.mode(),
        variance=values.variance(),
        **_describe_rows(rows, values, facts, statistics.confidence),
        pass_rate=rows.passes / values.n if facts.threshold and values.n else None,
        threshold=facts.threshold.value if facts.threshold else None,
        **(_judge_by_labels(rows, values, facts, statistics.confidence) if facts.labelled else {}),
    )


def _describe_rows(rows: Accumulator, values: Distribution, facts: MetricFacts, confidence: float) -> dict[str, Any]:
    """Returns the fields of a summary on rows without a value, on dependent rows and on intervals of quantiles."""
    unknown = max(rows.rows - values.n - rows.inapplicable, 0)
    return {
        "worst_case_mean": None if facts.worst is None else values.mean(unknown, facts.worst),
        "best_case_mean": None if facts.best is None else values.mean(unknown, facts.best),
        "n_clusters": values.clusters.number if values.clusters else values.n,
        "design_effect": values.design_effect(),
        **quantile_intervals(values, _ends(values, facts, _shares(values)), confidence),
    }


def _summarize_sums(key: SliceKey, rows: Accumulator, pool: Pool | None, statistics: StatisticsConfig) -> Summary:
    """Computes the summary row of a statistic of sums."""
    values = None if rows.replicates is None else rows.replicates.values(pool)
    found = None if values is None or math.isnan(values[-1]) else float(values[-1])
    error, low, high, method = _resampled(rows, statistics, pool) or (None, None, None, None)
    coverage = rows.scored / rows.rows if rows.rows else None
    counts = rows.rows, rows.scored, rows.errors, rows.skipped
    return Summary(*key, *counts, coverage, found, se=error, ci_low=low, ci_high=high, ci_method=method)


def _resampled(
    rows: Accumulator, statistics: StatisticsConfig, pool: Pool | None = None
) -> tuple[float, float, float, str] | None:
    """Returns (standard error, low end, high end, method) by the bootstrap; `None` if all replicates are equal."""
    found = resampled_interval(rows.replicates, statistics.confidence, pool)
    return (*found, "bootstrap") if found and found[0] else None


def _judge_by_labels(rows: Accumulator, values: Distribution, facts: MetricFacts, confidence: float) -> dict[str, Any]:
    """Returns the fields of a summary that people's labels give."""
    shares = _shares(values)
    found = correct(rows.labelled, values, confidence, _ends(values, facts, facts.binary))
    passed = rows.passes / values.n if facts.threshold and values.n else values.mean() if shares else None
    statistics, reasons = describe_validity(rows.labelled, passed, values.n, facts.threshold, confidence)
    why = [f"corrected_mean: {found.reason}"] if found.reason else []
    return {
        "corrected_mean": found.mean,
        "corrected_ci_low": found.low,
        "corrected_ci_high": found.high,
        "lambda_": found.power,
        "labels": found.labels,
        "validity": validity_json(found.labels, statistics, [*why, *reasons]),
    }


def sort_summaries(
    summaries: Iterable[Summary],
    facts: Iterable[MetricFacts],
    slices: Iterable[Iterable[str]] = (),
    statistics: StatisticsConfig | None = None,
) -> list[Summary]:
    """Sorts the rows of the summary table, and adds missing metrics of the whole dataset.

    The whole dataset comes first, then the slices as configured, each by its values (missing ones first, then numbers);
    metrics keep the order in which they were given. A dataset without rows has a row of zero rows for each metric.
    """
    metrics = {row.name: row for one in facts for row in one.rows()}
    ranks = {name: i for i, name in enumerate(metrics)}
    places = {columns: i for i, columns in enumerate(distinct_slices(map(tuple, slices)))}
    found = {SliceKey(s.slice, s.metric): s for s in summaries}
    for name, row in metrics.items():
        key = SliceKey((), name)
        if key not in found:
            found[key] = summarize(key, Accumulator(), row, statistics or StatisticsConfig())

    def place(s: Summary) -> tuple:
        columns = tuple(column for column, _ in s.slice)
        return places[columns], [slice_order(value) for _, value in s.slice], ranks[s.metric]

    return sorted(found.values(), key=place)


class _Summarize:
    """Calls `summarize` with the facts of the key's metric; a callable that Beam can pickle."""

    def __init__(self, step: SummarizeScores) -> None:
        self.facts = {row.name: row for one in step.facts for row in one.rows()}
        self.statistics, self.levels = step.statistics, dict(step.levels)

    def __call__(self, key: SliceKey, rows: Accumulator) -> Summary:
        facts, statistics = self.facts[key.metric], self.statistics
        found = summarize(key, rows, facts, statistics)
        for level in self.levels.get(key.metric, ()):
            again = summarize(key, rows, facts, statistics.model_copy(update={"confidence": level}))
            found.intervals[level_key(level)] = intervals_of(again)
        return found


def _interval(
    values: Distribution, facts: MetricFacts, statistics: StatisticsConfig
) -> tuple[float | None, float | None, float | None, str | None]:
    """Returns (standard error, low end, high end, method) of the mean's interval."""
    mean, level = values.mean(), statistics.confidence
    if statistics.ci == "normal":
        error, method, found = values.standard_error(), "normal", _normal(values, facts, level)
    else:
        error, method = values.clustered_error(), "cluster" if values.clusters else None
        shares = _shares(values)
        ends = _ends(values, facts, shares)
        units = values.clusters.number if values.clusters else values.n
        found = None
        alone = values.clusters is None or values.clusters.are_copies()
        if mean is not None and ends == (0.0, 1.0) and shares and alone:
            successes = (values.total.numerator >> values.total.exponent) * units // values.n
            method, found = method or "wilson", wilson(successes, units, level)
        elif mean is not None and ends is not None:
            method, effective = method or "wilson", _effective(mean, error, values, ends, shares)
            # If nothing is estimated, no degree of freedom is used.
            estimated = values.clusters is not None or bool(error)
            quantile = t_quantile(level, units - 1) if estimated and units > 1 else normal_quantile(level)
            found = ends if estimated and units == 1 else within(mean, effective, units, ends, quantile)
        elif mean is not None and error is not None:
            method, found = method or "t", about_mean(mean, error, t_quantile(level, units - 1))
    return (error, *found, method) if found else (error, None, None, None)


def _normal(values: Distribution, facts: MetricFacts, level: float) -> tuple[float, float] | None:
    """Returns the normal approximation as if all rows were independent, clipped to the metric's range if it has one."""
    mean, error = values.mean(), values.standard_error()
    if mean is not None and facts.binary and _shares(values):
        return normal_share(values.total.numerator >> values.total.exponent, values.n, level)
    found = None if mean is None or error is None else about_mean(mean, error, normal_quantile(level))
    return found and clipped(found, _ends(values, facts))


def _shares(values: Distribution) -> bool:
    return all(value in (0.0, 1.0) for value, _ in values.counted)


def _ends(values: Distribution, facts: MetricFacts, shares: bool = False) -> tuple[float, float] | None:
    """Returns the bounds of the mean: the metric's range, or 0 and 1 if all scores are 0 or 1.

    If the scores of a user's metric leave the range that it declares, there are no bounds.
    """
    ends = facts.range or ((0.0, 1.0) if shares else None)
    if ends is None or values.low is None or values.high is None or not ends[0] <= values.low <= values.high <= ends[1]:
        return None
    return ends if ends[0] < ends[1] else None


def _effective(
    mean: float, error: float | None, values: Distribution, ends: tuple[float, float], shares: bool
) -> float | None:
    """Returns the number of independent rows of zeros and ones with the same standard error; `None` if it is unknown.

    For independent rows it is at least their number. For clusters of zeros and ones it is at most the number of their
    rows: clusters with equal shares would vary less than chance allows. Source: Kish (1965), Survey Sampling, 8.2.
    """
    low, high = ends
    share = (mean - low) / (high - low)
    most = float(values.n) if shares and values.clusters else math.inf
    if not error:
        return most if 0 < share < 1 and most < math.inf else None
    ratio = (high - low) / error
    return min(max(1 + share * (1 - share) * ratio * ratio, 1.0 if values.clusters else values.n), most)


class SliceKeyCoder(coders.Coder):
    """Encodes a SliceKey as the JSON of its parts; equal keys have equal bytes."""

    def encode(self, value: SliceKey) -> bytes:
        return orjson.dumps([value.slice, value.metric])

    def decode(self, encoded: bytes) -> SliceKey:
        pairs, metric = orjson.loads(encoded)
        return SliceKey(_slice(pairs), metric)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return SliceKey


class AccumulatorCoder(coders.Coder):
    """Encodes an Accumulator by its own `encode` and `decode`."""

    def encode(self, value: Accumulator) -> bytes:
        return value.encode()

    def decode(self, encoded: bytes) -> Accumulator:
        return Accumulator.decode(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return Accumulator


class SummaryCoder(coders.Coder):
    """Encodes a Summary as the JSON of its fields in order."""

    def encode(self, value: Summary) -> bytes:
        return orjson.dumps(astuple(value))

    def decode(self, encoded: bytes) -> Summary:
        pairs, *rest = orjson.loads(encoded)
        return Summary(_slice(pairs), *rest)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return Summary


def _slice(pairs: Iterable[tuple[str, str | None]]) -> SliceValues:
    return tuple((column, value) for column, value in pairs)


coders.registry.register_coder(SliceKey, SliceKeyCoder)
coders.registry.register_coder(Accumulator, AccumulatorCoder)
coders.registry.register_coder(Summary, SummaryCoder)

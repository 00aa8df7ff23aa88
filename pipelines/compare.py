"""Two runs over the same dataset, compared instance by instance."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..schemas import tables
from ..schemas.errors import ConfigError
from ..schemas.json import Json
from ..schemas.names import PERFORMANCE
from ..schemas.run_folder import FINISHED
from ..schemas.values import mean, slice_text
from ..transforms.io import storage
from ..transforms.registry import build, find
from ..transforms.statistics.paired import Difference, Pairs
from ..transforms.statistics.slices import SliceValues, distinct_slices, slice_order
from ..transforms.write import GROUP_ROWS
from ..transforms.writers.base import Writer
from .config.arguments import listed
from .run.result import EXIT_CRITERION, EXIT_PASSED, EvaluationResult
from .run.tables import columns_of_instances, rows_of

if TYPE_CHECKING:
    import pandas as pd

_FORMATS = ("jsonl", "csv", "parquet")


@dataclass(frozen=True)
class Comparison:
    """What changed from one run to another.

    Attributes:
        before: Folder of the first run.
        after: Folder of the second run.
        differences: Of each metric, over all instances first, then by slices.
        only_before: Instances that only the first run has.
        only_after: Instances that only the second run has.
        notes: What else is not the same in both runs, in words.
        deciding: Metrics whose getting worse counts: those that were named, and all that are not measured.
        named: Metrics that were named.
    """

    before: str
    after: str
    differences: tuple[Difference, ...]
    only_before: int
    only_after: int
    notes: tuple[str, ...] = ()
    deciding: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 where a deciding metric is worse, in all or in a slice, or one that was named has no pairs; else 0."""
        failed = any(d.verdict == "WORSE" and d.metric in self.deciding for d in self.differences)
        missing = any(d.verdict == "NOT_COMPARED" and d.metric in self.named and not d.slice for d in self.differences)
        return EXIT_CRITERION if failed or missing else EXIT_PASSED

    @property
    def table(self) -> pd.DataFrame:
        """One row for each slice and metric, columns as `transforms.paired.Difference`; `slice` is a dict."""
        import pandas as pd

        return pd.DataFrame([{**asdict(d), "slice": dict(d.slice)} for d in self.differences])


def compare(
    before: str | os.PathLike[str],
    after: str | os.PathLike[str],
    *,
    metrics: Sequence[str] = (),
    slices: Sequence[str | Sequence[str]] = (),
    tolerance: float = 0.0,
    tolerances: Mapping[str, float] = MappingProxyType({}),
    confidence: float = 0.95,
) -> Comparison:
    """Compares the scores of two runs on the instances that are in both.

    Instances meet by their id, trials of an instance are averaged first. The tables are read once, side by side, in
    memory that does not grow with them.

    Args:
        before: Folder of the first run, its tables in any format.
        after: Folder of the second run.
        metrics: Names of those to compare; default: all that both runs have.
        slices: Lists of dataset columns, or single ones, by whose values in the second run to break it down.
        tolerance: What a mean may change by, at least 0.
        tolerances: Those of single metrics by their names.
        confidence: Level of the intervals, in (0, 1).

    Raises:
        ConfigError: A folder holds no finished run, a metric or column is missing, or no instance is in both runs.
    """
    runs = _Runs(EvaluationResult.load(before), EvaluationResult.load(after))
    named = (*listed(metrics, "metrics"), *tolerances)
    names = runs.metrics(named, only=bool(metrics))
    allowed = _tolerances(tolerance, tolerances, names)
    _check_level(confidence)
    facts = runs.facts()
    found, alone = _paired(runs, names, slices)
    differences = tuple(
        pairs.difference(name, s, facts[name]["better"] != "higher", allowed[name], confidence)
        for (rank, s, name), pairs in sorted(found.items(), key=lambda item: _place(*item[0], names))
    )
    deciding = tuple(name for name in names if name in named or not runs.measured(name))
    return Comparison(runs.before.output, runs.after.output, differences, *alone, runs.notes(names), deciding, named)


def changes(
    before: str | os.PathLike[str], after: str | os.PathLike[str], *, metrics: Sequence[str] = ()
) -> Iterator[dict[str, Json]]:
    """(instance_id, metric, before, after) of each score that is not the same in both runs, in the order of the ids.

    `None` stands where a run has no score. Arguments and errors are those of `compare`.
    """
    runs = _Runs(EvaluationResult.load(before), EvaluationResult.load(after))
    names = runs.metrics(metrics, only=bool(metrics))
    for old, new in runs.side_by_side(names, []):
        for name in names:
            if old and new and old.scores[name] != new.scores[name]:
                yield {"instance_id": new.id, "metric": name, "before": old.scores[name], "after": new.scores[name]}


def _paired(
    runs: _Runs, names: Sequence[str], asked: Sequence[str | Sequence[str]]
) -> tuple[dict[tuple[int, SliceValues, str], Pairs], tuple[int, int]]:
    """The scores of the instances in both runs, by (number of the slice's columns, slice, metric), and those alone."""
    slices = distinct_slices(
        [one] if isinstance(one, str) else listed(one, "slices") for one in listed(asked, "slices")
    )
    places = {column: runs.column(column) for one in slices for column in one}
    keys = [_slicer(one, places) for one in slices]
    found: dict[tuple[int, SliceValues, str], Pairs] = {}
    lost = gained = 0
    for old, new in runs.side_by_side(names, list(places.values())):
        if old is None or new is None:
            lost, gained = lost + (new is None), gained + (old is None)
            continue
        for rank, key in enumerate(keys):
            slice_ = key(new.row)
            for name in names:
                found.setdefault((rank, slice_, name), Pairs()).add(old.scores[name], new.scores[name])
    if not found:
        same = f"no instance is in both {runs.before.output!r} and {runs.after.output!r}"
        raise ConfigError(same, allowed="runs over the same inputs, which make the ids")
    return found, (lost, gained)


def write_changes(found: Iterator[dict[str, Json]], path: str) -> None:
    """Writes changes to a file, in the format that its ending names.

    Raises:
        ConfigError: No writer has that ending.
    """
    name = path.rpartition(".")[2]
    if name not in _FORMATS:
        allowed = f"a name that ends in .{', .'.join(_FORMATS)}"
        raise ConfigError(f"found {path!r}", where="changes", allowed=allowed)
    writer: Writer = build(find("writer", name), {}, "changes")
    with storage.create(path) as stream, writer.open(stream, tables.schema(tables.CHANGES)) as sink:
        while rows := list(islice(found, GROUP_ROWS)):
            sink.write(tables.table(rows, tables.CHANGES))


class _Instance(NamedTuple):
    """An instance of a run: its scores by metric, means over its trials, and the first trial's row."""

    id: str
    scores: dict[str, float | None]
    row: dict[str, Json]


class _Runs(NamedTuple):
    before: EvaluationResult
    after: EvaluationResult

    def metrics(self, asked: Iterable[str], only: bool) -> list[str]:
        """Metrics to compare, in the order of the second run; those that stand in both, or all that were asked for."""
        known = [_scored(run) for run in self]
        both = [name for name in self.facts() if name in known[0] and name in known[1]]
        for name in asked:
            if name not in both:
                missing = self.after if name in known[0] else self.before
                found = f"{missing.output!r} has no metric {name!r} to compare"
                raise ConfigError(found, where="metrics", allowed=", ".join(both) or "none")
        return [name for name in both if name in set(asked)] if only else both

    def column(self, name: str) -> str:
        """Name of a dataset column in the second run's table."""
        known = columns_of_instances(self.after)
        column = f"dataset.{name}" if f"dataset.{name}" in known else name
        if column not in known:
            shown = ", ".join(c for c in known if "/" not in c)
            raise ConfigError(f"{self.after.output!r} has no column {name!r}", where="slices", allowed=shown)
        return column

    def measured(self, metric: str) -> bool:
        """Whether its scores are measured, so that they differ from run to run."""
        columns = self.after.manifest["tables"]["instances"]["columns"]
        return any(c.get("volatile", False) for c in columns if c.get("is", c["name"]) == _column(metric))

    def facts(self) -> dict[str, dict[str, Json]]:
        """What the second run's manifest says of its metrics: which scores are better, and the best one.

        Raises:
            ConfigError: It says nothing.
        """
        found = self.after.manifest.get("metrics")
        if found is None:
            allowed = "a run of this version: evalbeam run --replay scores the answers again"
            raise ConfigError("does not say which scores are better", where=self.after.output, allowed=allowed)
        return {one["name"]: one for one in found}

    def notes(self, names: Sequence[str]) -> tuple[str, ...]:
        """What is not the same in both runs beside the answers."""
        found = [f"{r.output} is {r.state}: rows it left have no score" for r in self if r.state != FINISHED]
        only = [sorted(set(_scored(a)) - set(_scored(b))) for a, b in (self, self[::-1])]
        found += [f"only {r.output} has {', '.join(n)}" for r, n in zip(self, only, strict=True) if n]
        for words, part in (("is configured differently", _configured), ("asked its judges otherwise", _prompted)):
            old, new = part(self.before), part(self.after)
            found += [f"{name} {words}" for name in names if old.get(name) != new.get(name)]
        return tuple(found)

    def side_by_side(
        self, names: Sequence[str], columns: Sequence[str]
    ) -> Iterator[tuple[_Instance | None, _Instance | None]]:
        """The instances of both runs, in the order of their ids; `None` where a run has not got one."""
        facts = self.facts()
        bests = {name: facts[name]["best"] if facts[name]["better"] == "nearer" else None for name in names}
        left, right = (_instances(run, bests, columns) for run in self)
        old, new = next(left, None), next(right, None)
        while old or new:
            if new is None or (old is not None and old.id < new.id):
                yield old, None
                old = next(left, None)
            elif old is None or new.id < old.id:
                yield None, new
                new = next(right, None)
            else:
                yield old, new
                old, new = next(left, None), next(right, None)


def _instances(run: EvaluationResult, bests: Mapping[str, float | None], columns: Sequence[str]) -> Iterator[_Instance]:
    """The instances of a run's table, which is sorted by their ids.

    Args:
        run: A run.
        bests: For each metric the best score, where it lies within the range: its distances are the scores.
        columns: Dataset columns to read, where the run has them.
    """
    places = {name: _column(name) for name in bests}
    rows = rows_of(run, "instances", ["instance_id", *places.values(), *columns])
    for id_, trials in groupby(rows, key=itemgetter("instance_id")):
        same = list(trials)
        scores = {name: _mean([row[place] for row in same], bests[name]) for name, place in places.items()}
        yield _Instance(id_, scores, same[0])


def _column(metric: str) -> str:
    return metric if metric in PERFORMANCE else f"{metric}/score"


def _mean(scores: Iterable[float | None], best: float | None) -> float | None:
    """Mean of the scores there are, or of their distances from the best one."""
    found = [float(score) for score in scores if score is not None and math.isfinite(score)]
    values = found if best is None else [abs(score - best) for score in found]
    return mean(values) if values else None


def _scored(run: EvaluationResult) -> list[str]:
    """Metrics of a run that have scores, in the order of its table.

    Raises:
        ConfigError: It wrote no table.
    """
    files = run.files("instances")
    if not files or files[0].endswith(".evalset_result.json"):
        why = "its instances are in ADK's result files" if files else run.manifest.get("reason") or run.state
        raise ConfigError(f"the run wrote no instances table: {why}", where=run.output)
    columns = columns_of_instances(run)
    named = [name.removesuffix("/score") for name in columns if name.endswith("/score") or name in PERFORMANCE]
    relative = {name.removesuffix("/pairwise_choice") for name in columns if name.endswith("/pairwise_choice")}
    return [name for name in named if name not in relative]


def _configured(run: EvaluationResult) -> dict[str, Json]:
    return {one["name"]: one for one in run.manifest["config"]["metrics"]}


def _prompted(run: EvaluationResult) -> dict[str, Json]:
    judging = run.manifest.get("judging") or {"spent": (), "prompts": {}}
    models: dict[str, list[str]] = {}
    for one in judging["spent"]:
        models.setdefault(one["metric"], []).append(str(one["model"]))
    return {name: (prompts, sorted(models.get(name, ()))) for name, prompts in judging["prompts"].items()}


def _slicer(columns: Sequence[str], places: Mapping[str, str]) -> Callable[[Mapping[str, Json]], SliceValues]:
    return lambda row: tuple((c, slice_text(row[places[c]])) for c in columns)


def _place(rank: int, slice_: SliceValues, metric: str, metrics: Sequence[str]) -> tuple[Any, ...]:
    return rank, [slice_order(value) for _, value in slice_], metrics.index(metric)


def _tolerances(whole: float, single: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    found = {name: single.get(name, whole) for name in names}
    for name, value in found.items():
        if not 0 <= value < math.inf:
            raise ConfigError(f"found {value!r} for {name}", where="tolerance", allowed="a number, 0 or more")
    return found


def _check_level(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ConfigError(f"found {confidence!r}", where="confidence", allowed="a number between 0 and 1")

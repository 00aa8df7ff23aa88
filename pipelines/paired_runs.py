"""Reads two runs side by side: their metrics, their columns, and their instances joined by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..schemas.config.evaluation import CriterionConfig
from ..schemas.errors import ConfigError
from ..schemas.json import Json
from ..schemas.names import PERFORMANCE
from ..schemas.run_folder import FINISHED
from ..schemas.tables import MOVED
from ..transforms.statistics import criteria
from ..transforms.statistics.paired import Scale
from ..transforms.statistics.paired_columns import PairColumns
from ..transforms.statistics.paired_quantiles import QuantilePairs
from ..transforms.statistics.slices import SliceValues, slice_order
from .compared import ENDINGS, Compared, column_of, find_compared, scale_of
from .paired_instances import Block, Wanted, join_instances
from .run.result import EvaluationResult
from .run.tables import columns_of_instances, instance_files, measured_of_instances


class PairedRuns(NamedTuple):
    """Two runs, of which the second is judged: its manifest says what the metrics mean."""

    before: EvaluationResult
    after: EvaluationResult

    def metrics(self, asked: Iterable[str], only: bool) -> list[str]:
        """Lists what to compare: the metrics of both runs, or `only` those named, and then the other named ones.

        Others are quantiles, and shares of instances of which trials pass.

        Raises:
            ConfigError: A run has no such metric.
        """
        known = [_list_scored(run) for run in self]
        both = [name for name in self.facts() if name in known[0] and name in known[1]]
        named = list(dict.fromkeys(asked))
        for name in named:
            one = find_compared(name, self.facts())
            if one is None or one.metric not in both:
                missing = self.after if (one.metric if one else name) in known[0] else self.before
                found = f"{missing.output!r} has no metric {name!r} to compare"
                raise ConfigError(found, where="metrics", allowed=self._describe_names(both))
        return [name for name in both if not only or name in named] + [name for name in named if name not in both]

    def _describe_names(self, metrics: Sequence[str]) -> str:
        rates = [name for name, one in self.facts().items() if "passes" in one]
        quantiles = f"quantiles of their scores ({ENDINGS})"
        return ", ".join([*metrics, *rates, quantiles]) if metrics else "none"

    def column(self, name: str) -> str:
        """Returns the name of a dataset column in the second run's table."""
        known = columns_of_instances(self.after)
        column = MOVED + name if MOVED + name in known else name
        if column not in known:
            shown = ", ".join(c for c in known if "/" not in c)
            raise ConfigError(f"{self.after.output!r} has no column {name!r}", where="slices", allowed=shown)
        return column

    def measured(self, metric: str) -> bool:
        """Returns true if a metric's scores are measured, so that they differ from run to run."""
        return column_of(self.compared(metric).metric) in measured_of_instances(self.after)

    def compared(self, name: str) -> Compared:
        """Returns what the name of something that is compared stands for."""
        return find_compared(name, self.facts()) or Compared(name)

    def scored(self, names: Iterable[str]) -> list[str]:
        """Lists the metrics whose scores lie behind names, each once."""
        return list(dict.fromkeys(self.compared(name).metric for name in names))

    def facts(self) -> dict[str, dict[str, Json]]:
        """Returns the metrics of the second run's manifest by name: which scores are better, and the best one.

        Raises:
            ConfigError: The manifest does not describe its metrics.
        """
        found = self.after.manifest.get("metrics")
        if found is None:
            allowed = "a run of this version: evalbeam run --replay scores the answers again"
            raise ConfigError("does not say which scores are better", where=self.after.output, allowed=allowed)
        return {one["name"]: one for one in found}

    def scales(self, names: Sequence[str]) -> dict[str, Scale]:
        """Returns what the scores of each metric mean; if the best one lies within, the distances from it."""
        facts, bounds = self.facts(), self.after.manifest["config"].get("criteria") or ()
        wanted = [CriterionConfig.model_validate(one) for one in bounds]
        found = {}
        for name in names:
            one = self.compared(name)
            of = facts[name if one.passes else one.metric]
            ends = None if of["worst"] is None or of["best"] is None else (of["worst"], of["best"])
            found[name] = scale_of(one, of, criteria.threshold(wanted, name, ends))
        return found

    def pair(self, name: str, scale: Scale, clustered: bool) -> PairColumns | QuantilePairs:
        """Returns what pairs of scores are added to."""
        share = self.compared(name).quantile
        if share is None:
            return PairColumns(scale, clustered, self.stopped)
        return QuantilePairs(scale, clustered, self.stopped, share=share)

    def clusters(self) -> list[str]:
        """Lists the dataset columns whose equal values make instances a cluster, by the second run's configuration."""
        given = (self.after.manifest["config"].get("statistics") or {}).get("cluster") or []
        return [given] if isinstance(given, str) else list(given)

    @property
    def stopped(self) -> bool:
        """Whether a run called no more, since the mean that it follows was decided."""
        return any(_decision(run) for run in self)

    def notes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Lists the differences between the runs other than the answers."""
        found = [f"{r.output} is {r.state}: rows it left have no score" for r in self if r.state != FINISHED]
        for run, text in zip(self, map(_decision, self), strict=True):
            if text:
                kept = "the rows that it did not call are left out, intervals and tests are those of a sequence"
                found.append(f"{run.output} was {text}; {kept}")
        only = [sorted(set(_list_scored(a)) - set(_list_scored(b))) for a, b in (self, self[::-1])]
        found += [f"only {r.output} has {', '.join(n)}" for r, n in zip(self, only, strict=True) if n]
        for words, part in (
            ("is configured differently", _get_configs),
            ("asked its judges differently", _get_prompts),
        ):
            old, new = part(self.before), part(self.after)
            found += [f"{name} {words}" for name in self.scored(names) if old.get(name) != new.get(name)]
        return tuple(found)

    def side_by_side(self, names: Sequence[str], columns: Sequence[str]) -> Iterator[Block]:
        """Yields the instances of both runs in the order of their ids, some at a time.

        Args:
            names: What is compared; of a metric whose best score lies within its range, the distances from it.
            columns: Other columns to read, as far as a run has them.
        """
        facts, compared = self.facts(), {name: self.compared(name) for name in names}
        metrics = {one.metric: facts[one.metric] for one in compared.values()}
        bests = {metric: known["best"] for metric, known in metrics.items() if known["better"] == "nearer"}
        old, new = ((run, Wanted(compared, bests, columns, _decision(run))) for run in self)
        return join_instances(old, new)


def _decision(run: EvaluationResult) -> str:
    """Returns why a run called no more, in the words of its table; "" if it called all rows."""
    followed = run.manifest.get("sequential") or {}
    return followed["text"] if followed.get("side") else ""


def _list_scored(run: EvaluationResult) -> list[str]:
    """Lists the metrics of a run that have scores, in the order of its table.

    Raises:
        ConfigError: The run wrote no instances table.
    """
    instance_files(run)
    columns = columns_of_instances(run)
    named = [name.removesuffix("/score") for name in columns if name.endswith("/score") or name in PERFORMANCE]
    relative = {name.removesuffix("/pairwise_choice") for name in columns if name.endswith("/pairwise_choice")}
    return [name for name in named if name not in relative]


def _get_configs(run: EvaluationResult) -> dict[str, Json]:
    return {one["name"]: one for one in run.manifest["config"]["metrics"]}


def _get_prompts(run: EvaluationResult) -> dict[str, Json]:
    judging = run.manifest.get("judging") or {"spent": (), "prompts": {}}
    models: dict[str, list[str]] = {}
    for one in judging["spent"]:
        models.setdefault(one["metric"], []).append(str(one["model"]))
    return {name: (prompts, sorted(models.get(name, ()))) for name, prompts in judging["prompts"].items()}


def sort_key(rank: int, slice_: SliceValues, metric: str, metrics: Sequence[str]) -> tuple[Any, ...]:
    """Returns the sort key of a slice and metric: whole dataset first, slices by their columns and values."""
    return rank, [slice_order(value) for _, value in slice_], metrics.index(metric)

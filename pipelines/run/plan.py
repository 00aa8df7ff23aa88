"""A configuration becomes a plan: every part resolved, built and checked before anything is read or called."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, TypeAlias

from apache_beam.pvalue import AsSingleton

from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.json import Json
from ...schemas.names import PERFORMANCE, registered_names, score_words, titles
from ...schemas.run_folder import AGENT, RunFolder
from ...schemas.tables import MetricColumns
from ...transforms.agents.base import Agent, Recording
from ...transforms.calls.budget import Bounds
from ...transforms.calls.context import RunContext
from ...transforms.calls.prices import Prices
from ...transforms.dialects._rules import RowRules
from ...transforms.facts import RunLimits
from ...transforms.finish import HANDED, LEFT, RunRecord
from ...transforms.follow import FollowMetric
from ...transforms.invoke import InvokeAgent
from ...transforms.journal.ranks import retry_of
from ...transforms.judge import ENDPOINT, JudgeExamples, JudgeUse
from ...transforms.judge_costs import BATCH, LIVE, SIMULATOR
from ...transforms.judging.needs import Needs
from ...transforms.labels import PeopleLabels
from ...transforms.load import LoadTables
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.metrics._judged import is_judged
from ...transforms.metrics.base import Derived, Pooled
from ...transforms.readers._files import FileInfo
from ...transforms.statistics import criteria
from ...transforms.statistics.failures import FailureTest
from ...transforms.statistics.slices import MetricFacts
from ...transforms.writers.base import Writer
from ..runners.packages import Packages
from .judges import needs_of, prompts_of
from .parts import stamp
from .passes import describe_passes

Purpose: TypeAlias = Literal["run", "retry", "rescore"]


@dataclass(frozen=True)
class Plan:
    """All a run needs.

    Attributes:
        config: What the user asked for.
        files: The dataset's files, sorted.
        rules: How a row is read.
        agent: What answers the rows.
        metrics: The metrics in the order of their columns, latency and failure first.
        writer: Writer of the output format.
        judges: The judges that metrics ask, by name; empty if no metric asks one.
        packages: The agent's code, for the workers.
        labels: What people say of some rows; `None` if no labels are configured.
        rows: Dataset in memory, whose file is yet to be written; `None` if the dataset is files.
        purpose: "run"; "retry" calls again what failed in a finished run; "rescore" scores its answers again and calls
            no agent.
    """

    config: EvaluationConfig
    files: tuple[FileInfo, ...]
    rules: RowRules
    agent: Agent | Recording
    metrics: tuple[ConfiguredMetric, ...]
    writer: Writer
    judges: Mapping[str, JudgeUse] = field(default_factory=dict)
    packages: Packages = Packages()
    labels: PeopleLabels | None = None
    rows: Any = None
    purpose: Purpose = "run"

    @property
    def models(self) -> dict[str, str]:
        """Model of each judge, and of the simulated user if there is one."""
        user = getattr(self.agent, "simulated_by", None)
        return {name: use.model_name for name, use in self.judges.items()} | ({} if user is None else {SIMULATOR: user})

    @property
    def call_prices(self) -> Prices:
        """Prices of the calls to the agent and the judges."""
        models = {ENDPOINT + name: use.model_name for name, use in self.judges.items()}
        return Prices(models | ({AGENT: self.agent_model} if self.agent_model else {}), self.config.prices)

    @property
    def computed(self) -> tuple[ConfiguredMetric, ...]:
        """The metrics that ask no judge."""
        return tuple(u for u in self.metrics if not is_judged(u.metric))

    @property
    def judged(self) -> tuple[ConfiguredMetric, ...]:
        """The metrics that ask judges."""
        return tuple(u for u in self.metrics if is_judged(u.metric))

    @property
    def recorded(self) -> bool:
        """True if answers come with the rows and no agent is called."""
        return self.config.agent.type == "recorded"

    @property
    def calls(self) -> bool:
        """True if an agent or a judge is called."""
        return bool(self.judges) or not self.recorded

    @property
    def asks_agent(self) -> bool:
        """True if an agent is called, whose answers are neither in the rows nor in a journal."""
        return not (self.recorded or self.config.replay is not None or self.purpose == "rescore")

    @property
    def in_batches(self) -> bool:
        """True if calls of the agent or of a judge are handed over in batches."""
        return any(use.mode != "live" for use in (self.config.agent, *self.judges.values()))

    @property
    def shards(self) -> int:
        """Ranges of the id's hash that the work is cut into: many to spread calls, else about 1 to 8 MB of data each.

        A batch is rows of one shard, and metrics cost least in large batches.
        """
        if self.config.shards is not None:
            return self.config.shards
        size = sum(f.size for f in self.files)
        wanted = max(256 if not self.recorded else 16, min(size >> 20, 1024), size >> 23)
        return min(1 << (wanted - 1).bit_length(), 4096)

    @property
    def trial_columns(self) -> tuple[str, str] | None:
        """The columns that identify a row and number its recorded trials; `None` if the configuration names none."""
        data = self.config.dataset
        return None if data.id is None or data.trial is None else (data.id, data.trial)

    @property
    def declared(self) -> tuple[tuple[str, str], ...]:
        """Declared (name, type) of dataset columns."""
        return tuple((name, c.type) for name, c in self.config.dataset.columns.items() if c.type is not None)

    def reading(self, context: RunContext) -> dict[str, Any]:
        """Options of the readers beside the declared columns."""
        return {**self.config.dataset.reading, "start": context.start}

    @property
    def columns(self) -> tuple[MetricColumns, ...]:
        """The output columns of each metric."""
        style = self.config.output.column_style
        given = registered_names((m.name, m.metric) for m in self.config.metrics)
        found = []
        for use in self.metrics:
            named = (style, use.name, given.get(use.name, use.name))
            outputs, measured = tuple(use.metric.outputs), use.metric.measured
            found.append(MetricColumns(use.name, outputs, titles(*named), score_words(*named), measured))
        return tuple(found)

    @property
    def metric_facts(self) -> tuple[MetricFacts, ...]:
        """The properties of each metric that the summary uses."""
        found = ((describe_metric(u, self.config), *describe_passes(u), *describe_pooled(u)) for u in self.metrics)
        return (*chain.from_iterable(found), *describe_ratios(self.config))

    @property
    def failure_tests(self) -> tuple[FailureTest, ...]:
        """When a score of each metric is a failure; measured scores, which differ between two runs, are none."""
        facts = self.metric_facts
        return tuple(test_of(u, facts) for u in self.metrics if not u.metric.measured and u.name not in PERFORMANCE)

    @property
    def sliced_facts(self) -> tuple[MetricFacts, ...]:
        """The metrics whose worst slices are looked for: those with scores that are not measured."""
        measured = {u.name for u in self.metrics if u.metric.measured} | {PERFORMANCE[0]}
        return tuple(
            one for one in self.metric_facts if not (one.pairwise or one.of_sums or one.passes or one.name in measured)
        )

    @property
    def slices(self) -> tuple[tuple[str, ...], ...]:
        """Columns the summary is broken down by."""
        return tuple(map(tuple, self.config.slices))

    @property
    def wanted_columns(self) -> dict[str, str]:
        """The dataset's columns that slices and clusters name, with their key; without those that are declared."""
        keys = dict.fromkeys(self.config.statistics.cluster, "statistics.cluster")
        keys |= dict.fromkeys(chain.from_iterable(self.slices), "slices")
        return {column: key for column, key in keys.items() if column not in self.config.dataset.columns}

    @property
    def calls_per_row(self) -> int:
        """Calls of the agent that a row needs at least, all its trials together."""
        return self.config.trials if self.asks_agent else 0

    @property
    def allowed(self) -> RunLimits:
        """Limits on the dataset; beyond them no call is made."""
        data, bounds = self.config.dataset, vars(self.bounds)
        asked = (0, 0) if self.needs is None else self.needs.most
        calls = self.calls_per_row if self.config.statistics.sequential is None else 0  # a wave may be enough
        return RunLimits(data.max_invalid_fraction, data.limit, calls, asked, **bounds)

    @property
    def bounds(self) -> Bounds:
        """The bounds of the budget."""
        budget = self.config.budget
        return Bounds(max_calls=budget.max_calls, max_tokens=budget.max_tokens)

    @property
    def needs(self) -> Needs | None:
        """The least that rows need of judges; `None` if no budget bounds it, or not all rows may be called."""
        if not (self.bounds.bounded and self.judges) or self.config.statistics.sequential is not None:
            return None
        agent, config = self.agent if isinstance(self.agent, Recording) else None, self.config
        return needs_of(self.judged, self.judges, agent, config.trials, config.baseline is not None)

    @property
    def folder(self) -> RunFolder:
        """The folder of the run."""
        return RunFolder(self.config.output.path)

    def invoke(self, context: RunContext) -> InvokeAgent:
        """The step that answers the rows."""
        agent, trials, own = self.config.agent, self.config.trials, context.fingerprint
        if own and not self.asks_agent:
            folder = self.folder if self.config.replay is None else RunFolder(self.config.replay)
            replayed = folder.agent_journal(own)
            nothing_kept = RunContext(fingerprint=own, start=context.start)
            return InvokeAgent(self.agent, agent, trials, nothing_kept, replayed=replayed)
        secrets = tuple(agent.secrets.items())
        return InvokeAgent(self.agent, agent, trials, context, secrets=secrets, batch=agent.mode != "live")

    def judge(self, context: RunContext) -> JudgeExamples:
        """The step that puts the questions of judge metrics to their judges."""
        return JudgeExamples(self.metrics, self.judges, context, self.config.compat.float32)

    def follow(self, context: RunContext, facts: AsSingleton) -> FollowMetric | None:
        """The step that follows a metric while it answers the first rows; `None` if all rows are answered at once."""
        rule = self.config.statistics.sequential
        if rule is None:
            return None
        use = next(u for u in self.metrics if u.name == rule.metric)
        asked = None
        if is_judged(use.metric):  # all judges: a question that asks for several metrics is another one without them
            metrics = tuple(u for u in self.judged if not isinstance(u.metric, Derived))
            asked = replace(self.judge(context), metrics=metrics)
        ends, counted = use.metric.ends(), self.config.statistics.on_failure == "worst"
        worst, float32 = ends[0] if ends and counted else None, self.config.compat.float32
        sample = self.config.dataset.sample or 1.0
        return FollowMetric(rule, use, self.invoke(context), asked, context, facts, sample, worst, float32)

    def record(self, context: RunContext) -> RunRecord:
        """The part of the manifest that is known before the run."""
        return RunRecord(
            output=self.config.output.path,
            config=self.shown_config(),
            versions=self.versions(),
            allowed=self.allowed,
            facts=self.metric_facts,
            slices=self.slices,
            statistics=self.config.statistics,
            criteria=tuple(self.config.criteria),
            fingerprint=context.fingerprint or None,
            replay=not (self.recorded or self.asks_agent),
            loading=self.loading(context),
            prompts={u.name: prompts_of(u.metric) for u in self.judged},
            models=self.models,
            free=tuple(name for name, use in self.judges.items() if use.replayed is not None),
            prices=self.config.prices,
            agent_model=self.agent_model,
            agent_way=LIVE if self.config.agent.mode == "live" else BATCH,
            retry=retry_of(context.start),
            left_because=HANDED if self.in_batches else LEFT,
        )

    @property
    def agent_model(self) -> str | None:
        """The model of the agent's answers that name none; `None` if it is unknown."""
        return self.config.agent.model or self.agent.model_name

    def loading(self, context: RunContext) -> LoadTables | None:
        """Loads the tables into BigQuery; `None` if the configuration does not say so."""
        output = self.config.output
        if (asked := output.bigquery) is None:
            return None
        return LoadTables(asked.dataset, stamp(output), context.start, asked.prefix, asked.write)

    def with_parts(self, change: Callable[[Any], Any]) -> Plan:
        """The plan with its agent, metrics and judges changed, one by one."""
        metrics = tuple(replace(u, metric=change(u.metric)) for u in self.metrics)
        judges = {name: replace(u, judge=change(u.judge)) for name, u in self.judges.items()}
        return replace(self, agent=change(self.agent), metrics=metrics, judges=judges)

    def versions(self) -> dict[str, str]:
        """Versions of what computes the tables."""
        from importlib.metadata import version

        names = ("evalbeam", "apache-beam", "pyarrow")
        return {"python": platform.python_version(), **{n: version(n) for n in names}}

    def shown_config(self) -> dict[str, Json]:
        """The configuration as JSON; objects given from Python are shown by their names."""
        return _shown(self.config.model_dump(mode="python", exclude_defaults=False, by_alias=True))


def describe_metric(use: ConfiguredMetric, config: EvaluationConfig) -> MetricFacts:
    """The properties of a metric that the summary uses."""
    ends = use.metric.ends()
    return MetricFacts(
        name=use.name,
        binary=use.metric.binary,
        worst=ends[0] if ends else None,
        best=ends[1] if ends else None,
        pairwise="pairwise_choice" in use.metric.outputs,
        threshold=criteria.threshold(config.criteria, use.name, ends),
        better=use.metric.better,
        range=use.metric.range,
        labelled=config.labels is not None and use.name in config.labels.columns,
    )


def test_of(use: ConfiguredMetric, facts: Sequence[MetricFacts]) -> FailureTest:
    """When a score of the metric is a failure: beyond its bound or, if no metric has one, the worst possible."""
    own = next(one for one in facts if one.name == use.name)
    bounded = any(one.threshold is not None for one in facts if one.name not in PERFORMANCE)
    steps: Any = None
    if "reference_trajectory" in use.metric.inputs:
        ignored = getattr(use.metric, "ignore_args", False)
        args = "ignore" if ignored else getattr(use.metric, "args", "exact")
        steps = args, getattr(use.metric, "profile", "vertex")
    return FailureTest(use.name, own.threshold, None if bounded or own.pairwise else own.worst, steps)


def describe_pooled(use: ConfiguredMetric) -> tuple[MetricFacts, ...]:
    """The score of all rows together, as a metric of the summary, if the configuration asks for it."""
    if not isinstance(use.metric, Pooled) or not use.metric.corpus:
        return ()
    return (MetricFacts(f"{use.name}/corpus", range=use.metric.range, pooled=(use.name, use.metric.pool)),)


def describe_ratios(config: EvaluationConfig) -> tuple[MetricFacts, ...]:
    """The ratios of the configuration, as metrics of the summary."""
    return tuple(MetricFacts(name, ratio=two) for name, two in config.statistics.ratios.items())


def _shown(value: Any) -> Json:
    if isinstance(value, Mapping):
        return {str(k): _shown(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime.date):
        return value.isoformat()
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", type(value).__qualname__)
    return f"{module or type(value).__module__}:{name}"

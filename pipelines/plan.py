"""A configuration becomes a plan: every part resolved, built and checked before anything is read or called."""

from __future__ import annotations

import difflib
import platform
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from ..schemas.calls import CallPolicy
from ..schemas.config import AgentConfig, EvaluationConfig, MetricConfig
from ..schemas.errors import ConfigError
from ..schemas.instance import Json
from ..schemas.names import is_rating, registered_names, titles
from ..schemas.storage_config import OutputConfig
from ..schemas.tables import PERFORMANCE, MetricColumns
from ..schemas.warehouse import Stamp
from ..transforms import criteria, registry, storage
from ..transforms.agents.base import Agent
from ..transforms.budget import Budget
from ..transforms.dialects.base import Dialect
from ..transforms.facts import Allowed
from ..transforms.finish import STOP, RunRecord
from ..transforms.invoke import InvokeAgent
from ..transforms.judge import JudgeExamples, JudgeUse
from ..transforms.judging.metric import is_judged
from ..transforms.load import LoadTables
from ..transforms.metrics.base import Metric
from ..transforms.normalize import RowRules, auto_dialects, names_of
from ..transforms.read import FileInfo, expand
from ..transforms.score import MetricUse
from ..transforms.slices import MetricFacts, summary_names
from ..transforms.writers.base import Writer
from .adk_criteria import named_criteria
from .judges import JUDGES, build_judges, full_names, prompts_of
from .packages import Packages, collect


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
        fingerprint: What the agent's calls are journaled under; `None` keeps no journal.
        processes: Worker processes over which the limits of the whole run are divided.
        start: Stands for this start of the run.
        budget: What this start of the run may spend; `None` is no bound.
        judges: The judges that metrics ask, by name; none where no metric asks one.
        packages: The agent's code, for the workers.
    """

    config: EvaluationConfig
    files: tuple[FileInfo, ...]
    rules: RowRules
    agent: Agent
    metrics: tuple[MetricUse, ...]
    writer: Writer
    fingerprint: str | None = None
    processes: int = 1
    start: str = field(default_factory=lambda: uuid.uuid4().hex)
    budget: Budget | None = None
    judges: Mapping[str, JudgeUse] = field(default_factory=dict)
    packages: Packages = Packages()

    @property
    def computed(self) -> tuple[MetricUse, ...]:
        """The metrics that ask no judge."""
        return tuple(u for u in self.metrics if not is_judged(u.metric))

    @property
    def judged(self) -> tuple[MetricUse, ...]:
        """The metrics that ask judges."""
        return tuple(u for u in self.metrics if is_judged(u.metric))

    @property
    def recorded(self) -> bool:
        """Whether answers come with the rows, so that nothing is called."""
        return self.config.agent.type == "recorded"

    @property
    def calls(self) -> bool:
        """Whether anything is called: the agent, or judges."""
        return bool(self.judges) or not self.recorded

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
    def declared(self) -> tuple[tuple[str, str], ...]:
        """Declared (name, type) of dataset columns."""
        return tuple((name, c.type) for name, c in self.config.dataset.columns.items() if c.type is not None)

    @property
    def reading(self) -> dict[str, Any]:
        """What the readers are told beside the declared columns."""
        return {**self.config.dataset.reading, "start": self.start}

    @property
    def columns(self) -> tuple[MetricColumns, ...]:
        """What the metrics' output columns depend on."""
        style = self.config.output.names
        given = registered_names((m.name, m.metric) for m in self.config.metrics)
        found = []
        for use in self.metrics:
            named = (style, use.name, given.get(use.name, use.name))
            outputs, measured = tuple(use.metric.outputs), use.metric.measured
            found.append(MetricColumns(use.name, outputs, titles(*named), is_rating(*named), measured))
        return tuple(found)

    @property
    def metric_facts(self) -> tuple[MetricFacts, ...]:
        """What the summary must know of each metric."""
        return tuple(_facts(u, self.config) for u in self.metrics)

    @property
    def slices(self) -> tuple[tuple[str, ...], ...]:
        """Columns the summary is broken down by."""
        return tuple(map(tuple, self.config.slices))

    @property
    def calls_per_row(self) -> int:
        """Calls that a row needs at least, all its trials together; what judges are asked is not among them."""
        return 0 if self.recorded or self.config.replay else self.config.trials

    @property
    def allowed(self) -> Allowed:
        """What the dataset may be like for calls to begin."""
        data = self.config.dataset
        return Allowed(data.max_rejected, data.limit, self.calls_per_row, self.config.budget.max_calls)

    def invoke(self) -> InvokeAgent:
        """The step that answers the rows."""
        own = self.fingerprint or ""
        path = self.config.output.path
        journal, stop = (storage.join(path, "journal", own), storage.join(path, STOP)) if own else (None, None)
        agent = self.config.agent
        if own and self.config.replay is not None:
            journal = storage.join(self.config.replay, "journal", own)
            return InvokeAgent(self.agent, agent, self.config.trials, journal, own, replay=True)
        return InvokeAgent(
            self.agent,
            agent,
            self.config.trials,
            journal,
            own,
            stop=stop,
            processes=self.processes,
            budget=self.budget,
            secrets=tuple(agent.secrets.items()),
        )

    def judge(self) -> JudgeExamples:
        """The step that puts the questions of judge metrics to their judges."""
        path = self.config.output.path
        journal, stop = storage.join(path, "journal", JUDGES), storage.join(path, STOP)
        float32 = self.config.compat.float32
        return JudgeExamples(self.metrics, self.judges, journal, stop, self.processes, self.budget, float32)

    def record(self) -> RunRecord:
        """What the manifest says of the run beside what the graph finds."""
        return RunRecord(
            output=self.config.output.path,
            config=self.shown_config(),
            versions=self.versions(),
            allowed=self.allowed,
            facts=self.metric_facts,
            slices=self.slices,
            statistics=self.config.statistics,
            criteria=tuple(self.config.criteria),
            fingerprint=self.fingerprint,
            replay=self.config.replay is not None,
            loading=self.loading(),
            prompts={u.name: prompts_of(u.metric) for u in self.judged},
            models={name: use.judge.model_name for name, use in self.judges.items()},
            prices=self.config.prices,
        )

    def loading(self) -> LoadTables | None:
        """What loads the tables into BigQuery, if that is asked for."""
        output = self.config.output
        if (asked := output.bigquery) is None:
            return None
        return LoadTables(asked.dataset, stamp(output), self.start, asked.prefix, asked.write)

    def with_parts(self, change: Callable[[Any], Any]) -> Plan:
        """The plan with its agent, metrics and judges changed, one by one."""
        metrics = tuple(MetricUse(u.name, change(u.metric)) for u in self.metrics)
        judges = {name: JudgeUse(change(u.judge), u.policy) for name, u in self.judges.items()}
        return replace(self, agent=change(self.agent), metrics=metrics, judges=judges)

    def versions(self) -> dict[str, str]:
        """Versions of what computes the tables."""
        from importlib.metadata import version

        names = ("evalbeam", "apache-beam", "pyarrow")
        return {"python": platform.python_version(), **{n: version(n) for n in names}}

    def shown_config(self) -> dict[str, Json]:
        """The configuration as JSON; objects given from Python are shown by their names."""
        return _shown(self.config.model_dump(mode="python", exclude_defaults=False, by_alias=True))


def make_plan(config: EvaluationConfig, where: str = "") -> Plan:
    """Resolves and builds everything a configuration names.

    Raises:
        ConfigError: Something named does not exist, does not fit, or contradicts something else.
    """
    packages = collect(config.agent.packages)
    packages.import_here()
    agent = build_agent(config.agent, where)
    resolved = {
        "agent": config.agent.model_copy(update={"type": agent_type(config.agent)}),
        "metrics": full_names(config.metrics, config.dataset.dialect),
    }
    config = config.model_copy(update=resolved)
    metrics = build_metrics(config.metrics)
    judges = build_judges(config.judges, metrics)
    facts = [_facts(u, config) for u in metrics]
    criteria.check(config.criteria, summary_names(facts), config.slices)
    files = expand(config.dataset.paths, config.dataset.format, config.dataset.reading)
    rules, writer = build_rules(config, agent), build_writer(config)
    plan = Plan(config, tuple(files), rules, agent, metrics, writer, judges=judges, packages=packages)
    if (loading := plan.loading()) is not None:
        loading.check()
    return plan


def agent_type(config: AgentConfig) -> str:
    """The agent's type, decided by what was given where it says "auto"."""
    if config.type != "auto":
        return config.type
    if config.target is None:
        return "recorded"
    target, name = config.target, _claimed(config.target)
    if name is None and isinstance(target, str):
        target = registry.load_object(target, "agent.target")
        name = _claimed(target)
    return name or ("queryable" if callable(getattr(target, "query", None)) else "function")


def _claimed(target: Any) -> str | None:
    """The type whose agent a target plainly is."""
    parts = ((name, registry.find("agent", name).factory) for name in registry.names("agent"))
    return next((name for name, kind in parts if hasattr(kind, "claims") and kind.claims(target)), None)  # type: ignore[attr-defined]


def build_agent(config: AgentConfig, where: str = "") -> Agent:
    """The agent a configuration names, built from its own parameters."""
    name = agent_type(config)
    part = registry.find("agent", name, "agent.type")
    params = config.params
    if config.target is not None:
        params["target"] = config.target
    elif name != "recorded":
        raise ConfigError("missing", where="agent.target", allowed='"module:name" of the agent')
    if is_dataclass(part.factory):
        own = {f.name for f in fields(part.factory)}
        params |= {key: getattr(config, key) for key in sorted(own & CallPolicy.model_fields.keys())}
        known = sorted({*AgentConfig.model_fields, *own})
        for key in params:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=3) or known
                raise ConfigError(f"unknown key {key!r}", where=f"agent.{key}", allowed=", ".join(near))
    return registry.build(part, params, "agent")


def build_metrics(configs: Sequence[MetricConfig]) -> tuple[MetricUse, ...]:
    """The metrics a configuration names, under distinct output names, after latency and failure."""
    uses = [MetricUse(name, registry.build(registry.find("metric", name), {}, "metrics")) for name in PERFORMANCE]
    given = [c for c in configs if c.metric not in PERFORMANCE]
    repeated = Counter(c.name for c in given)
    for i, config in enumerate(given):
        where = f"metrics.{i}"
        metric = build_metric(config, where)
        name = config.name or registry.name_of("metric", metric) or type(metric).__name__
        if repeated[config.name] > 1 and metric.variant:
            name = f"{name}/{metric.variant}"
        if any(u.name == name for u in uses):
            raise ConfigError(f"two metrics are named {name!r}", where=where, allowed="a 'name' of its own for each")
        uses.append(MetricUse(name, metric))
    return tuple(uses)


def build_metric(config: MetricConfig, where: str) -> Metric:
    """One metric, from its registered name, from "module:name" or from an object."""
    from ..transforms.metrics.custom import as_metric

    target = config.metric
    if isinstance(target, str) and ":" not in target:
        return registry.build(registry.find("metric", target, where), config.params, where)
    if isinstance(target, str):
        target = registry.load_object(target, where)
    return as_metric(target, config.name, config.params, where)


def build_rules(config: EvaluationConfig, agent: Agent) -> RowRules:
    """How rows are read under a configuration."""
    names = registry.names("dialect")
    known: dict[str, Dialect] = {n: registry.build(registry.find("dialect", n), {}, "dataset.dialect") for n in names}
    asked = config.dataset.dialect
    if asked == "auto":
        dialects = auto_dialects(list(known.values()), known["plain"])
    elif asked in known:
        dialects = (_Always(known[asked]),)
    else:
        raise ConfigError(f"found {asked!r}", where="dataset.dialect", allowed=", ".join(["auto", *names]))
    data = config.dataset
    return RowRules(dialects, names_of(data.columns), tuple(agent.inputs), data.id, data.sample)


@dataclass(frozen=True)
class _Always(Dialect):
    """A dialect the user named: it reads every row."""

    dialect: Dialect

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.dialect.inputs

    @property
    def splits(self) -> bool:  # type: ignore[override]
        return self.dialect.splits

    def recognises(self, row: dict[str, Json]) -> bool:
        return True

    def rows(self, row: dict[str, Json]) -> list[dict[str, Json]]:
        return self.dialect.rows(row)

    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        return self.dialect.fields(row)


def build_writer(config: EvaluationConfig) -> Writer:
    """The writer of the output format, with its compression checked."""
    output = config.output
    part = registry.find("writer", output.format, "output.format")
    writer: Writer = registry.build(part, {"compression": output.compression}, "output")
    if writer.codec not in writer.compressions:
        found = f"{output.format} cannot be compressed with {output.compression}"
        raise ConfigError(found, where="output.compression", allowed=", ".join(("auto", *writer.compressions)))
    if output.escape_formulas and output.format != "csv":
        raise ConfigError("only CSV can carry formulas", where="output.escape_formulas", allowed="output.format: csv")
    if output.format == "adk_result":
        if output.bigquery is not None:
            raise ConfigError("ADK's result files are no tables", where="output.format", allowed="parquet, jsonl, csv")
        return replace(writer, criteria=named_criteria(config), lenient=config.compat.adk_verdicts)
    if output.bigquery is not None:
        return registry.build(registry.find("writer", "bigquery"), {"files": writer, "stamp": stamp(output)}, "output")
    return replace(writer, escape_formulas=output.escape_formulas)


def stamp(output: OutputConfig) -> Stamp:
    """What rows in BigQuery say of a run."""
    assert output.bigquery is not None
    return Stamp(output.bigquery.run_id or output.path.rstrip("/"), output.bigquery.run_date)


def _facts(use: MetricUse, config: EvaluationConfig) -> MetricFacts:
    ends = use.metric.ends()
    return MetricFacts(
        name=use.name,
        binary=use.metric.binary,
        worst=ends[0] if ends else None,
        best=ends[1] if ends else None,
        pairwise="pairwise_choice" in use.metric.outputs,
        threshold=criteria.threshold(config.criteria, use.name, ends),
    )


def _shown(value: Any) -> Json:
    if isinstance(value, Mapping):
        return {str(k): _shown(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", type(value).__qualname__)
    return f"{module or type(value).__module__}:{name}"

"""The parts that a configuration names, found, built from their parameters and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from ...schemas.config.calls import CallPolicy
from ...schemas.config.evaluation import AgentConfig, EvaluationConfig, MetricConfig
from ...schemas.config.explain import unknown_key
from ...schemas.config.storage import OutputConfig
from ...schemas.errors import ConfigError, Mistakes, name_error
from ...schemas.formats.adk_config import Criterion
from ...schemas.json import Json
from ...schemas.tables import PERFORMANCE
from ...schemas.warehouse import Stamp
from ...transforms import registry
from ...transforms.agents.base import Agent, Recording
from ...transforms.dialects._rules import TRIAL, RowRules, TrialColumn, auto_dialects, names_of
from ...transforms.dialects.base import Dialect
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.metrics.base import Metric
from ...transforms.statistics import criteria
from ...transforms.writers.base import Writer
from .passes import check_passes


def agent_type(config: AgentConfig) -> str:
    """The agent's type; "auto" is decided by the target."""
    if config.type != "auto":
        return config.type
    if config.target is None:
        return "recorded"
    target, name = config.target, _claimed(config.target)
    if name is None and isinstance(target, str):
        if "://" in target:
            raise ConfigError(f"found {target!r}", where="agent.target", allowed='http://, https:// or "module:name"')
        target = registry.load_object(target, "agent.target")
        name = _claimed(target)
    return name or ("queryable" if callable(getattr(target, "query", None)) else "function")


def _claimed(target: Any) -> str | None:
    """The type whose agent a target plainly is."""
    parts = ((name, registry.find("agent", name).factory) for name in registry.names("agent"))
    return next((name for name, kind in parts if hasattr(kind, "claims") and kind.claims(target)), None)  # type: ignore[attr-defined]


def build_agent(config: AgentConfig, where: str = "") -> Agent | Recording:
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
        params |= {"model": config.model} if "model" in own and config.model is not None else {}
        check_keys(params, {*AgentConfig.model_fields, *own}, "agent")
    return registry.build(part, params, "agent")


def check_keys(keys: Iterable[str], known: Collection[str], where: str) -> None:
    """Looks at the keys of a section whose part decides which there are.

    Args:
        keys: Those that are given.
        known: Those of the section and of the part.
        where: The section.

    Raises:
        ConfigError: One is not known.
    """
    found = Mistakes()
    found.errors += [unknown_key(key, sorted(known), f"{where}.{key}") for key in keys if key not in known]
    found.raise_all()


def build_metrics(configs: Sequence[MetricConfig], found: Mistakes | None = None) -> tuple[ConfiguredMetric, ...]:
    """The metrics a configuration names, under distinct output names, after latency and failure.

    Args:
        configs: The entries of the configuration.
        found: Takes the mistakes; the metrics that are refused are left out. Default: the mistakes are raised.
    """
    kept = Mistakes() if found is None else found
    uses = [
        ConfiguredMetric(name, registry.build(registry.find("metric", name), {}, "metrics")) for name in PERFORMANCE
    ]
    given = [c for c in configs if c.metric not in PERFORMANCE]
    repeated = Counter(c.name for c in given)
    for i, config in enumerate(given):
        where = f"metrics.{i}"
        with kept.collect(f"metrics.{config.name}" if config.name else "metrics"):
            metric = build_metric(config, where)
            check_passes(config, metric, where)
            name = config.name or registry.name_of("metric", metric) or type(metric).__name__
            if repeated[config.name] > 1 and metric.variant:
                name = f"{name}/{metric.variant}"
            if any(u.name == name for u in uses):
                raise ConfigError(
                    f"two metrics are named {name!r}", where=where, allowed="a 'name' of its own for each"
                )
            uses.append(ConfiguredMetric(name, metric, tuple(config.pass_k), config.pass_threshold))
    if found is None:
        kept.raise_all()
    return tuple(uses)


def build_metric(config: MetricConfig, where: str) -> Metric:
    """One metric, from its registered name, from "module:name" or from an object."""
    metric = _build_metric(config, where)
    if getattr(metric, "baseline_model", None) is not None:
        allowed = "EvalTask, a column baseline_model_response, or `baseline` with the folder of another run"
        raise ConfigError("baseline_model is given", where=where, allowed=allowed)
    return metric


def _build_metric(config: MetricConfig, where: str) -> Metric:
    from ...transforms.metrics.custom import as_metric
    from ...transforms.metrics.scorer import as_scorer

    target = config.metric
    if isinstance(target, str) and ":" not in target:
        return registry.build(registry.find("metric", target, where), config.params, where)
    if isinstance(target, str):
        target = registry.load_object(target, where)
    scorer = as_scorer(target, config.name, config.params)
    return as_metric(target, config.name, config.params, where) if scorer is None else scorer


def build_rules(config: EvaluationConfig, agent: Agent | Recording) -> RowRules:
    """Builds the rules by which rows are read."""
    data = config.dataset
    fields, inputs = names_of(data.columns), tuple(agent.inputs)
    dialects, trial = find_dialects(data.dialect), trial_column(config)
    return RowRules(dialects, fields, inputs, data.id, data.sample, data.prompt_template, trial)


def trial_column(config: EvaluationConfig) -> TrialColumn | None:
    """The column that numbers recorded trials: the one that is named or, beside `dataset.id`, a column `trial`.

    Raises:
        ConfigError: A column is named, but the answers are not those of the rows, or each is repeated.
    """
    data = config.dataset
    recorded = config.agent.type in ("auto", "recorded") and config.agent.target is None
    if data.trial is None:
        taken = recorded and data.id is not None and config.trials == 1
        return TrialColumn(TRIAL, required=False) if taken else None
    if not recorded:
        found = "it numbers recorded trials, but this run calls an agent"
        raise ConfigError(found, where="dataset.trial", allowed="trials: N, the number of calls for each row")
    if config.trials > 1:
        found = f"found {config.trials}, but the rows are trials (dataset.trial)"
        raise ConfigError(found, where="trials", allowed="1")
    return TrialColumn(data.trial)


def find_dialects(asked: str) -> tuple[Dialect, ...]:
    """The dialects that rows may have: the one that is asked for, or with "auto" all of them.

    Raises:
        ConfigError: There is none of that name.
    """
    names = registry.names("dialect")
    known: dict[str, Dialect] = {n: registry.build(registry.find("dialect", n), {}, "dataset.dialect") for n in names}
    if asked == "auto":
        return auto_dialects(list(known.values()), known["plain"])
    if asked in known:
        return (_Always(known[asked]),)
    allowed = ", ".join(["auto", *names])
    raise name_error(f"no dialect named {asked!r}", asked, ["auto", *names], "dataset.dialect", allowed)


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
    """Columns that mark the rows of a run in BigQuery."""
    assert output.bigquery is not None
    return Stamp(output.bigquery.run_id or output.path.rstrip("/"), output.bigquery.run_date)


def named_criteria(config: EvaluationConfig) -> tuple[Criterion, ...]:
    """The criteria of a run that have a least score, as ADK's results name them."""
    bounds = ((m, criteria.threshold(config.criteria, m.name, None)) for m in config.metrics)
    return tuple(Criterion(m.name, bound.value, m.params) for m, bound in bounds if bound and not bound.at_most)

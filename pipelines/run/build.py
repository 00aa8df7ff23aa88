"""A configuration becomes a plan: every part resolved, built and checked before anything is read or called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.errors import ConfigError, name_error
from ...transforms.agents.base import Recording
from ...transforms.calls.context import RunContext
from ...transforms.io import storage
from ...transforms.judge import JudgeUse
from ...transforms.judges.replay import Replay
from ...transforms.labels import PeopleLabels, read_labels
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.readers._files import expand
from ...transforms.statistics import criteria
from ...transforms.statistics.slices import MetricFacts
from ..runners.packages import collect
from .baseline import baseline_files, check_gate
from .batches import check_batches
from .judges import build_judges, full_names
from .output_guard import refuse_others
from .parts import agent_type, build_agent, build_metrics, build_rules, build_writer
from .passes import check_trials, describe_passes
from .plan import Plan, describe_metric, describe_pooled
from .publish import require_sinks
from .sequential import check_sequential


def make_plan(config: EvaluationConfig, where: str = "", rows: Any = None) -> Plan:
    """Resolves and builds everything a configuration names, and writes nothing.

    Args:
        config: What the user asked for.
        where: Stands before the names of keys in errors.
        rows: A dataset in memory; the run writes it to `dataset.path`.

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
    _check_others(config, agent, judges)
    facts = [describe_metric(u, config) for u in metrics]
    ends = _find_ends(config, metrics, facts)
    criteria.check(config.criteria, ends, config.slices, config.labels.columns if config.labels else ())
    check_gate(config.gate, facts)
    check_sequential(config, metrics, judges)
    check_trials(config, isinstance(agent, Recording))
    written = () if rows is None else config.dataset.paths
    files = [] if written else expand(config.dataset.paths, config.dataset.format, config.dataset.reading)
    parts = {"judges": judges, "packages": packages, "labels": _read_labels(config, facts), "rows": rows}
    plan = Plan(config, tuple(files), build_rules(config, agent), agent, metrics, build_writer(config), **parts)
    refuse_others(config.output.path, () if written else config.dataset.paths, {f.path for f in files}, written)
    if config.baseline is not None:
        baseline_files(config.baseline)
    if (loading := plan.loading(RunContext())) is not None:
        loading.check()
    check_batches(plan)
    return plan


def _find_ends(
    config: EvaluationConfig, metrics: Sequence[ConfiguredMetric], facts: Sequence[MetricFacts]
) -> dict[str, tuple[float, float] | None]:
    """Returns the lowest and the highest value of each metric of the summary; `None` without a range."""
    named = [(row, use.metric.range) for use, one in zip(metrics, facts, strict=True) for row in one.rows()]
    ends = {row.name: (0.0, 1.0) if row.binary else range_ for row, range_ in named}
    ends |= dict.fromkeys(_check_ratios(config, facts))
    others = (one for use in metrics for one in (*describe_passes(use), *describe_pooled(use)))
    return ends | {one.name: one.range for one in others}


def _check_ratios(config: EvaluationConfig, facts: Iterable[MetricFacts]) -> list[str]:
    """Returns the names of the ratios, each of which is new and of two metrics that have scores."""
    known = {row.name: row for one in facts for row in one.rows()}
    for name, two in config.statistics.ratios.items():
        where = f"statistics.ratios.{name}"
        if name in known:
            raise ConfigError(f"{name!r} is the name of a metric", where=where, allowed="a new name")
        for metric in two:
            if metric not in known:
                raise name_error(f"no metric named {metric!r}", metric, known, where)
    return list(config.statistics.ratios)


def _read_labels(config: EvaluationConfig, facts: Iterable[MetricFacts]) -> PeopleLabels | None:
    if config.labels is None:
        return None
    own = config.dataset.id
    declared = config.dataset.columns.get(own) if own is not None else None
    return read_labels(config.labels, facts, own, declared and declared.type)


def _check_others(config: EvaluationConfig, agent: Any, judges: Mapping[str, JudgeUse]) -> None:
    """Refuses a run that reads its own folder, which overwriting would remove, or lacks what its sinks need."""
    require_sinks(config.output)
    if config.replay is not None and isinstance(agent, Recording):
        found = "without an agent the rows carry the answers"
        raise ConfigError(found, where="replay", allowed="with the agent whose answers they are (--agent)")
    runs = {f"judges.{name}.run": use.judge.run for name, use in judges.items() if isinstance(use.judge, Replay)}
    for where, run in {
        "replay": config.replay,
        "baseline": config.baseline,
        "gate.against": config.gate.against,
        **runs,
    }.items():
        if run is not None and storage.same(run, config.output.path):
            raise ConfigError(f"{run} is this run's own output.path", where=where, allowed="another run's folder")

"""A configuration becomes a plan: every part resolved, built and checked before anything is read or called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...schemas.config.evaluation import AgentConfig, EvaluationConfig
from ...schemas.config.storage import OutputConfig
from ...schemas.errors import ConfigError, Mistakes, name_error
from ...transforms.agents.base import Agent, Recording
from ...transforms.calls.context import RunContext
from ...transforms.dialects._rules import RowRules
from ...transforms.io import storage
from ...transforms.judge import JudgeUse
from ...transforms.judges.replay import Replay
from ...transforms.labels import PeopleLabels, read_labels
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.readers._files import FileInfo, expand
from ...transforms.statistics import criteria
from ...transforms.statistics.slices import MetricFacts
from ..runners.packages import Packages, collect
from .baseline import baseline_files, check_gate
from .batches import check_batches
from .checks import require_answers, require_columns
from .inventory import read_first_rows
from .judges import build_judges, full_names
from .output_guard import refuse_others
from .parts import agent_type, build_agent, build_metrics, build_rules, build_writer, find_dialects
from .passes import check_trials, describe_passes
from .plan import Plan, describe_metric, describe_pooled
from .publish import require_sinks
from .sequential import check_sequential

_WITH_CODE = ("agent", "metrics", "judges")
"""What may be found in an agent's packages only."""
_FILES = ("dataset.path", "dataset.format", "dataset.query", "dataset.query_into", "dataset.select", "dataset.where")
"""What decides which files are read."""


def make_plan(config: EvaluationConfig, where: str = "", rows: Any = None, found: Mistakes | None = None) -> Plan:
    """Resolves and builds everything a configuration names, and writes nothing.

    All mistakes that can be known are raised together, without those that only follow from another one, such as a
    criterion on a metric that was refused. The checks go on with the default of what is refused.

    Args:
        config: What the user asked for.
        where: Stands before the names of keys in errors.
        rows: A dataset in memory; the run writes it to `dataset.path`.
        found: The mistakes so far, which are raised with the others.

    Raises:
        ConfigError: Something named does not exist, does not fit, or contradicts something else; `ConfigErrors` if
            there are several such things.
    """
    found, packages = found or Mistakes(), Packages()
    with found.collect(*_WITH_CODE):
        packages = collect(config.agent.packages)
        packages.import_here()
    config, agent = _resolve(config, where, found)
    metrics = build_metrics([] if found.doubts("metrics") else config.metrics, found)
    judges: dict[str, JudgeUse] = {}
    with found.collect("judges", unless=lambda name: found.doubts(f"judges.{name}")):
        judges = build_judges(config.judges, metrics)
    _check_together(config, agent, metrics, judges, found)
    files = [] if rows is not None else _find_files(config, found)
    labels = _check_places(config, metrics, files, rows is not None, found)
    writer = build_writer(config.model_copy(update={"output": OutputConfig()}))
    with found.collect("output"):
        writer = build_writer(config)
    parts = {"judges": judges, "packages": packages, "labels": labels, "rows": rows}
    plan = Plan(config, tuple(files), _build_rules(config, agent, found), agent, metrics, writer, **parts)
    with found.collect():
        check_batches(plan)
    _raise_with_columns(plan, found)
    if (loading := plan.loading(RunContext())) is not None:  # asks BigQuery
        loading.check()
    return plan


def _resolve(config: EvaluationConfig, where: str, found: Mistakes) -> tuple[EvaluationConfig, Agent | Recording]:
    """Returns the configuration with its agent's type and the full names of its metrics, and the agent."""
    resolved: dict[str, Any] = {"agent": AgentConfig()}
    agent = build_agent(AgentConfig())
    with found.collect("agent"):
        if not found.doubts("agent.type", "agent.target"):
            agent = build_agent(config.agent, where)
            resolved["agent"] = config.agent.model_copy(update={"type": agent_type(config.agent)})
    resolved["dataset"] = config.dataset.model_copy(update={"dialect": "auto"})
    with found.collect("dataset.dialect", "metrics"):  # whose names without a family the dialect decides
        if found.doubts("dataset.dialect"):
            found.doubtful.add("metrics")
        find_dialects(config.dataset.dialect)
        resolved["dataset"] = config.dataset
        resolved["metrics"] = full_names(config.metrics, config.dataset.dialect)
    return config.model_copy(update=resolved), agent


def _check_together(
    config: EvaluationConfig,
    agent: Agent | Recording,
    metrics: Sequence[ConfiguredMetric],
    judges: Mapping[str, JudgeUse],
    found: Mistakes,
) -> None:
    """Checks what sections say of each other."""
    facts = [describe_metric(u, config) for u in metrics]
    with found.collect():
        require_sinks(config.output)
    with found.collect():
        _check_others(config, None if found.doubts("agent") else agent, judges)

    def may_be_there(name: str) -> bool:
        return found.doubts(f"metrics.{name}", "statistics.ratios")

    with found.collect(unless=may_be_there):
        _check_ratios(config, facts)
    with found.collect(unless=may_be_there):
        ends, labelled = _find_ends(config, metrics, facts), config.labels.columns if config.labels else ()
        if not found.doubts("slices", "labels"):
            criteria.check(config.criteria, ends, config.slices, labelled)
    with found.collect(unless=may_be_there):
        if not (config.gate.corrected and found.doubts("metrics", "labels")):  # which may be the one with labels
            check_gate(config.gate, [*facts, *(row for use in metrics for row in describe_passes(use))])
    with found.collect(unless=may_be_there):
        check_sequential(config, metrics, judges)
    with found.collect():
        if not found.doubts("agent", "trials"):
            check_trials(config, isinstance(agent, Recording))


def _check_places(
    config: EvaluationConfig,
    metrics: Sequence[ConfiguredMetric],
    files: Sequence[FileInfo],
    memory: bool,
    found: Mistakes,
) -> PeopleLabels | None:
    """Checks the folders and files beside the dataset; returns the labels."""
    labels = None
    with found.collect(unless=lambda name: found.doubts(f"metrics.{name}")):
        labels = _read_labels(config, [describe_metric(u, config) for u in metrics])
    with found.collect():
        paths = config.dataset.paths
        refuse_others(config.output.path, paths if files else (), {f.path for f in files}, paths if memory else ())
    with found.collect():
        if config.baseline is not None:
            baseline_files(config.baseline)
    return labels


def _find_files(config: EvaluationConfig, found: Mistakes) -> list[FileInfo]:
    if not found.doubts(*_FILES):
        with found.collect("dataset.path"):
            return expand(config.dataset.paths, config.dataset.format, config.dataset.reading)
    return []


def _build_rules(config: EvaluationConfig, agent: Agent | Recording, found: Mistakes) -> RowRules:
    with found.collect("dataset.trial"):
        return build_rules(config, agent)
    without = config.dataset.model_copy(update={"trial": None})
    return build_rules(config.model_copy(update={"dataset": without}), agent)


def _raise_with_columns(plan: Plan, found: Mistakes) -> None:
    """Raises the mistakes that were found, if there are any, with those that the first rows of the dataset show."""
    if found.errors and plan.files and not found.doubts(*_FILES, "dataset.dialect", "dataset.columns"):
        with found.collect():
            rows = read_first_rows(plan, plan.files)
            with found.collect():
                require_columns(plan, rows)
            if not found.doubts("agent"):
                require_answers(plan, rows)
    found.raise_all()


def _find_ends(
    config: EvaluationConfig, metrics: Sequence[ConfiguredMetric], facts: Sequence[MetricFacts]
) -> dict[str, tuple[float, float] | None]:
    """Returns the lowest and the highest value of each metric of the summary; `None` without a range."""
    named = [(row, use.metric.range) for use, one in zip(metrics, facts, strict=True) for row in one.rows()]
    ends = {row.name: (0.0, 1.0) if row.binary else range_ for row, range_ in named}
    ends |= dict.fromkeys(config.statistics.ratios)
    others = (one for use in metrics for one in (*describe_passes(use), *describe_pooled(use)))
    return ends | {one.name: one.range for one in others}


def _check_ratios(config: EvaluationConfig, facts: Iterable[MetricFacts]) -> None:
    """Checks that each ratio has a new name, and is of two metrics that have scores."""
    found = Mistakes()
    known = {row.name: row for one in facts for row in one.rows()}
    for name, two in config.statistics.ratios.items():
        where = f"statistics.ratios.{name}"
        if name in known:
            found.errors.append(ConfigError(f"{name!r} is the name of a metric", where=where, allowed="a new name"))
        unknown = [metric for metric in two if metric not in known]
        found.errors += [name_error(f"no metric named {one!r}", one, known, where) for one in unknown]
    found.raise_all()


def _read_labels(config: EvaluationConfig, facts: Iterable[MetricFacts]) -> PeopleLabels | None:
    if config.labels is None:
        return None
    own = config.dataset.id
    declared = config.dataset.columns.get(own) if own is not None else None
    return read_labels(config.labels, facts, own, declared and declared.type)


def _check_others(config: EvaluationConfig, agent: Any, judges: Mapping[str, JudgeUse]) -> None:
    """Refuses a run that reads its own folder, which overwriting would remove."""
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

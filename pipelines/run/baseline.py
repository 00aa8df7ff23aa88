"""Finds earlier runs: the one that pairwise metrics compare with, and the one of the gate."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...schemas.config.gate import GateConfig
from ...schemas.errors import ConfigError, Mistakes, name_error
from ...transforms.statistics.order_statistics import QUANTILES
from ...transforms.statistics.slices import MetricFacts
from ..compared import ENDINGS, metric_of_quantile
from .result import EvaluationResult, require_finished


def baseline_files(folder: str) -> tuple[str, ...]:
    """The Parquet files of a finished run's instances table.

    Raises:
        ConfigError: There is no finished run, or its tables are in another format.
    """
    try:
        run = EvaluationResult.load(folder)
    except ConfigError:
        raise ConfigError(f"no finished run at {folder!r}", where="baseline") from None
    require_finished(run, "baseline")
    files = run.files("instances")
    if not files or not all(path.endswith(".parquet") for path in files):
        shown = files[0] if files else "no instances table"
        raise ConfigError(f"found {shown}", where="baseline", allowed="a run with output.format: parquet")
    return tuple(files)


def check_gate(gate: GateConfig, metrics: Collection[MetricFacts]) -> None:
    """Checks before a run begins that its gate can be asked when it has ended.

    Raises:
        ConfigError: A metric does not exist, a margin is beyond its range, there is no finished run to compare with, or
            labels that are to decide are missing.
    """
    found = Mistakes()
    known = {one.name: one for one in metrics if not one.pairwise}
    for where, names in (("gate.metrics", gate.metrics or ()), ("gate.margins", gate.margins)):
        unknown = [name for name in names if _find_facts(name, known) is None]
        allowed = f"{', '.join(known)}, quantiles of their scores ({ENDINGS})"
        found.errors += [name_error(f"no metric named {n!r}", n, _list_near(n, known), where, allowed) for n in unknown]
    with found.collect():
        _check_margins(gate, known)
    labelled = [one.name for one in metrics if one.labelled]
    if gate.corrected and not labelled:
        found.errors.append(
            ConfigError("no metric has labels", where="gate.corrected", allowed="with the section labels")
        )
    elif gate.against is not None:
        with found.collect():
            _check_earlier(gate, gate.against, labelled, known)
    found.raise_all()


def _list_near(name: str, known: Mapping[str, MetricFacts]) -> list[str]:
    """Lists the names that an unknown one may mean: those of quantiles only if it has an ending."""
    endings = QUANTILES if "/" in name else ()
    return [*known, *(f"{metric}/{end}" for metric, one in known.items() if one.passes is None for end in endings)]


def _find_facts(name: str, known: Mapping[str, MetricFacts]) -> MetricFacts | None:
    """Returns the facts of a metric, of a row pass^k or pass@k, or of the metric of a quantile."""
    metric = metric_of_quantile(name, [one.name for one in known.values() if one.passes is None])
    return known.get(name) or (known[metric] if metric is not None else None)


def _check_margins(gate: GateConfig, known: Mapping[str, MetricFacts]) -> None:
    whole = [name for name, one in known.items() if one.passes is None]
    for name in dict.fromkeys((*whole, *gate.margins)) if gate.metrics is None else gate.metrics:
        one = _find_facts(name, known)
        most = None if one is None or one.worst is None or one.best is None else abs(one.best - one.worst)
        margin = gate.margins.get(name, gate.margin)
        if most is not None and margin >= most:
            key = f"gate.margins.{name}" if name in gate.margins else "gate.margin"
            found = f"found {margin:g} for {name}, whose scores are at most {most:g} apart"
            raise ConfigError(found, where=key, allowed=f"a number below {most:g}")


def _check_earlier(gate: GateConfig, against: str, labelled: Collection[str], known: Mapping[str, MetricFacts]) -> None:
    try:
        manifest = EvaluationResult.load(against).manifest
    except ConfigError:
        raise ConfigError(f"no finished run at {against!r}", where="gate.against") from None
    if gate.corrected and not set(labelled) & set((manifest["config"].get("labels") or {}).get("columns") or ()):
        found = f"{against!r} has no labels of {', '.join(labelled)}"
        raise ConfigError(found, where="gate.corrected", allowed="an earlier run with labels")
    described = manifest.get("metrics") or ()
    there = [one["name"] for one in described]
    for name in (*(gate.metrics or ()), *gate.margins):
        one = _find_facts(name, known)
        if one is not None and (one.passes.metric if one.passes else one.name) not in there:
            found = f"{against!r} has no metric {name!r} to compare"
            raise ConfigError(found, where="gate", allowed=", ".join(there) or "none")

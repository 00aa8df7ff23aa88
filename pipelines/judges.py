"""The judges of a plan: which metrics ask them, and what their answers depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from ..schemas.calls import CallPolicy
from ..schemas.config import JudgeConfig, MetricConfig
from ..schemas.errors import ConfigError
from ..schemas.instance import Json
from ..transforms import registry
from ..transforms.judge import JudgeUse
from ..transforms.judges.base import BatchJudge, Judge
from ..transforms.judging.metric import JudgedMetric
from ..transforms.metrics.base import Metric
from ..transforms.score import MetricUse

FAMILIES: Mapping[str, tuple[str, ...]] = {"databricks": ("databricks",), "adk": ("adk",)}
"""For a dialect the families of metrics whose bare names are meant, after the metrics without a family."""
JUDGES = "judges"
"""Folder of the votes below that of the journal."""
_EXAMPLE = "judges: {%s: {type: google, model: gemini-2.5-flash}}"


def full_names(configs: Sequence[MetricConfig], dialect: str) -> list[MetricConfig]:
    """The metrics with their bare names written out: with plain rows, `fluency` is `rapid/fluency`."""
    families = FAMILIES.get(dialect, ("rapid",))
    found = []
    for config in configs:
        if isinstance(config.metric, str) and ":" not in config.metric:
            config = config.model_copy(update={"metric": registry.full_name("metric", config.metric, families)})
        found.append(config)
    return found


def prompts_of(metric: Metric) -> list[Json]:
    """Name, version and hash of the prompts of a metric."""
    found = metric.prompts if isinstance(metric, JudgedMetric) else ()
    return [{"name": p.name, "version": p.version, "hash": p.hash} for p in found]


def build_judges(configs: Mapping[str, JudgeConfig], metrics: Sequence[MetricUse]) -> dict[str, JudgeUse]:
    """The judges that metrics ask, by name.

    Raises:
        ConfigError: A metric asks a judge that is not configured, or one cannot be made.
    """
    asked: dict[str, str] = {}
    for use in metrics:
        if isinstance(use.metric, JudgedMetric):
            asked |= {name: use.name for name in use.metric.judges if name not in asked}
    for name, metric in asked.items():
        if name not in configs:
            known = ", ".join(configs) or f"none yet; add {_EXAMPLE % name}"
            raise ConfigError(
                f"the metric {metric!r} asks the judge {name!r}, which is not there", where="judges", allowed=known
            )
    return {name: _use(name, configs[name]) for name in asked}


def build_judge(config: JudgeConfig, where: str) -> Judge:
    """The judge a configuration names, built from its own parameters."""
    target = config.params.get("target")
    if isinstance(target, Judge):
        return target
    part = registry.find("judge", config.type, where)
    if is_dataclass(part.factory):
        known = sorted({*JudgeConfig.model_fields, *(f.name for f in fields(part.factory))})
        for key in config.params:
            if key not in known:
                raise ConfigError(f"unknown key {key!r}", where=f"{where}.{key}", allowed=", ".join(known))
    return registry.build(part, config.params, where)


def _use(name: str, config: JudgeConfig) -> JudgeUse:
    judge = build_judge(config, f"judges.{name}")
    if config.mode != "live" and not isinstance(judge, BatchJudge):
        found = f"judges of type {config.type!r} take no batches"
        raise ConfigError(found, where=f"judges.{name}.mode", allowed="live; or a judge of type openai")
    return JudgeUse(judge, _policy(config), config.mode)


def _policy(config: JudgeConfig) -> CallPolicy:
    own: dict[str, Any] = {name: getattr(config, name) for name in CallPolicy.model_fields}
    return CallPolicy(**own)

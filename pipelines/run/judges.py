"""The judges of a plan: which metrics ask them, and what their answers depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TypeGuard

import orjson

from ...schemas.config.evaluation import JudgeConfig, MetricConfig
from ...schemas.errors import ConfigError, Mistakes, name_error
from ...schemas.instance import FROM_INVOCATION
from ...schemas.json import Json
from ...schemas.json_text import jsonable
from ...schemas.judging import CHECK_GROUNDING, EVALUATE_INSTANCES
from ...schemas.run_folder import JUDGES_RECORD, RunFolder
from ...transforms import registry
from ...transforms.agents.base import Recording
from ...transforms.io import storage
from ...transforms.io.secrets import check_reference
from ...transforms.join_baseline import JOINED
from ...transforms.judge import JudgeUse, Replayed
from ...transforms.judges.base import Judge, ModelJudge
from ...transforms.judges.replay import Replay
from ...transforms.judging.needs import CHARACTERS, Need, Needs
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.metrics._judged import JudgedMetric
from ...transforms.metrics.base import Metric
from .parts import check_keys

FAMILIES: Mapping[str, tuple[str, ...]] = {"databricks": ("databricks", "mlflow"), "adk": ("adk",)}
"""For a dialect the families of metrics whose bare names are meant, after the metrics without a family."""
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


def prompts_of(metric: Metric) -> list[dict[str, Json]]:
    """Name, version and hash of the prompts of a metric."""
    found = metric.prompts if isinstance(metric, JudgedMetric) else ()
    return [{"name": p.name, "version": p.version, "hash": p.hash} for p in found]


def needs_of(
    metrics: Sequence[ConfiguredMetric],
    judges: Mapping[str, JudgeUse],
    recorded: Recording | None,
    trials: int,
    baseline: bool,
) -> Needs:
    """Counts the calls and tokens that a row needs of judges at least.

    Args:
        metrics: The metrics that ask judges.
        judges: The judges.
        recorded: The agent that takes answers from the rows; `None` if one is called.
        trials: How often it is.
        baseline: Whether another run's answers join the rows: which rows have one is not known before.
    """
    unknown = set(JOINED if baseline else ())
    if recorded is None:
        unknown |= {name for name, given in FROM_INVOCATION.items() if given != "response"}
    needs = []
    for metric in (use.metric for use in metrics):
        if not (isinstance(metric, JudgedMetric) and metric.surely and unknown.isdisjoint(metric.inputs)):
            continue
        uses = [judges[name] for name in metric.judges]
        # a batch asks equal questions once, a joint question is several metrics'
        if all(u.mode == "live" and u.replayed is None and not u.combine_metrics for u in uses):
            calls = metric.calls[0] * (trials if recorded is None else 1)  # trials of one answer ask the same
            counted = all(isinstance(judges[name].judge, ModelJudge) for name in metric.judges)  # others may tell none
            told = len(metric.prompts[0].fill({})[0].content) if counted else 0
            needs.append(Need(metric.inputs, calls, calls * (told // CHARACTERS)))
    return Needs(tuple(needs), None if recorded is None else recorded.recall)


def build_judges(configs: Mapping[str, JudgeConfig], metrics: Sequence[ConfiguredMetric]) -> dict[str, JudgeUse]:
    """The judges that metrics ask, by name.

    Raises:
        ConfigError: A metric asks a judge that is not configured, or one cannot be made. Each judge is told of once.
    """
    found, refused = Mistakes(), set[str]()
    for name, config in configs.items():  # those that nobody asks, too: the manifest shows them
        with found.collect():
            if (key := config.params.get("api_key")) is not None:
                check_reference(str(key), f"judges.{name}.api_key")
    judges: dict[str, JudgeUse] = {}
    for use in metrics:
        for name in use.metric.judges if isinstance(use.metric, JudgedMetric) else ():
            if name in refused:
                continue
            refused.add(name)
            with found.collect():
                if name not in configs:
                    text = f"the metric {use.name!r} asks the judge {name!r}, which is not there"
                    known = ", ".join(configs) or f"none yet; add {_EXAMPLE % name}"
                    raise name_error(text, name, configs, "judges", known)
                if name not in judges:
                    judges[name] = use_judge(name, configs[name])
                check_understood(use, name, judges[name].judge)
                refused.remove(name)
    found.raise_all()
    return judges


def build_judge(config: JudgeConfig, where: str) -> Judge:
    """The judge a configuration names, built from its own parameters."""
    target = config.params.get("target")
    if isinstance(target, Judge):
        return target
    part = registry.find("judge", config.type, where)
    if is_dataclass(part.factory):
        check_keys(config.params, {*JudgeConfig.model_fields, *(f.name for f in fields(part.factory))}, where)
    return registry.build(part, config.params, where)


_SERVICES: Mapping[str | None, tuple[str, str]] = {
    EVALUATE_INSTANCES: ("vertex_eval", "a metric of rapid evaluation with service: true"),
    CHECK_GROUNDING: ("check_grounding", "the metric grounding with checker: vertex"),
}
"""For the requests of a service the type of judge that answers them, and what asks them."""


def check_understood(use: ConfiguredMetric, name: str, judge: Judge) -> None:
    """Refuses a judge that could not answer what a metric asks, before it is asked."""
    assert isinstance(use.metric, JudgedMetric)
    asked = use.metric.speaks
    if judge.speaks in (None, asked):
        return
    found = f"the judge answers {judge.speaks}, and the metric {use.name!r} asks it {asked}"
    kind, asker = _SERVICES[asked if asked in _SERVICES else judge.speaks]
    allowed = f"a judge of type {kind}" if asked in _SERVICES else f"another type, or {asker}"
    raise ConfigError(found, where=f"judges.{name}.type", allowed=allowed)


def use_judge(name: str, config: JudgeConfig) -> JudgeUse:
    """Builds the judge of a section, and how it is called."""
    judge = build_judge(config, f"judges.{name}")
    replayed = _replayed(judge, name) if isinstance(judge, Replay) else None
    joint = config.combine_metrics if replayed is None else replayed.combine_metrics
    return JudgeUse(judge, config, config.mode, replayed, joint)


def asks(metric: Metric, judge: str) -> TypeGuard[JudgedMetric]:
    """Returns whether a metric asks the judge of that name."""
    return isinstance(metric, JudgedMetric) and judge in metric.judges


def joined_metrics(name: str, judge: JudgeUse, metrics: Sequence[ConfiguredMetric]) -> list[ConfiguredMetric]:
    """The metrics whose questions are put to a judge as one."""
    return [u for u in metrics if asks(u.metric, name) and u.metric.joinable] if judge.combine_metrics else []


def judges_record(judges: Mapping[str, JudgeUse], metrics: Sequence[ConfiguredMetric]) -> bytes:
    """The record that a run keeps beside its votes, for runs that replay them."""
    asked = {}
    for name, use in judges.items():
        replays = use.judge.run if isinstance(use.judge, Replay) else None
        said = {
            "identity": use.identity,
            "model": use.model_name,
            "combine_metrics": use.combine_metrics,
            "replays": replays,
        }
        asked[name] = {**said, "together": _together(joined_metrics(name, use, metrics))}
    return jsonable({"judges": asked, "prompts": {use.name: prompts_of(use.metric) for use in metrics}})


def not_replayed(judges: Mapping[str, JudgeUse], metrics: Sequence[ConfiguredMetric]) -> dict[str, list[str]]:
    """For each metric that asks a replayed judge what the replayed run did not ask: names of prompts, or joint ones."""
    found: dict[str, list[str]] = {}
    for name, judge in judges.items():
        if (known := judge.replayed) is None:
            continue
        together = joined_metrics(name, judge, metrics)
        others = together if _together(together) != known.together else []
        for use in metrics:
            if asks(use.metric, name):
                new = [p.name for p in use.metric.prompts if p.hash not in known.prompts]
                found.setdefault(use.name, []).extend(new or ["the same metrics jointly"] * (use in others))
    return found


def _together(metrics: Sequence[ConfiguredMetric]) -> list[list[str]]:
    """The identity of combined questions: the hashes of their parts' prompts."""
    return sorted([prompt["hash"] for prompt in prompts_of(use.metric)] for use in metrics)


def _replayed(judge: Replay, name: str) -> Replayed:
    """The judge of another run that a judge of type replay stands for.

    Raises:
        ConfigError: That run asked no judge of its name.
    """
    journal, wanted = RunFolder(judge.run).judge_journal, judge.judge or name
    path = storage.join(journal, JUDGES_RECORD)
    if not storage.exists(path):
        found, allowed = f"no votes of judges at {judge.run!r}", "the output folder of a run that asked judges"
        raise ConfigError(found, where=f"judges.{name}.run", allowed=allowed)
    record = orjson.loads(storage.read_bytes(path))
    judges = record["judges"]
    if wanted not in judges:
        found = f"{judge.run} asked no judge {wanted!r}"
        raise ConfigError(found, where=f"judges.{name}.judge", allowed=", ".join(judges))
    known = judges[wanted]
    if known["replays"] is not None:
        found = f"{judge.run} has no votes of its own of {wanted!r}"
        raise ConfigError(found, where=f"judges.{name}.run", allowed=known["replays"])
    prompts = frozenset(prompt["hash"] for used in record["prompts"].values() for prompt in used)
    return Replayed(journal, known["identity"], known["model"], known["combine_metrics"], prompts, known["together"])

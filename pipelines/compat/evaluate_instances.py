"""The rapid evaluation API without the service: converts a request to the API's response, both as JSON."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ...schemas.config.evaluation import JudgeConfig
from ...schemas.config.explain import explain_error
from ...schemas.errors import ConfigError, RowError
from ...schemas.formats.lenient import lenient_json
from ...schemas.formats.rapid import INPUTS, REPEATED, Asked, build_response, read_request, to_snake
from ...schemas.instance import Example, Instance
from ...schemas.json import Json
from ...schemas.result import Score, ScoredBatch
from ...transforms import registry
from ...transforms.agents.recorded import RecordedAgent
from ...transforms.judge import JudgeCaller, JudgeUse
from ...transforms.judging.autorater import Autorater, autorater_of
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.metrics.base import Metric, score_safely
from ..run.judges import build_judges
from .judge_now import judge_now

_IGNORED = frozenset(("location", "autorater_config"))
_log = logging.getLogger(__name__)


def evaluate_instances(
    request: Mapping[str, Any] | str | bytes, *, judges: Mapping[str, Any] | None = None
) -> dict[str, Json]:
    """Answers a request of Vertex AI's `evaluateInstances`; only model-based metrics make calls, those to the judge.

    One request may have several inputs. Scores are single-precision numbers with the fewest digits. An instance without
    a score (for example because its reference is not a tool call) gets a value without one, and a warning is logged.

    Args:
        request: The request's JSON, as an object or as text, with keys in snake or camel case. In text, trailing commas
            are ignored and repeated keys `instances` are merged. Of its `autorater_config`, only `sampling_count`
            (default here: 1) and `flip_enabled` (default here: false) have an effect.
        judges: The judge models, as in a configuration; `{"default": ...}` is used.

    Returns:
        The response's JSON, with keys in the case of the request.

    Raises:
        ConfigError: The request is invalid, names an unknown metric or parameter, or needs a judge model; the message
            names the location, the value found and what is allowed.
    """
    try:
        if isinstance(request, str | bytes):
            request = lenient_json(request, REPEATED)
        if not isinstance(request, Mapping):
            raise ConfigError(f"found {type(request).__name__}", where="request", allowed="an object with an input")
        asked, others = read_request(request)
    except RowError as error:
        raise ConfigError(error.message, where="request") from None
    if unknown := next((key for key in others if key not in _IGNORED), None):
        allowed = ", ".join(f"{name}_input" for name in INPUTS)
        raise ConfigError(f"unknown key {unknown!r}", where="request", allowed=allowed)
    autorater = _read_autorater(others.get("autorater_config"))
    uses = [ConfiguredMetric(one.name, _build_metric(one, autorater, judges)) for one in asked]
    built = build_judges(_parse_judges(judges or {}), uses)
    scores = [_compute_scores(one, use, built) for one, use in zip(asked, uses, strict=True)]
    parts = (build_response(one, values) for one, values in zip(asked, scores, strict=True))
    return {key: value for part in parts for key, value in part.items()}


def _build_metric(asked: Asked, autorater: Autorater, judges: Mapping[str, Any] | None) -> Metric:
    """Builds the requested metric with its parameters."""
    if asked.judged:
        if not judges:
            allowed = 'judges={"default": {"type": "google", "model": ...}}, or --judge'
            raise ConfigError("needs a judge model", where=f"request: {asked.name}_input", allowed=allowed)
        flip = autorater.flip if asked.name.startswith("pairwise_") else None
        given = {"samples": autorater.samples, "flip": flip}
        asked = replace(asked, params={**asked.params, **{k: v for k, v in given.items() if v is not None}})
    where = f"request: {asked.name}_input.metric_spec"
    return registry.build(registry.find("metric", asked.metric, where), asked.params, where)


def _read_autorater(config: Json) -> Autorater:
    if isinstance(config, Mapping):
        config = {to_snake(key): value for key, value in config.items()}
    try:
        return autorater_of(config)
    except ValueError as error:
        raise ConfigError(str(error), where="request") from None


def _parse_judges(judges: Mapping[str, Any]) -> dict[str, JudgeConfig]:
    try:
        return {name: JudgeConfig.model_validate(given) for name, given in judges.items()}
    except ValidationError as error:
        raise explain_error(error, "judges", JudgeConfig) from None


def _compute_scores(asked: Asked, use: ConfiguredMetric, judges: Mapping[str, JudgeUse]) -> list[Score]:
    recall = RecordedAgent().recall
    rows = (Instance(str(i), given) for i, given in enumerate(asked.instances))
    examples = [Example(row, recall(row)) for row in rows]
    if asked.judged:
        scored = judge_now(JudgeCaller((use,), judges), ScoredBatch(tuple(examples), {}, 0, ()))
        scores = [scored.scores[use.name].at(i) for i in range(len(examples))]
    else:
        scores = [score_safely(use.metric, example) for example in examples]
    for i, score in enumerate(scores):
        if score.error is not None:
            _log.warning("%s_input.instances[%d] has no score: %s", asked.name, i, score.error.message)
    return scores

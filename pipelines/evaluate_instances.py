"""The rapid evaluation API without the service: a request's JSON in, the API's response JSON out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..schemas.errors import ConfigError, RowError
from ..schemas.instance import Example, Instance, Json
from ..schemas.lenient import lenient_json
from ..schemas.rapid import INPUTS, REPEATED, Asked, answer, read_request
from ..schemas.result import Score
from ..transforms import registry
from ..transforms.agents.recorded import RecordedAgent
from ..transforms.metrics.base import Metric, guarded

_IGNORED = frozenset(("location", "autorater_config"))
_log = logging.getLogger(__name__)


def evaluate_instances(request: Mapping[str, Any] | str | bytes) -> dict[str, Json]:
    """Answers a request of Vertex AI's `evaluateInstances` (seconds to start, no call is made).

    Several inputs may stand in one request. Scores are single-precision numbers in their fewest digits. An instance
    that has no score (its reference is no tool call, for example) gets a value without one, and a warning is logged.

    Args:
        request: The request's JSON, as an object or as text. Keys in snake or camel case; in text, trailing commas are
            passed over and repeated keys `instances` are joined.

    Returns:
        The response's JSON, its keys in the case of the request's.

    Raises:
        ConfigError: The request cannot be read, asks for an unknown metric or parameter, or needs a judge model; names
            the place, what is there and what is allowed.
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
    parts = [(one, _metric(one)) for one in asked]
    return {key: value for one, metric in parts for key, value in answer(one, _scores(one, metric)).items()}


def _metric(asked: Asked) -> Metric:
    """The metric that is asked for, with its parameters."""
    if asked.judged:
        computed = ", ".join(f"{name}_input" for name, known in INPUTS.items() if not known.judged)
        raise ConfigError("needs a judge model", where=f"request: {asked.name}_input", allowed=f"for now {computed}")
    where = f"request: {asked.name}_input.metric_spec"
    return registry.build(registry.find("metric", asked.metric, where), asked.params, where)


def _scores(asked: Asked, metric: Metric) -> list[Score]:
    recall = RecordedAgent().recall
    rows = (Instance(str(i), given) for i, given in enumerate(asked.instances))
    scores = [guarded(metric, Example(row, recall(row))) for row in rows]
    for i, score in enumerate(scores):
        if score.error is not None:
            _log.warning("%s_input.instances[%d] has no score: %s", asked.name, i, score.error.message)
    return scores

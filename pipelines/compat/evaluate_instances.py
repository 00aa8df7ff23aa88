"""The rapid evaluation API without the service: converts requests to the API's responses, both as JSON."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ...schemas.config.evaluation import JudgeConfig
from ...schemas.config.explain import explain_error
from ...schemas.errors import ConfigError, RowError
from ...schemas.formats.lenient import lenient_json
from ...schemas.formats.rapid import INPUTS, REPEATED, Asked, build_response, read_request, to_snake
from ...schemas.formats.rapid_metrics import FORM, build_results, read_metrics
from ...schemas.instance import Example, Instance
from ...schemas.json import Json
from ...schemas.result import Score, ScoredBatch
from ...transforms import registry
from ...transforms.agents.recorded import RecordedAgent
from ...transforms.judge import JudgeCaller, JudgeUse
from ...transforms.judging.autorater import Autorater, autorater_of
from ...transforms.judging.raw_output import CustomOutputConfig
from ...transforms.judging.templates import rename_variables
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.metrics._judged import JudgedMetric
from ...transforms.metrics.base import Metric, score_safely
from ..run.judges import check_understood, use_judge
from .judge_now import Make, calling, judge_with

_IGNORED = frozenset(("location", "autorater_config"))
_PAIR = {"candidate_response_field_name": "response", "baseline_response_field_name": "baseline_model_response"}
CONCURRENT = 16
"""Requests of a stream that are answered at once."""
_log = logging.getLogger(__name__)


def evaluate_instances(
    request: Mapping[str, Any] | str | bytes, *, judges: Mapping[str, Any] | None = None
) -> dict[str, Json]:
    """Answers a request of Vertex AI's `evaluateInstances`; only model-based metrics make calls, those to the judge.

    One request may have several inputs, or `metrics` and an `instance`. Scores are single-precision numbers with the
    fewest digits. An instance without a score (for example because its reference is not a tool call) gets a value
    without one, and a warning is logged. If a judge fails, the response has an `error` with code, message and status,
    as the API's has; in the form with `metrics`, the result of that metric has it.

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
    with _answering(judges) as answering:
        return answering.answer(request)


def evaluate_requests(
    requests: Iterable[Mapping[str, Any] | str | bytes], *, judges: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Json]]:
    """Answers a stream of requests, each with its own metrics, in order; several at a time.

    Args:
        requests: Requests as `evaluate_instances` takes them, such as the lines of a JSONL file.
        judges: The judge models, as in a configuration; `{"default": ...}` is used.

    Yields:
        The response of each request; that of an invalid one is {"error": {code, message, status}}.

    Raises:
        ConfigError: A judge is invalid.
    """
    with _answering(judges) as answering, ThreadPoolExecutor(CONCURRENT) as pool:
        waiting: list[Any] = []
        for request in requests:
            waiting.append(pool.submit(answering.answer_safely, request))
            if len(waiting) == 2 * CONCURRENT:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def has_error(response: Mapping[str, Any]) -> bool:
    """Returns whether a response, or one of its metrics, is an error."""
    results = response.get("metric_results", response.get("metricResults")) or ()
    return "error" in response or any("error" in one for one in results)


@dataclass(frozen=True)
class _Answering:
    """Answers requests with judges that are connected once.

    Attributes:
        judges: The judges by name.
        make: Makes calls to them.
    """

    judges: Mapping[str, JudgeUse] = field(default_factory=dict)
    make: Make | None = None

    def answer_safely(self, request: Any) -> dict[str, Json]:
        try:
            return self.answer(request)
        except ConfigError as error:
            return {"error": {"code": 400, "message": str(error), "status": "INVALID_ARGUMENT"}}

    def answer(self, request: Any) -> dict[str, Json]:
        try:
            if isinstance(request, str | bytes):
                request = lenient_json(request, REPEATED)
            if not isinstance(request, Mapping):
                raise ConfigError(f"found {type(request).__name__}", where="request", allowed="an object with an input")
            keys = {to_snake(key): key for key in request}
            if "metrics" in keys:
                return self._answer_metrics(request, keys)
            asked, others = read_request(request)
        except RowError as error:
            raise ConfigError(error.message, where="request") from None
        autorater = _read_options(others, _IGNORED)
        uses = [ConfiguredMetric(one.name, self._build_metric(one, autorater)) for one in asked]
        parts: dict[str, Json] = {}
        for one, use in zip(asked, uses, strict=True):
            scores = self._compute_scores(one, use)
            if one.judged and scores[0].error is not None:
                parts["error"] = {"code": 500, "message": scores[0].error.message, "status": "INTERNAL"}
            else:
                parts |= build_response(one, scores)
        return parts

    def _answer_metrics(self, request: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Json]:
        """Answers the form with `metrics` and an `instance`."""
        given = {name: request[key] for name, key in keys.items()}
        asked = read_metrics(given)
        others = {name: value for name, value in given.items() if name not in FORM}
        autorater = _read_options(others, _IGNORED)
        results: list[Score | RowError] = []
        for i, one in enumerate(asked):
            if isinstance(one, RowError):
                results.append(one)
                continue
            try:
                use = ConfiguredMetric(one.name, self._build_metric(one, autorater, f"metrics[{i}]"))
                results.append(self._compute_scores(one, use)[0])
            except ConfigError as error:
                results.append(RowError("malformed_request", str(error)))
        return build_results(results, any(name != key for name, key in keys.items()) or _is_camel(request))

    def _build_metric(self, asked: Asked, autorater: Autorater, where: str = "") -> Metric:
        """Builds the requested metric with its parameters."""
        where = f"request: {where or f'{asked.name}_input'}"
        params = dict(asked.params)
        if asked.judged:
            if not self.judges:
                allowed = 'judges={"default": {"type": "google", "model": ...}}, or --judge'
                raise ConfigError("needs a judge model", where=where, allowed=allowed)
            flip = autorater.flip if asked.name.startswith("pairwise_") else None
            given = {"samples": autorater.samples, "flip": flip, "judge": "default"}
            params = {**_template_params(asked, params), **{k: v for k, v in given.items() if v is not None}}
        where = f"{where}.metric_spec"
        metric = registry.build(registry.find("metric", asked.metric, where), params, where)
        for name in metric.judges if isinstance(metric, JudgedMetric) else ():
            if name not in self.judges:
                raise ConfigError(f"no judge {name!r}", where="judges", allowed=", ".join(self.judges))
            check_understood(ConfiguredMetric(asked.name, metric), name, self.judges[name].judge)
        return metric

    def _compute_scores(self, asked: Asked, use: ConfiguredMetric) -> list[Score]:
        recall = RecordedAgent().recall
        rows = (Instance(str(i), _rename_answers(asked, given)) for i, given in enumerate(asked.instances))
        examples = [Example(row, recall(row)) for row in rows]
        if asked.judged:
            assert self.make is not None
            batch = ScoredBatch(tuple(examples), {}, 0, ())
            scored = judge_with(self.make, JudgeCaller((use,), self.judges), batch)
            return [scored.scores[use.name].at(i) for i in range(len(examples))]
        scores = [score_safely(use.metric, example) for example in examples]
        for i, score in enumerate(scores):
            if score.error is not None:
                _log.warning("%s_input.instances[%d] has no score: %s", asked.name, i, score.error.message)
        return scores


@contextmanager
def _answering(judges: Mapping[str, Any] | None) -> Iterator[_Answering]:
    """Connects the judges for as long as requests are answered."""
    uses = {name: use_judge(name, config) for name, config in _parse_judges(judges or {}).items()}
    if not uses:
        yield _Answering()
        return
    with calling(JudgeCaller((), uses)) as make:
        yield _Answering(uses, make)


def _template_params(asked: Asked, params: dict[str, Any]) -> dict[str, Any]:
    """Converts the spec of a template metric to the parameters of evalbeam's."""
    if not asked.name.endswith("wise_metric"):
        return params
    names = {params[key]: ours for key, ours in _PAIR.items() if params.get(key)}
    template = params.get("metric_prompt_template")
    if isinstance(template, str) and names:
        template = rename_variables(template, names)
    raw = (params.get("custom_output_format_config") or {}).get("return_raw_output")
    return {
        "metric": asked.name,
        "metric_prompt_template": template,
        "system_instruction": params.get("system_instruction"),
        "custom_output_config": CustomOutputConfig(return_raw_output=True) if raw else None,
    }


def _rename_answers(asked: Asked, given: Mapping[str, Json]) -> dict[str, Json]:
    """Gives the two answers of a pair the names that evalbeam's templates have."""
    names = {asked.params[key]: ours for key, ours in _PAIR.items() if isinstance(asked.params.get(key), str)}
    found = {names.get(name, name): value for name, value in given.items()}
    if asked.name.endswith("wise_metric"):  # a metric may judge something else than an answer
        found.setdefault("response", "")
    return found


def _is_camel(request: Mapping[str, Any]) -> bool:
    """Returns whether the metrics of a request are written in camel case."""
    metrics = request.get("metrics")
    return any(isinstance(one, Mapping) and any(to_snake(key) != key for key in one) for one in metrics or ())


def _read_options(others: Mapping[str, Json], known: frozenset[str]) -> Autorater:
    if unknown := next((key for key in others if key not in known), None):
        allowed = ", ".join((*(f"{name}_input" for name in INPUTS), *FORM))
        raise ConfigError(f"unknown key {unknown!r}", where="request", allowed=allowed)
    config = others.get("autorater_config")
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

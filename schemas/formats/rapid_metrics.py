"""Requests of the rapid evaluation API in its second form: a list `metrics`, and one `instance` for all of them.

Source: messages Metric, EvaluationInstance and MetricResult of google.cloud.aiplatform v1beta1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import RowError
from ..json import Json
from ..result import Score
from ..values import kind_of
from .rapid import CODE, INPUTS, Asked, float32, read_contents, to_snake, write_keys, write_true

FORM = ("metrics", "instance")
"""The keys of the form."""
_TYPES = {"EXACT_MATCH": "exact_match", "BLEU": "bleu", "ROUGE": "rouge"}
_SPECS = {f"{name}_spec": name for name in ("exact_match", "bleu", "rouge", "pointwise_metric", "pairwise_metric")}
_PREDEFINED = {"instruction_following": "rubric_based_instruction_following"}
_KINDS = ("predefined_metric_spec", "computation_based_metric_spec", "llm_based_metric_spec", *_SPECS)
_IGNORED = ("aggregation_metrics", "metadata")
_TEXTS = ("prompt", "response", "reference")


def read_metrics(request: Mapping[str, Json]) -> list[Asked | RowError]:
    """Reads the metrics of a request; those that cannot be asked for are errors of their own.

    Args:
        request: The request, with its own keys in snake case.

    Raises:
        RowError: The instance or the list is malformed.
    """
    metrics, instance = (request.get(key) for key in FORM)
    if not isinstance(metrics, Sequence) or isinstance(metrics, str) or not metrics:
        found = "empty" if metrics == [] else kind_of(metrics)
        raise RowError(CODE, f"metrics is {found} (allowed: a list with at least one metric)")
    if not isinstance(instance, Mapping):
        raise RowError(CODE, f"instance is {kind_of(instance)} (allowed: an object with {', '.join(_TEXTS)})")
    given = _read_instance(instance)
    asked: list[Asked | RowError] = []
    for i, metric in enumerate(metrics):
        try:
            asked.append(_read_metric(f"metrics[{i}]", metric, given))
        except RowError as error:
            asked.append(error)
    return asked


def build_results(results: Sequence[Score | RowError], camel: bool) -> dict[str, Json]:
    """Builds the response of metrics: a score, an explanation, verdicts on properties, or an error for each."""
    return write_keys({"metric_results": [_result(one) for one in results]}, camel)


def error_of(code: int, message: str) -> dict[str, Json]:
    """Builds a `google.rpc.Status`; 3 is an invalid argument, 13 an internal error."""
    return {"code": code, "message": message}


def _result(found: Score | RowError) -> dict[str, Json]:
    if isinstance(found, RowError):
        return {"error": error_of(3, found.message)}
    if found.error is not None:
        return {"error": error_of(13, found.error.message)}
    value: dict[str, Json] = {}
    if found.value is not None:
        value["score"] = float32(found.value)
    words = [text for text in (found.label, found.explanation) if text]
    if words:
        value["explanation"] = ": ".join(words)
    details = found.details if isinstance(found.details, Mapping) else {}
    if isinstance(rubrics := details.get("rubrics"), list) and all(isinstance(one, Mapping) for one in rubrics):
        value["rubric_verdicts"] = [_verdict(one) for one in rubrics]
    return value


def _verdict(one: Mapping[str, Any]) -> dict[str, Json]:
    content = {"property": {"description": one["rubric"]}}
    said = {"evaluated_rubric": {"content": content}, "reasoning": one["explanation"]}
    return {**said, **write_true("verdict", one["verdict"])}


def _read_instance(instance: Mapping[str, Json]) -> dict[str, Json]:
    """Reads the texts of an instance by name."""
    given = {to_snake(key): value for key, value in instance.items() if value is not None}
    found: dict[str, Json] = {n: read_contents(f"instance.{n}", given.pop(n)) for n in _TEXTS if n in given}
    other = given.pop("other_data", None)
    if isinstance(other, Mapping):
        held = {to_snake(key): value for key, value in other.items()}.get("map_instance") or {}
        found |= {name: read_contents(f"instance.other_data.{name}", one) for name, one in dict(held).items()}
    if given:
        allowed = ", ".join((*_TEXTS, "other_data"))
        raise RowError(CODE, f"instance has a field {next(iter(given))!r} (allowed: {allowed})")
    return found


def _read_metric(where: str, metric: Json, instance: dict[str, Json]) -> Asked:
    if not isinstance(metric, Mapping):
        raise RowError(CODE, f"{where} is {kind_of(metric)} (allowed: an object with one of {', '.join(_KINDS)})")
    given = {to_snake(key): value for key, value in metric.items()}
    kinds = [key for key in given if key not in _IGNORED]
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        shown = ", ".join(kinds) or "nothing"
        raise RowError(CODE, f"{where} has {shown} (allowed: one of {', '.join(_KINDS)})")
    kind, spec = kinds[0], given[kinds[0]]
    if not isinstance(spec, Mapping):
        raise RowError(CODE, f"{where}.{kind} is {kind_of(spec)} (allowed: an object)")
    name, params = _name_metric(f"{where}.{kind}", kind, {to_snake(key): value for key, value in spec.items()})
    known = INPUTS[name]
    if unknown := next((key for key in params if key not in known.spec), None):
        allowed = ", ".join(known.spec) or "no parameters"
        raise RowError(CODE, f"{where}.{kind} has a parameter {unknown!r} (allowed: {allowed})")
    if not known.judged:
        instance = {"prediction": instance.get("response"), "reference": instance.get("reference")}
    needed = ("response", *(("prompt",) if known.metric.startswith("rubric") else ())) if known.judged else instance
    if missing := next((field for field in needed if instance.get(field) is None), None):
        raise RowError(CODE, f"instance has no {'response' if missing == 'prediction' else missing}")
    return Asked(name, known.metric, params, (instance,), known.judged)


def _name_metric(where: str, kind: str, spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns (the API's name of the metric's input, its parameters)."""
    if kind in _SPECS:
        return _SPECS[kind], spec
    if kind == "computation_based_metric_spec":
        type_ = str(spec.get("type"))
        if type_ not in _TYPES:
            raise RowError(CODE, f"{where}.type is {type_!r} (allowed: {', '.join(_TYPES)})")
        return _TYPES[type_], {to_snake(key): value for key, value in dict(spec.get("parameters") or {}).items()}
    if kind == "llm_based_metric_spec":
        own = {key: spec[key] for key in ("metric_prompt_template", "system_instruction") if key in spec}
        if others := sorted(spec.keys() - own.keys()):
            raise RowError(CODE, f"{where} has {others[0]} (allowed: metric_prompt_template, system_instruction)")
        return "pointwise_metric", own
    name = str(spec.get("metric_spec_name"))
    plain = name.rpartition("_v")[0] or name
    if plain in _PREDEFINED:
        return _PREDEFINED[plain], {}
    if plain in INPUTS and not INPUTS[plain].judged:
        return plain, dict(spec.get("metric_spec_parameters") or {})
    allowed = ", ".join((*_PREDEFINED, *(key for key, one in INPUTS.items() if not one.judged)))
    raise RowError(CODE, f"{where}.metric_spec_name is {name!r} (allowed: {allowed})")

"""Requests and answers of Vertex AI's rapid evaluation API (`evaluateInstances`), as JSON.

The keys of a request name its metrics: `rouge_input` for rouge, with a `metric_spec` and `instances`. `INPUTS` defines
for each key the registered metric, the fields of its spec and instances, and whether a judge model is needed. Keys are
read in snake and in camel case, and the keys of the answer are in the case of the request.

Source: messages of google.cloud.aiplatform v1 and v1beta1 (EvaluateInstancesRequest, EvaluateInstancesResponse). The
API's documents write `instance` for one instance of metrics that take several: both are read for all of them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import RowError
from ..json import Json
from ..result import Score
from ..values import kind_of, parse_json

CODE = "malformed_request"
"""Code of every error raised here."""
REPEATED = frozenset(("instances", "instance"))
"""Keys that the API's documents repeat instead of writing a list."""


@dataclass(frozen=True, slots=True)
class Input:
    """The input of the API for one metric.

    Attributes:
        metric: Registered name of the metric.
        required: Fields that an instance must have.
        optional: Further fields it may have.
        spec: Fields of `metric_spec` that are parameters of the metric.
        judged: Whether a judge model scores: such an input has one instance, and its result is no list.
        named: Whether the instance holds fields of any name, in `json_instance` or `content_map_instance`.
        results: Fields of its result; all that there are by default.
    """

    metric: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    spec: tuple[str, ...] = ()
    judged: bool = False
    named: bool = False
    results: tuple[str, ...] = ("score", "pairwise_choice", "explanation", "confidence")


@dataclass(frozen=True, slots=True)
class Asked:
    """One metric of a request.

    Attributes:
        name: The API's name of the metric, also that of its results.
        metric: Registered name of the metric.
        params: Its parameters.
        instances: The instances to score, by the API's fields in snake case.
        judged: Whether a judge model scores.
        camel: Whether the request is written in camel case.
    """

    name: str
    metric: str
    params: dict[str, Json]
    instances: tuple[dict[str, Json], ...]
    judged: bool = False
    camel: bool = False


def _judged(name: str, *fields: str, optional: tuple[str, ...] = (), spec: tuple[str, ...] = ()) -> dict[str, Input]:
    return {name: Input(f"rapid/{name}", ("prediction", *fields), optional, spec, judged=True)}


def _on_context(name: str, *fields: str) -> dict[str, Input]:
    return _judged(name, *fields, "instruction", "context", optional=("reference",), spec=("use_reference",))


_PAIR = ("prediction", "reference")
_TRAJECTORIES = ("predicted_trajectory", "reference_trajectory")
_CALLS = ("tool_name_match", "tool_parameter_key_match")
_TEMPLATE = ("metric_prompt_template", "system_instruction", "custom_output_format_config")
_TRANSLATED = ("reference", "source")
_LANGUAGES = ("version", "source_language", "target_language")
_COMPARED = ("exact_match", "in_order_match", "any_order_match", "precision", "recall")

INPUTS: Mapping[str, Input] = {
    "exact_match": Input("exact_match", _PAIR),
    "bleu": Input("bleu", _PAIR, spec=("use_effective_order",)),
    "rouge": Input("rouge", _PAIR, spec=("rouge_type", "use_stemmer", "split_summaries")),
    "tool_call_valid": Input("tool_call_valid", ("prediction",), ("reference",)),
    **{name: Input(name, _PAIR) for name in _CALLS},
    "tool_parameter_kv_match": Input("tool_parameter_kv_match", _PAIR, spec=("use_strict_string_match",)),
    **{f"trajectory_{name}": Input(f"trajectory_{name}", _TRAJECTORIES) for name in _COMPARED},
    "trajectory_single_tool_use": Input("trajectory_single_tool_use", _TRAJECTORIES[:1], spec=("tool_name",)),
    **_judged("fluency"),
    **_judged("coherence"),
    **_judged("safety"),
    **_judged("groundedness", "context"),
    **_judged("fulfillment", "instruction"),
    **_on_context("summarization_quality"),
    **_on_context("pairwise_summarization_quality", "baseline_prediction"),
    **_on_context("summarization_helpfulness"),
    **_on_context("summarization_verbosity"),
    **_on_context("question_answering_quality"),
    **_on_context("pairwise_question_answering_quality", "baseline_prediction"),
    **_on_context("question_answering_relevance"),
    **_on_context("question_answering_helpfulness"),
    **_on_context("question_answering_correctness"),
    "pointwise_metric": Input(
        "pointwise", (), spec=_TEMPLATE, judged=True, named=True, results=("score", "explanation", "custom_output")
    ),
    "pairwise_metric": Input(
        "pairwise",
        (),
        spec=(*_TEMPLATE, "candidate_response_field_name", "baseline_response_field_name"),
        judged=True,
        named=True,
        results=("pairwise_choice", "explanation", "custom_output"),
    ),
    "rubric_based_instruction_following": Input(
        "rubric_based_instruction_following",
        ("prompt", "response"),
        judged=True,
        named=True,
        results=("score", "rubric_critique_results"),
    ),
    "comet": Input("comet", ("prediction",), _TRANSLATED, spec=_LANGUAGES, judged=True, results=("score",)),
    "metricx": Input("metricx", ("prediction",), _TRANSLATED, spec=_LANGUAGES, judged=True, results=("score",)),
}
"""Inputs by the API's name of the metric, which is `<name>_input` in a request."""


def _to_camel(key: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), key)


def to_snake(key: str) -> str:
    """Converts a key in either case to snake case."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: "_" + match[0].lower(), key)


_NAMES = {**{name: name for name in INPUTS}, "question_answering_relevancy": "question_answering_relevance"}
"""The API's names of the metrics by the names that its documents write."""
KEYS: Mapping[str, str] = {
    write(f"{written}_input"): name for written, name in _NAMES.items() for write in (str, _to_camel)
}
"""Keys of a request's metrics, in both cases, and the API's name of the metric."""


def read_request(request: Mapping[str, Json]) -> tuple[list[Asked], dict[str, Json]]:
    """Reads the metrics of a request, in order, and its other keys, in snake case.

    Raises:
        RowError: The request has no metric, or an input that `INPUTS` does not allow; the message names the location,
            the value found and what is allowed.
    """
    asked = [_asked(key, body) for key, body in request.items() if key in KEYS]
    names = [a.name for a in asked]
    if repeated := next((n for n in names if names.count(n) > 1), None):
        raise RowError(CODE, f"the request has two inputs for {repeated} (allowed: one)")
    if not asked:
        shown = ", ".join(sorted(map(str, request))[:10]) or "no keys"
        allowed = ", ".join(f"{name}_input" for name in INPUTS)
        raise RowError(CODE, f"the request asks for no metric; it has {shown} (allowed: {allowed})")
    return asked, {to_snake(key): value for key, value in request.items() if key not in KEYS}


def build_response(asked: Asked, scores: Sequence[Score]) -> dict[str, Json]:
    """Builds the part of the API's response for one input; values without a score have no key for it."""
    values = [_value(score) for score in scores]
    if asked.judged:
        result = {key: value for key, value in values[0].items() if key in INPUTS[asked.name].results}
        return write_keys({f"{asked.name}_result": result}, asked.camel)
    return write_keys({f"{asked.name}_results": {f"{asked.name}_metric_values": values}}, asked.camel)


def read_result(response: Json) -> Json:
    """Returns the fields of the only result in a response for one instance, such as {"fluency_result": {"score": 4}}.

    The API omits fields that have their default: explanation and confidence are always there. Anything else is returned
    unchanged.
    """
    if not isinstance(response, Mapping) or len(response) != 1:
        return response
    ((key, result),) = response.items()
    if to_snake(key).removesuffix("_result") not in _NAMES or not isinstance(result, Mapping):
        return response
    return {"explanation": "", "confidence": 1.0, **{to_snake(name): value for name, value in result.items()}}


def write_keys(value: Any, camel: bool) -> Any:
    """Returns a value with all its keys in camel case if `camel`, else unchanged."""
    if not camel:
        return value
    if isinstance(value, Mapping):
        return {_to_camel(key): write_keys(inner, camel) for key, inner in value.items()}
    return [write_keys(inner, camel) for inner in value] if isinstance(value, list) else value


def float32(value: float) -> float:
    """Rounds to the number of fewest digits with the same single-precision value, as the API writes its floats."""
    single = struct.pack("f", value)
    (value,) = struct.unpack("f", single)
    found = (float(f"{value:.{digits}g}") for digits in range(1, 9))
    return next((number for number in found if struct.pack("f", number) == single), float(f"{value:.9g}"))


def _asked(key: str, body: Json) -> Asked:
    name = KEYS[key]
    given = _fields(key, body, ("metric_spec", "instances", "instance"))
    listed = [value for field in ("instances", "instance") for value in _listed(given.get(field))]
    baseline = any(isinstance(i, Mapping) and {"baseline_prediction", "baselinePrediction"} & i.keys() for i in listed)
    if name == "question_answering_quality" and baseline:  # the documents write the pairwise input under this key too
        name = f"pairwise_{name}"
    known = INPUTS[name]
    if not listed or (known.judged and len(listed) > 1):
        allowed = "one instance" if known.judged else "instances, a list with at least one"
        raise RowError(CODE, f"{key}: found {len(listed)} instances (allowed: {allowed})")
    where = "{}.instance" if known.judged else "{}.instances[{}]"
    read = _named_instance if known.named else _instance
    instances = tuple(read(where.format(key, i), value, known) for i, value in enumerate(listed))
    params = _params(f"{key}.metric_spec", given.get("metric_spec") or {}, known)
    return Asked(name, known.metric, params, instances, known.judged, camel="_" not in key)


def _params(where: str, spec: Json, known: Input) -> dict[str, Json]:
    own = () if "version" in known.spec or known.named else ("version",) * known.judged  # of the service's own prompts
    params = {name: v for name, v in _fields(where, spec, (*known.spec, *own)).items() if name not in own}
    if isinstance(config := params.get("custom_output_format_config"), Mapping):
        params["custom_output_format_config"] = {to_snake(key): value for key, value in config.items()}
    if isinstance(kind := params.get("rouge_type"), str):
        params["rouge_type"] = re.sub(r"^rougen(?=\d)", "rouge", kind)  # as the API's documents write rouge1 ... 9
    return params


def _instance(where: str, value: Json, known: Input) -> dict[str, Json]:
    found = _fields(where, value, (*known.required, *known.optional))
    if missing := next((name for name in known.required if name not in found), None):
        raise RowError(CODE, f"{where} has no {missing} (allowed: {', '.join(known.required)})")
    for name, given in found.items():
        if name.endswith("_trajectory"):
            found[name] = _trajectory(given)
        elif not isinstance(given, str) and not (known.metric.startswith("tool_") and isinstance(given, Mapping)):
            raise RowError(CODE, f"{where}.{name} is {kind_of(given)} (allowed: a string)")
    return found


def _named_instance(where: str, value: Json, known: Input) -> dict[str, Json]:
    """Reads an instance with fields of any names: JSON text in `json_instance`, or texts in `content_map_instance`."""
    given = _fields(where, value, ("json_instance", "content_map_instance"))
    if len(given) != 1:
        raise RowError(CODE, f"{where} has {len(given)} fields (allowed: json_instance or content_map_instance)")
    ((name, held),) = given.items()
    where = f"{where}.{name}"
    found = _parse_fields(where, held) if name == "json_instance" else _map_fields(where, held)
    if missing := next((name for name in known.required if name not in found), None):
        raise RowError(CODE, f"{where} has no {missing} (allowed: {', '.join(known.required)})")
    return found


def _parse_fields(where: str, text: Json) -> dict[str, Json]:
    found: Json = None
    if isinstance(text, str):
        with suppress(ValueError, RowError):
            found = parse_json(text.encode())
    if not isinstance(found, dict):
        raise RowError(CODE, f"{where} is {kind_of(text)} (allowed: the text of a JSON object)")
    return found


def _map_fields(where: str, value: Json) -> dict[str, Json]:
    """Reads {values: {name: {contents: [{parts: [{text}]}]}}}."""
    held = _fields(where, value, ("values",)).get("values") or {}
    if not isinstance(held, Mapping):
        raise RowError(CODE, f"{where}.values is {kind_of(held)} (allowed: an object)")
    return {str(name): read_contents(f"{where}.values.{name}", one) for name, one in held.items()}


def read_contents(where: str, value: Json) -> str:
    """Reads the text of {text} or {contents: [{parts: [{text}]}]}.

    Raises:
        RowError: There are other parts, such as images.
    """
    given = _fields(where, value, ("text", "contents"))
    if isinstance(text := given.get("text"), str):
        return text
    contents = given.get("contents")
    if isinstance(contents, Mapping):
        contents = contents.get("contents")
    parts = [part for one in _listed(contents) if isinstance(one, Mapping) for part in _listed(one.get("parts"))]
    texts = [part.get("text") if isinstance(part, Mapping) else None for part in parts]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise RowError(CODE, f"{where} is not text (allowed: text, or contents with parts of text)")
    return "".join(map(str, texts))


def _trajectory(value: Json) -> Json:
    """Converts the keys of a trajectory's calls to snake case; other values stay, for the metric to report."""
    if isinstance(value, Mapping):
        calls = {to_snake(key): v for key, v in value.items()}
        value = calls.get("tool_calls") or [] if calls.keys() <= {"tool_calls"} else calls
    if not isinstance(value, list):
        return value
    return [{to_snake(k): v for k, v in call.items()} if isinstance(call, Mapping) else call for call in value]


def _fields(where: str, value: Json, allowed: Iterable[str]) -> dict[str, Any]:
    """Reads the fields of an object, with keys in snake case and without nulls."""
    allowed = tuple(allowed)
    words = ", ".join(allowed) or "no fields"
    if not isinstance(value, Mapping):
        raise RowError(CODE, f"{where} is {kind_of(value)} (allowed: an object with {words})")
    found = {to_snake(key): v for key, v in value.items() if v is not None}
    if unknown := next((key for key in found if key not in allowed), None):
        raise RowError(CODE, f"{where} has a field {unknown!r} (allowed: {words})")
    return found


def _listed(value: Json) -> list[Json]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def write_true(key: str, value: Any) -> dict[str, Json]:
    """Returns {key: true}, or nothing: the API's JSON does not write a boolean that is false."""
    return {key: True} if value else {}


def _details(details: Json) -> dict[str, Json]:
    """Returns what the API writes beside a score: the judge's texts, and its verdicts on properties."""
    if not isinstance(details, Mapping):
        return {}
    found: dict[str, Json] = {}
    if isinstance(texts := details.get("raw_output"), list):
        found["custom_output"] = {"raw_outputs": {"raw_output": texts}}
    rubrics = details.get("rubrics")
    if isinstance(rubrics, list) and all(isinstance(one, Mapping) for one in rubrics):
        verdicts = ({"rubric": one["rubric"], **write_true("verdict", one["verdict"])} for one in rubrics)
        found["rubric_critique_results"] = list(verdicts)
    return found


def _value(score: Score) -> dict[str, Json]:
    number, sure = score.value, score.confidence
    value = {
        "score": None if number is None else float32(number),
        "pairwise_choice": score.label,
        "explanation": score.explanation,
        "confidence": None if sure is None else float32(sure),
        **_details(score.details),
    }
    return {key: v for key, v in value.items() if v is not None}

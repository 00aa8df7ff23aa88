"""Converts ADK's criteria to the metrics and criteria of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...schemas.errors import ConfigError, RowError
from ...schemas.formats.adk_config import REPORTED, AdkConfig, Criterion, read_config
from ...schemas.formats.lenient import lenient_json
from ...transforms import registry
from .adk_custom import AdkFunction
from .adk_models import Judges, build_simulator
from .files import load, read_bytes

_ALLOWED = "{metric: lowest mean}, a list of criteria, or the path of a test_config.json"


def load_test_config(path: str) -> Any:
    """Reads the JSON of a test_config.json; a comma may stand before a closing bracket.

    Raises:
        ConfigError: The file is missing, or not valid.
    """
    if not path.endswith(".json"):
        return load(path)
    try:
        return lenient_json(read_bytes(path))
    except RowError as error:
        raise ConfigError(error.message, where=path) from None


def resolve_criteria(config: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces the path of a test_config.json under `criteria` with the metrics, criteria and judges that it defines.

    Raises:
        ConfigError: The file is missing or invalid.
    """
    path, compat, given = config["criteria"], config.get("compat"), config.get("judges")
    try:
        data = load_test_config(path)
    except ConfigError as error:
        raise ConfigError(f"found {path!r:.200}: {error}"[:500], where="criteria", allowed=_ALLOWED) from None
    lenient = isinstance(compat, Mapping) and bool(compat.get("adk_verdicts"))
    parsed, judges = read_config(data, path), given if isinstance(given, Mapping) else {}
    resolved = convert_criteria(parsed, lenient, judges)
    agent = config.get("agent")
    if parsed.user_simulator is not None and isinstance(agent, Mapping) and agent.get("type") == "adk":
        resolved["agent"] = {"simulator": build_simulator(parsed.user_simulator, judges), **agent}
    metrics = config.get("metrics") or []
    if not isinstance(metrics, list | tuple):
        return dict(config)  # validation reports the wrong type
    metrics = [*metrics, *resolved["metrics"]]
    return {**config, **resolved, "metrics": metrics}


def convert_criteria(
    config: AdkConfig, lenient: bool = False, judges: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Converts ADK's criteria to the `metrics`, `criteria` and `judges` of a run: each case must reach each threshold.

    Args:
        config: The parsed test_config.json.
        lenient: Whether verdicts are ADK's: a missing expected response is an empty one, and a case passes even if a
            criterion could not be evaluated.
        judges: Judges of the configuration, by name; models that criteria name become further judges.

    Raises:
        ConfigError: No metric of that name is installed for a criterion that needs a judge model, or a custom metric
            cannot be imported.
    """
    known = registry.names("metric")
    absent = [name for name in config.judged if f"adk/{name}" not in known]
    if absent:
        raise ConfigError(
            f"{', '.join(absent)}: needs a judge model, and no such metric is installed", where="criteria"
        )
    models = Judges(judges or {})
    metrics = [
        {**_build_metric(criterion, lenient), **models.build_parameters(criterion)} for criterion in config.criteria
    ]
    bounds: list[Any] = [{"metric": "failure", "max": 0.0}]
    for criterion in config.criteria:
        bounds.append({"metric": criterion.name, "statistic": "min", "min": criterion.threshold})
        if not lenient:
            bounds.append({"metric": criterion.name, "statistic": "error_count", "max": 0})
    return {"metrics": [*metrics, *REPORTED], "criteria": bounds, "judges": {**models.made, **models.given}}


def _build_metric(criterion: Criterion, lenient: bool) -> dict[str, Any]:
    if criterion.function is not None:
        function = AdkFunction(criterion.name, criterion.function, criterion.threshold, criterion.options)
        return {"metric": function, "name": criterion.name}
    accepted = getattr(registry.find("metric", f"adk/{criterion.name}").factory, "__dataclass_fields__", {})
    given = {**criterion.options, "empty_reference": lenient}
    options = {name: value for name, value in given.items() if name in accepted}
    return {"metric": f"adk/{criterion.name}", "name": criterion.name, **options}

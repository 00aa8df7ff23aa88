"""The judges that the metrics of EvalTask ask: autoraters, writers of rubrics, and Google's where nobody is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.judging import EVALUATE_INSTANCES
from ...transforms.judging.autorater import Autorater, autorater_of
from ...transforms.metrics._judged import JudgedMetric
from .google_settings import default_judge, default_service, place_model


def complete_judges(asked: Sequence[JudgedMetric], judges: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Adds the judges that metrics ask and that are not there: the default one, and the evaluation service.

    Returns:
        (the sections of all judges; what to say of a judge that nobody named, or "").

    Raises:
        ConfigError: There are no credentials for them.
    """
    found = dict(judges)
    needed = {name: metric.speaks for metric in asked for name in metric.judges if name not in judges}
    for name, speaks in needed.items():
        if speaks == EVALUATE_INSTANCES:
            found[name] = default_service()
        elif name == "default":
            found[name] = default_judge()
    if "default" in judges or found.get("default", {}).get("type") != "google":
        return found, ""
    section = found["default"]
    place = f"Vertex AI, project {section['project']}" if "project" in section else "the Gemini API"
    said = f"no judge is named, so {section['model']} is asked ({place}); autorater_config or judges= names another"
    return found, said


def build_judges(autorater: Autorater, metrics: Sequence[Any]) -> dict[str, Any]:
    """Builds the judges that autoraters and writers of rubrics name; the task's own is "default"."""
    own = [read_autorater(getattr(metric, "autorater_config", None)) for metric in metrics]
    named = {one.judge: one for one in own if one.model is not None}
    found = {"default": autorater} if autorater.model is not None else {}
    try:
        judges = {name: place_model(one.section) for name, one in {**found, **named}.items()}
        for metric in metrics:
            model = getattr(getattr(metric, "generation_config", None), "model", None)
            if isinstance(model, str):
                judges.setdefault(metric.writer, place_model(Autorater(model=model).section))
            elif model is not None:
                judges[metric.writer] = {"type": "function", "target": TextModel(model)}
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error), where="autorater_config") from None
    return judges


def read_autorater(config: Any) -> Autorater:
    """Reads an autorater's settings.

    Raises:
        ConfigError: They are invalid.
    """
    try:
        return autorater_of(config)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error), where="autorater_config") from None


class TextModel:
    """A judge that is a function from a prompt to a text, or an object with `generate_content`."""

    def __init__(self, model: Any) -> None:
        self._model: Any = model

    def __call__(self, messages: list[dict[str, str]], schema: dict[str, Any]) -> str:
        prompt = "\n\n".join(message["content"] for message in messages)
        model = self._model
        return model.generate_content(prompt).text if hasattr(model, "generate_content") else model(prompt)

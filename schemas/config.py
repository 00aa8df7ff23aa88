"""What a user may write in eval.yaml: pydantic models that refuse unknown keys.

`EvaluationConfig.load` reads YAML or JSON text; errors name the key, what was found and what is allowed.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .calls import CallPolicy
from .errors import ConfigError
from .storage_config import ConfigPart, DatasetConfig, OutputConfig
from .yaml_text import load_yaml


class AgentConfig(CallPolicy):
    """Which agent is called, and how; the keys of the call policy stand beside the agent's own.

    Attributes:
        type: "function", "queryable" or "recorded" (the default where no target is given).
        target: "module:name" of the agent, or the object itself from Python.
        version: Declared version of the agent, part of its fingerprint.
        abort_when: As in the call policy; by default an agent of which half the first 200 calls fail is asked no more.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    type: str = "auto"
    target: Any = None
    version: str | None = None
    abort_when: float | None = Field(default=0.5, gt=0, lt=1)

    @property
    def params(self) -> dict[str, Any]:
        """The agent's own parameters beside `target`."""
        return dict(self.__pydantic_extra__ or {})


class JudgeConfig(CallPolicy):
    """A judge model, and how it is called; the keys of the call policy stand beside the judge's own.

    Attributes:
        type: "google", "openai", "anthropic", "function" ...; a function where only a target is given.
        abort_when: As in the call policy; by default a judge of which half the first 200 calls fail is asked no more.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    type: str = "function"
    max_in_flight: int = Field(default=16, ge=1, le=100_000)
    abort_when: float | None = Field(default=0.5, gt=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | list | int | float | None) else {"target": value}

    @property
    def params(self) -> dict[str, Any]:
        """The judge's own parameters."""
        return dict(self.__pydantic_extra__ or {})


class MetricConfig(BaseModel):
    """One metric of the run: registered name, output name and parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    metric: Any
    name: str

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, value: Any) -> Any:
        if not isinstance(value, Mapping | list | int | float | None):
            value = {"metric": value}
        if isinstance(value, Mapping):
            value = dict(value)
            if "metric" not in value and "name" not in value:
                raise ValueError("a metric needs the key 'metric' (a registered name or module:name)")
            metric = value.setdefault("metric", value.get("name"))
            value.setdefault("name", metric if isinstance(metric, str) else _object_name(metric))
        return value

    @property
    def params(self) -> dict[str, Any]:
        """The metric's own parameters."""
        return dict(self.__pydantic_extra__ or {})


def _object_name(metric: Any) -> str:
    """Name of a metric given as an object; "" leaves it to the name it is registered under."""
    name = getattr(metric, "name", None) or getattr(metric, "__name__", "")
    return name if isinstance(name, str) else ""


class CriterionConfig(ConfigPart):
    """A bound on one statistic of one metric.

    Attributes:
        metric: Output name of the metric.
        statistic: Column of the summary table the bound is on.
        min, max: Inclusive bounds; at least one.
        slice: Slice the bound is on, `{}` for the whole dataset.
    """

    metric: str
    statistic: str = "mean"
    min: float | None = None
    max: float | None = None
    slice: dict[str, str] = {}

    @model_validator(mode="after")
    def _bounded(self) -> CriterionConfig:
        if self.min is None and self.max is None:
            raise ValueError("a criterion needs 'min' or 'max'")
        return self


class StatisticsConfig(ConfigPart):
    """How summaries are computed.

    Attributes:
        ci: "auto" is Wilson's interval for 0/1 metrics and Student's t for others; "normal" for all.
        confidence: Level of the interval, in (0, 1).
        on_failure: Whether rows whose agent failed are left out of means or count with the metric's worst value.
    """

    ci: Literal["auto", "normal"] = "auto"
    confidence: float = Field(default=0.95, gt=0, lt=1)
    on_failure: Literal["exclude", "worst"] = "exclude"


class BudgetConfig(ConfigPart):
    """What a whole run may spend, agent and judges together, over all its starts.

    Attributes:
        max_calls: Attempts of all calls, those refused for their rate left out. A dataset that needs more is refused
            before the first call.
        max_tokens: Tokens of all answers that name their usage, given and made.
    """

    max_calls: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)


class CompatConfig(ConfigPart):
    """Switches that reproduce what another product does where we decided otherwise.

    Attributes:
        float32: Scores carry the float32 rounding that the Vertex service shows.
        win_rate_all_rows: Win rates count rows without a verdict too, as EvalTask does.
    """

    float32: bool = False
    win_rate_all_rows: bool = False


class EvaluationConfig(ConfigPart):
    """A whole evaluation.

    Attributes:
        dataset: The rows.
        agent: What answers them; recorded answers where left out.
        metrics: What is measured, in the order of the output columns.
        judges: The judge models by name; a metric that names none asks "default".
        criteria: Bounds that decide the verdict: {metric: minimum} or a list of criteria.
        slices: Lists of dataset columns by whose values the summary is broken down.
        trials: How often the agent runs on each row.
        budget: Bounds on what the run spends.
        shards: Ranges of the id's hash that the work is cut into, a power of two; default: 256 where an agent is
            called, else by the size of the dataset. The tables do not depend on it.
    """

    dataset: DatasetConfig
    agent: AgentConfig = AgentConfig()
    metrics: Annotated[list[MetricConfig], Field(min_length=1)]
    judges: dict[str, JudgeConfig] = {}
    criteria: list[CriterionConfig] = []
    slices: list[list[str]] = []
    trials: int = Field(default=1, ge=1, le=1000)
    budget: BudgetConfig = BudgetConfig()
    statistics: StatisticsConfig = StatisticsConfig()
    output: OutputConfig = OutputConfig()
    compat: CompatConfig = CompatConfig()
    shards: int | None = Field(default=None, ge=1, le=4096)

    @field_validator("shards")
    @classmethod
    def _power_of_two(cls, value: int | None) -> int | None:
        if value is not None and value & (value - 1):
            raise ValueError("shards must be a power of two (1, 2, 4, ... 4096)")
        return value

    @field_validator("slices", mode="before")
    @classmethod
    def _slice_lists(cls, value: Any) -> Any:
        return [[s] if isinstance(s, str) else s for s in value] if isinstance(value, list) else value

    @field_validator("criteria", mode="before")
    @classmethod
    def _criteria_forms(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        rows: list[Any] = []
        for metric, bound in value.items():
            for one in bound if isinstance(bound, list) else [bound]:
                rows.append({"metric": metric, **(one if isinstance(one, Mapping) else {"min": one})})
        return rows

    @classmethod
    def parse(cls, data: Any, source: str = "") -> EvaluationConfig:
        """The config a mapping describes.

        Args:
            data: What YAML or JSON gave.
            source: Name of the file, for messages.

        Raises:
            ConfigError: Names the first key that is wrong, what was found there and what is allowed.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"found {_shown(data)}", where=source, allowed="a mapping with dataset, metrics ...")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _explained(error, source) from None
        except RecursionError:
            raise ConfigError("the configuration refers to itself", where=source) from None

    @classmethod
    def load(cls, text: str, source: str = "") -> EvaluationConfig:
        """The config that YAML (or JSON) text describes; see `parse`."""
        return cls.parse(load_yaml(text, source), source)


def _explained(error: ValidationError, source: str) -> ConfigError:
    first = error.errors(include_url=False)[0]
    loc = [str(p) for p in first["loc"] if not str(p).startswith(("function-", "tagged-"))]
    loc = loc[:2] if loc[:2] == ["dataset", "path"] else loc  # beyond it stand the names of its types
    key = ".".join(loc)
    where = f"{source}: {key}" if source and key else key or source
    if first["type"] == "extra_forbidden":
        choices = _keys_at(loc[:-1])
        near = difflib.get_close_matches(loc[-1], choices, n=3) or choices
        return ConfigError(f"unknown key {loc[-1]!r}", where=where, allowed=", ".join(near))
    if first["type"] == "missing":
        return ConfigError("missing", where=where)
    return ConfigError(f"found {_shown(first['input'])}", where=where, allowed=_allowed(first, loc))


_KINDS = {
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "too_short": "at least one",
}
"""What pydantic's types of errors ask for, in the words of someone who writes YAML."""


def _allowed(error: Any, loc: list[str]) -> str:
    if loc == ["dataset", "path"]:
        return "a path, or a list of paths"
    if error["type"] == "model_type":
        keys = _keys_at(loc)
        return f"a mapping with {', '.join(keys)}" if keys else "a mapping"
    return _KINDS.get(error["type"]) or error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")


def _shown(value: Any) -> str:
    """A value as it may stand in a message: bounded, however large or entangled it is."""
    short = reprlib.Repr()
    short.maxlist = short.maxdict = short.maxtuple = 5
    short.maxlevel, short.maxstring, short.maxother, short.maxlong = 3, 100, 100, 60
    return "nothing" if value is None else short.repr(value)


def _keys_at(loc: list[str]) -> list[str]:
    """Keys of the model at a place, through lists and mappings of models."""
    model: Any = EvaluationConfig
    for step in loc:
        if get_origin(model) in (list, dict):
            model = get_args(model)[-1]
        else:
            field = getattr(model, "model_fields", {}).get(step)
            model = field.annotation if field else None
    fields = getattr(model, "model_fields", None) or {}
    return sorted(f.alias or name for name, f in fields.items())

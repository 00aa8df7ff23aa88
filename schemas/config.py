"""What a user may write in eval.yaml: pydantic models that refuse unknown keys.

`EvaluationConfig.load` reads YAML or JSON text; errors name the key, what was found and what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .calls import CallPolicy
from .errors import ConfigError

ColumnType = Literal["string", "int64", "float64", "bool", "timestamp", "json"]
COLUMN_TYPES: tuple[str, ...] = ("string", "int64", "float64", "bool", "timestamp", "json")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class ColumnConfig(_Part):
    """What one dataset column is: its type, and the standard field it stands for."""

    type: ColumnType | None = None
    as_: str | None = Field(default=None, alias="as")


class DatasetConfig(_Part):
    """Where the rows are and how they are read.

    Attributes:
        path: A file, a folder, a glob, or a list of them, on any filesystem Beam opens.
        format: "auto" goes by the file's ending.
        dialect: How rows name their fields.
        id: Column whose value identifies a row; default: the row's canonical input.
        columns: For each of the user's columns: a type (string, int64, float64, bool, timestamp, json), the standard
            field it stands for (prompt, reference ...), or {type: ..., as: ...}.
        limit: At most so many rows, chosen by hash: the same rows in every format and run.
        sample: Share of rows in (0, 1], chosen by hash.
        max_rejected: Share of rows in [0, 1] that may be unusable before the run refuses to start calling.
    """

    path: str | list[str]
    format: Literal["auto", "jsonl", "csv", "parquet"] = "auto"
    dialect: str = "auto"
    id: str | None = None
    columns: dict[str, ColumnConfig] = {}
    limit: int | None = Field(default=None, ge=1)
    sample: float | None = Field(default=None, gt=0, le=1)
    max_rejected: float = Field(default=0.1, ge=0, le=1)

    @field_validator("columns", mode="before")
    @classmethod
    def _short_columns(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {
            k: ({"type": v} if v in COLUMN_TYPES else {"as": v}) if isinstance(v, str) else v for k, v in value.items()
        }

    @property
    def paths(self) -> list[str]:
        """The paths as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path)


class AgentConfig(CallPolicy):
    """Which agent is called, and how; the keys of the call policy stand beside the agent's own.

    Attributes:
        type: "function", "queryable" or "recorded" (the default where no target is given).
        target: "module:name" of the agent, or the object itself from Python.
        version: Declared version of the agent, part of its fingerprint.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    type: str = "auto"
    target: Any = None
    version: str | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The agent's own parameters beside `target`."""
        return dict(self.__pydantic_extra__ or {})


class MetricConfig(BaseModel):
    """One metric of the run: registered name, output name and parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    metric: Any
    name: str

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"metric": value, "name": value}
        if isinstance(value, Mapping):
            value = dict(value)
            if "metric" not in value and "name" not in value:
                raise ValueError("a metric needs the key 'metric' (a registered name or module:name)")
            metric = value.setdefault("metric", value.get("name"))
            value.setdefault("name", metric if isinstance(metric, str) else getattr(metric, "name", ""))
        return value

    @property
    def params(self) -> dict[str, Any]:
        """The metric's own parameters."""
        return dict(self.__pydantic_extra__ or {})


class CriterionConfig(_Part):
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


class StatisticsConfig(_Part):
    """How summaries are computed.

    Attributes:
        ci: "auto" is Wilson's interval for 0/1 metrics and Student's t for others; "normal" for all.
        confidence: Level of the interval, in (0, 1).
        on_failure: Whether rows whose agent failed are left out of means or count with the metric's worst value.
    """

    ci: Literal["auto", "normal"] = "auto"
    confidence: float = Field(default=0.95, gt=0, lt=1)
    on_failure: Literal["exclude", "worst"] = "exclude"


class OutputConfig(_Part):
    """Where the tables go.

    Attributes:
        path: Folder (any filesystem Beam opens) of this run's tables and manifest.
        format: Format of the instances, summary and errors tables.
        compression: Of Parquet ("zstd", "snappy", "none"); of JSONL and CSV ("none", "gzip").
        shards: Files of the instances table, a power of two; default 1 for each 128 MB of rows.
        overwrite: Replace a finished run at `path`.
        escape_formulas: Prefix cells that a spreadsheet would run as formulas with an apostrophe (CSV only).
    """

    path: str = "evalbeam-out"
    format: Literal["parquet", "jsonl", "csv"] = "parquet"
    compression: Literal["auto", "zstd", "snappy", "gzip", "none"] = "auto"
    shards: int | None = Field(default=None, ge=1, le=4096)
    overwrite: bool = False
    escape_formulas: bool = False

    @field_validator("shards")
    @classmethod
    def _power_of_two(cls, value: int | None) -> int | None:
        if value is not None and value & (value - 1):
            raise ValueError("shards must be a power of two (1, 2, 4, ... 4096)")
        return value


class CompatConfig(_Part):
    """Switches that reproduce what another product does where we decided otherwise.

    Attributes:
        float32: Scores carry the float32 rounding that the Vertex service shows.
        win_rate_all_rows: Win rates count rows without a verdict too, as EvalTask does.
    """

    float32: bool = False
    win_rate_all_rows: bool = False


class EvaluationConfig(_Part):
    """A whole evaluation.

    Attributes:
        dataset: The rows.
        agent: What answers them; recorded answers where left out.
        metrics: What is measured, in the order of the output columns.
        criteria: Bounds that decide the verdict: {metric: minimum} or a list of criteria.
        slices: Lists of dataset columns by whose values the summary is broken down.
        trials: How often the agent runs on each row.
        shards: Ranges of the id's hash that the work is cut into, a power of two.
    """

    dataset: DatasetConfig
    agent: AgentConfig = AgentConfig()
    metrics: Annotated[list[MetricConfig], Field(min_length=1)]
    criteria: list[CriterionConfig] = []
    slices: list[list[str]] = []
    trials: int = Field(default=1, ge=1, le=1000)
    statistics: StatisticsConfig = StatisticsConfig()
    output: OutputConfig = OutputConfig()
    compat: CompatConfig = CompatConfig()
    shards: int = Field(default=256, ge=1, le=4096)

    @field_validator("shards")
    @classmethod
    def _power_of_two(cls, value: int) -> int:
        if value & (value - 1):
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
            raise ConfigError(
                f"found {type(data).__name__}", where=source, allowed="a mapping with dataset, metrics ..."
            )
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


def load_yaml(text: str, source: str = "") -> Any:
    """The value of YAML or JSON text.

    Raises:
        ConfigError: Names file, line and column.
    """
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source or 'config'}, line {mark.line + 1}, column {mark.column + 1}" if mark else source or "config"
        raise ConfigError(f"not valid YAML: {getattr(error, 'problem', None) or error}", where=place) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not valid YAML: {error}", where=source or "config") from None


def _explained(error: ValidationError, source: str) -> ConfigError:
    first = error.errors(include_url=False)[0]
    loc = [str(p) for p in first["loc"] if not str(p).startswith(("function-", "tagged-"))]
    key = ".".join(loc)
    where = f"{source}: {key}" if source and key else key or source
    if first["type"] == "extra_forbidden":
        choices = _keys_at(loc[:-1])
        near = difflib.get_close_matches(loc[-1], choices, n=3) or choices
        return ConfigError(f"unknown key {loc[-1]!r}", where=where, allowed=", ".join(near))
    if first["type"] == "missing":
        return ConfigError("missing", where=where)
    shown = repr(first["input"])
    return ConfigError(f"found {shown[:200]}", where=where, allowed=first["msg"].removeprefix("Value error, "))


def _keys_at(loc: list[str]) -> list[str]:
    model: Any = EvaluationConfig
    for step in loc:
        field = getattr(model, "model_fields", {}).get(step)
        model = field.annotation if field else None
    fields = getattr(model, "model_fields", None) or {}
    return sorted(f.alias or name for name, f in fields.items())

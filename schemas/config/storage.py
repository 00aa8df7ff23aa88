"""Where rows come from and where tables go: the dataset and output sections of a configuration."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from ..names import Style

ColumnType = Literal["string", "int64", "float64", "bool", "timestamp", "json"]
COLUMN_TYPES: tuple[str, ...] = ("string", "int64", "float64", "bool", "timestamp", "json")
_TYPES_OF_OTHERS = frozenset(("str", "int", "integer", "float", "double", "number", "boolean", "datetime"))
QUERY_PATH = "bq://query"
"""Stands for the result of `dataset.query` where others have a path."""


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("shards must be a power of two (1, 2, 4, ... 4096)")
    return value


Shards: TypeAlias = Annotated[int, Field(ge=1, le=4096), AfterValidator(_power_of_two)]
"""A number of pieces that halve evenly: a power of two."""


class ConfigPart(BaseModel):
    """Base of a configuration's parts: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number(cls, value: Any, info: ValidationInfo) -> Any:
        type_ = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and {int, float} & {type_, *get_args(type_)}:  # YAML's yes and on are no 1
            raise ValueError("a number")
        return value


class ColumnConfig(ConfigPart):
    """What one dataset column is: its type, and the standard field it stands for.

    Attributes:
        type: Type of its values; default: found from the values.
        as: Standard field it stands for, such as prompt or reference.
    """

    type: ColumnType | None = None
    as_: str | None = Field(default=None, alias="as")


class DatasetConfig(ConfigPart):
    """Where the rows are and how they are read.

    Attributes:
        path: A file, a folder, a glob, or a list of them, on any filesystem Beam opens; or `bq://project.dataset.table`.
        query: BigQuery SQL whose result is read instead.
        query_into: "project.dataset" where BigQuery keeps that result for a day.
        select: Columns of a BigQuery table that are read; default: all.
        where: Condition in SQL on the rows of a BigQuery table.
        format: "auto" goes by the file's ending.
        dialect: How rows name their fields.
        id: Column whose value identifies a row; default: the row's canonical input.
        columns: For each of the user's columns: a type (string, int64, float64, bool, timestamp, json), the standard
            field it stands for (prompt, reference ...), or {type: ..., as: ...}.
        limit: At most so many rows, chosen by hash: the same rows in every format and run.
        sample: Share of rows in (0, 1], chosen by hash.
        max_invalid_fraction: Share of rows in [0, 1] that may be unusable before the run refuses to start calling.
    """

    path: str | list[str] = []
    query: str = ""
    query_into: str = ""
    select: list[str] = []
    where: str = ""
    format: Literal["auto", "jsonl", "csv", "parquet", "evalset"] = "auto"
    dialect: str = "auto"
    id: str | None = None
    columns: dict[str, ColumnConfig] = {}
    limit: int | None = Field(default=None, ge=1)
    sample: float | None = Field(default=None, gt=0, le=1)
    max_invalid_fraction: float = Field(default=0.1, ge=0, le=1)

    @field_validator("columns", mode="before")
    @classmethod
    def _short_columns(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if any(v in _TYPES_OF_OTHERS for v in value.values() if isinstance(v, str)):
            raise ValueError(f"{', '.join(COLUMN_TYPES)}, or the standard name it stands for")
        return {
            k: ({"type": v} if v in COLUMN_TYPES else {"as": v}) if isinstance(v, str) else v for k, v in value.items()
        }

    @model_validator(mode="after")
    def _one_source(self) -> DatasetConfig:
        if bool(self.query) == bool(self.path):
            raise ValueError("either 'path' (files or bq://project.dataset.table) or 'query'")
        if bool(self.query) != bool(self.query_into):
            raise ValueError("'query' together with 'query_into' (project.dataset)")
        if (self.select or self.where) and (self.query or not all(p.startswith("bq://") for p in self.paths)):
            raise ValueError("'select' and 'where' with paths bq://project.dataset.table alone")
        return self

    @property
    def paths(self) -> list[str]:
        """The paths as a list."""
        if self.query:
            return [QUERY_PATH]
        return [self.path] if isinstance(self.path, str) else list(self.path)

    @property
    def reading(self) -> dict[str, Any]:
        """What readers are told beside the columns."""
        names = ("select", "where", "query", "query_into")
        return {name: value for name in names if (value := getattr(self, name))}


class BigQueryConfig(ConfigPart):
    """Tables of BigQuery that a finished run is loaded into.

    Attributes:
        dataset: "project.dataset" of the tables instances, summary and errors.
        prefix: Stands before their names.
        write: "replace" the rows that the tables have of the run, or "append" it once and never change it.
        run_id: Name of the run in the column of that name; default: `output.path`.
        run_date: The day the run is for, in the column of that name, by which the tables are partitioned.
    """

    dataset: str
    prefix: str = Field(default="", pattern=r"^\w*$")
    write: Literal["replace", "append"] = "replace"
    run_id: str = ""
    run_date: str | None = None

    @field_validator("run_date", mode="before")
    @classmethod
    def _day(cls, value: Any) -> Any:
        try:
            return value if value is None else datetime.date.fromisoformat(str(value)).isoformat()
        except ValueError:
            raise ValueError("a day such as 2026-11-20") from None


class OutputConfig(ConfigPart):
    """Where the tables go.

    Attributes:
        path: Folder (any filesystem Beam opens) of this run's tables and manifest.
        format: Format of the instances, summary and errors tables.
        compression: Of Parquet ("zstd", "snappy", "none"); of JSONL and CSV ("none", "gzip").
        column_style: What the metrics' columns and aggregates are called (see `schemas/names.py`).
        shards: Files of the instances table, a power of two; default 1 for each 128 MB of rows.
        overwrite: Replace a finished run at `path`, or what an unfinished run of another agent left there.
        resume_anyway: Go on with an unfinished run at `path` although its agent has changed since.
        escape_formulas: Prefix cells that a spreadsheet would run as formulas with an apostrophe (CSV only).
        bigquery: Tables of BigQuery that a finished run is loaded into as well; needs Parquet on gs://.
    """

    path: str = "evalbeam-out"
    format: Literal["parquet", "jsonl", "csv", "adk_result"] = "parquet"
    compression: Literal["auto", "zstd", "snappy", "gzip", "none"] = "auto"
    column_style: Style = "flat"
    shards: Shards | None = None
    overwrite: bool = False
    resume_anyway: bool = False
    escape_formulas: bool = False
    bigquery: BigQueryConfig | None = None

    @field_validator("path")
    @classmethod
    def _one_folder(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the path of a folder")
        if value.startswith("~"):
            raise ValueError("the home folder written out, as in ${HOME}/runs: nothing expands a ~ here")
        if "://" in value and not re.match("gs://[^/]", value):
            raise ValueError("a local folder, or gs://bucket/folder")
        if "://" in value and re.search(r"[*?[]", value):  # there a name cannot be told from a glob
            raise ValueError("a folder of object storage without *, ? and [ in its name")
        return value

    @model_validator(mode="after")
    def _loadable(self) -> OutputConfig:
        if self.bigquery and not (self.path.startswith("gs://") and self.format == "parquet"):
            raise ValueError("'bigquery' with a path on gs:// and format parquet")
        return self

"""The dataset and output sections of a configuration."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, field_validator, model_validator

from ..names import Style
from .part import ConfigPart
from .sinks import MlflowConfig, OtelConfig, VertexExperimentConfig

ColumnType = Literal["string", "int64", "float64", "bool", "timestamp", "json"]
COLUMN_TYPES: tuple[str, ...] = ("string", "int64", "float64", "bool", "timestamp", "json")
_TYPES_OF_OTHERS = frozenset(("str", "int", "integer", "float", "double", "number", "boolean", "datetime"))
SCHEME = "bq://"
"""Begins the paths of tables of BigQuery."""
QUERY_PATH = f"{SCHEME}query"
"""Path that represents the result of `dataset.query`."""


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("shards must be a power of two (1, 2, 4, ... 4096)")
    return value


Shards: TypeAlias = Annotated[int, Field(ge=1, le=4096), AfterValidator(_power_of_two)]
"""A number of shards: a power of two, so that shards can be merged in pairs."""


class ColumnConfig(ConfigPart):
    """A dataset column: its type, and the standard field that it provides.

    Attributes:
        type: Type of its values; default: found from the values.
        as: Standard field that it provides, such as prompt or reference.
    """

    type: ColumnType | None = None
    as_: str | None = Field(default=None, alias="as")


class DatasetConfig(ConfigPart):
    """The dataset: where its rows are and how they are read.

    Attributes:
        path: A file, a folder, a glob, or a list of them, on any filesystem Beam opens; or `bq://project.dataset.table`.
        query: BigQuery SQL; its result is read instead of `path`.
        query_into: "project.dataset" in which BigQuery keeps that result for a day.
        select: Columns to read of a BigQuery table; default: all.
        where: SQL condition on the rows of a BigQuery table.
        format: "auto" infers the format from the file name.
        dialect: Naming scheme of the rows' fields; "auto" recognises it.
        id: Column whose value identifies a row; default: a hash of the row's canonical input.
        trial: Column that numbers the recorded trials of each `id`: rows with the same id are answers to one question.
            By default that is a column `trial`, if rows have the same id and different integers in it.
        columns: For each of the user's columns: a type (string, int64, float64, bool, timestamp, json), the standard
            field that it provides (prompt, reference ...), or {type: ..., as: ...}.
        prompt_template: Template of the column `prompt`, with {column} placeholders; rows that lack one are unusable.
        limit: Maximum number of rows, chosen by hash: the same rows in every format and run.
        sample: Share of rows in (0, 1], chosen by hash.
        max_invalid_fraction: Maximum share of unusable rows in [0, 1]; beyond it the run stops before the first call.
    """

    path: str | list[str] = []
    query: str = ""
    query_into: str = ""
    select: list[str] = []
    where: str = ""
    format: Literal["auto", "jsonl", "csv", "parquet", "evalset"] = "auto"
    dialect: str = "auto"
    id: str | None = None
    trial: str | None = None
    columns: dict[str, ColumnConfig] = {}
    prompt_template: str | None = None
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
        if (self.select or self.where) and (self.query or not all(p.startswith(SCHEME) for p in self.paths)):
            raise ValueError("'select' and 'where' with paths bq://project.dataset.table alone")
        if self.trial is not None and self.id is None:
            raise ValueError("'trial' together with 'id', the column that the trials of a row have in common")
        return self

    @property
    def paths(self) -> list[str]:
        """The paths as a list."""
        if self.query:
            return [QUERY_PATH]
        return [self.path] if isinstance(self.path, str) else list(self.path)

    @property
    def reading(self) -> dict[str, Any]:
        """Options of the readers besides the columns."""
        names = ("select", "where", "query", "query_into")
        return {name: value for name in names if (value := getattr(self, name))}


class BigQueryConfig(ConfigPart):
    """BigQuery tables into which a finished run is loaded.

    Attributes:
        dataset: "project.dataset" of the tables instances, summary and errors.
        prefix: Prefix of the table names.
        write: "replace" the rows that the tables already hold of this run, or "append" the run once and for all.
        run_id: Value of the column `run_id`; default: `output.path`.
        run_date: Value of the column `run_date`, by which the tables are partitioned: the day of the run.
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
    """The tables that a run writes.

    Attributes:
        path: Folder of the run's tables and manifest, on any filesystem Beam opens.
        format: Format of the instances, summary and errors tables.
        compression: "zstd", "snappy" or "none" for Parquet; "none" or "gzip" for JSONL and CSV.
        column_style: Naming scheme of the metrics' columns and aggregates (see `schemas/names.py`).
        shards: Number of files of the instances table, a power of two; default: 1 for each 128 MB of rows.
        overwrite: Replace a finished run at `path`, or what an unfinished run of another agent left there.
        resume_anyway: Resume an unfinished run at `path` even if its agent has changed.
        escape_formulas: Prefix cells that a spreadsheet would evaluate as formulas with an apostrophe (CSV only).
        bigquery: BigQuery tables into which a finished run is also loaded; needs Parquet on gs://.
        mlflow: A run of MLflow that shows a finished run.
        otel: An OpenTelemetry collector that gets the metrics of a finished run; `true` for the one of the environment.
        vertex_experiment: A run of a Vertex AI experiment that shows a finished run.
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
    mlflow: MlflowConfig | None = None
    otel: OtelConfig | None = None
    vertex_experiment: VertexExperimentConfig | None = None

    @field_validator("otel", mode="before")
    @classmethod
    def _switch(cls, value: Any) -> Any:
        if value is None or isinstance(value, Mapping | OtelConfig):
            return value
        if not isinstance(value, bool):
            raise ValueError("true, false, or a mapping with endpoint")
        return {} if value else None

    @field_validator("path")
    @classmethod
    def _one_folder(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the path of a folder")
        if value.startswith("~"):
            raise ValueError("the home folder written out, as in ${HOME}/runs (~ is not expanded)")
        if "://" in value and not re.match("gs://[^/]", value):
            raise ValueError("a local folder, or gs://bucket/folder")
        if "://" in value and re.search(r"[*?[]", value):  # Beam would read it as a glob
            raise ValueError("a folder of object storage without *, ? and [ in its name")
        return value

    @model_validator(mode="after")
    def _loadable(self) -> OutputConfig:
        if self.bigquery and not (self.path.startswith("gs://") and self.format == "parquet"):
            raise ValueError("'bigquery' with a path on gs:// and format parquet")
        return self

"""The labels section of a configuration: what people say of some of the rows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .part import ConfigPart


class LabelsConfig(ConfigPart):
    """Labels that people gave to some of the rows; they correct the means of judges.

    Attributes:
        path: A file, a folder, a glob, or a list of them: JSONL, CSV or Parquet.
        id: Column with the `instance_id` of the row, or with its value of `dataset.id`. A column `trial` beside it
            says which trial was labelled; default: the first.
        columns: For each metric, the column with a person's label: a number on the scale of the metric, or true/false,
            yes/no, pass/fail. An empty one is no label.
        probability: Column with the probability, above 0 and at most 1, with which the row was chosen to be labelled;
            default: all rows had the same.
        format: "auto" infers the format from the file name.
    """

    path: str | list[str]
    id: str = "instance_id"
    columns: Annotated[dict[str, str], Field(min_length=1)]
    probability: str | None = None
    format: Literal["auto", "jsonl", "csv", "parquet"] = "auto"

    @property
    def paths(self) -> list[str]:
        """The paths as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path)

"""The base class of a configuration's sections."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class ConfigPart(BaseModel):
    """Base class of a configuration's sections; it rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number(cls, value: Any, info: ValidationInfo) -> Any:
        type_ = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and {int, float} & {
            type_,
            *get_args(type_),
        }:  # YAML reads yes and on as true, which is no number
            raise ValueError("a number")
        return value

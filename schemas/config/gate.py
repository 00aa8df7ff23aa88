"""The gate: what a comparison with another run has to show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from ..errors import ConfigError
from .explain import explain_error, show_value
from .part import ConfigPart

Margin = Annotated[float, Field(ge=0)]


class GateConfig(ConfigPart):
    """What a comparison with an earlier run has to show; used by `evalbeam compare` unless its options say otherwise.

    Attributes:
        against: Folder of the earlier run; `evalbeam run` compares with it when it has finished.
        metrics: Metrics that decide; default: all that are not measured.
        slices: Lists of dataset columns; the metrics decide in each of their values, too.
        margin: The loss that counts as none, in the unit of the metric.
        margins: Margins of single metrics by name.
        min_coverage: Lowest share of the earlier run's scores that this run must have as well.
        inconclusive: Whether the gate passes or fails if it is inconclusive; default: neither, exit code 4.
        corrected: Whether the means that people's labels correct decide, for metrics that have `labels` in both runs.
        confidence: Level of the intervals and tests, in (0, 1).
    """

    against: str | None = None
    metrics: Annotated[list[str], Field(min_length=1)] | None = None
    slices: list[list[str]] = []
    margin: Margin = 0.0
    margins: dict[str, Margin] = {}
    min_coverage: float | None = Field(default=None, ge=0, le=1)
    inconclusive: Literal["pass", "fail"] | None = None
    corrected: bool = False
    confidence: float = Field(default=0.95, gt=0, lt=1)

    @field_validator("slices", mode="before")
    @classmethod
    def _slice_lists(cls, value: Any) -> Any:
        return [[s] if isinstance(s, str) else s for s in value] if isinstance(value, list | tuple) else value

    def changed(self, options: Mapping[str, Any]) -> GateConfig:
        """Returns the gate with some of its keys replaced; `None` keeps a key, margins are added.

        Raises:
            ConfigError: A value is invalid.
        """
        given = {key: value for key, value in options.items() if value is not None}
        margins = given.get("margins")
        if isinstance(margins, Mapping):
            given["margins"] = {**self.margins, **margins}
        return self.parse({**self.model_dump(), **given})

    @classmethod
    def parse(cls, data: Any, source: str = "") -> GateConfig:
        """Validates a mapping as a gate.

        Raises:
            ConfigError: A key or value is invalid.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"found {show_value(data)}", where=source, allowed="a mapping")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise explain_error(error, source, cls) from None

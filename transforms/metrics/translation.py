"""Comet and MetricX, which Vertex AI's evaluation service computes (a judge of `type: vertex_eval`).

Classes and arguments have the names of the Vertex AI SDK (vertexai.evaluation.metrics).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.instance import Example
from ...schemas.judging import EVALUATE_INSTANCES, Judging
from ..judging.panel import PanelSlot, Vote
from ..judging.prompts import as_text
from ..judging.shapes import object_of
from ._judged import JudgedMetric
from .base import register

_SCORE = object_of(score={"type": "number"})


@dataclass(frozen=True, kw_only=True)
class _Translation(JudgedMetric):
    """Base of the metrics of translations.

    Attributes:
        judge: Name of the judge that is the service.
        version: Version of the model; its name says what it compares: SRC the source, REF the reference.
        source_language, target_language: Languages as BCP-47 tags.
    """

    judge: str | tuple[str, ...] = "vertex_eval"
    version: str = ""
    source_language: str | None = None
    target_language: str | None = None

    surely: ClassVar[bool] = True
    task: ClassVar[str]
    versions: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.version not in self.versions:
            raise ValueError(f"version is {self.version!r}, allowed: {', '.join(self.versions)}")
        compared = [name for part, name in (("SRC", "source"), ("REF", "reference")) if part in self.version.split("_")]
        object.__setattr__(self, "inputs", ("response", *compared))

    @property
    def speaks(self) -> str:
        return EVALUATE_INSTANCES

    def judged(self, example: Example) -> Judging:
        names = {"response": "prediction"}
        instance = {names.get(name, name): as_text(example.get(name)) for name in self.inputs}
        given = {"source_language": self.source_language, "target_language": self.target_language}
        spec = {"version": self.version, **{k: v for k, v in given.items() if v is not None}}
        request = {f"{self.task}_input": {"metric_spec": spec, "instance": instance}}
        return self.poll_service(request, _SCORE, _read_score)


def _read_score(value: Any, slot: PanelSlot) -> Vote:
    return Vote(float(value["score"]))


@register("metric", "comet")
@dataclass(frozen=True, kw_only=True)
class Comet(_Translation):
    """COMET of a translation, about 0 to 1, higher is better; by Vertex AI's evaluation service.

    Attributes:
        version: "COMET_22_SRC_REF", which compares with the source and the reference.
    """

    version: str = "COMET_22_SRC_REF"

    task: ClassVar[str] = "comet"
    versions: ClassVar[tuple[str, ...]] = ("COMET_22_SRC_REF",)


@register("metric", "metricx")
@dataclass(frozen=True, kw_only=True)
class MetricX(_Translation):
    """MetricX of a translation, 0 to 25, lower is better; by Vertex AI's evaluation service.

    Attributes:
        version: "METRICX_24_SRC_REF", "METRICX_24_SRC" or "METRICX_24_REF".
    """

    version: str = "METRICX_24_SRC_REF"

    range: ClassVar[tuple[float, float] | None] = (0.0, 25.0)
    best: ClassVar[float | None] = 0.0
    task: ClassVar[str] = "metricx"
    versions: ClassVar[tuple[str, ...]] = ("METRICX_24_SRC_REF", "METRICX_24_SRC", "METRICX_24_REF")

"""The signature of `evaluate()` names every section of a configuration."""

from __future__ import annotations

from evalbeam import EvaluationConfig
from evalbeam.pipelines.config.sections import Sections


def test_every_section_is_named() -> None:
    own = {"dataset", "metrics", "output"}
    assert set(Sections.__annotations__) == EvaluationConfig.model_fields.keys() - own | {
        "dataset_options",
        "output_options",
    }

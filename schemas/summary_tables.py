"""The tables of statistics: the summary, and how well judges agree with people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields

from .json import Json
from .result import OF_LABELS, Summary
from .tables import Column, json_text

_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("slice", "judges"), "json"),
    **dict.fromkeys(("metric", "ci_method", "verdict"), "string"),
    **dict.fromkeys(("row_count", "scored_count", "error_count", "skipped_count", "n_clusters"), "int64"),
    **dict.fromkeys(("judge_calls", "judge_input_tokens", "judge_output_tokens", "labels"), "int64"),
}
_NO_COLUMN = ("validity", "intervals")
WITH_LABELS = tuple(
    Column(f.name.rstrip("_"), _TYPES.get(f.name, "float64")) for f in fields(Summary) if f.name not in _NO_COLUMN
)
"""Columns of the summary table of a run with people's labels."""
SUMMARY = WITH_LABELS[: -len(OF_LABELS)]
"""Columns of the summary table of any other run."""

AGREEMENT = (
    "accuracy",
    "sensitivity",
    "specificity",
    "kappa",
    "weighted_kappa",
    "alpha",
    "auc",
    "spearman",
    "rogan_gladen",
)
"""Statistics of how well a judge agrees with people, and the share of all rows that people would pass."""
VALIDITY = (
    Column("slice", "json"),
    Column("metric", "string"),
    Column("labels", "int64"),
    *(Column(f"{name}{end}", "float64") for name in AGREEMENT for end in ("", "_ci_low", "_ci_high")),
    Column("reason", "string"),
)
"""Columns of the table that says how well judges agree with people."""


def summary_row(summary: Summary) -> dict[str, Json]:
    """Converts a summary to a row of the summary table; `slice` is a JSON object, {} for the whole dataset."""
    row = {f.name.rstrip("_"): getattr(summary, f.name) for f in fields(Summary) if f.name not in _NO_COLUMN}
    row["slice"] = json_text(dict(summary.slice))
    row["judges"] = None if summary.judges is None else json_text(summary.judges)
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def validity_row(summary: Summary) -> dict[str, Json]:
    """Converts what a summary says of its judge to a row of the validity table."""
    return {"slice": json_text(dict(summary.slice)), "metric": summary.metric, **(summary.validity or {})}

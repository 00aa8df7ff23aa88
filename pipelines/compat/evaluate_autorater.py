"""How well judges agree with people: `evaluate_autorater` of the Vertex AI SDK."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

MOST_LABELS = 10
"""Ratings beyond which no confusion matrix is made, as in the SDK."""
_KINDS = (("pairwise_choice", "human_pairwise_choice"), ("score", "human_rating"))


@dataclass(frozen=True)
class AutoraterEvalResult:
    """How well judges agree with people.

    Attributes:
        eval_result: For each metric: `metric`, `accuracy_balanced` (mean recall of the people's ratings),
            `f1_score_balanced` (F1 weighted by their frequency), and for at most 10 ratings `confusion_matrix` (rows:
            people's, columns: the judge's) with `confusion_matrix_labels`.
        eval_dataset_metadata, autorater_config: As given.
    """

    eval_result: list[dict[str, Any]]
    eval_dataset_metadata: Mapping[str, Any] | None = None
    autorater_config: Any = None


def evaluate_autorater(
    *,
    evaluate_autorater_input: pd.DataFrame,
    eval_metrics: Sequence[Any],
    autorater_config: Any = None,
    eval_dataset_metadata: Mapping[str, Any] | None = None,
) -> AutoraterEvalResult:
    """Compares the verdicts of judges with those of people.

    Rows without one of the two are left out.

    Args:
        evaluate_autorater_input: For each metric the columns `<metric>/score` and `<metric>/human_rating`, or
            `<metric>/pairwise_choice` and `<metric>/human_pairwise_choice`; such as a `metrics_table`.
        eval_metrics: Metrics, or their names.
        autorater_config, eval_dataset_metadata: Kept in the result.

    Raises:
        ConfigError: The columns of a metric are missing, or no row has both verdicts.
    """
    found = [_compare(str(metric), evaluate_autorater_input) for metric in eval_metrics]
    return AutoraterEvalResult(found, eval_dataset_metadata, autorater_config)


def _compare(metric: str, table: pd.DataFrame) -> dict[str, Any]:
    names = [tuple(f"{metric}/{part}" for part in kind) for kind in _KINDS]
    pair = next((pair for pair in names if all(name in table.columns for name in pair)), None)
    if pair is None:
        allowed = " or ".join(" and ".join(pair) for pair in names)
        raise ConfigError(f"no verdicts of people on {metric!r}", where="evaluate_autorater_input", allowed=allowed)
    both = [(_label(own), _label(human)) for own, human in zip(table[pair[0]], table[pair[1]], strict=True)]
    rated = [(own, human) for own, human in both if own is not None and human is not None]
    if not rated:
        raise ConfigError(f"no row has both verdicts on {metric!r}", where="evaluate_autorater_input")
    labels = sorted({label for one in rated for label in one})
    place = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=int)
    for own, human in rated:
        counts[place[human], place[own]] += 1
    result = {"metric": metric, **_statistics(counts)}
    if len(labels) <= MOST_LABELS:
        result |= {"confusion_matrix": counts, "confusion_matrix_labels": labels}
    return result


def _label(value: Any) -> str | None:
    """Returns a verdict as text, a number as that of a float; `None` for a missing or failed one."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None if value.strip().lower() in ("", "nan", "error") else value
    if value is None or not isinstance(value, int | float | np.number) or math.isnan(value):
        return None
    return str(float(value))


def _statistics(counts: np.ndarray) -> dict[str, float]:
    """Balanced accuracy and weighted F1 of a confusion matrix whose rows are the truth."""
    right, true, said = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    present = true > 0
    f1 = np.divide(2 * right, true + said, out=np.zeros(len(counts)), where=true + said > 0)
    recalls = right[present] / true[present]
    return {
        "accuracy_balanced": float(recalls.mean()),
        "f1_score_balanced": float((f1 * true).sum() / true.sum()),
    }

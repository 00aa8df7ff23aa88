"""Columns of a DataFrame that hold Python objects, which no file can: notebooks keep a model's raw answers in them."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from ...schemas.plain_values import plain

if TYPE_CHECKING:
    import pandas as pd


def set_objects_aside(dataset: Any) -> tuple[Any, pd.DataFrame | None]:
    """Takes the columns out of a DataFrame in which a value has no JSON form; a warning names them.

    Args:
        dataset: What EvalTask was given; not changed.

    Returns:
        The dataset without these columns, and the columns alone; `None` if there are none.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(dataset, pandas.DataFrame) or not dataset.columns.is_unique:
        return dataset, None
    aside = [name for name in dataset.columns if dataset[name].dtype == object and _holds_objects(dataset[name])]
    if not aside:
        return dataset, None
    shown = ", ".join(repr(str(name)) for name in aside)
    warnings.warn(f"columns of Python objects are kept for metrics_table; no metric sees {shown}", stacklevel=4)
    return dataset.drop(columns=aside), dataset[aside]


def _holds_objects(column: Any) -> bool:
    """True if a value of a column is of a type that has no JSON form."""
    for value in column:
        try:
            plain(value)
        except TypeError:
            return True
        except (ValueError, OverflowError, RecursionError):
            return False  # a fault of a value: reading the rows tells where
    return False

"""What EvalTask checks before a run: that the dataset has what the metrics need, as the Vertex AI SDK does."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.errors import DatasetError
from ...schemas.instance import ALIASES
from ...transforms.join_baseline import JOINED
from ...transforms.readers.memory import iterate_rows, spill
from ..check.check import HEAD_ROWS, CheckReport, check
from ..check.estimate import UNKNOWN_ROWS, count_calls, estimate_judges, format_span, sum_spans
from ..config.arguments import build_sections


@dataclass(frozen=True)
class Preflight:
    """The arguments of a run that is about to start.

    Attributes:
        dataset, metrics, agent, sections: As for `evaluate`.
        answers_baseline: Whether a baseline model will answer the dataset.
    """

    dataset: Any
    metrics: list[Any]
    agent: Mapping[str, Any]
    sections: Mapping[str, Any]
    answers_baseline: bool

    def require(self) -> str:
        """Refuses a dataset in which no row has what a metric needs.

        Only what is known without reading it all is checked: the columns of a dataset in memory, and files of at most
        `HEAD_ROWS` rows.

        Returns:
            What the judges are expected to be asked, in words, estimated from the first rows.

        Raises:
            ConfigError: The configuration is invalid.
            DatasetError: A metric needs a column that is missing.
        """
        with tempfile.TemporaryDirectory(prefix="evalbeam-") as folder:
            sections, rows = build_sections(self.dataset, self.metrics, None, folder, dict(self.sections))
            sections["agent"] = dict(self.agent)
            if rows is None:
                report = check(EvaluationConfig.parse(sections))
                columns = None if report.rows is None or report.rows > HEAD_ROWS else set[str]()
                size = report.evaluated
            else:
                size = len(rows) if hasattr(rows, "__len__") and not isinstance(rows, Mapping) else _count(rows)
                columns = _columns_of(rows)
                head = list(islice(iterate_rows(rows), HEAD_ROWS)) if columns is not None else []
                (path,), _ = spill(head, folder)
                sections["dataset"] |= {"path": [path], "format": "jsonl"}
                report = check(EvaluationConfig.parse(sections))
        if columns is not None:
            self._require_inputs(report, columns)
        return _describe_calls(report, size)

    def _require_inputs(self, report: CheckReport, columns: set[str]) -> None:
        size = len(report.sample.examples)
        if report.sample.rejected and not size:
            place, _, message = report.sample.rejected[0]
            raise DatasetError(f"no row can be used: {message}", where=f"dataset, {place.rpartition(', ')[2]}")
        for metric, lacking in report.lacking().items():
            for name, count in lacking.items():
                known = columns & {name, *ALIASES.get(name, ())}
                if count < size or known or name == "rubrics" or (self.answers_baseline and name in JOINED):
                    continue
                shown = ", ".join(sorted({c for e in report.sample.examples for c in e.instance.row} | columns))
                found = f"the metric {metric!r} needs a column {name!r}; the columns are {shown}"
                raise DatasetError(found, where="dataset", allowed="a column of that name, or metric_column_mapping")


def _count(rows: Any) -> int | None:
    """Returns the number of rows of a dict of columns; `None` for an iterator."""
    first = next(iter(rows.values()), ()) if isinstance(rows, Mapping) else None
    return None if first is None else len(first)


def _columns_of(rows: Any) -> set[str] | None:
    """Returns the columns of a dataset in memory; `None` for an iterator, which can be read only once."""
    if hasattr(rows, "columns"):
        return set(map(str, rows.columns))
    if isinstance(rows, Mapping):
        return set(map(str, rows))
    if isinstance(rows, list):
        return {str(name) for row in rows if isinstance(row, Mapping) for name in row}
    return None


def _describe_calls(report: CheckReport, rows: int | None) -> str:
    """Describes the expected calls of the judges."""
    count = UNKNOWN_ROWS if rows is None else rows
    estimates = estimate_judges(report.plan, report.sample.examples, report.sample.size, count)
    cost = sum_spans([one.cost for one in estimates])
    money = f", at a cost of {format_span(cost, exact=True)}" if cost is not None else ""
    each = f"for {rows:,} rows" if rows is not None else f"for each {UNKNOWN_ROWS:,} rows"
    return f"{format_span(count_calls(estimates, report.plan))} calls {each}{money}"

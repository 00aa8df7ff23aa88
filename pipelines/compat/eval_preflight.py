"""What EvalTask checks before a run: that the dataset has what the metrics need, as the Vertex AI SDK does."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from itertools import islice
from typing import Any

from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.errors import DatasetError
from ...schemas.instance import ALIASES
from ...transforms.join_baseline import BASELINE, JOINED
from ...transforms.metrics._judged import JudgedMetric
from ...transforms.readers.memory import iterate_rows, spill
from ..check.check import HEAD_ROWS, CheckReport, check
from ..check.estimate import UNKNOWN_ROWS, count_calls, currency_of, estimate_judges, format_span, sum_spans
from ..config.arguments import build_sections

_FILE = re.compile(r'\s*\{\s*"contents"\s*:.*"(file_data|fileData|inline_data|inlineData)"\s*:', re.S)
"""Matches a content of the Gemini API that has a file, as the SDK's multimodal datasets hold it."""


def require_columns(dataset: Any, metrics: list[Any], config: Mapping[str, Any], answered: frozenset[str]) -> str:
    """Refuses a dataset in which no row has what a metric needs, or which has the answers that a model shall give.

    Only what is known without reading it all is checked: the columns of a dataset in memory, and files of at most
    `HEAD_ROWS` rows.

    Args:
        dataset, metrics: As for `evaluate`.
        config: Its further arguments.
        answered: What models will answer: `response`, `baseline_model_response`.

    Returns:
        What the judges are expected to be asked, in words, estimated from the first rows.

    Raises:
        ConfigError: The configuration is invalid.
        DatasetError: A metric needs a column that is missing, none of the first rows can be used, or the dataset has a
            column of `answered`.
    """
    with tempfile.TemporaryDirectory(prefix="evalbeam-") as folder:
        sections, rows = build_sections(dataset, metrics, None, folder, config)
        columns = None if rows is None else _columns_of(rows)
        if rows is not None:
            head = [] if columns is None else list(islice(iterate_rows(rows), HEAD_ROWS))
            path = spill(head, folder).path
            sections["dataset"] |= {"path": [path], "format": "jsonl"}
        report = check(EvaluationConfig.parse(sections))
    if rows is None and report.rows is not None and report.rows <= HEAD_ROWS:
        columns = set()
    _refuse_files(report, config["dataset_options"]["columns"])
    if columns is not None:
        _refuse_recorded(report, columns, config["dataset_options"]["columns"], answered)
        _require_inputs(report, columns, JOINED if BASELINE in answered else frozenset())
    return _describe_calls(report, report.evaluated if rows is None else _count(rows))


def _refuse_recorded(
    report: CheckReport, columns: set[str], names: Mapping[str, str], answered: frozenset[str]
) -> None:
    """Refuses a model whose answers are in the dataset already: one of the two would be ignored."""
    known = {names.get(c, c) for c in columns} | {c for e in report.sample.examples for c in e.instance.row}
    if recorded := sorted(known & answered):
        found = f"a model is given, and the dataset has a column {recorded[0]!r} of recorded answers"
        raise DatasetError(found, where="dataset", allowed="one of the two")


def _refuse_files(report: CheckReport, names: Mapping[str, str]) -> None:
    """Refuses to show a judge the name of an image or a video instead of the file."""
    judged = [use.metric for use in report.plan.metrics if isinstance(use.metric, JudgedMetric)]
    shown = {name for metric in judged for name in metric.inputs}
    shown |= {name for metric in judged for prompt in metric.prompts for name in prompt.variables}
    own = {field: column for column, field in names.items()}
    for example in report.sample.examples:
        for column, value in example.instance.row.items():
            named = {column, own.get(column, column)} & shown
            if named and isinstance(value, str) and _FILE.match(value):
                found = f"the column {min(named)!r} names files, and judges are shown texts only"
                raise DatasetError(found, where="dataset", allowed="texts in the columns that judges are shown")


def _require_inputs(report: CheckReport, columns: set[str], given: frozenset[str]) -> None:
    size = len(report.sample.examples)
    if report.sample.rejected and not size:
        place, _, message = report.sample.rejected[0]
        raise DatasetError(f"no row can be used: {message}", where=f"dataset, {place.rpartition(', ')[2]}")
    for metric, lacking in report.lacking().items():
        for name, count in lacking.items():
            if count < size or name in given or name == "rubrics" or columns & {name, *ALIASES.get(name, ())}:
                continue
            shown = ", ".join(sorted({c for e in report.sample.examples for c in e.instance.row} | columns))
            found = f"the metric {metric!r} needs a column {name!r}; the columns are {shown}"
            raise DatasetError(found, where="dataset", allowed="a column of that name, or metric_column_mapping")


def _describe_calls(report: CheckReport, rows: int | None) -> str:
    """Describes the expected calls of the judges."""
    count = UNKNOWN_ROWS if rows is None else rows
    estimates = estimate_judges(report.plan, report.sample.examples, report.sample.size, count)
    cost = sum_spans([one.cost for one in estimates])
    money = f", at a cost of {format_span(cost, money=currency_of(report.plan))}" if cost is not None else ""
    each = f"for {rows:,} rows" if rows is not None else f"for each {UNKNOWN_ROWS:,} rows"
    return f"{format_span(count_calls(estimates, report.plan))} calls {each}{money}"


def _count(rows: Any) -> int | None:
    """Returns the number of rows of a dataset in memory; `None` for an iterator."""
    if isinstance(rows, Mapping):
        rows = next(iter(rows.values()), ())
    return len(rows) if hasattr(rows, "__len__") else None


def _columns_of(rows: Any) -> set[str] | None:
    """Returns the columns of a dataset in memory; `None` for an iterator, which can be read only once."""
    if hasattr(rows, "columns"):
        return set(map(str, rows.columns))
    if isinstance(rows, Mapping):
        return set(map(str, rows))
    if isinstance(rows, list):
        return {str(name) for row in rows if isinstance(row, Mapping) for name in row}
    return None

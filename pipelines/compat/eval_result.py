"""The result of EvalTask: a run's result with the names and values that the Vertex AI SDK gives."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from ...schemas.tables import MOVED
from ...transforms.join_baseline import BASELINE
from ..run.result import EvaluationResult

if TYPE_CHECKING:
    import pandas as pd

_DETAILS = "/details"


@dataclass(frozen=True)
class EvalResult(EvaluationResult):
    """Summary, table and metadata of a run of EvalTask, and all that an EvaluationResult has.

    Attributes:
        objects: Columns of the dataset that hold Python objects; one row for each dataset row.
    """

    objects: pd.DataFrame | None = None

    @property
    def summary_metrics(self) -> dict[str, float | int]:  # type: ignore[override]
        """`row_count`, `<metric>/mean`, `<metric>/std` and win rates; NaN where a statistic is not defined."""
        return {name: math.nan if value is None else value for name, value in super().summary_metrics.items()}

    @cached_property
    def metrics_table(self) -> pd.DataFrame:
        """One row for each dataset row; what a metric returned besides its score is in `<metric>/<key>`."""
        table = _name_as_given(self._with_baseline(super().metrics_table))
        named: dict[str, Any] = {}
        for column in [c for c in table.columns if c.endswith(_DETAILS)]:
            metric = column.removesuffix(_DETAILS)
            rows = [_spread(details) for details in table[column]]
            for key in dict.fromkeys(key for row in rows for key in row):
                if (name := f"{metric}/{key}") not in table.columns:
                    named[name] = [row.get(key) for row in rows]
        if self.objects is not None and len(self.objects) == len(table):
            named |= {str(name): list(self.objects[name]) for name in self.objects.columns}
        return table.assign(**named)

    def _with_baseline(self, table: pd.DataFrame) -> pd.DataFrame:
        """Adds the answers of the baseline model, which are in a run of their own."""
        folder = self.manifest["config"].get("baseline")
        if folder is None:
            return table
        other = EvaluationResult.load(folder).metrics_table
        keys = ["instance_id", "trial"]
        answers = other.set_index(keys)["response"].to_dict()
        column: Any = [answers.get(key) for key in zip(*(table[key] for key in keys), strict=True)]
        return table.assign(**{BASELINE: column})


def _name_as_given(table: pd.DataFrame) -> pd.DataFrame:
    """Gives columns of the dataset that look like a metric's their names back, such as `<metric>/human_rating`."""
    moved = [name for name in table.columns if name.startswith(MOVED) and "/" in name]
    own = {name: name.removeprefix(MOVED) for name in moved}
    return table.rename(columns={name: given for name, given in own.items() if given not in table.columns})


def _spread(details: Any) -> dict[str, Any]:
    """Returns the details of a score by key; of rubrics with verdicts also under the SDK's names."""
    if not isinstance(details, Mapping):
        return {}
    found = {key: value for key, value in details.items() if key != "votes"}
    rubrics = found.get("rubrics")
    if isinstance(rubrics, list) and all(isinstance(one, Mapping) and "verdict" in one for one in rubrics):
        pairs = [{"rubric": one["rubric"], "verdict": one["verdict"]} for one in rubrics]
        found |= {"rubric_verdict_pairs": pairs, "per_rubric_result": pairs}
    return found


def show_runs(results: Sequence[EvalResult]) -> None:
    """Shows runs as a table: in IPython as one with bars behind the means, else as text."""
    table = tabulate_runs(results)
    if "IPython" not in sys.modules or sys.modules["IPython"].get_ipython() is None:
        print(table.to_string(index=False))
        return
    from IPython.display import HTML, display

    display(HTML(render_runs(table)))


def tabulate_runs(results: Sequence[EvalResult]) -> pd.DataFrame:
    """Returns one row for each run: its name, its folder and its summary."""
    import pandas as pd

    named = [((one.metadata or {}).get("experiment_run", ""), one) for one in results]
    return pd.DataFrame([{"run_name": name, "output": one.output, **one.summary_metrics} for name, one in named])


def render_runs(table: pd.DataFrame) -> str:
    """Renders runs as an HTML table without scripts; the means and rates of each column are bars from its largest."""
    cells = ["<th>" + "</th><th>".join(escape(str(name)) for name in table.columns) + "</th>"]
    for row in table.to_dict("records"):
        cells.append("".join(_cell(str(name), value, table[name]) for name, value in row.items()))
    return "<table>" + "".join(f"<tr>{one}</tr>" for one in cells) + "</table>"


def _cell(name: str, value: Any, column: Any) -> str:
    if not isinstance(value, int | float):
        return f"<td>{escape(str(value))}</td>"
    text = "–" if math.isnan(value) else f"{value:.4g}"
    largest = column.abs().max()
    if not name.endswith(("/mean", "_rate")) or math.isnan(value) or not largest > 0:
        return f"<td style='text-align:right'>{text}</td>"
    width = round(100 * abs(value) / largest)
    bar = f"linear-gradient(to right, #9bc2e6 {width}%, transparent {width}%)"
    return f"<td style='text-align:right; background:{bar}'>{text}</td>"

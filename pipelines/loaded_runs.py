"""Reads what runs have loaded into BigQuery: the rows of a summary table, run by run."""

from __future__ import annotations

import calendar
import datetime
from collections import defaultdict
from contextlib import closing
from typing import Any, NamedTuple

from ..schemas.config.storage import SCHEME
from ..schemas.errors import ConfigError
from ..schemas.json import Json
from ..transforms.io.bigquery import Clients, TableName, briefly, reason

_NEEDED = ("run_id", "run_date", "slice", "metric", "mean", "ci_low", "ci_high", "scored_count", "row_count")


class LoadedRun(NamedTuple):
    """What a summary table has of a run.

    Attributes:
        name: Its `run_id`.
        day: Its `run_date`, ISO 8601.
        started: The beginning of that day in UTC, in seconds since 1970.
        rows: The rows of the table over all rows of the run, by metric.
    """

    name: str
    day: str
    started: float
    rows: dict[str, dict[str, Json]]

    @property
    def count(self) -> int:
        """Number of its rows."""
        return max(row["row_count"] for row in self.rows.values())


def read_loaded(place: str, where: str) -> list[LoadedRun]:
    """Reads the runs of a summary table, by day.

    Args:
        place: "bq://project.dataset.summary", with the name that the table has there.
        where: What names the table, for messages.

    Raises:
        ConfigError: The table does not exist or cannot be read, is no summary, or has no dates.
    """
    from google.api_core.exceptions import GoogleAPIError

    table = TableName.parse(place.removeprefix(SCHEME), where)
    with closing(Clients().tables(table.project)) as client:
        try:
            found = client.get_table(str(table), retry=briefly())
            lacking = [name for name in _NEEDED if name not in {f.name for f in found.schema}]
            if lacking:
                allowed = "the table summary of runs with output.bigquery.run_date"
                raise ConfigError(f"{table} has no column {', '.join(lacking)}", where=where, allowed=allowed)
            fields = [f for f in found.schema if f.name in _NEEDED]
            rows = [dict(row) for row in client.list_rows(found, selected_fields=fields, retry=briefly())]
        except GoogleAPIError as error:
            raise ConfigError(f"{table}: {reason(error)}", where=where) from error
    return _group(rows)


def _group(rows: list[dict[str, Any]]) -> list[LoadedRun]:
    runs: dict[tuple[datetime.date, str], dict[str, dict[str, Json]]] = defaultdict(dict)
    for row in rows:
        if row["slice"] == "{}" and row["run_date"] is not None:
            runs[row["run_date"], row["run_id"]][row["metric"]] = row
    return [
        LoadedRun(name, day.isoformat(), calendar.timegm(day.timetuple()), metrics)
        for (day, name), metrics in sorted(runs.items())
    ]

"""A finished run, read back from storage when asked for."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from ...schemas.errors import ConfigError
from ...schemas.exit_codes import EXIT_CONFIG, EXIT_CRITERION, EXIT_INCONCLUSIVE, EXIT_PASSED, EXIT_PENDING, EXIT_RUN
from ...schemas.json import Json
from ...schemas.names import RATES, aggregates, registered_names
from ...schemas.run_folder import FAILED, FINISHED, PENDING
from ...schemas.warehouse import ADDED, ORIGINAL
from ...transforms.io import storage
from ...transforms.journal.run_state import manifest_at

if TYPE_CHECKING:
    import pandas as pd

SINKS = "sinks"
"""Key of the manifest that says what became of each sink."""


@dataclass(frozen=True)
class EvaluationResult:
    """Tables, verdict and manifest of a run.

    Attributes:
        output: Folder of the run.
        manifest: Contents of its manifest.json.
        in_order: Whether the dataset came from memory, so that `metrics_table` keeps its order.
        metadata: What EvalTask was told of the experiment.
    """

    output: str
    manifest: dict[str, Json]
    in_order: bool = field(default=False)
    metadata: dict[str, str] | None = None

    def __repr__(self) -> str:
        """Names the folder, how the run ended, and the number of rows; the manifest has the rest."""
        words = [self.state, *([str(self.verdict)] if self.verdict else [])]
        rows = (self.manifest.get("counts") or {}).get("rows", 0)
        return f"EvaluationResult({self.output!r}: {', '.join(words)}, {rows:,} rows)"

    @classmethod
    def load(cls, output: str | os.PathLike[str]) -> EvaluationResult:
        """Opens a finished run.

        Raises:
            ConfigError: There is no manifest in the folder.
        """
        path = os.fspath(output)
        manifest = manifest_at(path)
        if manifest is None:
            raise ConfigError(f"no finished run at {path!r} (no manifest.json)", where="output")
        return cls(path, manifest)

    def with_order(self, in_order: bool) -> EvaluationResult:
        """The same result, its instances in the order of the dataset or of their ids."""
        return replace(self, in_order=in_order)

    @property
    def state(self) -> str:
        """ "finished", "failed" (nothing was called), "stopped" or "pending" (calls are handed over in batches)."""
        return self.manifest["state"]

    @property
    def verdict(self) -> str | None:
        """ "PASSED", "FAILED", "INCONCLUSIVE", "NOT_EVALUATED" (also of a stopped or pending run), or `None` without
        criteria."""
        return self.manifest["verdict"]

    @property
    def reason(self) -> str | None:
        """Why the run failed, was stopped, or finished and shows nothing (`transforms.unscored`); else `None`."""
        return self.manifest.get("reason")

    @property
    def exit_code(self) -> int:
        """0 passed (or nothing to judge), 1 a criterion failed or could not be evaluated, 3 the run failed, was stopped
        or shows nothing, 4 a criterion is inconclusive, 5 it waits for batches."""
        if self.state == PENDING:
            return EXIT_PENDING
        if self.state != FINISHED or self.reason:
            return EXIT_RUN
        codes = {None: EXIT_PASSED, "PASSED": EXIT_PASSED, "INCONCLUSIVE": EXIT_INCONCLUSIVE}
        return codes.get(self.verdict, EXIT_CRITERION)

    @cached_property
    def summary_table(self) -> pd.DataFrame:
        """One row for each slice and metric; `slice` is a dict, {} for the whole dataset."""
        return self._table("summary")

    @cached_property
    def metrics_table(self) -> pd.DataFrame:
        """One row for each dataset row and trial; JSON columns as objects."""
        table = self._table("instances")
        if not self.in_order:
            return table
        from ...schemas.config.evaluation import EvaluationConfig
        from .order import in_dataset_order

        return in_dataset_order(table, EvaluationConfig.parse(self.manifest["config"]))

    @cached_property
    def errors_table(self) -> pd.DataFrame:
        """Rejected input rows and failed calls."""
        return self._table("errors")

    @cached_property
    def failure_groups_table(self) -> pd.DataFrame:
        """The groups of failing rows, the largest first; `examples` are lists."""
        return self._table("failure_groups")

    @cached_property
    def worst_slices_table(self) -> pd.DataFrame:
        """The slices that are shown to be worse than the rest, the surest first; `slice` is a dict."""
        return self._table("worst_slices")

    @property
    def summary_metrics(self) -> dict[str, float | int | None]:
        """EvalTask's dictionary: `row_count`, `<metric>/mean`, `<metric>/std`, win rates, over the whole dataset.

        Under other `output.column_style`, the aggregates have the names of that product. Where a statistic is not
        defined (no row was scored, or one alone has no deviation) the value is `None`, where EvalTask says NaN.
        """
        found: dict[str, Any] = {"row_count": self.manifest["counts"]["rows"]}
        config = self.manifest["config"]
        style, given = (
            config["output"].get("column_style", "flat"),
            registered_names((m["name"], m["metric"]) for m in config["metrics"]),
        )
        for row in self.summary_table.to_dict("records"):
            if row["slice"]:
                continue
            if row["metric"].endswith(RATES):
                found[row["metric"]] = row["mean"]
            else:
                name = str(row["metric"])
                found |= aggregates(style, name, given.get(name, name), row)
        return _without_nan(found)

    def _repr_html_(self) -> str:
        """Draws the run in a notebook: verdict, forest plot, metrics."""
        from ..drawing.cards import draw_run

        rows = self.summary_table.to_dict("records") if "summary" in self.manifest["tables"] else []
        return draw_run(self.manifest, [_without_nan(row) for row in rows], self.output)

    def files(self, table: str) -> list[str]:
        """Paths of a table's files, in order."""
        described = self.manifest["tables"].get(table)
        return [storage.join(self.output, name) for name in described["files"]] if described else []

    def _table(self, name: str) -> pd.DataFrame:
        import pandas as pd

        described = self.manifest["tables"].get(name)
        if described is None:
            reason = self.manifest.get("reason") or self.state
            raise ConfigError(f"the run wrote no {name} table: {reason}", where=self.output)
        frames = [_read(path, described["columns"]) for path in self.files(name)]
        frames = [f for f in frames if len(f)] or frames[:1]
        table = _with_digits(pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0])
        for column in described["columns"]:
            if column["type"] == "json":
                table[column["name"]] = table[column["name"]].map(_loaded).astype(object)
        return table


def _without_nan(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(k): None if isinstance(value, float) and math.isnan(value) else value for k, value in row.items()}


def _read(path: str, columns: list[dict[str, Json]]) -> pd.DataFrame:
    import io

    import pandas as pd

    if path.endswith(".evalset_result.json"):
        found = "the instances are in ADK's result files, not in a table"
        raise ConfigError(found, where=path, allowed="output.format: parquet, jsonl or csv")
    raw = io.BytesIO(_bytes(path))
    if path.endswith(".parquet"):
        return _parquet(raw.getvalue())
    text = {c["name"]: object for c in columns if c["type"] not in ("float64", "bool")}
    integers = [c["name"] for c in columns if c["type"] == "int64"]
    compression: Any = "gzip" if path.endswith(".gz") else None
    if ".jsonl" in path:
        import gzip

        data = gzip.decompress(raw.getvalue()) if compression else raw.getvalue()
        rows = [orjson.loads(line) for line in data.splitlines()]
        table = pd.DataFrame(rows, columns=[c["name"] for c in columns])
        whole = {name: [row.get(name) for row in rows] for name in integers}
        floats = [c["name"] for c in columns if c["type"] == "float64"]  # "Infinity" among their numbers
        table = table.assign(**{name: table[name].astype("float64") for name in floats})
    else:
        names = [c["name"] for c in columns]  # the file's own may be protected from spreadsheets
        table = pd.read_csv(
            raw, names=names, header=0, dtype=text, compression=compression, keep_default_na=False, na_values=[""]
        )
        whole = {name: [None if pd.isna(cell) else int(cell) for cell in table[name]] for name in integers}
    return table.assign(**{name: pd.array(values, dtype="Int64") for name, values in whole.items()})


def _bytes(path: str) -> bytes:
    """A table's file; of Cloud Storage by its own client, which fetches a large object in one request."""
    if not path.startswith("gs://"):
        return storage.read_bytes(path)
    import gcsfs

    data: Any = gcsfs.GCSFileSystem().cat_file(path)
    return data


def _parquet(data: bytes) -> pd.DataFrame:
    """A Parquet file's table, read in this thread alone.

    Arrow's threads may let go of the Python object they read from later than they return the table; where the
    interpreter ends just then, they abort the process.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(use_threads=False)
    ours = [f for f in table.schema if ADDED not in (f.metadata or {})]
    names = [(f.metadata or {}).get(ORIGINAL, f.name.encode()).decode() for f in ours]  # BigQuery has its own
    table = table.select([f.name for f in ours]).rename_columns(names)
    return table.to_pandas(use_threads=False, types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def _with_digits(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose integers are numpy's, or floats where some are missing, unless floats would lose their digits."""
    for name in table.columns[table.dtypes == "Int64"]:
        column = table[name]
        missing = column.isna()
        if not missing.any():
            table[name] = column.astype("int64")
        elif missing.all() or max(int(column.max()), -int(column.min())) <= 2**53:
            table[name] = column.astype("float64")
    return table


def _loaded(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str) else None


__all__ = ["EXIT_CONFIG", "EXIT_CRITERION", "EXIT_PASSED", "EXIT_RUN", "FAILED", "EvaluationResult"]


def require_finished(run: EvaluationResult, where: str) -> None:
    """Raises the ConfigError, at the option `where`, of a run that did not finish."""
    if run.state != FINISHED:
        raise ConfigError(f"the run at {run.output!r} is {run.state}", where=where, allowed="a finished run")

"""Compares two runs over the same dataset, instance by instance."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..schemas import tables
from ..schemas.comparison import Difference
from ..schemas.config.gate import GateConfig
from ..schemas.errors import ConfigError
from ..schemas.exit_codes import EXIT_CRITERION, EXIT_INCONCLUSIVE, EXIT_PASSED
from ..schemas.json import Json
from ..transforms.io import storage
from ..transforms.registry import build, find
from ..transforms.statistics.drift import Decomposition, Drift, DriftCounts
from ..transforms.statistics.gains import judge
from ..transforms.statistics.slices import distinct_slices
from ..transforms.writers.base import Writer
from .corrected_runs import find_corrected_gains
from .pair_scores import pair_scores
from .paired_runs import PairedRuns
from .run.result import EvaluationResult
from .run.tables import columns_of_instances

if TYPE_CHECKING:
    import pandas as pd

TEXTS = ("prompt", "response")
"""Columns whose lengths are compared."""
_FORMATS = ("jsonl", "csv", "parquet")
_EXITS = {"PASSED": EXIT_PASSED, "FAILED": EXIT_CRITERION, "INCONCLUSIVE": EXIT_INCONCLUSIVE}


@dataclass(frozen=True)
class Comparison:
    """Differences between two runs.

    Attributes:
        before: Folder of the first run.
        after: Folder of the second run.
        differences: Difference of each metric, first over all instances, then by slice.
        only_before: Instances that only the first run has.
        only_after: Instances that only the second run has.
        notes: Other differences between the runs, as text.
        deciding: Metrics that decide the verdict: those that were named, else all that are not measured.
        gate: What the comparison has to show.
        drifts: How the slice columns, and the lengths of prompts and responses, differ between all rows of the runs.
        decompositions: The change of each deciding metric's mean over all rows, split by each slice column.
    """

    before: str
    after: str
    differences: tuple[Difference, ...]
    only_before: int
    only_after: int
    notes: tuple[str, ...] = ()
    deciding: tuple[str, ...] = ()
    gate: GateConfig = GateConfig()
    drifts: tuple[Drift, ...] = ()
    decompositions: tuple[Decomposition, ...] = ()

    def __repr__(self) -> str:
        """Names both runs, the verdict, and the number of differences; `table` has them."""
        return f"Comparison({self.before!r} to {self.after!r}: {self.verdict}, {len(self.differences):,} differences)"

    @property
    def decisive(self) -> tuple[Difference, ...]:
        """The differences that decide: of the deciding metrics, in all slices where a run scored them."""
        scored = (d for d in self.differences if not d.slice or d.coverage is not None or d.gained)
        return tuple(d for d in scored if d.metric in self.deciding)

    @property
    def uncovered(self) -> tuple[Difference, ...]:
        """The deciding metrics, over all instances, whose coverage is below the gate's."""
        least = self.gate.min_coverage
        whole = (d for d in self.decisive if not d.slice and d.coverage is not None)
        return tuple(d for d in whole if least is not None and d.coverage is not None and d.coverage < least)

    @property
    def verdict(self) -> str:
        """ "FAILED" if a deciding metric is worse or lost too many scores, "INCONCLUSIVE" if one is, else "PASSED".

        `gate.inconclusive` makes "PASSED" or "FAILED" of "INCONCLUSIVE".
        """
        verdicts = {d.verdict for d in self.decisive}
        if "WORSE" in verdicts or self.uncovered:
            return "FAILED"
        if "INCONCLUSIVE" not in verdicts:
            return "PASSED"
        return {"pass": "PASSED", "fail": "FAILED", None: "INCONCLUSIVE"}[self.gate.inconclusive]

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 4 inconclusive."""
        return _EXITS[self.verdict]

    def _repr_html_(self) -> str:
        """Draws the comparison in a notebook: verdict and gains."""
        from .drawing.cards import draw_comparison

        place = f"{self.before} → {self.after}"
        return draw_comparison(self.verdict, self.differences, self.decisive, self.deciding, place)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The differences as rows of the comparison table; `slice` is a dict."""
        return [{**asdict(d), "slice": dict(d.slice)} for d in self.differences]

    @property
    def table(self) -> pd.DataFrame:
        """One row for each slice and metric; `slice` is a dict."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=[c.name for c in tables.COMPARISON])


def compare(
    before: str | os.PathLike[str],
    after: str | os.PathLike[str],
    *,
    metrics: Sequence[str] | None = None,
    slices: Sequence[str | Sequence[str]] | None = None,
    margin: float | None = None,
    margins: Mapping[str, float] | None = None,
    min_coverage: float | None = None,
    inconclusive: str | None = None,
    corrected: bool | None = None,
    confidence: float | None = None,
) -> Comparison:
    """Compares the scores of two runs on the instances that are in both.

    Instances are paired by id; the trials of an instance are averaged first. Both tables are read once, in parallel, in
    bounded memory; for a quantile, it grows by 32 bytes for each pair of scores. What is not given is taken from `gate`
    in the second run's configuration.

    Args:
        before: Folder of the first run, with tables in any format.
        after: Folder of the second run.
        metrics: Metrics that decide, quantiles of their scores ("latency_in_seconds/p95") and rows pass^k and pass@k;
            default: all metrics that are not measured.
        slices: Dataset columns, or lists of them, whose values in the second run break down the comparison.
        margin: The loss that counts as none, at least 0 (default: 0).
        margins: Margins of single metrics by name; these metrics decide, too.
        min_coverage: Lowest share of the first run's scores that the second run must have as well.
        inconclusive: "pass" or "fail": what an inconclusive comparison is.
        corrected: Whether means that labels correct decide, for metrics with labels in both runs (default: no).
        confidence: Level of the intervals and tests, in (0, 1) (default: 0.95).

    Raises:
        ConfigError: A folder has no run with a table, a metric or column does not exist, a margin is beyond a metric's
            range, no metric decides, or the runs share no instance.
    """
    runs = PairedRuns(EvaluationResult.load(before), EvaluationResult.load(after))
    what = {"metrics": metrics, "slices": slices, "inconclusive": inconclusive, "confidence": confidence}
    least = {"margin": margin, "margins": margins, "min_coverage": min_coverage, "corrected": corrected}
    return _compare_runs(runs, _find_gate(runs.after).changed({**what, **least}))


def _compare_runs(runs: PairedRuns, gate: GateConfig) -> Comparison:
    named = (*(gate.metrics or ()), *gate.margins)
    names = runs.metrics(named, only=bool(gate.metrics))
    deciding = tuple(name for name in names if name in named or not runs.measured(name))
    if not deciding:
        raise ConfigError("no metric decides, the family is empty", where="metrics", allowed=", ".join(names) or "none")
    margins = _find_margins(gate, names, runs)
    drift = _count_drift(runs, [name for name in deciding if not runs.compared(name).quantile], gate.slices)
    cells, alone = pair_scores(runs, names, gate.slices, drift)
    by_labels = find_corrected_gains(runs, cells, gate.confidence) if gate.corrected else {}
    found = tuple(judge(cells, deciding, margins, gate.confidence, by_labels))
    changed = tuple(drift.drifts()), tuple(drift.decompositions())
    return Comparison(runs.before.output, runs.after.output, found, *alone, runs.notes(names), deciding, gate, *changed)


def _count_drift(runs: PairedRuns, metrics: Sequence[str], slices: Iterable[Sequence[str]]) -> DriftCounts:
    known = columns_of_instances(runs.after)
    columns = ["+".join(one) for one in distinct_slices(slices) if one]
    return DriftCounts(columns, [column for column in TEXTS if column in known], metrics)


def changes(
    before: str | os.PathLike[str], after: str | os.PathLike[str], *, metrics: Sequence[str] = ()
) -> Iterator[dict[str, Json]]:
    """Yields (instance_id, metric, before, after) of each score that differs between the runs, ordered by id.

    A missing score is `None`. Arguments and errors are those of `compare`.
    """
    runs = PairedRuns(EvaluationResult.load(before), EvaluationResult.load(after))
    names = runs.scored(runs.metrics(metrics, only=bool(metrics)))
    for block in runs.side_by_side(names, []):
        old, ids = np.flatnonzero(block.paired), block.old.ids
        sides = {name: (block.old.scores[name][old], block.new.scores[name][block.places[old]]) for name in names}
        differs = {name: (a != b) & ~(np.isnan(a) & np.isnan(b)) for name, (a, b) in sides.items()}
        for at in np.flatnonzero(np.logical_or.reduce([*differs.values()])).tolist():
            for name in names:
                if differs[name][at]:
                    scores = [None if np.isnan(side[at]) else float(side[at]) for side in sides[name]]
                    told = {"before": scores[0], "after": scores[1]}
                    yield {"instance_id": ids[old[at]].as_py(), "metric": name, **told}


def write_table(rows: Iterator[dict[str, Json]], columns: Sequence[tables.Column], path: str, where: str) -> None:
    """Writes rows to a file, in the format of its ending.

    Args:
        rows: The rows.
        columns: Columns of the table.
        path: The file.
        where: The option that names the file.

    Raises:
        ConfigError: The ending is not a known format.
    """
    from ..transforms.write import GROUP_ROWS  # imports Beam, for which who only looks at a run would wait

    name = path.rpartition(".")[2]
    if name not in _FORMATS:
        allowed = f"a name that ends in .{', .'.join(_FORMATS)}"
        raise ConfigError(f"found {path!r}", where=where, allowed=allowed)
    writer: Writer = build(find("writer", name), {}, where)
    with storage.create(path) as stream, writer.open(stream, tables.schema(columns)) as sink:
        while some := list(islice(rows, GROUP_ROWS)):
            sink.write(tables.table(some, columns))


def write_changes(found: Iterator[dict[str, Json]], path: str) -> None:
    """Writes changes to a file; raises as `write_table` does."""
    write_table(found, tables.CHANGES, path, "changes")


def write_comparison(comparison: Comparison, path: str) -> None:
    """Writes the comparison to a file; raises as `write_table` does."""
    rows = ({**row, "slice": tables.json_text(row["slice"])} for row in comparison.rows)
    write_table(rows, tables.COMPARISON, path, "output")


def _find_gate(run: EvaluationResult) -> GateConfig:
    return GateConfig.parse((run.manifest.get("config") or {}).get("gate") or {}, f"{run.output}: gate")


def _find_margins(gate: GateConfig, names: Iterable[str], runs: PairedRuns) -> dict[str, float]:
    scales = runs.scales(list(names))
    found = {name: gate.margins.get(name, gate.margin) for name in names}
    for name, margin in found.items():
        most = scales[name].most
        if most is not None and margin >= most:
            words = f"found {margin:g} for {name}, whose scores are at most {most:g} apart"
            raise ConfigError(words, where="margin", allowed=f"a number below {most:g}")
    return found

"""Finds the gains of the means that people's labels correct, in two runs."""

from __future__ import annotations

from collections.abc import Iterable

from ..schemas.errors import ConfigError
from ..schemas.json import Json
from ..transforms.statistics.corrected_gains import CorrectedGain, CorrectedMean, find_corrected_gain
from ..transforms.statistics.gains import Cell
from .paired_runs import PairedRuns
from .run.result import EvaluationResult
from .run.tables import summary_rows


def find_corrected_gains(
    runs: PairedRuns, cells: Iterable[Cell], confidence: float
) -> dict[Cell, CorrectedGain | None]:
    """Returns the corrected gain of each metric with labels in both runs, by slice; `None` where labels are too few.

    It is `None` as well if a run stopped early: the intervals hold for a number of rows that was fixed beforehand, and
    of two equal agents, one would look better more often than they say. A metric whose best score lies within its range
    has none, since its gains are of distances.

    Args:
        runs: The runs.
        cells: The metrics and slices to compare.
        confidence: Level of the intervals, in (0, 1).

    Raises:
        ConfigError: No metric has labels in both runs.
    """
    labelled = [set(((run.manifest["config"].get("labels") or {}).get("columns")) or ()) for run in runs]
    facts = runs.facts()
    named = {name for name in labelled[0] & labelled[1] if name in facts and facts[name]["better"] != "nearer"}
    if not named:
        missing = f"no metric has labels in both {runs.before.output!r} and {runs.after.output!r}"
        raise ConfigError(missing, where="gate.corrected", allowed="runs with the section labels")
    before, after = (_read_means(run) for run in runs)
    gains: dict[Cell, CorrectedGain | None] = {}
    for slice_, name in cells:
        if name not in named:
            continue
        key = name, frozenset(slice_)
        old, new, lower = before.get(key), after.get(key), facts[name]["better"] == "lower"
        found = find_corrected_gain(old, new, lower, confidence) if old and new else None
        gains[slice_, name] = None if runs.stopped else found
    return gains


def _read_means(run: EvaluationResult) -> dict[tuple[str, frozenset[tuple[str, Json]]], CorrectedMean]:
    """Reads the corrected means of a run by metric and slice."""
    level = (run.manifest["config"].get("statistics") or {}).get("confidence", 0.95)
    found = {}
    for row in summary_rows(run):
        mean, low, high = (row.get(f"corrected_{name}") for name in ("mean", "ci_low", "ci_high"))
        if mean is not None and low is not None and high is not None:
            found[row["metric"], frozenset(row["slice"].items())] = CorrectedMean(mean, low, high, level)
    return found

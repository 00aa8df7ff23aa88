"""Chooses the rows of a finished run that people should label, so that their labels can correct a judge."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..schemas.errors import ConfigError, name_error
from ..schemas.json import Json
from ..schemas.tables import Column
from ..transforms.io import storage
from ..transforms.statistics.permutation import key_of
from .compare import write_table
from .run.result import EvaluationResult, require_finished
from .run.tables import columns_of_instances, pick_rows, rows_of, types_of_instances

STRATA = 10
"""Most strata: a score with more different values is cut at its deciles."""
SHOWN = ("response", "predicted_trajectory", "retrieved_context", "turns")
"""Columns of the answer that people see; they do not see what the judge said."""
ENDINGS = (".csv", ".jsonl")

_FEWEST = 2


@dataclass(frozen=True)
class Chosen:
    """Rows that people should label.

    Attributes:
        files: Where they were written.
        rows: Their number.
        strata: Number of groups of equal or similar scores among which they were chosen.
        metrics: The metrics to label.
    """

    files: tuple[str, ...]
    rows: int
    strata: int
    metrics: tuple[str, ...]


def choose_labels(
    folder: str | os.PathLike[str], n: int = 200, *, metrics: Sequence[str] = (), output: str | None = None
) -> Chosen:
    """Writes the rows that people should label as CSV and as JSONL.

    Rows are chosen among groups of equal scores of the first metric, more than in proportion from small groups, and
    within a group by a hash of their ids: the same run always gives the same rows. `probability` says how likely each
    was to be chosen. Rows without a score are not chosen, since their label says nothing of the judge.

    Args:
        folder: Folder of a finished run.
        n: Number of rows, at least 1; fewer if the run has no more.
        metrics: Metrics to label; default: all that ask a judge.
        output: Path of the files without their endings; default: `to_label` in the folder.

    Raises:
        ConfigError: There is no finished run, a metric does not exist, none asks a judge and none is named, no row has
            a score, `n` is too small, or a file exists already.

    Source: Bankier (1988), Power allocations: determining sample sizes for subnational areas.
    """
    if n < 1:
        raise ConfigError(f"found {n}", where="n", allowed="a number of rows, 1 or more")
    run = EvaluationResult.load(folder)
    require_finished(run, "label")
    names = _find_metrics(run, metrics)
    base = storage.join(run.output, "to_label") if output is None else output
    files = tuple(base + ending for ending in ENDINGS)
    for path in files:
        if storage.exists(path):
            raise ConfigError(f"{path} exists and may hold labels", where="output", allowed="another path")
    places, probabilities, strata = _choose(run, names[0], n)
    rows, columns = _read(run, places, probabilities), _columns(run, names)
    for path in files:
        write_table(iter(rows), columns, path, "output")
    return Chosen(files, len(places), strata, names)


def _find_metrics(run: EvaluationResult, asked: Sequence[str]) -> tuple[str, ...]:
    known = [name.removesuffix("/score") for name in columns_of_instances(run) if name.endswith("/score")]
    for name in asked:
        if name not in known:
            raise name_error(f"{run.output!r} has no metric {name!r} to label", name, known, "metrics")
    judged = (run.manifest.get("judging") or {}).get("prompts") or {}
    names = tuple(asked) or tuple(name for name in known if name in judged)
    if not names:
        raise ConfigError("no metric asks a judge", where="metrics", allowed=", ".join(known) or "none")
    return names


def _choose(run: EvaluationResult, metric: str, n: int) -> tuple[list[int], list[float], int]:
    """Returns the numbers of the chosen rows in the table, their probabilities, and the number of strata."""
    scores, keys, numbers = [], [], []
    for number, row in enumerate(rows_of(run, "instances", ["instance_id", "trial", f"{metric}/score"])):
        score = row[f"{metric}/score"]
        if score is not None and math.isfinite(score):
            scores.append(score)
            keys.append(key_of(f"{row['instance_id']}/{row['trial']}"))
            numbers.append(number)
    if not numbers:
        raise ConfigError(f"no row has a score of {metric}", where=run.output, allowed="a run with scores")
    strata = _stratify(np.array(scores))
    sizes = Counter(strata.tolist())
    least = sum(min(size, _FEWEST) for size in sizes.values())
    if n < least:
        found = f"found {n}, for {len(sizes)} strata of scores"
        raise ConfigError(found, where="n", allowed=f"{least} or more, two of each stratum")
    wanted = allocate(sizes, n)
    order = np.lexsort((np.array(keys, np.uint64), strata))
    taken: Counter[int] = Counter()
    chosen: dict[int, float] = {}
    for i in order.tolist():
        stratum = int(strata[i])
        if taken[stratum] < wanted[stratum]:
            taken[stratum] += 1
            chosen[numbers[i]] = wanted[stratum] / sizes[stratum]
    places = sorted(chosen)
    return places, [chosen[place] for place in places], len(sizes)


def _stratify(scores: np.ndarray) -> np.ndarray:
    """Returns the number of the stratum of each score."""
    values, inverse = np.unique(scores, return_inverse=True)
    if len(values) <= STRATA:
        return inverse
    edges = np.unique(np.quantile(scores, np.arange(1, STRATA) / STRATA, method="inverted_cdf"))
    return np.searchsorted(edges, scores, side="left")


def allocate(sizes: Mapping[int, int], n: int) -> dict[int, int]:
    """Divides `n` rows among strata in proportion to the square roots of their sizes, at least two from each.

    It is never more than a stratum has. What is left by rounding goes to the strata that are shortest of their share.
    """
    found = {stratum: min(size, _FEWEST) for stratum, size in sizes.items()}
    for _ in range(min(n, sum(sizes.values())) - sum(found.values())):
        open_ = [stratum for stratum, size in sizes.items() if found[stratum] < size]
        most = max(open_, key=lambda stratum: (math.sqrt(sizes[stratum]) / (found[stratum] + 1), -stratum))
        found[most] += 1
    return found


def _columns(run: EvaluationResult, metrics: Sequence[str]) -> list[Column]:
    types = types_of_instances(run)
    shown = [Column(name, types[name]) for name in _list_shown(run)]
    labels = [Column(f"{name}/label", "float64") for name in metrics]
    return [
        Column("instance_id", "string"),
        Column("trial", "int64"),
        *shown,
        *labels,
        Column("probability", "float64"),
    ]


def _list_shown(run: EvaluationResult) -> list[str]:
    """Lists the dataset's columns and the answer's, in the order of the table."""
    every = columns_of_instances(run)
    dataset = every[2 : every.index("status")]
    return [*dataset, *(name for name in SHOWN if name in every)]


def _read(run: EvaluationResult, places: Sequence[int], probabilities: Sequence[float]) -> list[dict[str, Json]]:
    shown = ["instance_id", "trial", *_list_shown(run)]
    chosen = zip(pick_rows(run, places, shown), probabilities, strict=True)
    return [{**{name: row.get(name) for name in shown}, "probability": probability} for row, probability in chosen]

"""Looks through the rows of a run once: which of them a sink shows, and a hash of the dataset."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ...schemas.config.evaluation import CriterionConfig
from ...schemas.json import Json
from ...schemas.result import ScoreColumn
from ...schemas.tables import PERFORMANCE
from ...transforms.statistics.criteria import threshold
from ...transforms.statistics.failures import FailureTest
from .base import FinishedRun, Row


@dataclass(frozen=True)
class Survey:
    """What was found.

    Attributes:
        fingerprint: 16 hexadecimal digits that stand for the ids of all rows, which are hashes of their inputs unless
            the dataset has ids of its own.
        chosen: Positions of the chosen rows in the instances table, ascending: failing rows first, then by id.
    """

    fingerprint: str
    chosen: tuple[int, ...]


def survey(run: FinishedRun, most: int) -> Survey:
    """Reads the ids, statuses and scores of all rows, and chooses at most so many of them."""
    fails, columns = make_test(run)
    hashed = hashlib.sha256()

    def ranked() -> Iterator[tuple[bool, str, int, int]]:
        last = None
        for position, row in enumerate(run.read(["instance_id", "trial", "status", *columns])):
            if row["instance_id"] != last:  # recorded trials may begin with any number
                last = row["instance_id"]
                hashed.update(f"{last}\0".encode())
            yield not fails(row), row["instance_id"], row["trial"], position

    found = heapq.nsmallest(max(most, 1), ranked())[:most]  # for 0 it would not read the rows at all
    return Survey(hashed.hexdigest()[:16], tuple(sorted(place for *_, place in found)))


def make_test(run: FinishedRun) -> tuple[Callable[[Row], bool], list[str]]:
    """Returns a function that says whether a row fails, and the columns it looks at besides `status`.

    A row fails as in the table of failure groups: by its call, an error of a metric, or a score.
    """
    known = run.columns
    tests = {f"{test.metric}/score": test for test in _build_tests(run) if f"{test.metric}/score" in known}
    tests = {column: test for column, test in tests.items() if not known[column].get("volatile")}
    statuses = [name for test in tests.values() if (name := f"{test.metric}/status") in known]

    def fails(row: Row) -> bool:
        if row["status"] == "failed" or any(row[name] == "error" for name in statuses):
            return True
        return any(test.find(ScoreColumn([_number(row[column])])) for column, test in tests.items())

    return fails, [*tests, *statuses]


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _build_tests(run: FinishedRun) -> list[FailureTest]:
    criteria = [CriterionConfig.model_validate(one) for one in run.config.get("criteria") or ()]
    metrics: list[Mapping[str, Json]] = [m for m in run.manifest["metrics"] if m["name"] not in PERFORMANCE]
    bounds = {m["name"]: threshold(criteria, m["name"], _ends(m)) for m in metrics}
    bounded = any(bound is not None for bound in bounds.values())
    pairwise = {name.removesuffix("/pairwise_choice") for name in run.columns if name.endswith("/pairwise_choice")}
    worst = {m["name"]: None if bounded or m["name"] in pairwise else m["worst"] for m in metrics}
    return [FailureTest(name, bound, worst[name]) for name, bound in bounds.items()]


def _ends(metric: Mapping[str, Json]) -> tuple[float, float] | None:
    return None if metric["worst"] is None or metric["best"] is None else (metric["worst"], metric["best"])

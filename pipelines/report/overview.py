"""What the page of a run says in words and tables: verdict, criteria, statistics, failures of reading and calling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import orjson

from ...schemas.errors import ConfigError
from ..compare import Comparison
from ..display.costs import HEADINGS, NUMBERS, spent_cells
from ..display.differences import explain_verdict
from ..display.digest import describe_group, find_examples, find_groups, find_worst_slices, locate_error
from ..display.terminal import judged_name, outcome, tables_of, unscored
from ..drawing.figures import Table
from ..drawing.words import number, slice_name
from ..run.result import EvaluationResult
from ..run.tables import Row, rows_of

Gate: TypeAlias = Comparison | ConfigError | None
"""The comparison with the run of a gate, or why there is none."""
MOST_ERRORS = 100
MOST_EXAMPLES = 3


@dataclass(frozen=True)
class Judged:
    """A criterion or the gate: what was asked, the verdict and why; examples are ids of instances."""

    verdict: str
    name: str
    why: Sequence[str]
    examples: Sequence[str] = ()


def list_facts(result: EvaluationResult) -> list[tuple[str, str]]:
    """Lists the files of the run by table."""
    facts = []
    for name, table in tables_of(result):
        files = ", ".join(table["files"][:2]) + (" …" if len(table["files"]) > 2 else "")
        facts.append((name.capitalize().replace("_", " "), f"{files} ({table['rows']:,} rows)"))
    return facts


@dataclass(frozen=True)
class Finding:
    """A group of failures or a slice: what it is, how many rows; examples are ids of instances, or places in files."""

    name: str
    count: int
    examples: Sequence[str]
    of_rows: bool = True


def list_groups(result: EvaluationResult) -> list[Finding]:
    """Lists the groups of alike failures, the largest first."""
    return [
        Finding(describe_group(row), row["count"], row["examples"][:MOST_EXAMPLES], row["kind"] != "row")
        for row in find_groups(result)
    ]


@dataclass(frozen=True)
class WorseSlice(Finding):
    """A slice that is shown to be worse than the rest, with its metric, its mean and that of the other rows."""

    metric: str = ""
    mean: str = ""
    others: str = ""


def list_worst_slices(result: EvaluationResult) -> list[WorseSlice]:
    """Lists the slices that are shown to be worse than the rest, the surest first."""
    return [
        WorseSlice(
            slice_name(row["slice"]),
            row["rows"],
            orjson.loads(row["examples"])[:MOST_EXAMPLES],
            metric=row["metric"],
            mean=number(row["mean"]),
            others=number(row["others"]),
        )
        for row in find_worst_slices(result)
    ]


def list_criteria(result: EvaluationResult, gate: Gate) -> list[Judged]:
    """Lists the gate, and the criteria, failed ones first."""
    found = [
        Judged(
            j["verdict"],
            judged_name(j),
            [outcome(j)],
            find_examples(result, j, MOST_EXAMPLES) if j["verdict"] == "FAILED" else (),
        )
        for j in result.manifest.get("criteria") or ()
    ]
    ranks = ("FAILED", "NOT_EVALUATED", "INCONCLUSIVE", "PASSED")
    return [*_list_gate(result, gate), *sorted(found, key=lambda one: ranks.index(one.verdict))]


def _list_gate(result: EvaluationResult, gate: Gate) -> Iterator[Judged]:
    """Yields the verdict of the gate, if there is one."""
    if gate is None:
        return
    name = f"gate, against {result.manifest['config']['gate']['against']}"
    if isinstance(gate, ConfigError):
        yield Judged("NOT_EVALUATED", name, [str(gate)])
    else:
        yield Judged(gate.verdict, name, list(explain_verdict(gate)) or ["every metric that decides is no worse"])


def build_unscored(result: EvaluationResult, summary: Sequence[Row]) -> Table:
    """Builds the table of reasons why rows have no score."""
    rows = [[words, ", ".join(names)] for words, names in unscored(result, summary).items()]
    return Table(("Reasons", "Metrics"), rows)


def build_judges(result: EvaluationResult) -> Table:
    """Builds the table of what agent and judges answered and cost."""
    return Table(HEADINGS, spent_cells(result), frozenset(NUMBERS))


def build_errors(result: EvaluationResult) -> tuple[Table, int]:
    """Builds the table of the first errors; returns it with the number of all."""
    total = result.manifest["tables"].get("errors", {}).get("rows", 0)
    rows = [
        [locate_error(r), r["code"], r["message"], r["raw"] or ""]
        for r in islice(rows_of(result, "errors"), MOST_ERRORS)
    ]
    return Table(("Place", "Code", "Message", "Row"), rows), total

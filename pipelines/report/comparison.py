"""Writes a comparison of two runs as one self-contained HTML page: verdict, gains, rows that changed, other changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nsmallest
from itertools import chain
from math import isfinite
from re import findall
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...schemas.json import Json
from ...transforms.io import storage
from ...transforms.statistics.paired import Scale
from ...transforms.statistics.paired_columns import pass_or_miss, share_gains
from ..compare import Comparison
from ..display.differences import explain_verdict
from ..drawing.figures import Table
from ..drawing.gains import count_verdicts, draw_gains
from ..drawing.words import NOTHING, number
from ..paired_instances import Block
from ..paired_runs import PairedRuns
from ..run.result import EvaluationResult
from ..run.tables import Row, pick_rows
from .rows import find_roles
from .shell import fill_page

_TITLES = ("Newly failing", "Fixed", "Changed otherwise")
MOST_ROWS = 50
"""Rows shown of each kind."""
MOST_ROWS_SERVED = 10
"""Rows shown of each kind above the table of all rows."""
MOST_KEYS = 200
"""Changes of the configuration shown."""
_MOST_WORDS = 600
"""Words of an answer up to which it is compared word by word."""
_MOST_CHARACTERS = 4000

Pieces = Sequence[tuple[str, str]]
"""(kind, text): kind is "same", "del" or "ins"."""
_Changed: TypeAlias = Sequence[tuple[str, Scale, float, float]]
"""(metric, its scale, score before, score after) of the scores of an instance that changed."""


@dataclass(frozen=True)
class Change:
    """An instance whose scores changed.

    Attributes:
        id: Its id.
        prompt, reference: Values of the dataset, `None` without one.
        before, after: The answers, in pieces that tell what differs.
        scores: (metric, score before, score after, whether it is worse) of each score that changed.
    """

    id: str
    prompt: Json
    reference: Json
    before: Pieces
    after: Pieces
    scores: Sequence[tuple[str, str, str, bool]]


def write_comparison_page(comparison: Comparison, path: str) -> None:
    """Writes the page of a comparison to a file, replacing an existing one."""
    storage.write_whole(path, render_comparison(comparison).encode("utf-8", "replace"))


def render_comparison(comparison: Comparison, rows: str = "") -> str:
    """Renders the page of a comparison; reads the instances of both runs once.

    Args:
        comparison: What was compared.
        rows: What the explorer's script must know of the rows that a server has, as JSON; "" for a page without it.
    """
    runs = PairedRuns(EvaluationResult.load(comparison.before), EvaluationResult.load(comparison.after))
    found = _find_changes(runs, runs.scored(comparison.deciding), MOST_ROWS_SERVED if rows else MOST_ROWS)
    whole = [d for d in comparison.differences if not d.slice]
    groups: dict[tuple[str, ...], list[Any]] = {}
    for one in comparison.differences:
        if one.slice:
            groups.setdefault(tuple(column for column, _ in one.slice), []).append(one)
    pieces = fill_page(
        "comparison.html",
        scripted=bool(rows),
        served=bool(rows),
        rows=rows,
        title=f"{comparison.after} against {comparison.before}",
        comparison=comparison,
        head=count_verdicts(comparison.verdict, comparison.decisive),
        why=list(explain_verdict(comparison)),
        forests=draw_gains(whole, comparison.deciding),
        slices=[(columns, draw_gains(group, comparison.deciding, by_slice=True)) for columns, group in groups.items()],
        statistics=_build_table(whole),
        sections=found,
        changed=_compare_settings(runs),
    )
    return "".join(pieces)


_HEADINGS = (
    "Metric",
    "Before",
    "After",
    "p adj.",
    "Pairs",
    "Better",
    "Worse",
    "Newly failing",
    "Fixed",
    "Lost",
    "Gained",
)


def _build_table(whole: Sequence[Any]) -> Table:
    rows = []
    for d in whole:
        counts = (d.pairs, d.better, d.worse, d.newly_failing, d.fixed, d.lost, d.gained)
        means = (number(d.before), number(d.after), number(d.p_adjusted))
        rows.append(
            [d.metric, *means, *(None if n is None else f"{n:,}" for n in counts), d.verdict if d.pairs else ""]
        )
    return Table((*_HEADINGS, "Verdict"), rows, frozenset(_HEADINGS[1:]))


# ----------------------------------------------------------------------------------------------------------- rows


class _Candidate(NamedTuple):
    """An instance whose scores changed, its place in the order, and its positions in the tables of both runs."""

    rank: float
    id: str
    positions: tuple[int, int]
    changed: _Changed


def _find_changes(runs: PairedRuns, names: Sequence[str], most: int) -> list[tuple[str, int, list[Change]]]:
    """Lists (title, number of instances, first of them) of newly failing, fixed and otherwise changed instances."""
    scales = runs.scales(names)
    found: dict[str, list[_Candidate]] = {title: [] for title in _TITLES}
    counts = dict.fromkeys(found, 0)
    for block in runs.side_by_side(names, []):
        kinds, ranks = _judge(block, scales)
        for kind, title in enumerate(_TITLES):
            places = np.flatnonzero(kinds == kind)
            counts[title] += len(places)
            largest = places[np.argsort(ranks[places], kind="stable")[:most]]
            candidates = [*found[title], *(_make_candidate(block, scales, float(ranks[at]), at) for at in largest)]
            found[title] = nsmallest(most, candidates, key=lambda one: (one.rank, one.id))
    rows = _read_rows(runs, [one.positions for some in found.values() for one in some])
    return [
        (title, counts[title], [_describe(one, rows, runs) for one in some]) for title, some in found.items() if some
    ]


def _judge(block: Block, scales: Mapping[str, Scale]) -> tuple[np.ndarray, np.ndarray]:
    """Returns of each of the first run's instances the kind of change, -1 for none, and its place in the order.

    Fixed instances stand in the order of their largest gains, others in that of their largest losses.
    """
    size = len(block.places)
    failing, fixed = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    for name, scale in scales.items():
        before, after = block.old.scores[name], np.append(block.new.scores[name], np.nan)[block.places]
        (passed, missed), (passes, misses) = (pass_or_miss(scale, scores) for scores in (before, after))
        failing |= passed & misses
        fixed |= missed & passes
        shares = share_gains(scale, before, after)
        least, most = np.fmin(least, shares), np.fmax(most, shares)
    kinds = np.select([np.isinf(least), failing, fixed], [-1, 0, 1], 2)
    return kinds, np.where(kinds == 1, -most, least)


def _make_candidate(block: Block, scales: Mapping[str, Scale], rank: float, at: int) -> _Candidate:
    to = block.places[at]
    pairs = (
        (name, scale, float(block.old.scores[name][at]), float(block.new.scores[name][to]))
        for name, scale in scales.items()
    )
    changed = [one for one in pairs if isfinite(one[2]) and isfinite(one[3]) and one[2] != one[3]]
    positions = int(block.old.positions[at]), int(block.new.positions[to])
    return _Candidate(rank, block.old.ids[int(at)].as_py(), positions, changed)


def _read_rows(runs: PairedRuns, positions: Sequence[tuple[int, int]]) -> list[dict[int, Row]]:
    """Reads what is shown of some rows of both runs, by their positions."""
    columns = [*find_roles(runs.after).values(), "error_message"]
    found = []
    for side, run in enumerate(runs):
        wanted = sorted({one[side] for one in positions})
        found.append(dict(zip(wanted, pick_rows(run, wanted, columns), strict=True)))
    return found


def _describe(found: _Candidate, rows: Sequence[Mapping[int, Row]], runs: PairedRuns) -> Change:
    roles = find_roles(runs.after)
    old, new = (some[position] for some, position in zip(rows, found.positions, strict=True))
    scores = [
        (name, f"{before:.4g}", f"{after:.4g}", scale.gain(before, after) < 0)
        for name, scale, before, after in found.changed
    ]
    before, after = _compare_texts(*(_find_answer(row, roles["response"]) for row in (old, new)))
    return Change(found.id, new.get(roles["prompt"]), new.get(roles["reference"]), before, after, scores)


def _find_answer(row: Row, column: str) -> str:
    """Returns the answer of an instance, or why there is none."""
    answer = row.get(column)
    found = row.get("error_message") if answer is None else answer
    return NOTHING if found is None else str(found)[:_MOST_CHARACTERS]


def _compare_texts(before: str, after: str) -> tuple[Pieces, Pieces]:
    """Splits two texts into the pieces that are the same and those that differ."""
    left, right = (findall(r"\s+|\w+|[^\w\s]", text) for text in (before, after))
    if max(len(left), len(right)) > _MOST_WORDS:
        return [("same", before)], [("same", after)]
    pieces: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
    for kind, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        for side, name, words in ((0, "del", left[i:j]), (1, "ins", right[k:m])):
            if words:
                pieces[side].append(("same" if kind == "equal" else name, "".join(words)))
    return pieces


# ------------------------------------------------------------------------------------------------------- settings


def _compare_settings(runs: PairedRuns) -> Table:
    """Builds the table of the keys of configuration and versions that differ between the runs."""
    sides = [
        dict(chain(_flatten(run.manifest.get("config"), ""), _flatten(run.manifest.get("versions"), "versions")))
        for run in runs
    ]
    keys = [key for key in dict.fromkeys(chain(*sides)) if sides[0].get(key) != sides[1].get(key)]
    rows = [[key, sides[0].get(key), sides[1].get(key)] for key in keys if key != "output.path"]
    return Table(("Setting", "Before", "After"), rows[:MOST_KEYS])


def _flatten(value: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Yields (path, value) of the leaves of a configuration; elements of lists with a name are found by it."""
    if isinstance(value, Mapping) and value:
        for key, one in value.items():
            yield from _flatten(one, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        for i, one in enumerate(value):
            yield from _flatten(one, f"{path}[{one.get('name') or one.get('metric') or i}]")
    else:
        yield path, value

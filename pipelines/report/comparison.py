"""Writes a comparison of two runs as one self-contained HTML page: verdict, gains, rows that changed, other changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nsmallest
from itertools import chain
from re import findall
from typing import Any, NamedTuple, TypeAlias

from ...schemas.json import Json
from ...transforms.io import storage
from ...transforms.statistics.paired import Scale
from ..compare import Comparison
from ..display.differences import explain_verdict
from ..drawing.figures import Table
from ..drawing.gains import count_verdicts, draw_gains
from ..drawing.words import NOTHING, number
from ..paired_runs import PairedInstance, PairedRuns
from ..run.result import EvaluationResult
from .rows import find_roles
from .shell import fill_page

MOST_ROWS = 50
"""Rows shown of each kind."""
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
        gain: Its largest loss as a share of the metric's range, negative; positive if all are gains.
    """

    id: str
    prompt: Json
    reference: Json
    before: Pieces
    after: Pieces
    scores: Sequence[tuple[str, str, str, bool]]
    gain: float


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
    found = _find_changes(runs, runs.scored(comparison.deciding))
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


def _find_changes(runs: PairedRuns, names: Sequence[str]) -> list[tuple[str, int, list[Change]]]:
    """Lists (title, number of instances, first of them) of newly failing, fixed and otherwise changed instances."""
    scales, roles = runs.scales(names), find_roles(runs.after)
    columns = [roles[role] for role in ("prompt", "reference", "response")]
    found: dict[str, list[_Candidate]] = {"Newly failing": [], "Fixed": [], "Changed otherwise": []}
    counts = dict.fromkeys(found, 0)
    for old, new in runs.side_by_side(names, [*columns, "error_message"]):
        if old is None or new is None or not (changed := _list_changed(old, new, scales)):
            continue
        kind = _judge(changed)
        counts[kind] += 1
        found[kind].append(_Candidate(min(_gain(*one) for one in changed), new.id, old, new, changed))
        if len(found[kind]) > 4 * MOST_ROWS:
            found[kind] = _pick(found[kind])
    return [
        (kind, counts[kind], [_describe(one, columns) for one in _pick(some)]) for kind, some in found.items() if some
    ]


class _Candidate(NamedTuple):
    """An instance whose scores changed, and by how much at worst."""

    gain: float
    id: str
    old: PairedInstance
    new: PairedInstance
    changed: _Changed


def _pick(candidates: list[_Candidate]) -> list[_Candidate]:
    return nsmallest(MOST_ROWS, candidates, key=lambda one: (one.gain, one.id))


def _gain(name: str, scale: Scale, before: float, after: float) -> float:
    """Returns by how much a score became better, as a share of the metric's range."""
    return scale.gain(before, after) / (scale.most or max(abs(before), abs(after)))


def _list_changed(old: PairedInstance, new: PairedInstance, scales: Mapping[str, Scale]) -> _Changed:
    pairs = ((name, scale, old.scores[name], new.scores[name]) for name, scale in scales.items())
    return [(name, scale, a, b) for name, scale, a, b in pairs if a is not None and b is not None and a != b]


def _judge(changed: _Changed) -> str:
    """Returns the kind of change of an instance with scores that changed."""
    passes = {(scale.passes(before), scale.passes(after)) for _, scale, before, after in changed}
    if (True, False) in passes:
        return "Newly failing"
    return "Fixed" if (False, True) in passes else "Changed otherwise"


def _describe(found: _Candidate, columns: Sequence[str]) -> Change:
    scores = [(name, f"{a:.4g}", f"{b:.4g}", _gain(name, scale, a, b) < 0) for name, scale, a, b in found.changed]
    prompt, reference = (found.new.row.get(column) for column in columns[:2])
    before, after = _compare_texts(*(_find_answer(side, columns[2]) for side in (found.old, found.new)))
    return Change(found.id, prompt, reference, before, after, scores, found.gain)


def _find_answer(side: PairedInstance, column: str) -> str:
    """Returns the answer of an instance, or why there is none."""
    answer = side.row.get(column)
    found = side.row.get("error_message") if answer is None else answer
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

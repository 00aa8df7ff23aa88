"""Finds the failing rows of a whole table by column: the same groups as `display.digest` finds row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..display.digest import ScoreTest
from .table import Positions, RunTable

_OK, ERROR = "ok", "error"


def find_faults(table: RunTable, tests: Mapping[str, ScoreTest]) -> dict[str, Positions]:
    """Maps each group of failures to the positions of its rows, ascending; the largest group first.

    Args:
        table: The rows.
        tests: The test of each metric's failing scores.
    """
    groups: dict[str, list[Positions]] = {}
    for name, positions in (*_find_failed_calls(table), *_find_failed_scores(table, tests)):
        groups.setdefault(name, []).append(positions)
    whole = {name: np.sort(np.concatenate(parts)) for name, parts in groups.items()}
    return dict(sorted(whole.items(), key=lambda item: (-len(item[1]), item[0])))


def _find_failed_calls(table: RunTable) -> Iterator[tuple[str, Positions]]:
    status = table.codes("status")
    failed = [i for i, word in enumerate(status.values) if word != _OK]
    positions = np.flatnonzero(np.isin(status.places, failed))
    if not len(positions):
        return
    kinds = table.codes("error_type")
    words = zip(kinds.places[positions].tolist(), status.places[positions].tolist(), strict=True)
    names = np.array([f"call: {kinds.values[kind] or status.values[word]}" for kind, word in words])
    for name in dict.fromkeys(names.tolist()):
        yield name, positions[names == name]


def _find_failed_scores(table: RunTable, tests: Mapping[str, ScoreTest]) -> Iterator[tuple[str, Positions]]:
    for metric, (is_worse, words) in tests.items():
        failed = _find_errors(table, metric)
        if failed.any():
            errors = table.codes(f"{metric}/error")
            codes = np.array([text.partition(":")[0] for text in errors.values])
            positions = np.flatnonzero(failed)
            found = codes[errors.places[positions]]
            for code in dict.fromkeys(found.tolist()):
                yield f"{metric}: {code}", positions[found == code]
        positions = np.flatnonzero(is_worse(table.numbers(f"{metric}/score")) & ~failed)
        if len(positions):
            yield f"{metric}{words}", positions


def _find_errors(table: RunTable, metric: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if not table.may_have(f"{metric}/status", ERROR):
        return np.zeros(table.size, np.bool_)
    status = table.codes(f"{metric}/status")
    return np.isin(status.places, [i for i, word in enumerate(status.values) if word == ERROR])

"""Adds up the scores of two runs by slice and metric, and what differs between their datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..schemas.errors import ConfigError
from ..schemas.identity import input_id
from ..schemas.json import Json
from ..schemas.values import slice_text
from ..transforms.statistics.drift import DriftCounts
from ..transforms.statistics.gains import Cell, CellPairs
from ..transforms.statistics.paired_columns import PairColumns
from ..transforms.statistics.paired_quantiles import QuantilePairs
from ..transforms.statistics.slices import SliceValues, distinct_slices
from .paired_instances import Block, Instances, Positions, find_scored
from .paired_runs import PairedRuns, sort_key
from .run.columns import compute


class Coded(NamedTuple):
    """The slice of each instance as the place of its values in a list, each different one once; -1 for none."""

    values: list[SliceValues]
    places: Positions


def pair_scores(
    runs: PairedRuns, names: Sequence[str], slices: Iterable[Sequence[str]], drift: DriftCounts
) -> tuple[dict[Cell, CellPairs], tuple[int, int]]:
    """Pairs the scores of instances by slice and metric, in the order of the table; adds all instances to `drift`.

    Returns:
        (pairs, (instances only in the first run, instances only in the second)).

    Raises:
        ConfigError: No instance is in both runs.
    """
    wanted, clusters = distinct_slices(slices), runs.clusters()
    places = {column: runs.column(column) for one in [*wanted, clusters] for column in one}
    scales = runs.scales(names)
    found: dict[tuple[int, SliceValues, str], PairColumns | QuantilePairs] = {}
    only = [0, 0]
    for block in runs.side_by_side(names, [*places.values(), *drift.texts]):
        only[0] += int(np.count_nonzero(~block.paired))
        only[1] += len(block.new.ids) - int(np.count_nonzero(block.paired))
        coded = [tuple(_code(side, one, places) for side in (block.old, block.new)) for one in wanted]
        _add_drift(drift, block, wanted, coded)
        units = _name_units(block, _code(block.new, clusters, places) if clusters else None)
        for rank, (old, new) in enumerate(coded):
            for values, at in _list_slices(block, old, new):
                for name in names:
                    if (pairs := found.get((rank, values, name))) is None:
                        pairs = found[rank, values, name] = runs.pair(name, scales[name], bool(clusters))
                    _add(pairs, block, name, units, at)
    if not any(pairs.instances for pairs in found.values()):
        same = f"no instance is in both {runs.before.output!r} and {runs.after.output!r}"
        raise ConfigError(same, allowed="runs over the same inputs, from which the ids are computed")
    ordered = sorted(found.items(), key=lambda item: sort_key(*item[0], names))
    return {(slice_, name): pairs for (_, slice_, name), pairs in ordered}, (only[0], only[1])


def _add(pairs: PairColumns | QuantilePairs, block: Block, name: str, units: np.ndarray, at: Positions) -> None:
    """Adds the scores that some of the first run's instances have in both runs."""
    places = block.places[at]
    before, both = block.old.scores[name][at], places >= 0
    pairs.gone += int(np.count_nonzero(~both & find_scored(before)))
    at, places, before = at[both], places[both], before[both]
    called = block.old.called[at] & block.new.called[places]
    pairs.instances += int(np.count_nonzero(~called))
    pairs.uncalled += int(np.count_nonzero(~called))
    pairs.add_all(units[at][called], before[called], block.new.scores[name][places][called])


def _name_units(block: Block, clusters: Coded | None) -> np.ndarray:
    """Names the unit of each of the first run's instances: its input, or its cluster in the second run."""
    if clusters is None:
        return np.array([input_id(one) for one in block.old.ids.to_pylist()], object)
    names = np.array([*map(repr, clusters.values), ""], object)
    return names[np.append(clusters.places, -1)[block.places]]


def _list_slices(block: Block, old: Coded, new: Coded) -> Iterator[tuple[SliceValues, Positions]]:
    """Yields the slices with the places of the first run's instances in each: by the second run's values, if it can."""
    numbers = {values: i for i, values in enumerate(dict.fromkeys((*new.values, *old.values)))}
    of_new, of_old = (np.array([*(numbers[one] for one in side.values), -1]) for side in (new, old))
    codes = np.where(block.paired, of_new[np.append(new.places, -1)[block.places]], of_old[old.places])
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(numbers) + 1))
    for values, (first, last) in zip(numbers, pairwise(ends.tolist()), strict=True):
        if last > first:
            yield values, order[first:last]


def _code(side: Instances, columns: Sequence[str], places: Mapping[str, str]) -> Coded:
    """Finds the slice of each instance by some columns; none if a run does not have them all."""
    size = len(side.ids)
    if not all(places[column] in side.columns for column in columns):
        return Coded([], np.full(size, -1))
    values: list[tuple[tuple[str, str | None], ...]] = [()]
    codes = np.zeros(size, np.int64)
    for column in columns:
        texts, own = _code_column(side.columns[places[column]])
        kept, codes = np.unique(codes * len(texts) + own, return_inverse=True)
        both = (divmod(code, len(texts)) for code in kept.tolist())
        values = [(*values[code], (column, texts[text])) for code, text in both]
    return Coded(values, codes)


def _code_column(column: pa.ChunkedArray) -> tuple[list[str | None], Positions]:
    """Returns the different texts of a column's values in slices, and the place of each instance's text."""
    encoded = column.combine_chunks().dictionary_encode()
    found: dict[str | None, int] = {}
    of_value = [
        found.setdefault(slice_text(_plain(one)), len(found)) for one in (*encoded.dictionary.to_pylist(), None)
    ]
    indices = encoded.indices.fill_null(len(of_value) - 1).to_numpy(zero_copy_only=False)
    return list(found), np.array(of_value)[indices]


def _plain(value: Json) -> Json:
    return None if isinstance(value, float) and value != value else value


def _add_drift(
    drift: DriftCounts, block: Block, wanted: Sequence[Sequence[str]], coded: Sequence[tuple[Coded, ...]]
) -> None:
    for (columns, sides), side in product(zip(wanted, coded, strict=True), (0, 1)):
        if columns and sides[side].values:
            drift.add_values(side, "+".join(columns), *sides[side], (block.old, block.new)[side].scores)
    for column, side in product(drift.texts, (0, 1)):
        texts = (block.old, block.new)[side].columns.get(column)
        if texts is not None and pa.types.is_string(texts.type):
            lengths = compute.utf8_length(texts).drop_null().value_counts()
            drift.add_lengths(side, column, {one["values"]: one["counts"] for one in lengths.to_pylist()})

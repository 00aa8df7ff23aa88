"""Pairs of scores that are added by column: the same sums as one by one, in a fraction of the time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np

from .paired import HELD, Gains, Pairs, Scale
from .permutation import bucket_of, key_of

Units = np.ndarray[tuple[int], np.dtype[Any]]
"""Names of units, objects of type str."""
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
Indices = np.ndarray[tuple[int], np.dtype[np.int64]]

_FEW = 16
"""Units that are added one by one in less time."""
_find_key = lru_cache(1 << 16)(key_of)  # metrics and slices have the same units


def pass_or_miss(scale: Scale, scores: Floats) -> tuple[Mask, Mask]:
    """Tells which scores pass and which do not, as `Scale.passes`; of some neither is known."""
    if scale.threshold is not None:
        passed, known = scale.threshold.met_by(scores), np.isfinite(scores)
        return passed & known, ~passed & known
    zero, one = scores == 0, scores == 1
    return (zero, one) if scale.lower_is_better else (one, zero)


def share_gains(scale: Scale, before: Floats, after: Floats) -> Floats:
    """Returns by how much each score became better, as a share of the metric's range; NaN where it did not change."""
    changed = np.isfinite(before) & np.isfinite(after) & (before != after)
    gain = before - after if scale.lower_is_better else after - before
    whole = scale.most or np.where(changed, np.maximum(np.abs(before), np.abs(after)), 1.0)
    return np.where(changed, gain, np.nan) / whole


@dataclass(slots=True)
class GainColumns(Gains):
    """Gains that may be added many at once."""

    def add_all(self, units: Units, gains: Floats) -> None:
        """Adds the gains of many pairs, with the same result as `add` of one after the other."""
        starts = np.flatnonzero(np.append(True, units[1:] != units[:-1])) if len(units) else np.empty(0, np.int64)
        if self.clustered or self.stopped or len(starts) < _FEW:
            for unit, gain in zip(units.tolist(), gains.tolist(), strict=True):
                self.add(unit, gain)
            return
        second, last = int(starts[1]), int(starts[-1])
        for gain in gains[:second].tolist():  # of the unit that may be open
            self.add(units[0], gain)
        self._close_open()
        self._close_all(units[second:last], gains[second:last], starts[1:-1] - second)
        for gain in gains[last:].tolist():  # of the unit that may go on
            self.add(units[last], gain)

    def _close_all(self, units: Units, gains: Floats, starts: Indices) -> None:
        """Adds units with all their pairs; `starts` has the place of the first pair of each."""
        self.pairs += len(gains)
        self.risen += int(np.count_nonzero(gains > 0))
        self.fallen += int(np.count_nonzero(gains < 0))
        self.largest = max(self.largest, float(np.abs(gains).max()))
        sizes = np.diff(np.append(starts, len(gains)))
        self.units += len(starts)
        self._sums[2] += float(np.sum(sizes * sizes))
        changed = np.flatnonzero(np.logical_or.reduceat(gains != 0, starts))
        starts, sizes = starts[changed], sizes[changed]
        sides = np.maximum(gains, 0.0), np.maximum(0.0 - gains, 0.0)
        rise, fall = (side[starts] for side in sides)
        for unit in np.flatnonzero(sizes > 1).tolist():
            for total, side in ((rise, sides[0]), (fall, sides[1])):
                total[unit] = reduce(add, side[starts[unit] : starts[unit] + sizes[unit]].tolist())
        products = rise, fall, None, sizes * rise, sizes * fall, rise * rise, fall * fall, rise * fall
        for i, some in enumerate(products):
            if some is not None:
                self._sums[i] = float(np.add.accumulate(np.append(self._sums[i], some))[-1])
        self._flip_all(units[starts], sizes, rise - fall)

    def _flip_all(self, names: Units, sizes: Indices, changes: Floats) -> None:
        """Notes the changes of units, those that are 0 aside."""
        kept = np.flatnonzero(changes)
        sizes, changes = sizes[kept], changes[kept]
        keys = [_find_key(name) for name in names[kept].tolist()]
        done = 0
        while done < len(keys) and not self._folded:
            self._flip(keys[done], int(sizes[done]), float(changes[done]))
            done += 1
        if done == len(keys):
            return
        sizes, changes = sizes[done:], changes[done:]
        magnitudes = np.abs(changes)
        first = magnitudes[0] if self._magnitude is None else self._magnitude
        self._equal &= bool((magnitudes == first).all() and (sizes == 1).all())
        self._magnitude = float(magnitudes[-1])
        buckets, places = np.unique(np.array([bucket_of(key) for key in keys[done:]], np.uint64), return_inverse=True)
        sums = np.array([self._flips.get(bucket, 0.0) for bucket in buckets.tolist()])
        np.add.at(sums, places, changes)
        self._flips.update(zip(buckets.tolist(), sums.tolist(), strict=True))


@dataclass(slots=True)
class PairColumns(Pairs):
    """Pairs that may be added many at once."""

    seen: Any = field(init=False)
    worst: Any = None
    best: Any = None

    def __post_init__(self) -> None:
        self.seen = GainColumns(self.clustered, self.stopped)

    def add_all(self, units: Units, before: Floats, after: Floats) -> None:
        """Adds many instances, with the same result as `add` of one after the other; NaN means that it has no score."""
        had, has = np.isfinite(before), np.isfinite(after)
        single = had != has
        if self.worst is None and single.any():
            first = int(np.argmax(single))
            self._add_all(units[:first], before[:first], after[:first], had[:first] & has[:first])
            self._part_cases()
            units, before, after = (values[first:] for values in (units, before, after))
            had, has, single = (mask[first:] for mask in (had, has, single))
        self._add_all(units, before, after, had & has)
        self.lost += int(np.count_nonzero(had & ~has))
        self.gained += int(np.count_nonzero(has & ~had))
        if self.worst is None or self.best is None:
            return
        self._look_at_all(np.concatenate([before[single], after[single]]))
        low, high = self._ends
        known = had | has
        for gains, loss, gain in ((self.worst, low, high), (self.best, high, low)):
            old, new = np.where(had, before, gain), np.where(has, after, loss)
            gains.add_all(units[known], (old - new if self.scale.lower_is_better else new - old)[known])

    def _add_all(self, units: Units, before: Floats, after: Floats, both: Mask) -> None:
        """Adds instances to what was seen: all count as instances, those with `both` scores are pairs."""
        self.instances += len(units)
        units, before, after = units[both], before[both], after[both]
        self._look_at_all(before)
        self._look_at_all(after)
        if self.scale.threshold is not None:
            passed, passes = self.scale.threshold.met_by(before), self.scale.threshold.met_by(after)
            self.newly_failing += int(np.count_nonzero(passed & ~passes))
            self.fixed += int(np.count_nonzero(passes & ~passed))
        self.seen.add_all(units, before - after if self.scale.lower_is_better else after - before)
        self._hold_all(before.tolist(), after.tolist())

    def _look_at_all(self, scores: Floats) -> None:
        """Looks at scores, of which NaN are none."""
        known = scores[np.isfinite(scores)]
        self.binary &= bool(((known == 0) | (known == 1)).all())
        worst, best = self.scale.worst, self.scale.best
        if worst is not None and best is not None:
            self.within &= bool(((known >= min(worst, best)) & (known <= max(worst, best))).all())

    def _hold_all(self, before: list[float], after: list[float]) -> None:
        """Adds scores to the totals in the portions of `add`: only the sum of a portion is exact."""
        first = min(HELD - len(self._held), len(before)) if self._held else 0
        self._held += zip(before[:first], after[:first], strict=True)
        if len(self._held) == HELD:
            self._flush()
        last = first + (len(before) - first) // HELD * HELD
        for i in range(first, last, HELD):
            self._totals[0] += math.fsum(before[i : i + HELD])
            self._totals[1] += math.fsum(after[i : i + HELD])
        self._held += zip(before[last:], after[last:], strict=True)

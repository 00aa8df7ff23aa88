"""How often what a run and a history name is wrong, how often it is missed, and what finding it costs.

    python tests/benchmarks/bench_findings.py [SHARE]

SHARE scales the number of simulations (1: as many as the bounds are stated for, 0.1: a quick look). Each line names the
bound that must hold; the exit code is 1 if one does not. Costs have no bound.

- Worst slices: 2,000 instances, six columns, one pair of values that fails oftener; and the same without it.
- History: 60 days without a change; and with a step of three standard errors.
- Sequential: the true share is the threshold, 500 rows looked at one by one; and rows until a share is decided in
  waves of 50, which must be within 10 % of those stated.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator

import numpy as np

from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall
from evalbeam.schemas.result import ScoreColumn, ScoredBatch
from evalbeam.transforms.statistics.change_points import find_changes
from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.failures import FailureTest, group_batch
from evalbeam.transforms.statistics.sequential import decide, share_sequence
from evalbeam.transforms.statistics.slice_columns import SliceColumn
from evalbeam.transforms.statistics.worst_slices import WorstSlice, find_worst

DAYS, ERROR = 60, 0.02


def worst_of(seed: int, rows: int, planted: bool) -> list[WorstSlice]:
    """The worst slices of scores of which 80 % are 1, in the planted slice 50 %."""
    chance = np.random.default_rng(seed)
    sizes = (("a", 3), ("b", 4), ("c", 20), ("d", 2), ("e", 7), ("f", 50))
    columns = [SliceColumn(name, [str(i) for i in range(n)], chance.integers(0, n, rows)) for name, n in sizes]
    inside = (columns[0].codes == 1) & (columns[1].codes == 2) & planted
    scores = (chance.random(rows) < np.where(inside, 0.5, 0.8)).astype(float)
    return find_worst(columns, {"m": scores}, {"m": -scores}, chance.random(rows) < 0.5)


def days(seed: int, step: float) -> tuple[int, list[int]]:
    """(day of the step, days that are flagged)."""
    chance = np.random.default_rng(seed)
    at, values = int(chance.integers(10, DAYS - 9)), chance.normal(0.8, ERROR, DAYS)
    values[at:] += step * ERROR
    (found,) = find_changes([(values, [ERROR] * DAYS)])
    return at, [change.at for change in found]


def decided(seed: int, share: float, rows: int, wave: int = 1) -> int | None:
    """The row after which a share is shown to differ from 0.8."""
    successes = (np.random.default_rng(seed).random(rows) < share).cumsum()
    for n in range(wave, rows + 1, wave):
        if decide(share_sequence(int(successes[n - 1]), n, 0.95), 0.8):
            return n
    return None


def rates(share: float) -> Iterator[tuple[str, float, float, bool]]:
    """(name, rate, bound, whether the rate is at least the bound) of each simulation."""
    number = max(int(1_000 * share), 20)
    found = [worst_of(seed, 2_000, True) for seed in range(number)]
    planted = sum(any(one.slice == {"a": "1", "b": "2"} for one in worst) for worst in found)
    yield "planted worst slice found", planted / number, 0.95, True
    null = sum(not worst_of(seed, 2_000, False) for seed in range(number))
    yield "no slice named without one", null / number, 0.95, True
    yield "stationary series flagged", sum(bool(days(seed, 0)[1]) for seed in range(number)) / number, 0.05, False
    steps = [days(seed, -3) for seed in range(number)]
    near = sum(any(abs(day - at) <= 2 for day in flagged) for at, flagged in steps)
    yield "step of 3 SE found within 2 days", near / number, 0.9, True
    some = max(number // 5, 20)
    wrong = sum(decided(seed, 0.8, 500) is not None for seed in range(some))
    yield "share at the threshold decided", wrong / some, 0.05, False


def cost_of_groups(rows: int) -> float:
    """Microseconds for each row of five metrics, of which every fifth row fails."""
    calls = tuple(ToolCall(name, {"room": "kitchen"}) for name in ("look", "set_light"))
    wanted = [{"tool_name": c.tool_name, "tool_input": c.tool_input} for c in calls]
    examples = [
        Example(
            Instance(str(i), {"reference_trajectory": wanted}), Invocation(predicted_trajectory=calls[i % 5 == 0 :])
        )
        for i in range(rows)
    ]
    scores = {f"m{m}": ScoreColumn([float(i % 5 > 0) for i in range(rows)]) for m in range(5)}
    tests = [FailureTest(f"m{m}", Threshold(0.5), steps=("exact", "vertex") if m == 0 else None) for m in range(5)]
    began = time.process_time()
    list(group_batch(ScoredBatch(examples, scores), tests))
    return (time.process_time() - began) / rows * 1e6


def cost_of_slices() -> float:
    """Seconds for a whole sample of 20,000 instances, twenty columns and five metrics."""
    chance = np.random.default_rng(0)
    columns = [SliceColumn(f"c{i:02d}", list(map(str, range(20))), chance.integers(0, 20, 20_000)) for i in range(20)]
    scores = {f"m{m}": (chance.random(20_000) < np.where(columns[m].codes == 3, 0.6, 0.8)) * 1.0 for m in range(5)}
    began = time.process_time()
    find_worst(columns, scores, {name: -one for name, one in scores.items()}, chance.random(20_000) < 0.5)
    return time.process_time() - began


def main() -> int:
    """Prints all figures; returns 1 if a bound does not hold."""
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    failed = False
    for name, rate, bound, at_least in rates(share):
        holds = rate >= bound if at_least else rate <= bound
        failed |= not holds
        print(
            f"{name:34} {rate:7.2%}  {'at least' if at_least else 'at most'} {bound:.0%}{'' if holds else '  FAILED'}"
        )
    for p, stated in ((0.95, 78), (0.9, 187), (0.85, 792)):
        rows = np.mean([decided(seed, p, 10_000, 50) or math.inf for seed in range(max(int(1_000 * share), 10))])
        holds = abs(rows - stated) <= 0.1 * stated
        failed |= not holds
        print(f"{f'rows to decide {p} against 0.8':34} {rows:7.0f}  stated {stated}{'' if holds else '  FAILED'}")
    print(f"{'failure groups':34} {cost_of_groups(100_000):7.2f} µs for each row")
    print(f"{'worst slices':34} {cost_of_slices():7.2f} s for a run")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Cost of aggregation per row: 8 metrics, most of them 0/1, one continuous, with and without slices.

    python tests/benchmarks/bench_aggregate.py [batches]

Each round takes every variant in turn; the figures are the best round's microseconds of CPU time per row, beside the
same numbers by pandas (`groupby(...).agg(["count", "mean", "std"])` of one frame that holds all rows).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import ScoreColumn, ScoredBatch, SliceKey
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.slices import MetricFacts, Partials, distinct_slices

ROWS = 1024
FACTS = tuple(MetricFacts(f"m{i}", binary=i < 5, worst=0.0, best=1.0) for i in range(7)) + (MetricFacts("latency"),)
SLICES = (("category",), ("category", "locale"))


def make(number: int) -> ScoredBatch:
    """A batch whose scores are a fixed function of its number: five 0/1 metrics, two shares, one continuous."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    rows = [{"category": f"c{i * 7919 % 10}", "locale": f"l{i * 104729 % 5}"} for i in ids]
    examples = [Example(Instance(str(i), row), Invocation()) for i, row in zip(ids, rows, strict=True)]
    scores = {f"m{m}": ScoreColumn([float(i * (m + 3) % 7 < 4) for i in ids]) for m in range(5)}
    scores |= {f"m{m}": ScoreColumn([(i * (m + 3) % 12) / 11 for i in ids]) for m in (5, 6)}
    scores["latency"] = ScoreColumn([(i * 2654435761 % 2**32) / 1e9 for i in ids])
    return ScoredBatch(examples, scores)


def summed(batches: list[ScoredBatch], slices: tuple[tuple[str, ...], ...]) -> dict[SliceKey, Accumulator]:
    """What the lifted combine does in one bundle."""
    whole: dict[SliceKey, Accumulator] = {}
    for batch in batches:
        for key, part in Partials(distinct_slices(slices), FACTS).count(batch):
            whole.setdefault(key, Accumulator()).absorb(part)
    return whole


def by_pandas(batches: list[ScoredBatch]) -> object:
    """One frame, one groupby."""
    import pandas as pd

    columns = {m.name: [v for b in batches for v in b.scores[m.name].values] for m in FACTS}
    columns["category"] = [e.instance.row["category"] for b in batches for e in b.examples]
    return pd.DataFrame(columns).groupby("category").agg(["count", "mean", "std"])


def main() -> None:
    """Prints microseconds per row of each variant."""
    batches = [make(i) for i in range(int(sys.argv[1]) if len(sys.argv) > 1 else 40)]
    variants: dict[str, Callable[[], object]] = {
        "partials, whole dataset": lambda: [Partials([()], FACTS).count(b) for b in batches],
        "partials and merge, whole dataset": lambda: summed(batches, ()),
        "partials and merge, two slices": lambda: summed(batches, SLICES),
        "pandas, one frame, one slice": lambda: by_pandas(batches),
    }
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(5):
        for name, run in variants.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    for name, seconds in best.items():
        print(f"{name:36s}{seconds / len(batches) / ROWS * 1e6:8.2f} us/row")


if __name__ == "__main__":
    main()

"""Cost of the computed metrics per row: the six trajectory metrics and the four tool-call metrics.

    python tests/benchmarks/bench_metrics.py [rounds]

Rows have 1 to 4 reference calls, of which about 80 % are predicted. Each round takes every variant in turn; the
figures are the best round's microseconds of CPU time per row and the median of its ratio to the same round's plain
Python: the six scores by `==` and `in` on lists of dicts, without equality of JSON, options, errors or parsing.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.trajectory import parse_trajectory
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import ScoringBatch

ROWS = 1024
TRAJECTORY = ("exact_match", "in_order_match", "any_order_match", "precision", "recall")
TOOL_CALL = ("tool_call_valid", "tool_name_match", "tool_parameter_key_match", "tool_parameter_kv_match")


def rows() -> list[tuple[list[Any], list[Any]]]:
    """(predicted, reference) as parsed JSON."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(3000)]
    made = []
    for _ in range(ROWS):
        calls = [
            {"tool_name": f"t{rng.randrange(6)}", "tool_input": {"a": rng.randrange(4), "b": rng.choice(words)}}
            for _ in range(rng.randint(1, 4))
        ]
        made.append(json.loads(json.dumps([[call for call in calls if rng.random() < 0.8], calls])))
    return [(predicted, reference) for predicted, reference in made]


def message(calls: list[Any]) -> str:
    """Calls as the tool-call metrics read them."""
    return json.dumps({"tool_calls": [{"name": c["tool_name"], "arguments": c["tool_input"]} for c in calls]})


def plain(p: list[Any], q: list[Any]) -> tuple[float, ...]:
    """The six scores, as short as Python allows."""
    left, any_order, rest = list(p), 1.0, iter(p)
    for call in q:
        if call not in left:
            any_order = 0.0
            break
        left.remove(call)
    return (
        float(p == q),
        float(all(any(c == d for d in rest) for c in q)),
        any_order,
        sum(c in q for c in p) / len(p) if p else float(not q),
        sum(c in p for c in q) / len(q) if q else 1.0,
        float(any(c["tool_name"] == "t1" for c in p)),
    )


def main() -> None:
    """Prints microseconds per row of each variant, and its ratio to plain Python."""
    data = rows()
    six = [registry.build(registry.find("metric", f"trajectory_{name}"), {}, "") for name in TRAJECTORY]
    six.append(registry.build(registry.find("metric", "trajectory_single_tool_use"), {"tool_name": "t1"}, ""))
    four = [registry.build(registry.find("metric", name), {}, "") for name in TOOL_CALL]
    runs = [
        Example(Instance("", {"reference_trajectory": r}), Invocation(predicted_trajectory=parse_trajectory(p)))
        for p, r in data
    ]
    calls = [Example(Instance("", {"reference": message(r)}), Invocation(response=message(p))) for p, r in data]

    def scored(metrics: list[Any], examples: list[Example]) -> None:
        batch = ScoringBatch(examples)
        for metric in metrics:
            metric.score_batch(batch)

    variants: dict[str, Callable[[], object]] = {
        "plain Python": lambda: [plain(p, r) for p, r in data],
        "reading the references": lambda: [parse_trajectory(r) for _, r in data],
        "six trajectory metrics": lambda: scored(six, runs),
        "four tool-call metrics": lambda: scored(four, calls),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        for name, run in variants.items():
            began = time.process_time()
            run()
            times[name].append((time.process_time() - began) / ROWS * 1e6)
    for name, spent in times.items():
        ratio = statistics.median(a / b for a, b in zip(spent, times["plain Python"], strict=True))
        print(f"{name:24}{min(spent):8.2f} us/row{ratio:8.2f} x")


if __name__ == "__main__":
    main()

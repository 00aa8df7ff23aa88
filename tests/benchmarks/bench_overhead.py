"""The whole pipeline, from Parquet to Parquet on the local engine, beside the kernels of its 16 metrics alone.

    python tests/benchmarks/bench_overhead.py [rounds]

Rows and metrics are those of bench_text.py, and so are the kernels alone: from JSON lines to one list of values for
each metric, in batches of 1,024 rows. What a run costs without rows (building the graph, shipping it, the manifest) is
measured with 64 rows and shown apart. Times are CPU seconds of this process; both sides alternate, medians count.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from bench_text import PARAMS, TEXT, TOOL, TRAJECTORY, build, corpus, cpu, json_lines, ours

from evalbeam.pipelines.run.evaluate import evaluate

NAMES = (*TEXT, *TRAJECTORY, *TOOL)
FEW = 64


def write(lines: list[bytes], path: Path) -> None:
    """The rows, each with a prompt of its own, as a dataset."""
    pq.write_table(pa.Table.from_pylist([{"prompt": f"{i}", **json.loads(x)} for i, x in enumerate(lines)]), path)


def pipeline(path: Path, output: Path) -> float:
    """CPU seconds of a run."""
    metrics = [{"metric": name, **PARAMS.get(name, {})} for name in NAMES]
    seconds, result = cpu(lambda: evaluate(str(path), metrics, output=str(output), output_options={"overwrite": True}))
    assert result.summary_metrics["row_count"] > 0
    return seconds


def kernels(lines: list[bytes]) -> float:
    """CPU seconds of the metrics, under the thresholds of the collector that the pipeline's bulk steps set."""
    thresholds = gc.get_threshold()
    gc.set_threshold(200_000, 50, 50)
    seconds, _ = cpu(lambda: ours(lines, build(NAMES), 1024))
    gc.set_threshold(*thresholds)
    return seconds


def compare(tokens: int, rows: int, rounds: int, folder: Path) -> None:
    """Prints medians for one corpus."""
    lines = json_lines(corpus(tokens, rows, seed=tokens))
    write(lines, folder / "rows.parquet")
    write(lines[:FEW], folder / "few.parquet")
    pipeline(folder / "few.parquet", folder / "out")  # imports
    fixed, whole, alone = [], [], []
    for _ in range(rounds):
        fixed.append(pipeline(folder / "few.parquet", folder / "out"))
        whole.append((pipeline(folder / "rows.parquet", folder / "out") - fixed[-1]) / (rows - FEW))
        alone.append(kernels(lines) / rows)
    ratio = statistics.median(w / a for w, a in zip(whole, alone, strict=True))
    row, part = 1e6 * statistics.median(whole), 1e6 * statistics.median(alone)
    print(f"{tokens:4d} tokens, {rows} rows: pipeline {row:6.1f} us/row, kernels alone {part:6.1f} us/row,", end=" ")
    print(f"{ratio:.2f} x; a run without rows {statistics.median(fixed):.2f} s")


if __name__ == "__main__":
    given = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as made:
        compare(58, 16_384, given, Path(made))
        compare(600, 8_192, given, Path(made))

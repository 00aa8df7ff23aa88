"""Whole commands over recorded rows of 1 kB with five trajectory metrics, from JSON lines to Parquet.

    python tests/benchmarks/bench_end_to_end.py [ROWS] [--rounds N] [--workers N]

Each round runs, one after the other: a plain Python script with the same scores and one Parquet file, `evalbeam run` in
one process, the same with worker processes, and `evalbeam run` on ten rows, which is the start. Prints medians of wall
seconds, of CPU seconds of all processes and of the peak memory of the largest one; and the ratios of the rounds without
the start. On a machine that does other work, the CPU seconds count.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from bench_pipeline import METRICS, measured, write_dataset

FEW = 10


def plain(data: str, output: str) -> None:
    """The script that one would write for the purpose: rows, scores and one table in memory."""
    columns: dict[str, list] = {}
    with open(data, "rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            made, wanted = row["predicted_trajectory"], row["reference_trajectory"]
            row |= dict(zip(METRICS, scores(made, wanted), strict=True))
            row["predicted_trajectory"], row["reference_trajectory"] = orjson.dumps(made), orjson.dumps(wanted)
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
    pq.write_table(pa.table(columns), output, compression="zstd")


def scores(made: list[dict], wanted: list[dict]) -> list[float]:
    """Exact, in-order and any-order match, precision and recall of calls."""
    rest = iter(made)
    in_order = all(any(call == other for other in rest) for call in wanted)
    left = list(made)
    for call in wanted:
        if call in left:
            left.remove(call)
    any_order = len(made) - len(left) == len(wanted)
    precision = sum(call in wanted for call in made) / len(made) if made else 0.0
    recall = sum(call in made for call in wanted) / len(wanted) if wanted else 0.0
    return [float(made == wanted), float(in_order), float(any_order), precision, recall]


def commands(folder: Path, rows: int, workers: int) -> dict[str, list[str]]:
    """The commands by name, and their data."""
    data, few = folder / "data.jsonl", folder / "few.jsonl"
    write_dataset(rows, data)
    with data.open("rb") as lines:
        few.write_bytes(b"".join(islice(lines, FEW)))
    metrics = ",".join(f"trajectory_{name}" for name in METRICS)

    def evalbeam(path: Path, count: int) -> list[str]:
        given = ["--dataset", str(path), "--metrics", metrics, "--output", str(folder / "out"), "--overwrite"]
        return [sys.executable, "-m", "evalbeam", "run", *given, "--workers", str(count)]

    return {
        "plain": [sys.executable, __file__, "--plain", str(data), str(folder / "plain.parquet")],
        "one process": evalbeam(data, 1),
        f"{workers} workers": evalbeam(data, workers),
        "start": evalbeam(few, 1),
    }


def main() -> None:
    """Runs the rounds and prints their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plain", nargs=2, metavar=("DATA", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.plain:
        plain(*args.plain)
        return
    with tempfile.TemporaryDirectory() as made:
        given = commands(Path(made), args.rows, args.workers)
        subprocess.run(given["start"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        rounds = [{name: measured(command) for name, command in given.items()} for _ in range(args.rounds)]
    print(f"{args.rows} rows, {args.rounds} rounds; medians [least, most]")
    for name in given:
        wall, cpu, peak = zip(*(figures[name] for figures in rounds), strict=True)
        print(f"{name:12} {_spread(wall)} s, {_spread(cpu)} s of CPU, {statistics.median(peak):5.0f} MB")
    pairs = {"one process beside the plain script": ("plain", "one process")}
    pairs[f"{args.workers} workers beside one process"] = ("one process", f"{args.workers} workers")
    for title, (base, own) in pairs.items():
        for i, kind in enumerate(("wall", "CPU")):
            found = [_alone(figures, base, i) / _alone(figures, own, i) for figures in rounds]
            print(f"{title}, {kind} without the start: {_spread(found)} times its speed")


def _alone(figures: dict[str, tuple[float, float, float]], name: str, i: int) -> float:
    return figures[name][i] - (0.0 if name == "plain" else figures["start"][i])


def _spread(values: tuple[float, ...] | list[float]) -> str:
    return f"{statistics.median(values):6.2f} [{min(values):.2f}, {max(values):.2f}]"


if __name__ == "__main__":
    main()

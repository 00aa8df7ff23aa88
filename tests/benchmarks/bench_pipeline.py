"""The whole pipeline over recorded rows of 1 kB: JSONL in, six trajectory metrics, Parquet out, local engine.

    python tests/benchmarks/bench_pipeline.py [ROWS] [--pairs N] [--against COMMAND]

Each round runs, one after the other and each in a process of its own, evalbeam, the same metrics applied row by row to
a pandas DataFrame (what in-process evaluation tools do), and, if given, another command with DATA and OUT appended.
Prints rows/s, CPU per row and peak memory as medians, and the ratio of each round.
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson

# A small process between this one and the command: Linux counts the memory of the process that starts a command as the
# command's own.
_START = """import resource, subprocess, sys, time
began = time.perf_counter()
status = subprocess.call(sys.argv[1:], stdout=sys.stderr)
wall, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
METRICS = ["exact_match", "in_order_match", "any_order_match", "precision", "recall"]


def write_dataset(rows: int, path: Path) -> None:
    """Rows of about 1 kB: a prompt, a note, and 1 to 4 calls of which about 80 % were made."""
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(3000)]
    with path.open("wb") as out:
        for _ in range(rows):
            expected = [
                {
                    "tool_name": f"tool_{rng.randrange(6)}",
                    "tool_input": {"level": rng.randrange(4), "room": rng.choice(words)},
                }
                for _ in range(rng.randint(1, 4))
            ]
            row = {
                "prompt": " ".join(rng.choices(words, k=60)),
                "note": " ".join(rng.choices(words, k=40)),
                "predicted_trajectory": [call for call in expected if rng.random() < 0.8],
                "reference_trajectory": expected,
            }
            out.write(orjson.dumps(row) + b"\n")


def run_evalbeam(data: str, output: str) -> None:
    """The six metrics through the pipeline."""
    from evalbeam.pipelines.run.evaluate import evaluate

    metrics = [f"trajectory_{m}" for m in METRICS] + [{"metric": "trajectory_single_tool_use", "tool_name": "tool_1"}]
    evaluate(data, metrics, output=output)


def run_pandas(data: str, output: str) -> None:
    """The same functions, row by row over a DataFrame in memory."""
    import pandas as pd

    from evalbeam.schemas.instance import Example, Instance, Invocation
    from evalbeam.schemas.trajectory import parse_trajectory
    from evalbeam.transforms import registry

    frame = pd.DataFrame([orjson.loads(line) for line in Path(data).read_bytes().splitlines()])
    metrics = [registry.build(registry.find("metric", f"trajectory_{m}"), {}, "") for m in METRICS]
    single = registry.find("metric", "trajectory_single_tool_use")
    metrics.append(registry.build(single, {"tool_name": "tool_1"}, ""))

    def scores(row: pd.Series) -> pd.Series:
        call = Invocation(predicted_trajectory=parse_trajectory(row["predicted_trajectory"]))
        example = Example(Instance("", row.to_dict()), call)
        return pd.Series([m.score(example).value for m in metrics])

    frame[[str(i) for i in range(6)]] = frame.apply(scores, axis=1)
    for column in ("predicted_trajectory", "reference_trajectory"):
        frame[column] = frame[column].map(lambda v: orjson.dumps(v).decode())
    frame.to_parquet(output)


def measured(command: list[str]) -> tuple[float, float, float]:
    """(wall seconds, CPU seconds, peak MB) of a command; what it says is shown if it fails."""
    done = subprocess.run([sys.executable, "-S", "-c", _START, *command], capture_output=True, text=True)
    status, wall, cpu, peak = map(float, done.stdout.split())
    if status:
        raise SystemExit(f"{done.stderr}\n{command} ended with {status:.0f}")
    return wall, cpu, peak


def main() -> None:
    """Runs the rounds and prints their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=200_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--against", default="")
    parser.add_argument("--no-pandas", action="store_true")
    parser.add_argument("--only", nargs=3, metavar=("WHAT", "DATA", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        {"evalbeam": run_evalbeam, "pandas": run_pandas}[args.only[0]](*args.only[1:])
        return
    folder = Path(tempfile.mkdtemp())
    data = folder / "data.jsonl"
    write_dataset(args.rows, data)
    commands = {"evalbeam": [sys.executable, __file__, "--only", "evalbeam", str(data), str(folder / "out")]}
    if not args.no_pandas:
        commands["pandas"] = [sys.executable, __file__, "--only", "pandas", str(data), str(folder / "out.parquet")]
    if args.against:
        commands["other"] = [*shlex.split(args.against), str(data), str(folder / "other")]
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    for _ in range(args.pairs):
        for name, command in commands.items():
            shutil.rmtree(folder / "out", ignore_errors=True)
            found[name].append(measured(command))
    print(f"{args.rows} rows, {data.stat().st_size / args.rows:.0f} bytes each, {args.pairs} rounds, medians")
    for name, runs in found.items():
        wall, cpu, peak = (statistics.median(column) for column in zip(*runs, strict=True))
        ratios = [other[0] / own[0] for own, other in zip(found["evalbeam"], runs, strict=True)]
        print(
            f"{name:9} {args.rows / wall:8.0f} rows/s  {cpu / args.rows * 1e6:6.1f} us CPU/row  {peak:6.0f} MB"
            f"  evalbeam is {statistics.median(ratios):.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]"
        )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()

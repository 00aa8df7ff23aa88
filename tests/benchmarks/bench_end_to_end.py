"""Whole commands, start and tables included, each beside the script that one would write instead.

    python tests/benchmarks/bench_end_to_end.py [--only recorded start calls] [--rounds N] [--workers N] [--scale SHARE]

Three kinds of work, each command a process of its own, one after the other, in the opposite order in every other round:

- recorded: 200,000 recorded rows of 1 kB with five trajectory metrics, JSON lines to Parquet. The peer is a Python
  script with the same scores and one Parquet file; worker processes are compared with one process.
- start: the same on ten rows, beside `import apache_beam`.
- calls: 40,000 calls of 50 ms at 256 in flight, and 10,000 of 1 s at 2,000, with two metrics, journal and tables. The
  peer is an asyncio script with the same scores and one file of JSON lines.

Prints medians [least, most] of wall seconds, of CPU seconds of all processes and of the peak memory of the largest one,
and how many times as fast as its peer a command is, which is paired in each round. On a machine that does other work,
the CPU seconds count. `--scale 0.1` makes a tenth of the rows and calls, where the start weighs ten times as much.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from bench_pipeline import METRICS, measured, write_dataset

FEW = 10
START = "ten rows"
"""Name of the command that is hardly more than the start."""
ROWS = 200_000
CALLS = ((40_000, 0.05, 256), (10_000, 1.0, 2_000))
"""(calls, seconds of each, in flight)."""
AGENT = """import asyncio

async def ask(prompt):
    await asyncio.sleep(float(prompt.partition(" ")[0]))
    return "answer to " + prompt
"""
_WORD = re.compile("[a-z0-9]+")

Name = tuple[str, str]
"""(work, command)."""
Figures = dict[Name, tuple[float, float, float]]
"""(wall seconds, CPU seconds, peak MB) by command."""


@dataclass(frozen=True)
class Work:
    """Commands that do the same work.

    Attributes:
        title: The work.
        scripts: What one would write instead, by name.
        runs: (command of evalbeam, name of what it is compared with), by name.
    """

    title: str
    scripts: dict[str, list[str]]
    runs: dict[str, tuple[list[str], str]]

    @property
    def commands(self) -> dict[str, list[str]]:
        """All commands by name."""
        return self.scripts | {name: command for name, (command, _) in self.runs.items()}


def plain_rows(data: str, output: str) -> None:
    """The script that one would write for recorded rows: rows, scores and one table in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list] = {}
    with open(data, "rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            made, wanted = row["predicted_trajectory"], row["reference_trajectory"]
            row |= dict(zip(METRICS, score_trajectory(made, wanted), strict=True))
            row["predicted_trajectory"], row["reference_trajectory"] = orjson.dumps(made), orjson.dumps(wanted)
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
    pq.write_table(pa.table(columns), output, compression="zstd")


def score_trajectory(made: list[dict], wanted: list[dict]) -> list[float]:
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


def plain_calls(data: str, output: str, in_flight: str) -> None:
    """The script that one would write for calls: coroutines that take a row each, and write it with its scores."""
    from naps import ask  # type: ignore[import-not-found]  (main writes it)

    with open(data, "rb") as lines, open(output, "wb") as out:
        rows = iter([orjson.loads(line) for line in lines])

        async def one_place() -> None:
            for row in rows:
                row["response"] = await ask(row["prompt"])
                row |= score_text(row["response"], row["reference"])
                out.write(orjson.dumps(row) + b"\n")

        async def all_of_them() -> None:
            await asyncio.gather(*(one_place() for _ in range(int(in_flight))))

        asyncio.run(all_of_them())


def score_text(given: str, wanted: str) -> dict[str, float]:
    """Exact match, and ROUGE-1 as the F1 of words."""
    one, other = Counter(_WORD.findall(given.lower())), Counter(_WORD.findall(wanted.lower()))
    both = 2 * (one & other).total()
    return {"exact_match": float(given == wanted), "rouge_1": both / (one.total() + other.total()) if both else 0.0}


def _evalbeam(folder: Path, data: Path, metrics: list[str], *more: str) -> list[str]:
    output = ["--output", str(folder / "out"), "--overwrite"]
    given = ["--dataset", str(data), "--metrics", ",".join(metrics), *output, *more]
    return [sys.executable, "-m", "evalbeam", "run", *given]


def _script(kind: str, *arguments: object) -> list[str]:
    return [sys.executable, __file__, "--plain", kind, *map(str, arguments)]


def start_work(folder: Path) -> Work:
    """Ten rows."""
    data, metrics = folder / "few.jsonl", [f"trajectory_{name}" for name in METRICS]
    write_dataset(FEW, data)
    beam = [sys.executable, "-c", "import apache_beam"]
    run = _evalbeam(folder, data, metrics, "--workers", "1")
    return Work(f"{FEW} recorded rows", {"import apache_beam": beam}, {START: (run, "import apache_beam")})


def recorded_work(folder: Path, rows: int, workers: int) -> Work:
    """Recorded rows, by one process and by several."""
    data, metrics = folder / "recorded.jsonl", [f"trajectory_{name}" for name in METRICS]
    write_dataset(rows, data)
    script = _script("rows", data, folder / "plain.parquet")
    runs = {
        "one process": (_evalbeam(folder, data, metrics, "--workers", "1"), "Python script"),
        f"{workers} workers": (_evalbeam(folder, data, metrics, "--workers", str(workers)), "one process"),
    }
    return Work(f"{rows:,} recorded rows of 1 kB", {"Python script": script}, runs)


def calls_work(folder: Path, calls: int, seconds: float, in_flight: int) -> Work:
    """Calls of an agent that is a coroutine function."""
    data = folder / f"calls-{in_flight}.jsonl"
    (folder / "naps.py").write_text(AGENT)
    texts = (f"{seconds} s for question {i}" for i in range(calls))
    data.write_bytes(b"".join(orjson.dumps({"prompt": t, "reference": f"answer to {t}"}) + b"\n" for t in texts))
    settings = ["--agent", "naps:ask", "--set", f"agent.max_in_flight={in_flight}"]
    script = _script("calls", data, folder / "plain.jsonl", in_flight)
    run = _evalbeam(folder, data, ["exact_match", "rouge_1"], *settings)
    title = f"{calls:,} calls of {seconds:g} s, {in_flight:,} in flight"
    return Work(title, {"asyncio script": script}, {"calls": (run, "asyncio script")})


def works(folder: Path, only: list[str], scale: float, workers: int) -> Iterator[Work]:
    """The work that was asked for; the start comes first, since it is taken off the others."""
    if "start" in only:
        yield start_work(folder)
    if "recorded" in only:
        yield recorded_work(folder, max(FEW, round(ROWS * scale)), workers)
    if "calls" in only:
        for calls, seconds, in_flight in CALLS:
            yield calls_work(folder, max(FEW, round(calls * scale)), seconds, in_flight)


def measure(works: list[Work], rounds: int) -> list[Figures]:
    """The figures of each round; every other one goes through the commands backwards."""
    commands = [((work.title, name), command) for work in works for name, command in work.commands.items()]
    return [{name: measured(c) for name, c in (commands[::-1] if i % 2 else commands)} for i in range(rounds)]


def lines(works: list[Work], rounds: list[Figures]) -> Iterator[str]:
    """The table, in Markdown."""
    start = next(((work.title, START) for work in works if START in work.runs), None)
    yield "| work | command | wall, s | CPU, s | MB | times as fast as | without the start |"
    yield "|---|---|---|---|---|---|---|"
    for work in works:
        for name in work.commands:
            wall, cpu, peak = zip(*(figures[work.title, name] for figures in rounds), strict=True)
            cells = [work.title, name, _spread(wall), _spread(cpu), f"{statistics.median(peak):.0f}"]
            yield "| " + " | ".join([*cells, *compare(work, name, rounds, start)]) + " |"


def compare(work: Work, name: str, rounds: list[Figures], start: Name | None) -> tuple[str, str]:
    """How many times as fast a run is as its peer: as a whole, and without the start of each run."""
    if name not in work.runs:
        return "", ""
    peer = work.runs[name][1]

    def speed(without: Name | None) -> str:
        off = dict.fromkeys(work.runs, without) if without else {}
        return ", ".join(
            f"{kind} {_spread([_take(f, work, peer, off, i) / _take(f, work, name, off, i) for f in rounds])}"
            for i, kind in enumerate(("wall", "CPU"))
        )

    return f"{peer}: {speed(None)}", "" if start in (None, (work.title, name)) else speed(start)


def _take(figures: Figures, work: Work, name: str, off: dict[str, Name], i: int) -> float:
    return figures[work.title, name][i] - (figures[off[name]][i] if name in off else 0.0)


def _spread(values: Any) -> str:
    return f"{statistics.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]"


def main() -> None:
    """Runs the rounds and prints their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = ["start", "recorded", "calls"]
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--plain", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.plain:
        {"rows": plain_rows, "calls": plain_calls}[args.plain[0]](*args.plain[1:])
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (made, os.environ.get("PYTHONPATH"))))  # for AGENT
        found = list(works(folder, args.only, args.scale, args.workers))
        subprocess.run([sys.executable, "-c", "import apache_beam"], check=True)  # from now on its files are in memory
        rounds = measure(found, args.rounds)
    print(f"{args.rounds} rounds; medians [least, most]\n")
    print("\n".join(lines(found, rounds)))


if __name__ == "__main__":
    main()

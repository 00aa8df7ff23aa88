"""What all statistics of a run cost: paired runs with and without them; bench_statistics.py prints the figures.

Recorded answers, 5 metrics, 3 slicings. Each run is a process of its own; without statistics means that no score is
summed up, no worst slice is looked for and no failure is grouped. Processor seconds and memory of the whole process
tree; runs alternate, medians count.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

METRICS = ("exact_match", "bleu", "rouge_1", "rouge_l", "trajectory_f1")
SLICES = (["language"], ["topic"], ["language", "team"])
TEXT = "a flight to the city was booked for two people and paid by card in full before noon"
WORDS = TEXT.split()


def write_rows(number: int, path: Path) -> None:
    """Writes recorded answers: texts of 20 words, trajectories of up to three calls."""
    rng = random.Random(0)
    with pq.ParquetWriter(path, schema := pa.Table.from_pylist([make_row(rng, 0)]).schema) as out:
        for start in range(0, number, 50_000):
            rows = [make_row(rng, i) for i in range(start, min(start + 50_000, number))]
            out.write_table(pa.Table.from_pylist(rows, schema=schema))


def make_row(rng: random.Random, i: int) -> dict[str, str]:
    """One row, of which a tenth of the words and a fifth of the calls are wrong."""
    wanted = rng.choices(WORDS, k=20)
    given = [word if rng.random() < 0.9 else rng.choice(WORDS) for word in wanted]
    calls = [f'{{"tool_name": "{rng.choice("abc")}", "tool_input": {{"n": {rng.randrange(3)}}}}}' for _ in range(2)]
    return {
        "prompt": f"question {i}",
        "reference": " ".join(wanted),
        "response": " ".join(given),
        "reference_trajectory": f"[{', '.join(calls)}]",
        "predicted_trajectory": f"[{', '.join(calls if rng.random() < 0.8 else calls[:1])}]",
        "language": rng.choice(("en", "de", "fr", "ja", "pl")),
        "topic": f"t{rng.randrange(20)}",
        "team": rng.choice("xyz"),
    }


class _Nothing:
    """Sums nothing up; unlike a mock, it keeps no batch."""

    def __init__(self, *given: object) -> None:
        pass

    def add(self, batch: object) -> tuple[()]:
        return ()

    def take(self) -> tuple[()]:
        return ()


def run(path: str, output: str, count: bool) -> None:
    """Runs the evaluation in this process and prints processor seconds and MB."""
    from evalbeam import evaluate
    from evalbeam.pipelines.run.plan import Plan

    def call() -> None:
        evaluate(path, list(METRICS), output=output, slices=list(SLICES))

    if count:
        call()
    else:
        with (
            mock.patch("evalbeam.transforms.aggregate.Partials", _Nothing),
            mock.patch.object(Plan, "failure_tests", ()),
            mock.patch.object(Plan, "sliced_facts", ()),
        ):
            call()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(sum(u.ru_utime + u.ru_stime for u in used), max(u.ru_maxrss for u in used) / 1024)


def measure(path: Path, folder: Path, count: bool) -> tuple[float, float]:
    """(processor seconds, MB) of a run in a process of its own."""
    output = tempfile.mkdtemp(dir=folder)
    command = [sys.executable, __file__, str(path), output + "/out", str(int(count))]
    last = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
    seconds, memory = map(float, last.split())
    return seconds, memory


@cache
def compare_runs(rows: int, rounds: int = 3) -> tuple[float, float]:
    """Returns what statistics cost: (share of the processor time of runs without them, MB)."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_rows(rows, path := folder / "rows.parquet")
        pairs = [[measure(path, folder, count) for count in (False, True)] for _ in range(rounds)]
    off, on = (statistics.median(pair[i][0] for pair in pairs) for i in (0, 1))
    return on / off - 1, statistics.median(pair[1][1] - pair[0][1] for pair in pairs)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3] == "1")

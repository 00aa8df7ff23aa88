"""Judge calls a second beside plain asyncio, and an agent followed by judges beside the busiest of them alone.

    python tests/benchmarks/bench_judges.py [--rows 10000] [--in-flight 64 256] [--peers PYTHON]

Judges and agent are sleeps of 50 ms behind the protocols, in this process; the runner's start, reading, scoring and
writing are included in our side. `--peers` adds what EvalTask and mlflow.genai.evaluate make of such metrics, by an
interpreter that has them and on fewer rows, since theirs take minutes. The figures that count are the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalbeam import evaluate

SECONDS = 0.05
METRICS = ("fluency", "coherence", "fulfillment")


async def judge(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """A fake judge: every answer is worth a 4."""
    await asyncio.sleep(SECONDS)
    return {"explanation": "fine", "score": 4}


async def agent(prompt: str) -> str:
    """A fake agent."""
    await asyncio.sleep(SECONDS)
    return f"answer to {prompt}"


def plain(calls: int, in_flight: int) -> None:
    """So many sleeps by `in_flight` coroutines of one loop."""
    left = iter(range(calls))

    async def one() -> None:
        for _ in left:
            await asyncio.sleep(SECONDS)

    async def everything() -> None:
        await asyncio.gather(*(one() for _ in range(in_flight)))

    asyncio.run(everything())


def ours(rows: Path, judged: bool, asked: bool, in_flight: int) -> None:
    """One evaluation of the rows."""
    folder = tempfile.mkdtemp(prefix="bench-judges-")
    judges = {"default": {"type": "function", "target": judge, "max_in_flight": in_flight}}
    metrics = METRICS if judged else ("exact_match",)
    given: dict[str, Any] = {"judges": judges} if judged else {}
    if asked:
        given["agent"] = {"max_in_flight": in_flight}
    try:
        result = evaluate(str(rows), metrics, agent if asked else None, output=folder, **given)
        assert result.summary_metrics["row_count"] == sum(1 for _ in rows.open())
        assert not judged or result.summary_metrics["fluency/mean"] == 4.0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """(wall seconds, CPU seconds)."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--peers", help="a Python interpreter that has EvalTask and mlflow")
    parser.add_argument("--peer-rows", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        with rows.open("w") as file:
            for i in range(args.rows):
                file.write(json.dumps({"prompt": f"question {i}", "response": f"answer {i}", "reference": "x"}) + "\n")
        few = Path(folder) / "few.jsonl"
        few.write_text("".join(f"{line}\n" for line in rows.read_text().splitlines()[:50]))
        ours(few, True, True, 16)  # imports and first use are not what is measured
        for in_flight in args.in_flight:
            compare(rows, 3 * args.rows, in_flight, args.repeat)
    for peer in ("evaltask", "mlflow") if args.peers else ():
        command = [args.peers, str(Path(__file__).with_name("peer_judges.py")), peer, str(args.peer_rows)]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds, scored = map(float, told.split()[-2:])
        print(
            f"{peer:20} {3 * args.peer_rows / seconds:6.0f} judge calls/s, {scored:.0f} of {args.peer_rows} rows scored"
        )


def compare(rows: Path, calls: int, in_flight: int, repeat: int) -> None:
    """Plain asyncio, judges alone, and an agent before them, in turn; prints medians."""
    forms: dict[str, Callable[[], None]] = {
        "asyncio": lambda: plain(calls, in_flight),
        "judges alone": lambda: ours(rows, True, False, in_flight),
        "agent, then judges": lambda: ours(rows, True, True, in_flight),
    }
    found = [{name: timed(form) for name, form in forms.items()} for _ in range(repeat)]
    for name in forms:
        wall, cpu = (statistics.median(run[name][i] for run in found) for i in (0, 1))
        base, alone = (statistics.median(run[to][0] / run[name][0] for run in found) for to in list(forms)[:2])
        print(
            f"{name:20} {in_flight:5} in flight {calls / wall:6.0f} judge calls/s, "
            f"{1e3 * cpu / calls:.3f} ms CPU a call, {base:.3f} x asyncio, {alone:.3f} x judges alone",
            flush=True,
        )


if __name__ == "__main__":
    main()

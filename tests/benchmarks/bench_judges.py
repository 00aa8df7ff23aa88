"""Judge calls a second beside plain asyncio, and an agent followed by judges beside the busiest of them alone.

    python tests/benchmarks/bench_judges.py [--rows 10000] [--peers]

Judges and agent are sleeps of 50 ms behind the protocols, in this process; the runner's start, reading, scoring and
writing are included in our side. `--peers` adds what mlflow.genai.evaluate makes of the same calls, where the whole of
mlflow is installed. The figures that count are the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
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
    parser.add_argument("--in-flight", type=int, default=256)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        with rows.open("w") as file:
            for i in range(args.rows):
                file.write(json.dumps({"prompt": f"question {i}", "response": f"answer {i}", "reference": "x"}) + "\n")
        few = Path(folder) / "few.jsonl"
        few.write_text("".join(f"{line}\n" for line in rows.read_text().splitlines()[:50]))
        ours(few, True, True, 16)  # imports and first use are not what is measured
        calls = 3 * args.rows
        base = timed(lambda: plain(calls, args.in_flight))
        alone = timed(lambda: ours(rows, True, False, args.in_flight))
        both = timed(lambda: ours(rows, True, True, args.in_flight))
    for name, (wall, cpu) in (("asyncio", base), ("judges alone", alone), ("agent, then judges", both)):
        print(
            f"{name:20} {calls / wall:6.0f} judge calls/s, {1e3 * cpu / calls:.3f} ms CPU a call, "
            f"{base[0] / wall:.3f} x asyncio, {alone[0] / wall:.3f} x judges alone",
            flush=True,
        )


if __name__ == "__main__":
    main()

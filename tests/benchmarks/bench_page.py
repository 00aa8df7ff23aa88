"""How fast the page of a large run answers in a real browser, and what it costs.

    python tests/benchmarks/bench_page.py [--rows 100000] [--view 1000000] [--folder DIR]

A run of 10,000 rows and 78 columns is evaluated once, and its table written as often as needed, under other ids. Each
figure is the median of `REPEATS`, beside the bound that it should keep on a quiet machine: the page of `--rows` rows
(ready, filter, regex, open a row, heap), the same of 10,000 rows, of which the page holds all, and `evalbeam view` on
`--view` rows (from the address to the first table, from the command to it, bytes fetched, filter, sort, search).
`--written` recorded rows of 1 kB, those of bench_pipeline.py, are evaluated for what the page of such a run costs: it
is written again in processes of its own. Needs Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent / "servers"))

import bench_pipeline
from bench_pipeline import measured, write_dataset
from browser import Tab, address_of, browsing

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.report.page import write_report

REPEATS = 5
BASE = 10_000
WORDS = ["light", "door", "room", "kitchen", "attic", "cellar", "window", "heat"]
WORDS += ["lamp", "switch", "garden", "garage", "morning", "evening", "open", "close"]
METRICS = ["exact_match", "rouge_l", "rouge_1", "bleu", "trajectory_exact_match", "trajectory_precision"]
METRICS += ["trajectory_recall", "trajectory_in_order_match", "trajectory_any_order_match"]
READY = "document.getElementById('explorer')?.dataset.ready"
FILTER = """(async (query) => {
  const [box, old] = ["input[type=search]", ".rows tbody"].map((one) => document.querySelector(one));
  const start = performance.now();
  box.value = query;
  box.dispatchEvent(new Event("input"));
  while (document.querySelector(".rows tbody") === old) await new Promise((done) => setTimeout(done, 0));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  return performance.now() - start;
})"""
SORT = """(async (name) => {
  const start = performance.now();
  const old = document.querySelector(".rows tbody");
  [...document.querySelectorAll(".rows thead button")].find((one) => one.textContent.startsWith(name)).click();
  while (document.querySelector(".rows tbody") === old) await new Promise((done) => setTimeout(done, 0));
  return performance.now() - start;
})"""
OPEN = """(async (place) => {
  const start = performance.now();
  document.querySelectorAll(".rows tbody tr")[place].click();
  while (!document.querySelector("dialog[open] .body")) await new Promise((done) => setTimeout(done, 0));
  const taken = performance.now() - start;
  document.querySelector("dialog").close();
  document.querySelector("dialog").replaceChildren();
  return taken;
})"""


def make_row(number: int) -> dict[str, Any]:
    """A row of 35 columns."""
    chance = random.Random(number)

    def text(words: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(words))

    def calls() -> list[dict[str, Any]]:
        return [{"tool_name": text(1), "tool_input": {"room": text(1)}} for _ in range(3)]

    answer = text(12)
    more = {f"column_{i}": text(4) if i % 2 else chance.randint(0, 1000) for i in range(26)}
    return more | {
        "prompt": f"question {number} {text(25)}",
        "reference": answer,
        "response": answer if chance.random() < 0.6 else text(12),
        "failure": chance.random() < 0.02,
        "latency_in_seconds": chance.random() * 3,
        "group": chance.choice("abcdefgh"),
        "language": chance.choice(["en", "de", "ja", "fr"]),
        "reference_trajectory": calls(),
        "predicted_trajectory": calls(),
    }


def make_base(folder: Path) -> None:
    """Evaluates the run whose table is repeated."""
    criteria = [{"metric": "exact_match", "min": 0.9}, {"metric": "rouge_l", "min": 0.3}]
    rows = [make_row(i) for i in range(BASE)]
    evaluate(rows, METRICS, output=str(folder), slices=[["group"], ["language"]], criteria=criteria)


def repeat(base: Path, folder: Path, times: int) -> None:
    """Writes a run whose table is that of another, `times` times; its figures stay those of the other."""
    shutil.copytree(base, folder, ignore=shutil.ignore_patterns("instances", "input", "report.html"))
    manifest = json.loads((base / "manifest.json").read_text())
    described = manifest["tables"]["instances"]
    table = pq.read_table(base / described["files"][0])
    ids, column = table["instance_id"].to_pylist(), table.schema.get_field_index("instance_id")
    words = [f.name for f in table.schema if f.name.endswith(("status", "error", "error_type"))]
    (folder / "instances").mkdir()
    described["files"] = [f"instances/part-{i:05d}-of-{-(-times // 10):05d}.parquet" for i in range(-(-times // 10))]
    for i, name in enumerate(described["files"]):
        with pq.ParquetWriter(folder / name, table.schema, compression="zstd", use_dictionary=words) as writer:
            for k in range(10 * i, min(10 * i + 10, times)):
                other = pa.array([f"{k:04x}{one[4:]}" for one in ids])
                writer.write_table(table.set_column(column, "instance_id", other), row_group_size=1024)
    described["rows"] = table.num_rows * times
    manifest["counts"]["rows"] *= times
    (folder / "manifest.json").write_text(json.dumps(manifest))


def report(name: str, measure: Callable[[], float], bound: str = "") -> None:
    """Prints the median."""
    values = [measure() for _ in range(REPEATS)]
    print(f"  {name:<44} {statistics.median(values):>9.1f}  {bound}", flush=True)


def measure_heap(tab: Tab) -> float:
    """Megabytes of objects that are alive."""
    tab.call("HeapProfiler.collectGarbage")
    return tab.call("Runtime.getHeapUsage")["usedSize"] / 1e6


def measure_actions(tab: Tab, bounds: bool) -> None:
    """What a person does with the rows, on a page that is ready."""
    queries: Iterator[str] = iter([f"kitchen {word}" for word in WORDS] * 2)
    patterns: Iterator[str] = iter([f"/kitchen {word[:2]}+/" for word in WORDS])
    places = iter(range(100))
    report("filter by words, ms", lambda: tab.run(f"{FILTER}({next(queries)!r})"), "<= 100" if bounds else "")
    report("filter by a regular expression, ms", lambda: tab.run(f"{FILTER}({next(patterns)!r})"))
    tab.run(f"{FILTER}('')")
    report("sort, ms", lambda: tab.run(f"{SORT}('rouge_l')"))
    report("open a row, ms", lambda: tab.run(f"{OPEN}({next(places)})"), "<= 200" if bounds else "")


def write_page(folder: str) -> None:
    """Writes a page, and prints seconds, CPU seconds and the megabytes that it took above those of the process."""
    result = EvaluationResult.load(folder)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    held, start, used = read_memory("VmRSS"), time.perf_counter(), time.process_time()
    write_report(result)
    figures = time.perf_counter() - start, time.process_time() - used, read_memory("VmHWM") - held
    print(json.dumps(figures))


def read_memory(name: str) -> float:
    """Megabytes of this process, as Linux counts them."""
    return int(re.findall(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024


def bench_written(folder: Path, rows: int) -> None:
    """What the page of recorded rows costs, beside their run."""
    data, run = folder / f"recorded-{rows}.jsonl", folder / f"recorded-{rows}"
    if not run.exists():
        write_dataset(rows, data)
        measured([sys.executable, bench_pipeline.__file__, "--only", "evalbeam", str(data), str(run)])
    whole = json.loads((run / "manifest.json").read_text())["measured"]["seconds"]
    command = [sys.executable, __file__, "--write", str(run)]
    found = [json.loads(subprocess.check_output(command)) for _ in range(REPEATS)]
    print(f"report.html of {rows:,} recorded rows, whose run took {whole:.0f} s")
    seconds, used, memory = (iter(values) for values in zip(*found, strict=True))
    report("written, s", seconds.__next__, f"<= {whole / 20:.1f}")
    report("written, CPU s", used.__next__)
    report("memory above the process, MB", memory.__next__, "<= 200")


def bench_page(folder: Path, rows: int) -> None:
    """The page that is one file."""
    start = time.perf_counter()
    path = write_report(EvaluationResult.load(str(folder)))
    seconds, size = time.perf_counter() - start, Path(path).stat().st_size / 1e6
    print(f"report.html of {rows:,} rows: {size:.1f} MB, written in {seconds:.1f} s")

    def measure_ready(tab: Tab) -> float:
        tab.open("about:blank")
        start = time.perf_counter()
        tab.open(address_of(path))
        tab.wait(READY)
        return time.perf_counter() - start

    with browsing() as tab:
        report("ready, s", lambda: measure_ready(tab), "<= 3")
        time.sleep(2)  # the search is prepared meanwhile, as it is while a person reads
        measure_actions(tab, bounds=True)
        print(f"  {'heap, MB':<44} {measure_heap(tab):>9.1f}  <= 200")


@contextlib.contextmanager
def viewing(folder: Path) -> Iterator[tuple[str, float]]:
    """The command, started; gives its address and the time at which it was started."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "evalbeam", "view", str(folder), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), start
        finally:
            process.send_signal(signal.SIGINT)


def bench_view(folder: Path, rows: int) -> None:
    """The page of the server, each time of a new one."""
    print(f"evalbeam view of {rows:,} rows")
    since_address, since_command, fetched = [], [], []
    for _ in range(REPEATS):
        with browsing() as tab, viewing(folder) as (address, started):
            opened = time.perf_counter()
            tab.open(address)
            tab.wait(READY)
            since_address.append(time.perf_counter() - opened)
            since_command.append(time.perf_counter() - started)
            fetched.append(tab.fetched / 1e6)
    report("first table, s after the address", iter(since_address).__next__, "<= 3")
    report("first table, s after the command", iter(since_command).__next__)
    report("fetched, MB", iter(fetched).__next__, "< 30")
    with browsing() as tab, viewing(folder) as (address, _):
        tab.open(address)
        tab.wait(READY)
        measure_actions(tab, bounds=False)
        print(f"  {'heap, MB':<44} {measure_heap(tab):>9.1f}")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the page, a multiple of 10,000; 0: none")
    parser.add_argument("--view", type=int, default=1_000_000, help="rows of the server, likewise")
    parser.add_argument("--written", type=int, default=1_000_000, help="recorded rows whose page is written; 0: none")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="keeps the runs here (default: a temporary folder)")
    args = parser.parse_args()
    if args.write:
        write_page(args.write)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        for rows, bench in ((BASE, bench_page), (args.rows, bench_page), (args.view, bench_view)):
            run = folder / f"run-{rows}"
            if not (folder / f"run-{BASE}").exists():
                make_base(folder / f"run-{BASE}")
            if rows and not run.exists():
                repeat(folder / f"run-{BASE}", run, rows // BASE)
            if rows:
                bench(run, rows)
        if args.written:
            bench_written(folder, args.written)


if __name__ == "__main__":
    main()

"""Whole commands, start and tables included, each beside what one would use instead: a script, or another tool.

    python tests/benchmarks/bench_end_to_end.py [--only KIND ...] [--rounds N] [--workers N] [--scale SHARE]
        [--mlflow-python PATH] [--page FILE]

Each command is a process of its own, one after the other, in the opposite order in every other round:

- start: ten recorded rows, beside `import apache_beam`.
- recorded: 200,000 recorded rows of 1 kB with five trajectory metrics, JSON lines to Parquet, beside a Python script
  and pandas with the same scores; worker processes beside one process.
- memory: 1,000,000 of them, which a script would hold in memory, with evalbeam alone.
- calls: 40,000 calls of 50 ms at 256 in flight, and 10,000 of 1 s at 2,000, with two metrics, journal and tables,
  beside an asyncio script with the same scores and one file of JSON lines.
- tools: EvalTask of the Vertex AI SDK, MLflow and `adk eval`, with as many rows as they take in less than a minute;
  evalbeam has the same rows.

MLflow is taken from the interpreter of `--mlflow-python`, since it is no dependency of the tests:
`python -m venv .cache/mlflow && .cache/mlflow/bin/pip install mlflow`. A tool that is not installed is left out, and a
line says so.

Prints medians [least, most] of wall seconds, of CPU seconds of all processes and of the peak memory of the largest one,
rows per second of wall time, and how many times as fast a command is as others, which is paired in each round. On a
machine that does other work, the CPU seconds count. Checked: all commands find the same means. `--scale 0.1` makes a
tenth of the rows and calls, where the start weighs ten times as much and figures without it mean little. `--page` puts
all of it into a page, between `<!-- figures -->` and `<!-- end of figures -->`.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc
import pyarrow.dataset as ds
from bench_adk import write_cases
from bench_pipeline import measured, write_dataset
from end_to_end_peers import TEXT, TRAJECTORY

HERE = Path(__file__).resolve().parent
KINDS = ("start", "recorded", "memory", "calls", "tools")
FEW = 10
ROWS = 200_000
MORE_ROWS = 1_000_000
CALLS = ((40_000, 0.05, 256), (10_000, 1.0, 2_000))
"""(calls, seconds of each, in flight)."""
EVALTASK_ROWS, EVALTASK_CALLS = 10_000, 4_000
MLFLOW_ROWS, MLFLOW_CALLS = 200, 200
CASES, PAUSE = 200, 0.5
"""Cases of ADK, and seconds of each of the two calls of a model in a case: models are seldom faster."""
AGENT = """import asyncio
import time

async def ask(prompt):
    await asyncio.sleep(float(prompt.partition(" ")[0]))
    return "answer to " + prompt

def answer(prompt):
    time.sleep(float(prompt.partition(" ")[0]))
    return {"response": "answer to " + prompt}
"""
ADK_AGENT = f"""import sys

sys.path.insert(0, {str(HERE.parent / "transforms" / "agents")!r})
from adk_agents import dice_agent

root_agent = dice_agent({PAUSE}, thinks=False)
"""
CRITERIA = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}
TOOLS = {
    "EvalTask": ("google-cloud-aiplatform", "vertexai.preview.evaluation, vertexai.preview.reasoning_engines"),
    "MLflow": ("mlflow", "mlflow.genai, mlflow.store.tracking.sqlalchemy_store"),
    "adk eval": ("google-adk", "google.adk.cli.cli_tools_click, google.adk.evaluation.local_eval_service, rouge_score"),
}
"""(distribution, modules that it needs here)."""
_FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", flags=re.S)

Name = tuple[str, str]
"""(work, command)."""
Figures = dict[Name, tuple[float, float, float]]
"""(wall seconds, CPU seconds, peak MB) by command."""


@dataclass(frozen=True)
class Command:
    """A command of some work.

    Attributes:
        line: Program and arguments.
        table: What it writes: Parquet or JSON lines with a column for each metric. Without one, its exit code says
            that the scores are right.
        beside: Other commands of the work that it is compared with.
    """

    line: list[str]
    table: Path | None = None
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Work:
    """Commands that do the same work.

    Attributes:
        title: The work.
        rows: Number of rows.
        commands: The commands by name.
        metrics: Columns that must have the same means in all their tables.
        unit: What a row is, if evalbeam's cost of one is told: its start taken off. Tools have long starts of their
            own, so beside them it stays.
    """

    title: str
    rows: int
    commands: dict[str, Command]
    metrics: tuple[str, ...] = ()
    unit: str = ""


def _evalbeam(folder: Path, data: Path, metrics: list[str], *more: str, beside: tuple[str, ...]) -> Command:
    given = ["--dataset", str(data), "--metrics", ",".join(metrics), "--output", str(folder / "out"), "--overwrite"]
    line = [sys.executable, "-m", "evalbeam", "run", *given, *more]
    return Command(line, folder / "out" / "instances", beside)


def _peer(script: str, data: Path, output: Path, *more: object, python: str = sys.executable) -> Command:
    return Command([python, str(HERE / "end_to_end_peers.py"), script, str(data), str(output), *map(str, more)], output)


def start_work(folder: Path) -> Work:
    """Ten rows."""
    data = folder / "few.jsonl"
    write_dataset(FEW, data)
    beam = Command([sys.executable, "-c", "import apache_beam"])
    run = _evalbeam(folder, data, list(TRAJECTORY), "--workers", "1", beside=("import apache_beam",))
    return Work(f"{FEW} recorded rows", FEW, {"import apache_beam": beam, "evalbeam": run})


def recorded_work(folder: Path, rows: int, workers: int, peers: dict[str, str]) -> Work:
    """Recorded rows, by scripts, by one process and by several."""
    data = folder / f"recorded-{rows}.jsonl"
    write_dataset(rows, data)
    commands = {name: _peer(script, data, folder / f"{script}.parquet") for name, script in peers.items()}
    alone = _evalbeam(folder, data, list(TRAJECTORY), "--workers", "1", beside=tuple(peers))
    several = _evalbeam(folder, data, list(TRAJECTORY), "--workers", str(workers), beside=("evalbeam, one process",))
    commands |= {"evalbeam, one process": alone, f"evalbeam, {workers} workers": several}
    return Work(f"{rows:,} recorded rows of 1 kB", rows, commands, tuple(TRAJECTORY), "row")


def _write_calls(folder: Path, calls: int, seconds: float) -> Path:
    data = folder / f"calls-{calls}-{seconds:g}.jsonl"
    texts = (f"{seconds} s for question {i}" for i in range(calls))
    data.write_bytes(b"".join(orjson.dumps({"prompt": t, "reference": f"answer to {t}"}) + b"\n" for t in texts))
    return data


def _calling(folder: Path, data: Path, in_flight: int, beside: str) -> Command:
    settings = ["--agent", "naps:ask", "--set", f"agent.max_in_flight={in_flight}"]
    return _evalbeam(folder, data, list(TEXT), *settings, beside=(beside,))


def calls_work(folder: Path, calls: int, seconds: float, in_flight: int) -> Work:
    """Calls of an agent that is a coroutine function."""
    data = _write_calls(folder, calls, seconds)
    script = _peer("plain_calls", data, folder / "plain.jsonl", in_flight)
    commands = {"asyncio script": script, "evalbeam": _calling(folder, data, in_flight, "asyncio script")}
    title = f"{calls:,} calls of {seconds:g} s, {in_flight:,} in flight"
    return Work(title, calls, commands, tuple(TEXT), "call")


def tool_works(folder: Path, tool: str, python: str, scale: float) -> Iterator[Work]:
    """What a tool is given: recorded rows and calls, or cases of ADK."""
    if tool == "adk eval":
        yield adk_work(folder, _share(CASES, scale))
        return
    script, threads = tool.lower(), {"EvalTask": 100, "MLflow": 10}[tool]
    rows, calls = {"EvalTask": (EVALTASK_ROWS, EVALTASK_CALLS), "MLflow": (MLFLOW_ROWS, MLFLOW_CALLS)}[tool]
    rows, calls = _share(rows, scale), _share(calls, scale)
    data = folder / f"{script}.jsonl"
    write_dataset(rows, data)
    peer = _peer(f"{script}_rows", data, folder / f"{script}-rows.parquet", python=python)
    commands = {tool: peer, "evalbeam": _evalbeam(folder, data, list(TRAJECTORY), beside=(tool,))}
    yield Work(f"{rows:,} recorded rows of 1 kB, {tool}", rows, commands, tuple(TRAJECTORY))
    data, (_, seconds, in_flight) = _write_calls(folder, calls, CALLS[1][1]), CALLS[1]
    name = f"{tool}, {threads} threads"
    peer = _peer(f"{script}_calls", data, folder / f"{script}-calls.parquet", python=python)
    run = _calling(folder, data, in_flight, name)
    commands = {name: peer, f"evalbeam, up to {in_flight:,} in flight": run}
    yield Work(f"{calls:,} calls of {seconds:g} s, {tool}", calls, commands, tuple(TEXT))


def adk_work(folder: Path, cases: int) -> Work:
    """Cases of an agent of ADK: all of them pass, else both commands fail."""
    agent, path, criteria = folder / "dice", folder / "dice.evalset.json", folder / "test_config.json"
    agent.mkdir()
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(ADK_AGENT)
    criteria.write_bytes(orjson.dumps(CRITERIA))
    write_cases(str(path), cases)
    given = [str(agent), str(path), "--config_file_path", str(criteria)]
    run = [sys.executable, "-m", "evalbeam", "adk-eval", *given, "--output", str(folder / "out"), "--overwrite"]
    commands = {
        "adk eval": Command([sys.executable, "-m", "google.adk.cli", "eval", *given]),
        "evalbeam adk-eval": Command(run, beside=("adk eval",)),
    }
    return Work(f"{cases:,} cases of an ADK agent, two model calls of {PAUSE:g} s each", cases, commands)


def _share(count: int, scale: float) -> int:
    return max(FEW, round(count * scale))


def works(folder: Path, args: argparse.Namespace, tools: dict[str, str]) -> Iterator[Work]:
    """The work that was asked for."""
    scripts = {"Python script": "plain_rows", "pandas": "pandas_rows"}
    if "start" in args.only:
        yield start_work(folder)
    if "recorded" in args.only:
        yield recorded_work(folder, _share(ROWS, args.scale), args.workers, scripts)
    if "memory" in args.only:
        yield recorded_work(folder, _share(MORE_ROWS, args.scale), args.workers, {})
    if "calls" in args.only:
        for calls, seconds, in_flight in CALLS:
            yield calls_work(folder, _share(calls, args.scale), seconds, in_flight)
    for tool, python in tools.items():
        yield from tool_works(folder, tool, python, args.scale)


def find_tools(mlflow_python: str) -> tuple[dict[str, str], list[str]]:
    """(interpreter of each tool that is installed, its distribution and version, or what is missing, of all).

    It imports them, which also brings their bytecode into being before anything is measured.
    """
    found, said = {}, []
    for tool, (distribution, modules) in TOOLS.items():
        python = mlflow_python if tool == "MLflow" else sys.executable
        code = f"from importlib.metadata import version\nimport {modules}\nprint(version({distribution!r}))"
        try:
            done = subprocess.run([python, "-c", code], capture_output=True, text=True)
            wrong = done.stderr.strip().splitlines()[-1] if done.returncode else ""
        except OSError as error:
            wrong = str(error)
        if wrong:
            option = " (--mlflow-python)" if tool == "MLflow" else ""
            said.append(f"{tool} left out: {wrong}{option}")
            print(said[-1], file=sys.stderr)
        else:
            found[tool] = python
            said.append(f"{distribution} {done.stdout.split()[-1]}")
    return found, said


def measure(works: list[Work], rounds: int) -> list[Figures]:
    """The figures of each round; every other one goes through the commands backwards."""
    commands = [(work, name) for work in works for name in work.commands]
    found: list[Figures] = []
    means: dict[str, list[float]] = {}
    for i in range(rounds):
        figures: Figures = {}
        for work, name in commands[::-1] if i % 2 else commands:
            command = work.commands[name]
            figures[work.title, name] = measured(command.line)
            if command.table and work.metrics:
                own = column_means(command.table, work)
                other = means.setdefault(work.title, own)
                if any(abs(a - b) > 1e-9 for a, b in zip(own, other, strict=True)):
                    raise SystemExit(f"{work.title}: {name} has means {own}, another command {other}")
        found.append(figures)
    return found


def column_means(table: Path, work: Work) -> list[float]:
    """Mean of each metric of a table, whatever a tool calls its column."""
    found = ds.dataset(table, format="json" if table.suffix == ".jsonl" else "parquet")
    if found.count_rows() != work.rows:
        raise SystemExit(f"{work.title}: {found.count_rows()} rows in {table}, {work.rows} expected")
    columns = [
        next(column for column in (name, f"{name}/score", f"{name}/value") if column in found.schema.names)
        for name in work.metrics
    ]
    return [pc.mean(column).as_py() for column in found.to_table(columns).columns]


def lines(works: list[Work], rounds: list[Figures]) -> Iterator[str]:
    """The table, in Markdown, and below it what a row costs without evalbeam's start."""
    start = next(((work.title, "evalbeam") for work in works if "import apache_beam" in work.commands), None)
    yield "| command | wall, s | CPU, s | MB | rows/s | times as fast as |"
    yield "|---|---|---|---|---|---|"
    for work in works:
        yield f"| **{work.title}** | | | | | |"
        for name in work.commands:
            wall, cpu, peak = zip(*(found[work.title, name] for found in rounds), strict=True)
            rate = work.rows / statistics.median(wall)
            figures = [_spread(wall), _spread(cpu), f"{statistics.median(peak):,.0f}", f"{rate:,.{int(rate < 100)}f}"]
            yield "| " + " | ".join([name, *figures, "<br>".join(compare(work, name, rounds))]) + " |"
    measured = [work for work in works if start and work.unit]
    if measured:
        yield "\nWithout evalbeam's start, µs of processor time and times as fast:\n"
    for work in measured:
        yield f"- {work.title}"
        for name in work.commands:
            speeds = compare(work, name, rounds, start)
            yield f"    - {'; '.join([f'{name}: {_cost(work, name, rounds, start)} µs a {work.unit}', *speeds])}"


def compare(work: Work, name: str, rounds: list[Figures], start: Name | None = None) -> list[str]:
    """How many times as fast a command is as others, each with its start or without it."""
    return [
        f"{peer}: "
        + ", ".join(
            f"{kind} {_spread([_net(f, work, peer, start)[i] / _net(f, work, name, start)[i] for f in rounds])}"
            for i, kind in enumerate(("wall", "CPU"))
        )
        for peer in work.commands[name].beside
    ]


def _cost(work: Work, name: str, rounds: list[Figures], start: Name | None) -> str:
    return f"{statistics.median(_net(figures, work, name, start)[1] for figures in rounds) / work.rows * 1e6:.0f}"


def _net(figures: Figures, work: Work, name: str, start: Name | None) -> tuple[float, float]:
    """(wall, CPU) seconds of a command; those of evalbeam's start are taken off a command of evalbeam."""
    wall, cpu, _ = figures[work.title, name]
    if start is None or not name.startswith("evalbeam"):
        return wall, cpu
    return wall - figures[start][0], cpu - figures[start][1]


def _spread(values: Any) -> str:
    values = list(values)
    limits = f" [{min(values):.2f}, {max(values):.2f}]" if len(values) > 1 else ""
    return f"{statistics.median(values):.2f}{limits}"


def about(args: argparse.Namespace, tools: list[str], load: float) -> str:
    """Where and when the figures were measured, and with what; `load` was the machine's before the first command."""
    packages = ", ".join([f"{name} {version(name)}" for name in ("apache-beam", "pandas")] + tools)
    scale = "" if args.scale == 1 else f", `--scale {args.scale:g}`"
    return (
        f"Measured on {datetime.date.today():%-d %B %Y} on {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{args.rounds} round{'s' * (args.rounds > 1)}{scale}. Medians [least, most] of rounds.\n"
        f"Load of the machine before: {load:.1f}. {packages}."
    )


def write_page(page: Path, text: str) -> None:
    """Puts the figures into a page."""
    old = page.read_text()
    new, count = _FIGURES.subn(lambda _: f"\n{text}\n\n", old)
    if count != 1:
        raise SystemExit(f"{page}: {count} places of figures found, 1 expected")
    page.write_text(new)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--mlflow-python", default=sys.executable)
    parser.add_argument("--page", type=Path)
    return parser.parse_args()


def main() -> None:
    """Runs the rounds and prints their figures."""
    args, (load, _, _) = parse(), os.getloadavg()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode a start takes seconds more, of tools too
    tools, said = find_tools(args.mlflow_python) if "tools" in args.only else ({}, [])
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "naps.py").write_text(AGENT)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (made, os.environ.get("PYTHONPATH"))))
        found = list(works(folder, args, tools))
        subprocess.run([sys.executable, "-c", "import apache_beam"], check=True)  # from now on its files are in memory
        rounds = measure(found, args.rounds)
    text = "\n".join([about(args, said, load), "", *lines(found, rounds)])
    print(text)
    if args.page:
        write_page(args.page, text)


if __name__ == "__main__":
    main()

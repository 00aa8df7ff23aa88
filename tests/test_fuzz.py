"""2,000 broken configurations and dataset files through the command: never a traceback, always a message that helps."""

from __future__ import annotations

import copy
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from evalbeam.pipelines.cli.main import main

GOOD: dict[str, Any] = {
    "dataset": {"path": "rows.jsonl", "columns": {"score": "float64"}, "max_invalid_fraction": 0.5, "sample": 0.9},
    "agent": {"target": "fuzzed_agent:ask", "timeout": 5, "max_attempts": 2, "max_in_flight": 8},
    "metrics": [
        "exact_match",
        {"metric": "trajectory_recall", "name": "tools", "args": "ignore"},
        {"metric": "trajectory_single_tool_use", "tool_name": "find"},
        {"metric": "rouge", "rouge_type": "rougeL"},
        "fuzzed_agent:brief",
    ],
    "criteria": [{"metric": "exact_match", "min": 0.1}, {"metric": "tools", "statistic": "p95", "max": 1}],
    "slices": [["category"], ["category", "locale"]],
    "trials": 2,
    "statistics": {"ci": "auto", "confidence": 0.9},
    "output": {"path": "out", "format": "jsonl", "compression": "gzip", "shards": 2},
    "shards": 16,
}
ROWS = [
    {
        "prompt": f"question {i}",
        "response": f"answer {i % 3}",
        "reference": "answer 1",
        "predicted_trajectory": [{"tool_name": "find", "tool_input": {"id": i}}],
        "reference_trajectory": [{"tool_name": "find", "tool_input": {"id": i % 2}}],
        "category": "even" if i % 2 == 0 else None,
        "score": i / 4,
    }
    for i in range(8)
]
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 3, 10**30, -(10**30), 0.5, -0.5, 1e308, float("nan"), float("inf"), "", " ", "auto"),
    *("x", "x" * 5000, "exact_match", "fuzzed_agent:ask", "fuzzed_agent:", ":", "no.such:thing", "fuzzed_agent:broken"),
    *("\u202e\u0000\ud7ff", "日本語\n\x1b[31m", "../..", "%s{0}", "[", "*", "1e5", [], [[]], {}, {"a": {"b": []}}),
    *(
        [None],
        [1, "a"],
        {"metric": "exact_match"},
        {"1": 2},
        "2024-01-01",
        b"bytes",
        "~",
        "file:///nowhere",
        "nope://x",
    ),
]
AGENT = """
def ask(prompt):
    return {"response": "answer 1", "predicted_trajectory": [{"tool_name": "find", "tool_input": {}}]}

def brief(row):
    return float(len(row["response"]) < 20)

@property
def broken(self):
    raise RuntimeError("broken")
"""
MESSAGE = re.compile(r"evalbeam: error: \S")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fuzzed_agent.py").write_text(AGENT)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def checked(capsys: pytest.CaptureFixture[str], arguments: list[str], allowed: set[int], what: str) -> tuple[int, str]:
    """Exit code and messages of a command that must end in an orderly way."""
    code = main(arguments)
    out, err = capsys.readouterr()
    assert code in allowed, (what, code, err)
    for text in (out, err):
        assert "Traceback" not in text, what
        assert "internal error" not in text, (what, text)
    if code:
        assert MESSAGE.search(err), (what, code, err)
        assert all(len(line) < 3000 and line.isprintable() for line in err.splitlines()), (what, err)
    return code, err


# ------------------------------------------------------------------------------------------------ configurations


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value could be replaced, at any depth."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*prefix, step)
        yield from paths(inner, (*prefix, step))


def mutated(rng: random.Random) -> tuple[Any, tuple[Any, ...]]:
    """The good configuration with one thing replaced, removed, added or misspelt, and where."""
    config = copy.deepcopy(GOOD)
    path = rng.choice(list(paths(config)))
    at = config
    for step in path[:-1]:
        at = at[step]
    kind, last = rng.randrange(5), path[-1]
    if kind == 0 and isinstance(at, dict):
        misspelt = list(str(last))
        misspelt.insert(rng.randrange(len(misspelt) + 1), rng.choice("abcdefghijklmnopqrstuvwxyz_"))
        at["".join(misspelt)] = at.pop(last)
    elif kind == 1 and isinstance(at, dict):
        at[rng.choice(["unknown", "größe", "path ", "", "metric.s"])] = rng.choice(ODD)
    elif kind == 2:
        del at[last]
    else:
        at[last] = copy.deepcopy(rng.choice(ODD))
    return config, path


def garbled(rng: random.Random) -> bytes:
    """The good configuration as YAML with bytes of its text changed."""
    data = bytearray(yaml.safe_dump(GOOD).encode())
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randrange(1, 20)]
        elif kind == 2:
            data[at:at] = rng.choice(
                [b"\t", b": ", b"- ", b"{", b"]", b"&a ", b"*a", b"!!python/name:os.system ", b"'", b"\xff"]
            )
        else:
            data[at:at] = b"\n"
    return bytes(data)


WHOLE = [
    b"",
    b"null",
    b"[]",
    b"- a\n- b",
    b"just text",
    b"42",
    b"&a [*a]",
    b"&a {dataset: *a, metrics: *a}",
    b"dataset: &d {path: rows.jsonl, columns: *d}\nmetrics: [exact_match]",
    b"dataset: {path: rows.jsonl}\nmetrics: &m [exact_match, *m]",
    b"dataset: {path: rows.jsonl}\nmetrics: [&m {metric: exact_match, more: *m}]",
    b"[" * 5000,
    b"{a: " * 3000,
    b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 112)),
    b"metrics: &a [x,x,x,x,x,x,x,x,x]\nagent: &b {p: [*a,*a,*a,*a,*a,*a,*a,*a]}\noutput: [*b,*b,*b,*b,*b,*b,*b]",
    "dataset: {path: rows.jsonl}\nmetrics: [exact_match]\n".encode("utf-16"),
    b"\xef\xbb\xbfdataset: {path: nothing.jsonl}\nmetrics: [exact_match]\n",
    b"dataset: {path: rows.jsonl}\nmetrics: [exact_match]\ntrials: 2024-99-99",
    b"dataset: {path: rows.jsonl}\nmetrics: [exact_match]\ntrials: 1_0_0_0_0_0_0",
    b"dataset: {path: rows.jsonl}\nmetrics: [exact_match]\ntrials: " + b"9" * 5000,
    b"dataset: {path: rows.jsonl}\nmetrics: [exact_match]\n!!python/object/apply:os.system [true]: 1",
    b"--- a\n--- b",
    b"%YAML 9.9\n---\na: 1",
    b"? [a, b]\n: c",
    b"dataset: {path: rows.jsonl}\nmetrics: [exact_match]\n1: 2\n",
    b"dataset: {path: rows.jsonl}\nmetrics: [exact_match]\n? [a]\n: 2\n",
    b"\x00\x01\x02",
]


@pytest.mark.parametrize("batch", range(6))
def test_changed_values_and_keys(batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(f"values {batch}")
    refused = 0
    for _ in range(200):
        config, path = mutated(rng)
        text = yaml.safe_dump(config, allow_unicode=True)
        Path("eval.yaml").write_text(text, encoding="utf-8", errors="surrogatepass")
        code, err = checked(capsys, ["check", "eval.yaml"], {0, 2}, f"{path}: {text}")
        if code == 2:
            refused += 1
            assert re.search(r"error: (eval\.yaml|(dataset|agent|metrics|criteria|slices|output)[.:])", err), (
                path,
                err,
            )
            assert re.search(
                r"allowed: |did you mean |missing|cannot|failed|not valid YAML|needs the parameter", err
            ), (path, err)
    assert 60 < refused < 200


@pytest.mark.parametrize("batch", range(2))
def test_garbled_text(batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(f"text {batch}")
    for _ in range(150):
        data = garbled(rng)
        Path("eval.yaml").write_bytes(data)
        checked(capsys, ["check", "eval.yaml"], {0, 2}, repr(data))


@pytest.mark.parametrize("data", WHOLE, ids=lambda d: repr(d[:30]))
def test_whole_files_that_are_no_configuration(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    Path("eval.yaml").write_bytes(data)
    code, err = checked(capsys, ["check", "eval.yaml"], {2}, repr(data[:200]))
    assert code == 2
    assert re.search(r"eval\.yaml|dataset\.path|metrics\.\d", err)


def test_settings_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random("settings")
    keys = [".".join(map(str, p)) for p in paths(GOOD)] + [
        "",
        ".",
        "a..b",
        "metrics.x",
        "metrics.99.name",
        "trials.x",
        "größe",
    ]
    Path("eval.yaml").write_text(yaml.safe_dump(GOOD))
    for _ in range(200):
        key, value = rng.choice(keys), rng.choice(ODD)
        text = value if isinstance(value, str) else repr(value)
        flag = rng.choice(["--set", "--trials", "--limit", "--sample", "--format", "--metrics", "--agent", "--slices"])
        given = ["--set", f"{key}={text}"] if flag == "--set" else [f"{flag}={text}"]
        checked(capsys, ["check", "eval.yaml", *given], {0, 2}, repr(given))


# ------------------------------------------------------------------------------------------------------ datasets


def jsonl() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def csv() -> bytes:
    cells = [[str(row[c]) for c in ("prompt", "response", "reference", "category", "score")] for row in ROWS]
    return "\r\n".join(
        ",".join(row) for row in [["prompt", "response", "reference", "category", "score"], *cells]
    ).encode()


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), sink, row_group_size=3)
    return sink.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {"jsonl": jsonl, "csv": csv, "parquet": parquet}
BITS = [
    b"\n",
    b"\r",
    b"\x00",
    b"\xff",
    b'"',
    b"{",
    b"[" * 300,
    b"]",
    b",",
    b"\\ud800",
    b"1e999",
    b"NaN",
    b"\xef\xbb\xbf",
    b"'" * 9,
]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some of them changed, removed, repeated or cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 30])):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif kind == 1:
            del changed[at : at + rng.randrange(1, 60)]
        elif kind == 2:
            changed[at:at] = rng.choice(BITS)
        elif kind == 3:
            changed[at:at] = changed[at : at + rng.randrange(1, 200)]
        elif rng.random() < 0.3:
            del changed[at:]
    return bytes(changed)


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_datasets_are_checked(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(f"check {kind}")
    good = FORMATS[kind]()
    for i in range(80):
        data = damaged(good, rng)
        path = Path(f"d{i}.{kind}")
        path.write_bytes(data)
        given = [
            "check",
            "--dataset",
            str(path),
            "--metrics",
            "exact_match",
            "--set",
            "dataset.columns={score: float64}",
        ]
        code, err = checked(capsys, given, {0, 2}, repr(data))
        assert code == 0 or str(path) in err or "dataset.path" in err


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_datasets_run_to_an_end(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(f"run {kind}")
    good = FORMATS[kind]()
    for i in range(8):
        data = damaged(good, rng)
        path = Path(f"d{i}.{kind}")
        path.write_bytes(data)
        given = ["run", "--dataset", str(path), "--metrics", "exact_match,trajectory_recall", "--output", f"out{i}"]
        code, err = checked(capsys, [*given, "--format", rng.choice(list(FORMATS))], {0, 2, 3}, repr(data))
        assert code != 3 or "rows" in err, err


def test_random_bytes_are_no_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random("bytes")
    for i in range(60):
        path = Path(f"r{i}.{rng.choice([*FORMATS, 'jsonl.gz', 'jsonl.zst'])}")
        path.write_bytes(
            rng.choice([b"", b"PAR1", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"["]) + rng.randbytes(rng.randrange(200))
        )
        code, err = checked(capsys, ["check", "--dataset", str(path), "--metrics", "exact_match"], {0, 2}, path.name)
        assert code == 0 or str(path) in err or "dataset.path" in err

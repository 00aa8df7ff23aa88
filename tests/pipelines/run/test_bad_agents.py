"""A thousand rows and an agent that does all it can wrong: a thousand rows come out, every failure typed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter

import pandas as pd

AGENT = """
import threading

never = threading.Event()


class Odd:
    pass


def ask(prompt: str):
    kind, _, number = prompt.partition(" ")
    if kind == "raises":
        raise RuntimeError(f"cannot answer {number} at {object()}")
    if kind == "exits":
        raise SystemExit(3)
    if kind == "hangs":
        never.wait()
    if kind == "huge":
        return "x" * (10 << 20)
    if kind == "large":
        return "y" * (1 << 20)
    return {
        "none": None,
        "number": 7,
        "list": ["a"],
        "odd": Odd(),
        "empty": {},
        "binary": {"response": b"\\xff"},
        "trajectory": {"response": "ok", "predicted_trajectory": "not json"},
    }.get(kind, {"response": f"fine {number}", "predicted_trajectory": []})
"""

RUN = """
import sys

from evalbeam import evaluate

kinds, timeout = sys.argv[2].split(), float(sys.argv[3])
rows = [
    {"prompt": f"{kinds[i % len(kinds)]} {i}", "reference": f"fine {i}", "reference_trajectory": []}
    for i in range(1000)
]
policy = {"timeout": timeout, "max_attempts": 1, "max_in_flight": 64, "failure_threshold": None}
metrics = ["exact_match", "trajectory_exact_match", "tool_call_valid"]
evaluate(rows, metrics, "bad_agent:ask", output=sys.argv[1], agent=policy)
print("the run ended")
"""


def table_of(tmp_path, kinds, timeout):
    """The instances of a run of its own process, which has to end; each row's kind is in a column."""
    (tmp_path / "bad_agent.py").write_text(textwrap.dedent(AGENT))
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, "run.py", str(tmp_path / "out"), kinds, str(timeout)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.endswith("the run ended\n")
    table = pd.concat(pd.read_parquet(p) for p in sorted((tmp_path / "out/instances").iterdir()))
    assert len(table) == 1000
    table["kind"] = table["prompt"].str.partition(" ")[0]
    return table


def test_three_hundred_of_a_thousand_calls_that_never_end_hold_nothing_up(tmp_path):
    table = table_of(tmp_path, "hangs fine fine hangs fine fine hangs fine fine fine", timeout=4)
    failed = table[table["status"] == "failed"]
    assert (len(failed), set(failed["kind"]), set(failed["error_type"])) == (300, {"hangs"}, {"TimeoutError"})
    assert set(table[table["kind"] == "fine"]["status"]) == {"ok"}


def test_a_thousand_rows_and_an_agent_that_does_everything_wrong(tmp_path):
    table = table_of(
        tmp_path, "raises exits hangs huge large none number list odd empty binary trajectory fine", timeout=4
    )
    failed = table[table["status"] == "failed"].groupby("kind")["error_type"].agg(lambda e: sorted(set(e)))
    assert failed.to_dict() == {
        "raises": ["RuntimeError"],
        "exits": ["SystemExit"],
        "hangs": ["TimeoutError"],
        "huge": ["InvalidAnswer"],
        "none": ["InvalidAnswer"],
        "number": ["InvalidAnswer"],
        "list": ["InvalidAnswer"],
        "odd": ["InvalidAnswer"],
        "empty": ["InvalidAnswer"],
        "binary": ["InvalidAnswer"],
    }
    assert not table["error_message"].str.contains("0x").any()
    answered = table[table["status"] == "ok"]
    assert set(answered["kind"]) == {"large", "trajectory", "fine"}
    fine = answered[answered["kind"] == "fine"]
    assert (fine["exact_match/score"] == 1).all()
    assert (fine["trajectory_exact_match/score"] == 1).all()
    unread = answered[answered["kind"] == "trajectory"]
    assert (unread["trajectory_exact_match/status"] == "error").all()
    assert (answered[answered["kind"] == "large"]["response"].str.len() == 1 << 20).all()
    reasons = Counter(table[table["status"] == "failed"]["exact_match/error"].str.partition(":")[0])
    assert set(reasons) == {"agent_failed"}

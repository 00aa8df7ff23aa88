"""The worked example of CONTRIBUTING.md, run as it is printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
SCRIPT = """
import json, runpy
import evalbeam.transforms.metrics
evalbeam.transforms.metrics.__path__.append(".")
tests = [f for name, f in runpy.run_path("test_invented_values.py").items() if name.startswith("test_")]
for test in tests:
    test()

from evalbeam import evaluate
rows = [
    {"prompt": "light on in the hall", "response": "Done.", "predicted_trajectory": [["hall", "on"], ["attic", "off"]]},
    {"prompt": "light on in the hall", "response": "Done."},
]
for row in rows:
    if "predicted_trajectory" in row:
        row["predicted_trajectory"] = [
            {"tool_name": "set_light", "tool_input": {"room": room, "state": state}}
            for room, state in row["predicted_trajectory"]
        ]
metrics = ["invented_values", {"metric": "invented_values", "name": "invented_rooms", "ignore": ["state"]}]
table = evaluate(rows, metrics).metrics_table
from evalbeam.pipelines.cli.catalogue import overview
columns = ["invented_values/score", "invented_values/explanation", "invented_rooms/score", "invented_rooms/status"]
shown = json.loads(table[columns].to_json(orient="records"))
print(json.dumps({"tests": len(tests), "rows": shown, "listed": "invented_values" in overview(100)}))
"""


def example(name: str) -> str:
    """The block that stands under the comment naming its file."""
    return re.findall(rf"<!-- file: {re.escape(name)} -->\n```python\n(.*?)^```$", TEXT, flags=re.S | re.M)[0]


def test_the_example_is_one_file_that_adds_a_metric(tmp_path: Path) -> None:
    """In a process of its own, with the file in a folder that is made part of the metrics' folder."""
    for name in ("invented_values.py", "test_invented_values.py"):
        (tmp_path / name).write_text(example(name))
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["tests"], said["listed"]) == (1, True)
    assert sorted(said["rows"], key=lambda row: row["invented_rooms/status"]) == [
        {
            "invented_values/score": 0.5,
            "invented_values/explanation": "attic, off",
            "invented_rooms/score": 0.5,
            "invented_rooms/status": "scored",
        },
        {
            "invented_values/score": None,
            "invented_values/explanation": None,
            "invented_rooms/score": None,
            "invented_rooms/status": "skipped",
        },
    ]


def test_the_example_obeys_the_house(tmp_path: Path) -> None:
    for name in ("invented_values.py", "test_invented_values.py"):
        (tmp_path / name).write_text(example(name))
    command = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

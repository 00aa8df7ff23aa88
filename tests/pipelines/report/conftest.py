"""A run whose every text is hostile, and a real browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalbeam import EvaluationResult
from evalbeam.pipelines.cli.main import main

HOSTILE = (
    "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
    "<!--\u2028\u2029\x1b[31m\u202e'\"&amp;"
)
ROWS: list[dict[str, Any]] = [
    {
        "prompt": f"{HOSTILE if i == 3 else 'question'} {i}",
        "response": "yes" if i % 3 else HOSTILE,
        "reference": "yes" if i < 20 else None,
        "group": ["a", "b", HOSTILE, "日本語"][i % 4],
        f"column {HOSTILE}": HOSTILE,
        "failure": i % 7 == 6,
        "latency_in_seconds": i / 100,
        "reference_trajectory": [{"tool_name": "open", "tool_input": {HOSTILE: HOSTILE, "door": "front"}}],
        "predicted_trajectory": [
            {"tool_name": HOSTILE, "tool_input": {}},
            {"tool_name": "open", "tool_input": {"door": "back"}},
        ],
    }
    for i in range(24)
]


@pytest.fixture(scope="session")
def hostile() -> str:
    """A text that would change the title of the page if it were read as HTML."""
    return HOSTILE


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    """The dataset of the run."""
    return ROWS


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    """A run with failed calls, unusable rows, criteria, and slices, one of them by a column that no row has."""
    folder = tmp_path_factory.mktemp("report")
    lines = [json.dumps({k: v for k, v in row.items() if v is not None}) for row in ROWS]
    (folder / "rows.jsonl").write_text("\n".join([*lines, "{broken " + HOSTILE]))
    bounds = ["metric: exact_match, min: 0.9", "metric: rouge_l, max: 1.0"]
    bounds.append("metric: exact_match, min: 0.1, slice: {group: zzz}")
    criteria = "criteria=[" + ", ".join(f"{{{bound}}}" for bound in bounds) + "]"
    metrics = ["exact_match", "rouge_l", "trajectory_exact_match"]
    named = [*metrics, {"name": f"strict {HOSTILE}"[:60].replace("/", "|"), "metric": "exact_match"}]
    given = ["--dataset", str(folder / "rows.jsonl"), "--set", f"metrics={json.dumps(named)}", "--set", criteria]
    slices = json.dumps([["group"], ["nobody " + HOSTILE]])
    declared = json.dumps({"nobody " + HOSTILE: "string"})  # no row has it, so it would be refused as misspelt
    given += ["--set", f"dataset.columns={declared}"]
    assert main(["run", *given, "--set", f"slices={slices}", "--output", str(folder / "out")]) == 1
    return EvaluationResult.load(str(folder / "out"))


Browse = Callable[..., str]


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Returns a function that opens a page in a real browser and returns its document once scripts have run."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium is installed")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += f" --disable-component-update --disable-sync --user-data-dir={tmp_path / 'profile'} --dump-dom"

    def open_page(page: Path | str, fragment: str = "", dark: bool = False, size: int = 1400) -> str:
        options = [f"--blink-settings=preferredColorScheme={int(not dark)}", f"--window-size={size},900"]
        command = [browser, *flags.split(), *options, "--virtual-time-budget=20000", f"file://{page}{fragment}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    return open_page

"""The demo: its data is what it says, its agent errs where it says, and its tables are what its rows give."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam import EvaluationResult
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.demo import agent as demo_agent
from evalbeam.pipelines.demo.__main__ import FOLDER, build_arguments

LINES = (FOLDER / "rows.jsonl").read_text(encoding="utf-8").splitlines()


def is_request(line: str) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row, dict) and "prompt" in row


REQUESTS = [json.loads(line) for line in LINES if is_request(line)]


def ask(prompt: str) -> dict[str, Any]:
    return asyncio.run(demo_agent.answer(prompt))


def call(tool_name: str, **tool_input: Any) -> dict[str, Any]:
    return {"tool_name": tool_name, "tool_input": tool_input}


def test_the_data_is_varied() -> None:
    assert len(REQUESTS) == 215
    assert len(LINES) - len(REQUESTS) == 4
    assert len({row["prompt"] for row in REQUESTS}) == 213
    assert {row["locale"] for row in REQUESTS} == {"en-US", "en-GB", "de-DE", "pt-BR"}
    assert len({row["category"] for row in REQUESTS}) == 8
    assert {len(row.get("reference_trajectory", ())) for row in REQUESTS} >= {0, 1, 2}
    assert sum("reference" not in row for row in REQUESTS) > 10


@pytest.mark.parametrize(
    ("prompt", "response", "calls"),
    [
        ("Schalte das Licht im Flur ein.", "Flur: Licht an.", [call("set_light", room="hallway", state="on")]),
        (
            "Feche as persianas da sala.",
            "Sala: persianas em 0 por cento.",
            [call("set_blinds", room="living_room", position=0)],
        ),
        (
            "Lights off in the kitchen and the study",
            "Kitchen: light off.",
            [call("set_light", room="kitchen", state="off")],
        ),
        (
            "Lock the back door.",
            "Back door: locked.",
            [call("get_lock", door="back_door"), call("set_lock", door="back_door", locked=True)],
        ),
        (
            "Play jazz in the bath at volume 20, I mean the bathroom",
            "Bathroom: playing jazz.",
            [call("play_media", room="bathroom", playlist="jazz"), call("set_volume", room="bathroom", percent=20)],
        ),
        (
            "Heat the office to 70 degrees.",
            "Office: heating set to 70 degrees.",
            [call("set_temperature", room="office", celsius=70)],
        ),
        ("Dimme das Licht im Bad auf 50 Prozent.", "Bad: Licht an.", [call("set_light", room="bathroom", state="on")]),
        (
            "Deixe a sala 2 graus mais quente.",
            "Sala: aquecimento em 2 graus.",
            [call("set_temperature", room="living_room", celsius=2)],
        ),
        ("Sing!", "Sorry, what should I do?", []),
    ],
)
def test_the_agent_errs_where_its_docstring_says(prompt: str, response: str, calls: list[dict[str, Any]]) -> None:
    answer = ask(prompt)
    assert answer["predicted_trajectory"] == calls
    assert answer["response"] == response


def test_the_agent_breaks_down_in_the_garage() -> None:
    with pytest.raises(demo_agent.DeviceOffline, match="'garage' does not answer 'set_light'"):
        ask("Turn on the garage lights.")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    output = str(tmp_path_factory.mktemp("demo"))
    assert main(build_arguments(["--output", output])) == 0
    return EvaluationResult.load(output)


def test_the_demo_passes_and_its_tables_are_there(run: EvaluationResult) -> None:
    assert (run.state, run.verdict) == ("finished", "PASSED")
    assert all(criterion["verdict"] == "PASSED" for criterion in run.manifest["criteria"])
    assert (Path(run.output) / "report.html").stat().st_size > 0
    assert len(run.metrics_table) == 215
    assert {c for row in run.summary_table["slice"] for c in row} == {"category", "locale"}


def test_its_errors_name_lines_and_failed_calls(run: EvaluationResult) -> None:
    errors = run.errors_table
    rejected = errors[errors["source"] == "row"]
    assert sorted(rejected["line"]) == [n for n, line in enumerate(LINES, 1) if not is_request(line)]
    failed = errors[errors["source"] == "call"]
    garage = [row for row in REQUESTS if "garage" in str(row.get("reference_trajectory"))]
    assert len(failed) == len(garage) == 9
    assert set(failed["code"]) == {"DeviceOffline"}


def test_each_scripted_fault_is_one_failure_group_and_each_failing_row_in_one(run: EvaluationResult) -> None:
    found = run.failure_groups_table
    groups = {(r["code"], r["message"]): r["count"] for r in found.to_dict("records")}
    assert groups["DeviceOffline", "… does not answer …"] == 9
    assert groups["extra", "get_lock"] == 15
    assert groups["wrong_tool", "play_media instead of set_volume"] == 13
    assert groups["wrong_argument", "set_temperature(celsius)"] == 5
    assert groups["wrong_argument", "set_light(brightness)"] == 1
    assert groups["missing", "set_light"] == 8
    rows = run.metrics_table
    bounds = {"trajectory_exact_match": 0.6, "trajectory_recall": 0.8, "right_tools": 0.7, "exact_match": 0.6}
    failing = (rows["status"] == "failed") | (rows.filter(like="/status") == "error").any(axis=1)
    for name, bound in bounds.items():
        failing |= rows[f"{name}/score"] < bound
    assert found["count"].sum() == failing.sum() + 4


def test_its_figures_are_those_of_a_plain_loop_over_the_rows(run: EvaluationResult) -> None:
    exact, same, calls = [], [], 0
    for row in REQUESTS:
        try:
            answer = ask(row["prompt"])
        except demo_agent.DeviceOffline:
            continue
        calls += 1
        if "reference" in row:
            same.append(answer["response"] == row["reference"])
        if isinstance(row.get("reference_trajectory"), list):
            exact.append(answer["predicted_trajectory"] == row["reference_trajectory"])
    summary = run.summary_metrics
    assert summary["row_count"] == 215
    assert summary["exact_match/mean"] == pytest.approx(sum(same) / len(same))
    assert summary["trajectory_exact_match/mean"] == pytest.approx(sum(exact) / len(exact))
    assert summary["failure/mean"] == pytest.approx(1 - calls / 215)
    whole = run.summary_table[run.summary_table["slice"] == {}].set_index("metric")
    counts = whole.loc["trajectory_exact_match", ["scored_count", "error_count", "skipped_count"]]
    assert list(counts) == [len(exact), 1, 215 - len(exact) - 1]
    assert whole.loc["right_tools", "mean"] > whole.loc["trajectory_exact_match", "mean"]
    assert whole.loc["lenient_order", "mean"] > whole.loc["trajectory_in_order_match", "mean"]

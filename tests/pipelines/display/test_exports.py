"""What other programs read of a run, parsed by parsers of other people."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import junitparser
import pytest
from markdown_it import MarkdownIt

from evalbeam import EvaluationResult
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.display.exports import render_junit, render_markdown

HOSTILE = "<b>|]]>&\"'\x1b[31m*x*\n# y"
ROWS: list[dict[str, Any]] = [
    {
        "prompt": f"q {i}",
        "response": "yes" if i % 3 else HOSTILE,
        "reference": "yes",
        "group": HOSTILE if i % 2 else "a",
    }
    for i in range(12)
]
CRITERIA = """criteria=[
  {metric: exact_match, min: 0.5},
  {metric: exact_match, min: 0.9},
  {metric: rouge_l, max: 1.0, statistic: p95},
  {metric: exact_match, min: 0.1, slice: {group: zzz}}]"""


def run(folder: Path, *options: str) -> int:
    (folder / "rows.jsonl").write_text("\n".join([*map(json.dumps, ROWS), "{broken | <i>"]))
    given = ["--dataset", str(folder / "rows.jsonl"), "--metrics", "exact_match,rouge_l", "--slices", "group"]
    return main(["run", *given, "--output", str(folder / "out"), *options])


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    folder = tmp_path_factory.mktemp("exports")
    assert run(folder, "--set", CRITERIA) == 1
    return EvaluationResult.load(folder / "out")


def test_junit_has_a_case_for_the_run_and_for_each_criterion(result: EvaluationResult) -> None:
    suite = next(iter(junitparser.JUnitXml.fromstring(render_junit(result).encode())))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (5, 1, 1, 0)
    cases = {case.name: [(type(r).__name__, r.message) for r in case.result] for case in suite}
    reasons = [c["reason"] for c in result.manifest["criteria"]]
    assert list(cases.values()) == [[], [], [("Failure", reasons[1])], [], [("Error", reasons[3])]]
    assert list(cases)[1:] == [
        "exact_match mean >= 0.5",
        "exact_match mean >= 0.9",
        "rouge_l p95 <= 1",
        "exact_match mean >= 0.1 [group=zzz]",
    ]


def test_a_run_without_a_result_is_an_error_of_junit() -> None:
    manifest = {"state": "stopped", "reason": "no \x00 answer", "verdict": None, "counts": {"rows": 0, "rejected": 0}}
    stopped = EvaluationResult("out", {**manifest, "measured": {"seconds": 1.0}, "tables": {}})
    suite = next(iter(junitparser.JUnitXml.fromstring(render_junit(stopped).encode())))
    (case,) = suite
    assert suite.errors == 1
    assert [(r.type, r.message) for r in case.result] == [("RUN STOPPED", "no \N{REPLACEMENT CHARACTER} answer")]


def test_markdown_shows_values_as_text(result: EvaluationResult) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(render_markdown(result))
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "text_special", "softbreak"}, "no value became markup"
    assert not any(token.type == "html_block" for token in tokens)
    cells = [t.content for before, t in itertools.pairwise(tokens) if before.type == "td_open"]
    assert len(cells) == 4 * 3 + 4 * sum(not s for s in result.summary_table["slice"]) + 3 * len(
        result.failure_groups_table
    )
    heading = next(t.content for before, t in itertools.pairwise(tokens) if before.type == "heading_open")
    assert heading.startswith("FAILED 2/4 criteria: 12 rows, 1 unusable")


def test_json_is_the_whole_result(result: EvaluationResult, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", result.output, "--as", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["verdict"], shown["exit_code"], shown["counts"]["rows"]) == ("FAILED", 1, 12)
    means = {r["metric"]: r["mean"] for r in shown["summary"] if not r["slice"]}
    whole = [r for r in result.summary_table.to_dict("records") if not r["slice"]]
    assert {name: math.nan if mean is None else mean for name, mean in means.items()} == pytest.approx(
        {r["metric"]: r["mean"] for r in whole}, abs=0, nan_ok=True
    )
    assert [Path(path).exists() for path in shown["tables"]["instances"]] == [True]


def test_a_run_in_github_actions_leaves_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "summary.md"
    page.write_text("# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    assert run(tmp_path, "--as", "junit") == 0
    assert page.read_text().startswith("# before\n## RUN FINISHED: 12 rows, 1 unusable")
    assert len(list(next(iter(junitparser.JUnitXml.fromstring(capsys.readouterr().out.encode()))))) == 1
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "folder"))
    assert run(tmp_path, "--overwrite") == 0
    assert "the summary of the CI job could not be written" in capsys.readouterr().err

"""Criteria that an interval decides, and what shows them: the terminal, Markdown, JUnit, JSON and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import junitparser
import pytest
from statsmodels.stats.proportion import proportion_confint

from evalbeam import evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.display.exports import render_json, render_junit, render_markdown
from evalbeam.pipelines.display.run_text import render
from evalbeam.pipelines.report.page import write_report
from evalbeam.schemas.errors import ConfigError


def run(output: Path, right: int, rows: int, criterion: Any, **options: Any) -> Any:
    given = [
        {"prompt": str(i), "reference": "a", "response": "a" if i < right else "b", "side": "lr"[i % 2]}
        for i in range(rows)
    ]
    return evaluate(given, ["exact_match"], output=output, criteria={"exact_match": criterion}, **options)


@pytest.mark.parametrize(
    ("right", "rows", "verdict", "code"),
    [(2, 2, "INCONCLUSIVE", 4), (60, 60, "PASSED", 0), (56, 60, "INCONCLUSIVE", 4), (40, 60, "FAILED", 1)],
)
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_interval_of_the_criterion_decides(
    tmp_path: Path, right: int, rows: int, verdict: str, code: int, level: float
) -> None:
    """The interval is Wilson's by statsmodels, at the criterion's level, beside that of the summary."""
    found = run(tmp_path / "out", right, rows, {"min": 0.9, "confidence": level}, slices=["side"])
    low, high = proportion_confint(right, rows, 1 - level, method="wilson")
    judged = found.manifest["criteria"][0]
    assert (judged["low"], judged["high"]) == pytest.approx((low, high), abs=1e-12)
    assert (
        judged["verdict"] == found.verdict == ("PASSED" if low >= 0.9 else "FAILED" if high < 0.9 else "INCONCLUSIVE")
    )
    row = found.summary_table.set_index("metric").loc["exact_match"].iloc[0]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(proportion_confint(right, rows, method="wilson"), abs=1e-12)
    if level == 0.95:
        assert (found.verdict, found.exit_code) == (verdict, code)


def test_every_form_shows_an_inconclusive_criterion(tmp_path: Path) -> None:
    found = run(tmp_path / "out", 2, 2, {"min": 0.9, "confidence": 0.95})
    why = "mean 1.0: 0.3424 … 1 at 95 % is on both sides of a bound (2 of 2 rows scored)"
    text = render(found, width=200)
    assert text.startswith("INCONCLUSIVE 0/1 criteria")
    assert f"  INCONCLUSIVE  exact_match: {why}" in text
    assert why in render_markdown(found)
    [suite] = junitparser.JUnitXml.fromstring(render_junit(found).encode())
    [problem] = next(case for case in suite if case.classname == "evalbeam.criteria").result
    assert (problem.type, problem.message, suite.errors, suite.failures) == ("INCONCLUSIVE", why, 1, 0)
    exported = json.loads(render_json(found))
    assert (exported["verdict"], exported["exit_code"]) == ("INCONCLUSIVE", 4)
    assert {"decided_by": "interval", "confidence": 0.95}.items() <= exported["criteria"][0].items()
    page = Path(write_report(found)).read_text("utf-8")
    assert 'class="verdict INCONCLUSIVE"' in page
    assert why in page


def test_a_verdict_of_few_rows_says_that_they_do_not_show_it(tmp_path: Path) -> None:
    found = run(tmp_path / "few", 2, 2, 0.9)
    note = "0.3424 … 1 at 95 %: n too small to show this"
    assert (found.verdict, found.exit_code) == ("PASSED", 0)
    assert f"  PASSED  exact_match: mean 1, at least 0.9; {note}" in render(found, width=200)
    assert note in render_markdown(found)
    assert note in Path(write_report(found)).read_text("utf-8")
    many = run(tmp_path / "many", 60, 60, 0.9)
    assert "n too small" not in render(many, whole=True)
    assert "exact_match: mean 1, at least 0.9" not in render(many)


def test_the_command_ends_with_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"prompt": "a", "reference": "a", "response": "a"}\n')
    config = {
        "dataset": {"path": "rows.jsonl"},
        "metrics": ["exact_match"],
        "criteria": [{"metric": "exact_match", "min": 0.5, "confidence": 0.95}],
        "output": {"path": "out"},
    }
    Path("eval.yaml").write_text(json.dumps(config))
    assert main(["run", "eval.yaml"]) == 4
    assert "INCONCLUSIVE 0/1 criteria" in capsys.readouterr().out


def test_a_followed_metric_has_one_confidence(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "reference": "a"}]
    rule = {"metric": "exact_match", "threshold": 0.5}
    with pytest.raises(ConfigError, match=r"criteria.0.confidence: found 0.9, but statistics.sequential follows"):
        evaluate(
            rows,
            ["exact_match"],
            lambda prompt: "a",
            output=tmp_path / "out",
            criteria=[{"metric": "exact_match", "min": 0.5, "confidence": 0.9}],
            statistics={"sequential": rule},
        )

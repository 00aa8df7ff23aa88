"""The summary on a terminal: right numbers, nothing that a dataset's text could break."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evalbeam import EvaluationResult, compare, evaluate
from evalbeam.pipelines.cli.catalogue import overview
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.display import differences, digest, run_text, terminal
from evalbeam.pipelines.display.row_text import render_row
from evalbeam.pipelines.display.run_text import render
from evalbeam.pipelines.display.terminal import columns_of, cut, plain, table
from evalbeam.pipelines.drawing.words import number
from evalbeam.pipelines.report.page import render_page
from evalbeam.pipelines.run import tables

HOSTILE = (
    "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">\x1b[31m\u202e'\"&amp;"
)
ROWS: list[dict[str, Any]] = [
    {
        "prompt": f"{HOSTILE if i == 3 else 'question'} {i}",
        "response": "yes" if i % 3 else HOSTILE,
        "reference": "yes" if i < 20 else None,
        "group": ["a", "b", HOSTILE, "日本語"][i % 4],
        "failure": i % 7 == 6,
        "latency_in_seconds": i / 100,
    }
    for i in range(24)
]


def run(folder: Path, *options: str) -> EvaluationResult:
    lines = [json.dumps({k: v for k, v in row.items() if v is not None}) for row in ROWS]
    (folder / "rows.jsonl").write_text("\n".join([*lines, "{broken " + HOSTILE]))
    given = ["--dataset", str(folder / "rows.jsonl"), "--metrics", "exact_match,rouge_l", "--slices", "group"]
    assert main(["run", *given, "--output", str(folder / "out"), *options]) in (0, 1)
    return EvaluationResult.load(str(folder / "out"))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    bounds = ["metric: exact_match, min: 0.9", "metric: rouge_l, max: 1.0"]
    bounds.append("metric: exact_match, min: 0.1, slice: {group: zzz}")
    criteria = "criteria=[" + ", ".join(f"{{{bound}}}" for bound in bounds) + "]"
    return run(tmp_path_factory.mktemp("report"), "--set", criteria)


# ------------------------------------------------------------------------------------------------------ terminal


def test_means_stand_beside_their_counts(result: EvaluationResult) -> None:
    rows = [r for r in ROWS if not r["failure"]]
    scored = [r for r in rows if r["reference"]]
    mean = sum(r["response"] == "yes" for r in scored) / len(scored)
    line = next(line for line in render(result).splitlines() if line.startswith("exact_match "))
    name, shown, *others = line.split()
    assert (name, shown) == ("exact_match", f"{mean:.3f}")
    assert f"{len(scored)}/24" in others


def test_the_whole_summary(result: EvaluationResult) -> None:
    text = render(result, 120, whole=True)
    assert text.startswith("FAILED 1/3 criteria · 24 rows · 1 unusable · 3 calls failed · ")
    assert "  agent_failed 3, missing_reference 3: exact_match, rouge_l\n" in text
    assert re.search(r"FAILED +exact_match: mean 0\.\d+ is below 0\.9 \(18 of 24 rows scored\)", text)
    assert re.search(r"PASSED +rouge_l: mean 0\.\d+, at most 1", text)
    assert re.search(r"NOT_EVALUATED +exact_match \[group=zzz\]: ", text)
    for name in ("instances", "summary.parquet", "errors.parquet", "report.html"):
        assert name in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "nan" not in text.lower()


def test_the_largest_failure_groups_are_shown_with_a_row_of_each(result: EvaluationResult) -> None:
    lines = render(result, 200, whole=True).splitlines()
    shown = lines[lines.index(terminal.GROUPS) + 1 :]
    groups = result.failure_groups_table
    assert (groups["count"].diff().dropna() <= 0).all()
    for line, (_, row) in zip(shown, groups.iterrows(), strict=False):
        assert line.split()[0] == str(row["count"])
        assert line.endswith(f"first {row['examples'][0]}")
    assert re.search(r"1  malformed_json: .+, first .*/rows\.jsonl:25$", "\n".join(shown), flags=re.M)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_slices_fit_the_terminal(result: EvaluationResult, width: int) -> None:
    lines = render(result, width, whole=True).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("By group"))
    block = lines[start + 1 : lines.index("", start)]
    assert all(columns_of(line) <= max(width, 60) for line in block)
    shown = re.findall(r"[\d.]{5}  \d+/\d+|–  \d+/\d+", "\n".join(block))
    assert len(shown) == 4 * 4  # four groups, four metrics


def test_an_empty_value_of_a_slice_is_seen(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "response": "b", **more} for more in ({"group": ""}, {"group": " "}, {})]
    result = evaluate(rows, ["failure"], slices=[["group"]], output=str(tmp_path))
    lines = render(result, whole=True).splitlines()
    assert lines[lines.index("By group: mean, rows scored / rows") + 1].split() == ["–", '""']


def test_many_slices_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_text, "MOST_SLICES", 5)
    text = render(run(tmp_path, "--set", "slices=[prompt]"), 100, whole=True)
    assert len(re.findall(r"question \d+|<script>\S*…", text)) == 5
    assert "… and 19 more in the summary table" in text


def test_a_slice_by_a_column_of_no_row_is_told(tmp_path: Path) -> None:
    name = json.dumps("x" + HOSTILE)
    declared = f"dataset.columns={{grup: string, {name}: string}}"
    result = run(tmp_path, "--set", f"slices=[[group], [grup], [group, {name}]]", "--set", declared)
    columns = ("grup", "x" + HOSTILE)
    words = [plain(f"No row has a value in the column {column!r}.") for column in columns]
    for whole in (False, True):
        assert re.findall(r"No row has .*", render(result, whole=whole)) == words
    page = render_page(result)
    assert page.count("No row has a value in the column") == 2
    assert not re.search("[\x00-\x08\x1b\u202e]", page)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(None, "–"), (0, "0.000"), (1.0, "1.000"), (0.12345, "0.123"), (-2, "-2.000"), (0.00012, "0.00012")],
        *[(12345.6, "12,346"), (1e12, "1e+12"), (9999.9, "9999.900")],
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def test_nothing_is_wider_than_a_terminal_of_80_columns(result: EvaluationResult, tmp_path: Path) -> None:
    other = run(tmp_path)
    row = render_row(result, result.metrics_table["instance_id"].iloc[6], 80)  # whose values are shown whole
    shown = [
        overview(80),
        row[row.index("without a value: ") :],
        differences.render(compare(result.output, other.output), 80).partition("\n\n")[2],
    ]
    for text in shown:
        assert [line for line in text.splitlines() if columns_of(line) > 80] == []
    assert "exact_match\n      response, reference  0 or 1\n" in shown[0]
    assert "Without a margin only a gain passes;" in shown[2]


def test_tables_are_aligned_and_cut() -> None:
    rows = [["日本" * 20, "1", "x" * 9], ["b", "22", ""]]
    lines = table([("Name", False), ("N", True), ("Extra", True)], rows, 40)
    assert lines[1:] == ["日本" * 6 + "…   1  xxxxxxxxx", "b" + " " * 26 + "22"]
    narrow = table([("Name", False), ("N", True), ("Extra", True)], [["a" * 50, "1", "x" * 30]], 30, ["Extra"])
    assert narrow == ["Name" + " " * 23 + "  N", "a" * 26 + "…  1"]
    assert cut("日本語日本語", 5) == "日本…"
    assert plain("a\x1b[2J\tb\u202e\n") == "a�[2J b� "
    assert plain("می\u200cخواهم") == "می\u200cخواهم"
    assert columns_of("می\u200cخواهم") == 7
    assert columns_of("ที่นี่ e\u0301") == 4


def test_the_calls_of_agent_and_judges_stand_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "hello"}\n{"prompt": "good morning"}\n')
    demo = "evalbeam.pipelines.demo"
    parts = [
        "--agent",
        f"{demo}.agent:answer",
        "--set",
        f"judges.default={{type: function, target: '{demo}.judge:fake'}}",
    ]
    rest = ["--metrics", "fluency", "--output", str(tmp_path / "out")]
    assert main(["run", "--dataset", str(tmp_path / "rows.jsonl"), *parts, *rest]) == 0
    capsys.readouterr()
    assert main(["journal", str(tmp_path / "out")]) == 0
    found = re.findall(r"^(\w+)\ncalls +(\d+)$", capsys.readouterr().out, re.M)
    assert found == [("agent", "2"), ("judges", "1")]  # both are answered alike


# ------------------------------------------------------------------------------------------------- what is read


@pytest.mark.parametrize(
    "options", [["--format", "jsonl"], ["--format", "csv"], ["--format", "csv", "--set", "output.compression=gzip"]]
)
def test_the_digest_of_every_format_is_the_same(result: EvaluationResult, options: list[str], tmp_path: Path) -> None:
    other = run(tmp_path, *options)
    summary, again = tables.summary_rows(result), tables.summary_rows(other)
    drop = {"verdict", "threshold", "pass_rate"}  # the other run has no criteria
    assert [{k: v for k, v in r.items() if k not in drop} for r in again] == [
        {k: v for k, v in r.items() if k not in drop} for r in summary
    ]
    assert digest.count_reasons(other, again) == digest.count_reasons(result, summary)
    errors, others = ([{**r, "file": None} for r in tables.rows_of(x, "errors")] for x in (result, other))
    assert others == errors


def test_reasons_and_summary_agree_with_the_tables(result: EvaluationResult) -> None:
    found = dict(digest.count_reasons(result, tables.summary_rows(result))["exact_match"])
    errors = result.metrics_table["exact_match/error"].dropna().str.partition(":")[0]
    assert found == errors.value_counts().to_dict()
    assert len(tables.summary_rows(result)) == len(result.summary_table)


def failing(result: EvaluationResult) -> list[tuple[tables.Row, list[digest.Fault]]]:
    """The rows with faults, each with them."""
    find = digest.make_fault_finder(result, tables.summary_rows(result))
    return [(row, why) for row in tables.rows_of(result, "instances") if (why := find(row))]


def test_failing_rows_are_those_below_their_threshold(result: EvaluationResult) -> None:
    table: pd.DataFrame = result.metrics_table
    expected = table[(table["status"] != "ok") | (table["exact_match/score"] < 0.9)]["instance_id"]
    assert [row["instance_id"] for row, _ in failing(result)] == list(expected)


def judge(messages: Any, schema: Any) -> dict[str, str]:
    if "breaks" in str(messages):
        raise ValueError("cannot judge")
    return {"choice": "A", "explanation": "better"}


@pytest.mark.parametrize(("bound", "seen"), [(0.9, "within bounds"), (1.0, "below 1.0")])
def test_a_run_that_was_stopped_has_not_passed(bound: float, seen: str, tmp_path: Path) -> None:
    """Four rows and four calls, the first of which is in vain: a row is left, whose score may turn the mean."""
    calls: list[str] = []

    def ask(prompt: str) -> str:
        calls.append(prompt)
        if len(calls) == 1:
            raise ConnectionError
        return "yes" if bound < 1 else prompt

    rows = [{"prompt": f"p{i}", "reference": "yes"} for i in range(4)]
    options: dict[str, Any] = {"agent": {"max_in_flight": 1, "backoff": 0.01}, "budget": {"max_calls": 4}}
    result = evaluate(rows, ["exact_match"], ask, criteria={"exact_match": bound}, output=tmp_path / "out", **options)
    assert (result.state, result.exit_code, result.verdict) == ("stopped", 3, "NOT_EVALUATED")
    (judged,) = result.manifest["criteria"]
    assert (judged["verdict"], judged["observed"]) == ("NOT_EVALUATED", 1.0 if bound < 1 else 0.0)
    assert seen in judged["reason"]
    assert "(3 of 4 rows scored), but the run was stopped" in judged["reason"]
    assert set(result.summary_table["verdict"].dropna()) == {"NOT_EVALUATED"}
    shown = render(result)
    assert shown.startswith("RUN STOPPED · 4 rows")
    assert f"NOT_EVALUATED exact_match: {judged['reason']}" in re.sub(r"\s+", " ", shown)
    page = re.sub("<(style|script).*?</\\1>", "", render_page(result), flags=re.S)
    assert page.count('class="verdict NOT_EVALUATED"') == 3
    for text in (shown, page):
        assert not re.search("PASSED|FAILED", text)


def test_comparisons_say_why_they_have_no_verdict() -> None:
    row = {"prompt": "ask", "response": "yes", "baseline_model_response": "no"}
    rows = [row, {**row, "response": "breaks"}, {k: v for k, v in row.items() if k != "baseline_model_response"}]
    compared = evaluate(rows, ["template/pairwise_fluency"], judges={"default": {"target": judge, "max_attempts": 1}})
    reasons = digest.count_reasons(compared, tables.summary_rows(compared))
    assert reasons == {"template/pairwise_fluency": [("judge_failed", 1), ("missing_baseline_model_response", 1)]}
    assert "judge_failed 1, missing_baseline_model_response 1: template/pairwise_fluency" in render(compared)
    ((_, (why,)),) = failing(compared)
    assert why.group == "template/pairwise_fluency: judge_failed"
    assert "ValueError: cannot judge" in why.text


def test_without_criteria_the_worst_scores_fail(tmp_path: Path) -> None:
    found = run(tmp_path)
    table: pd.DataFrame = found.metrics_table
    worst = (table["exact_match/score"] == 0) | (table["rouge_l/score"] == 0)
    assert [row["instance_id"] for row, _ in failing(found)] == list(
        table[(table["status"] != "ok") | worst]["instance_id"]
    )

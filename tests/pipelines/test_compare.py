"""Two runs compared: real runs, read back from each format."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from evalbeam import ConfigError, EvaluationResult, compare, evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.compare import changes
from evalbeam.pipelines.display.console import width
from evalbeam.pipelines.display.differences import render
from evalbeam.schemas import tables

ROWS = [{"prompt": f"p{i}", "reference": "yes", "locale": "de" if i % 3 else "en"} for i in range(60)]


def recorded(rows: list[dict[str, Any]], answers: Callable[[int], str | None]) -> list[dict[str, Any]]:
    """The rows with recorded answers; `None` is a failed call."""
    said = [answers(i) for i in range(len(rows))]
    return [{**row, "response": text, "failure": text is None} for row, text in zip(rows, said, strict=True)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A run that answers 40 of 60 rows well, and a worse one that is tried on other rows, too."""
    folder = tmp_path_factory.mktemp("runs")
    before, after = str(folder / "before"), str(folder / "after")
    evaluate(recorded(ROWS, lambda i: "yes" if i < 40 else "no"), ["exact_match", "rouge_l", "bleu"], output=before)
    later = [{"prompt": "new", "reference": "yes", "locale": "de"}, *ROWS[1:]]
    answers = recorded(later, lambda i: None if i == 5 else "yes" if 20 <= i < 45 else "no")
    evaluate(answers, ["exact_match", "rouge_l"], output=after, output_options={"shards": 4})
    return before, after


def test_differences_are_those_of_the_rows_that_both_runs_scored(runs: tuple[str, str]) -> None:
    found = compare(*runs, slices=[["locale"]])
    assert (found.only_before, found.only_after, found.exit_code) == (1, 1, 4)
    whole = {d.metric: d for d in found.differences if not d.slice}
    assert list(whole) == ["latency_in_seconds", "failure", "exact_match", "rouge_l"]
    exact = whole["exact_match"]
    assert (exact.instances, exact.pairs, exact.lost, exact.gained) == (59, 58, 1, 0)
    assert (exact.better, exact.worse, exact.newly_failing, exact.fixed) == (5, 18, 18, 5)
    assert (exact.p, exact.family, exact.verdict) == (pytest.approx(0.010622, abs=1e-6), 9, "INCONCLUSIVE")
    assert (whole["latency_in_seconds"].pairs, whole["latency_in_seconds"].family) == (0, 0)
    assert (whole["failure"].worse, whole["failure"].verdict) == (1, "INCONCLUSIVE")
    by_locale = {dict(d.slice)["locale"]: d for d in found.differences if d.slice and d.metric == "exact_match"}
    assert list(by_locale) == ["de", "en"]
    assert [sum(getattr(d, name) for d in by_locale.values()) for name in ("pairs", "better", "worse")] == [58, 5, 18]
    assert list(found.table.columns) == [c.name for c in tables.COMPARISON] == list(found.rows[0])
    assert any("bleu" in note for note in found.notes)


def test_the_numbers_are_those_of_the_tables_joined(runs: tuple[str, str]) -> None:
    old, new = (EvaluationResult.load(run).metrics_table.set_index("instance_id") for run in runs)
    joined = old.add_suffix(" before").join(new.add_suffix(" after"), how="inner")
    for one in compare(*runs).differences:
        column = one.metric if one.metric in ("latency_in_seconds", "failure") else f"{one.metric}/score"
        pairs = joined[[f"{column} before", f"{column} after"]].dropna()
        assert (one.instances, one.pairs) == (len(joined), len(pairs))
        if len(pairs):
            assert (one.before, one.after) == pytest.approx(tuple(pairs.mean()))


def test_the_other_way_round_it_is_better(runs: tuple[str, str]) -> None:
    found = compare(*runs[::-1], metrics=["exact_match"])
    assert [(d.metric, d.verdict) for d in found.differences] == [("exact_match", "BETTER")]
    assert found.exit_code == 0


def test_a_margin_allows_a_loss(runs: tuple[str, str]) -> None:
    assert compare(*runs, metrics=["exact_match"]).exit_code == 1
    assert compare(*runs, margins={"exact_match": 0.5, "rouge_l": 0.5}, margin=0.5).exit_code == 0
    assert compare(*runs, margin=0.5).exit_code == 0
    assert compare(*runs, metrics=["exact_match"], margin=0.5, margins={"exact_match": 0.0}).exit_code == 1
    assert compare(*runs, metrics=["exact_match"], margins={"exact_match": 0.2}).exit_code == 4


def test_a_named_metric_that_cannot_be_compared_does_not_pass(runs: tuple[str, str]) -> None:
    found = compare(*runs, metrics=["failure", "latency_in_seconds"], margin=0.2)
    assert [d.verdict for d in found.differences] == ["INCONCLUSIVE", "NO_WORSE"]
    assert found.exit_code == 4
    assert compare(*runs, metrics=["failure"], margin=0.2).exit_code == 0


@pytest.mark.parametrize(
    "form", [{"format": "jsonl"}, {"format": "csv"}, {"column_style": "databricks"}, {"column_style": "mlflow3"}]
)
def test_every_form_of_a_table_gives_the_same(runs: tuple[str, str], tmp_path: Path, form: dict[str, str]) -> None:
    rows = recorded(ROWS, lambda i: "yes" if i < 40 else "no")
    other = str(tmp_path / "other")
    evaluate(rows, ["exact_match", "rouge_l", "bleu"], output=other, output_options=form)
    assert compare(other, runs[1]).differences == compare(*runs).differences
    assert {d.verdict for d in compare(other, runs[0]).differences} == {"INCONCLUSIVE"}


def test_trials_of_an_instance_are_averaged(tmp_path: Path) -> None:
    def ask(prompt: str) -> str:
        return "yes"

    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    evaluate(ROWS[:6], ["exact_match"], ask, output=before, trials=3)
    evaluate(recorded(ROWS[:6], lambda i: "yes" if i else "no"), ["exact_match"], output=after)
    (found,) = compare(before, after, metrics=["exact_match"]).differences
    assert (found.pairs, found.before, found.after, found.worse) == (6, 1.0, pytest.approx(5 / 6), 1)


def test_a_measured_metric_decides_only_where_it_is_named(tmp_path: Path) -> None:
    paths = []
    for name, seconds in (("before", 0.1), ("after", 0.2)):
        timed = [{**row, "response": "yes", "latency_in_seconds": seconds + i / 1e4} for i, row in enumerate(ROWS)]
        paths.append(str(tmp_path / name))
        evaluate(timed, ["exact_match"], output=paths[-1])
    found = compare(*paths)
    assert {d.metric: d.verdict for d in found.differences}["latency_in_seconds"] == "WORSE"
    assert "latency_in_seconds" not in found.deciding
    assert compare(*paths, margin=0.2, margins={"latency_in_seconds": 0.05}).exit_code == 1
    assert compare(*paths, margin=0.2, margins={"latency_in_seconds": 0.15}).exit_code == 0


def test_where_the_best_score_lies_within_distances_are_compared(tmp_path: Path) -> None:
    def judge(rating: int) -> Any:
        return lambda messages, schema: {"explanation": "so", "score": rating}

    paths = [str(tmp_path / name) for name in ("long", "short")]
    for path, rating in zip(paths, (2, -1), strict=True):
        rows = [{"prompt": f"p{i}", "instruction": "i", "context": f"c{i}", "response": "r"} for i in range(8)]
        named = {"metric": "summarization_verbosity"}
        evaluate(rows, [named], output=path, judges={"default": judge(rating)})
    (found,) = compare(*paths, metrics=["summarization_verbosity"]).differences
    assert (found.before, found.after, found.gain, found.verdict) == (2.0, 1.0, 1.0, "BETTER")


def test_what_else_differs_is_said(runs: tuple[str, str], tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    metrics = ["exact_match", {"metric": "rouge_l", "use_stemmer": True}]
    evaluate(recorded(ROWS, lambda i: "yes"), metrics, output=other)
    assert "rouge_l is configured differently" in compare(runs[0], other).notes
    assert not any("exact_match" in note for note in compare(runs[0], other).notes)


def test_changed_scores_in_a_file(runs: tuple[str, str], tmp_path: Path) -> None:
    found = list(changes(*runs, metrics=["exact_match"]))
    assert len(found) == 24
    assert [row["instance_id"] for row in found] == sorted(row["instance_id"] for row in found)
    for ending, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet), ("jsonl", pd.read_json)):
        path = tmp_path / f"changed.{ending}"
        options = ["--metrics", "exact_match", "--changes", str(path)]
        assert main(["compare", *runs, *options]) == 1
        more: dict[str, Any] = {"lines": True} if ending == "jsonl" else {}
        table = read(path, **more)
        assert [*table.columns] == ["instance_id", "metric", "before", "after"]
        assert table["instance_id"].tolist() == [row["instance_id"] for row in found]
        assert table["after"].isna().sum() == 1


def test_the_command_shows_what_changed(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *runs, "--slices", "locale", "--metrics", "exact_match", "--confidence", "0.9"]) == 1
    shown = capsys.readouterr().out
    assert "59 instances in both, 1 only before, 1 only after" in shown
    assert "a family of 3 (metrics that decide × slices)" in shown
    assert "locale=en" in shown
    assert "WORSE" in shown
    assert "Gate: FAILED" in shown
    assert main(["compare", *runs, "--margin", "0.5"]) == 0
    shown = capsys.readouterr().out
    assert "WORSE" not in shown
    assert "Gate: PASSED" in shown


def test_the_comparison_as_a_table(runs: tuple[str, str], tmp_path: Path) -> None:
    found = compare(*runs, slices=["locale"])
    for ending, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        path = tmp_path / f"comparison.{ending}"
        assert main(["compare", *runs, "--slices", "locale", "--output", str(path)]) == 4
        table = read(path)
        assert [*table.columns] == [c.name for c in tables.COMPARISON]
        assert table["metric"].tolist() == [d.metric for d in found.differences]
        p_values = [float("nan") if d.p is None else d.p for d in found.differences]
        assert table["p"].tolist() == pytest.approx(p_values, nan_ok=True)
        assert json.loads(table["slice"].iloc[-1]) == dict(found.differences[-1].slice)


def test_slices_are_written_as_those_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text(
        "\n".join(json.dumps({**r, "response": "yes", "day": r["prompt"][-1]}) for r in ROWS)
    )
    slices, out = ["--slices", "locale,day,locale+day"], str(tmp_path / "out")
    given = ["run", "--dataset", str(tmp_path / "rows.jsonl"), "--metrics", "exact_match", "--output", out]
    assert main([*given, *slices]) == 0
    summary = EvaluationResult.load(out).summary_table
    config = EvaluationResult.load(out).manifest["config"]["slices"]
    assert config == [["locale"], ["day"], ["locale", "day"]]
    for same in (config, ["locale", "day", ["locale", "day"]]):
        found = compare(out, out, metrics=["exact_match"], slices=same)
        assert [dict(d.slice) for d in found.differences] == [
            one for one, metric in zip(summary["slice"], summary["metric"], strict=True) if metric == "exact_match"
        ]
    capsys.readouterr()
    assert main(["compare", out, out, *slices, "--metrics", "exact_match"]) == 4
    assert capsys.readouterr().out == render(found, width())


def test_the_table_fits_the_terminal(runs: tuple[str, str]) -> None:
    found = compare(*runs)
    long = replace(found, differences=tuple(replace(d, metric=d.metric * 9) for d in found.differences))
    table = render(long, 60).split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metrics", "exact"], "has no metric 'exact' to compare (allowed: latency_in_seconds, failure, exact_match"),
        (["--metrics", "bleu"], "has no metric 'bleu' to compare"),
        (["--margin", "nope=1"], "has no metric 'nope' to compare"),
        (["--margin", "much"], "--margin: found 'much' (allowed: a number, 0 or more, or METRIC=NUMBER)"),
        (["--margin", "-1"], "margin: found -1.0 (allowed: greater than or equal to 0)"),
        (["--margin", "exact_match=nan"], "margins.exact_match: found nan"),
        (["--confidence", "95"], "confidence: found 95.0 (allowed: less than 1)"),
        (
            ["--margin", "2"],
            "margin: found 2 for failure, whose scores are at most 1 apart (allowed: a number below 1)",
        ),
        (["--min-coverage", "90"], "min_coverage: found 90.0 (allowed: less than or equal to 1)"),
        (["--inconclusive", "ok"], "inconclusive: found 'ok' (allowed: 'pass' or 'fail')"),
        (["--metrics", ""], "metrics: found [] (allowed: at least one)"),
        (["--output", "table.xlsx"], "output: found 'table.xlsx' (allowed: a name that ends in .jsonl, .csv"),
        (["--slices", "locale,language"], "has no column 'language' (allowed: instance_id, trial, "),
        (["--changes", "changed.xlsx"], "changes: found 'changed.xlsx' (allowed: a name that ends in .jsonl, .csv"),
    ],
)
def test_mistakes_are_named(
    runs: tuple[str, str], capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["compare", *runs, *options]) == 2
    assert message in capsys.readouterr().err


def test_runs_that_cannot_be_compared(runs: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run at"):
        compare(runs[0], str(tmp_path))
    other = str(tmp_path / "other")
    evaluate([{"prompt": "else", "response": "x", "reference": "x"}], ["exact_match"], output=other)
    with pytest.raises(ConfigError, match="no instance is in both"):
        compare(runs[0], other)
    path = Path(other) / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in manifest.items() if k != "metrics"}))
    with pytest.raises(ConfigError, match="does not say which scores are better"):
        compare(runs[0], other)
    path.write_text(json.dumps({**manifest, "state": "failed", "tables": {}, "reason": "the dataset has no rows"}))
    with pytest.raises(ConfigError, match="wrote no instances table: the dataset has no rows"):
        compare(runs[0], other)


def test_the_order_of_rows_and_files_does_not_matter(runs: tuple[str, str], tmp_path: Path) -> None:
    rows = recorded(ROWS, lambda i: "yes" if i < 40 else "no")
    random.Random(1).shuffle(rows)
    other = str(tmp_path / "other")
    evaluate(rows, ["exact_match", "rouge_l", "bleu"], output=other, output_options={"shards": 8})
    assert compare(other, runs[1]).differences == compare(*runs).differences


def test_python_callers_may_use_paths_and_are_told_where_a_list_is_wanted(runs: tuple[str, str]) -> None:
    assert compare(*map(Path, runs)) == compare(*runs)
    with pytest.raises(ConfigError, match=r"slices: found 'locale' \(allowed: a list\)"):
        compare(*runs, slices="locale")
    with pytest.raises(ConfigError, match=r"metrics: found 'exact_match' \(allowed: a list\)"):
        compare(*runs, metrics="exact_match")


def test_drift_of_the_dataset_and_its_part_in_the_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent is the same, but the second dataset has more of the easy rows, and longer prompts."""

    def rows(start: int, easy: int, words: int) -> list[dict[str, str]]:
        kinds = ["easy"] * easy + ["hard"] * (200 - easy)
        prompts = [f"{start + i:05d} " + "word " * (i % words) for i in range(200)]
        answers = {"easy": "yes", "hard": "no"}
        return [
            {"prompt": p, "reference": "yes", "kind": k, "response": answers[k]}
            for p, k in zip(prompts, kinds, strict=True)
        ]

    shared = rows(0, 100, 5)
    runs = [str(tmp_path / name) for name in ("a", "b")]
    evaluate([*shared, *rows(1_000, 100, 5)], ["exact_match"], output=runs[0])
    evaluate([*shared, *rows(2_000, 180, 20)], ["exact_match"], output=runs[1])
    found = compare(*runs, metrics=["exact_match"], slices=[["kind"]])
    assert (found.only_before, found.only_after) == (200, 200)
    kind, prompt, response = found.drifts
    exact = stats.chi2_contingency([[200, 200], [280, 120]], correction=False)
    assert (kind.column, kind.p) == ("kind", pytest.approx(exact.pvalue))
    assert (prompt.column, prompt.test, prompt.p < 1e-6) == ("length of prompt", "ks", True)
    assert response.column == "length of response"
    (one,) = found.decompositions
    assert (one.change, one.mix, one.within) == (pytest.approx(0.2), pytest.approx(0.2), pytest.approx(0))
    assert main(["compare", *runs, "--metrics", "exact_match", "--slices", "kind"]) == 4
    out = capsys.readouterr().out
    assert "Drift in kind: PSI " in out
    assert "exact_match over all rows by kind: +0.200 = mix +0.200, within 0.000" in out

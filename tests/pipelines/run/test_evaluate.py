"""Whole runs, seen as a user sees them: what becomes of bad rows, names, trials, failures and empty datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from evalbeam import ConfigError, RunError
from evalbeam.pipelines.display.run_text import render
from evalbeam.pipelines.run.evaluate import evaluate
from evalbeam.pipelines.run.tables import rows_of
from evalbeam.transforms.readers import _files
from evalbeam.transforms.registry import build

calls: list[str] = []


def ask(prompt: str) -> dict[str, object]:
    calls.append(prompt)
    if "fail" in prompt:
        raise ValueError(f"cannot do {prompt}")
    return {"response": prompt.upper(), "predicted_trajectory": [], "latency_in_seconds": 0.25}


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


def write(path: Path, lines: list[str | bytes]) -> str:
    path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines))
    return str(path)


def good(n: int) -> list[str]:
    return [json.dumps({"prompt": f"p{i}", "reference": f"P{i}"}) for i in range(n)]


def test_bad_lines_are_set_aside_with_file_and_line_and_the_run_goes_on(tmp_path):
    lines = good(30)
    lines[4], lines[17] = '{"prompt": "broken', b'{"prompt": "\xff"}'
    lines.append(json.dumps({"question": "no prompt"}))
    path = write(tmp_path / "rows.jsonl", lines)
    result = evaluate(path, ["exact_match"], ask, output=str(tmp_path / "out"))
    assert (result.state, result.manifest["counts"]["rows"], result.manifest["counts"]["rejected"]) == (
        "finished",
        28,
        3,
    )
    errors = result.errors_table
    assert errors[["source", "file", "line", "code"]].values.tolist() == [
        ["row", path, 5, "malformed_json"],
        ["row", path, 18, "undecodable_bytes"],
        ["row", path, 31, "missing_prompt"],
    ]
    assert "it has question" in errors["message"][2]
    assert result.summary_metrics["exact_match/mean"] == 1.0


def test_lines_are_counted_over_the_ranges_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "build", lambda part, params, where: build(part, {**params, "range_bytes": 64}, where))
    lines = good(40)
    lines[29] = "not json"
    path = write(tmp_path / "rows.jsonl", lines)
    assert len(_files.readers_of(_files.expand([path]), {})["jsonl"].split(path, 1200)) > 10
    result = evaluate(path, ["exact_match"], ask, output=str(tmp_path / "out"))
    assert result.errors_table["line"].tolist() == [30]


def test_too_many_bad_rows_end_the_run_before_the_first_call(tmp_path):
    path = write(tmp_path / "rows.jsonl", good(8) + ["{"] * 2)
    out = tmp_path / "out"
    assert evaluate({"path": path, "max_invalid_fraction": 0.2}, ["exact_match"], ask).exit_code == 0
    calls.clear()
    result = evaluate({"path": path}, ["exact_match"], ask, output=str(out))
    assert calls == []
    assert (result.state, result.exit_code) == ("failed", 3)
    assert "2 of 10 rows (20 %)" in result.manifest["reason"]
    assert result.errors_table["line"].tolist() == [9, 10]
    with pytest.raises(ConfigError, match="wrote no instances table"):
        _ = result.metrics_table


def test_an_empty_dataset_is_a_failed_run_and_not_a_passed_one(tmp_path):
    result = evaluate(write(tmp_path / "rows.jsonl", []), ["exact_match"], ask, output=str(tmp_path / "out"))
    assert (result.state, result.manifest["reason"], result.exit_code) == ("failed", "the dataset has no rows", 3)


def test_duplicate_rows_stay_and_equal_inputs_get_ordinals():
    rows = [{"prompt": "a", "reference": "A"}] * 3 + [{"prompt": "a", "reference": "x"}, {"prompt": "b"}]
    table = evaluate(rows, ["exact_match"], ask).metrics_table
    assert table["prompt"].tolist() == ["a"] * 4 + ["b"]
    assert table["exact_match/score"].tolist()[:4] == [1.0, 1.0, 1.0, 0.0]
    assert len(set(table["instance_id"])) == 5
    assert {i.partition("-")[0] for i in table["instance_id"][:4]} == {min(table["instance_id"][:4])}
    assert table["exact_match/status"][4] == "skipped"


def test_a_corrected_reference_keeps_the_id_and_dataset_id_decides_where_named():
    first = evaluate([{"prompt": "a", "reference": "x"}], ["exact_match"], ask).metrics_table
    second = evaluate([{"prompt": "a", "reference": "A"}], ["exact_match"], ask).metrics_table
    assert first["instance_id"][0] == second["instance_id"][0]
    rows, named = [{"case": 7, "prompt": p, "reference": "A"} for p in "ab"], {"dataset_options": {"id": "case"}}
    ids = [evaluate([row], ["exact_match"], ask, **named).metrics_table["instance_id"][0] for row in rows]
    assert ids[0] == ids[1]


def test_columns_with_our_names_are_kept_and_mapped_ones_stand_for_ours():
    rows = [{"q": "a", "gold": "A", "status": "mine", "trial": 9, "predicted_trajectory": "[]", "zip": "02134"}]
    columns = {"q": "prompt", "gold": "reference", "zip": "string"}
    table = evaluate(rows, ["exact_match"], ask, dataset_options={"columns": columns}).metrics_table
    row = table.iloc[0]
    assert (row["q"], row["gold"], row["zip"], row["exact_match/score"]) == ("a", "A", "02134", 1.0)
    assert (row["dataset.status"], row["dataset.trial"], row["dataset.predicted_trajectory"]) == ("mine", 9, "[]")
    assert (row["status"], row["trial"], row["predicted_trajectory"]) == ("ok", 0, [])
    assert table.columns.tolist().index("zip") < table.columns.tolist().index("gold")


def test_trials_are_rows_of_their_own():
    result = evaluate([{"prompt": f"p{i}", "reference": "P1"} for i in range(5)], ["exact_match"], ask, trials=3)
    table = result.metrics_table
    assert sorted(calls) == sorted(f"p{i}" for i in range(5) for _ in range(3))
    assert table["trial"].tolist() == [0, 1, 2] * 5
    assert result.summary_metrics["exact_match/mean"] == pytest.approx(0.2)


@pytest.mark.parametrize(("on_failure", "mean"), [("exclude", 1.0), ("worst", 0.75)])
def test_a_failed_call_is_never_scored_as_if_it_had_answered(on_failure, mean):
    rows = [{"prompt": p, "reference": p.upper()} for p in ("a", "b", "c", "fail")]
    agent = {"max_attempts": 1}
    result = evaluate(rows, ["exact_match"], ask, statistics={"on_failure": on_failure}, agent=agent)
    row = result.metrics_table.iloc[3]
    assert (row["status"], row["failure"], row["error_type"]) == ("failed", 1, "ValueError")
    assert pd.isna(row["response"])
    assert row["error_message"] == "cannot do fail"
    assert (row["exact_match/status"], row["exact_match/error"][:12]) == ("skipped", "agent_failed")
    assert result.summary_metrics["exact_match/mean"] == mean
    assert result.summary_metrics["failure/mean"] == 0.25
    assert result.errors_table["source"].tolist() == ["call"]
    summary = result.summary_table.set_index("metric").loc["exact_match"]
    assert (summary["row_count"], summary["scored_count"], summary["skipped_count"]) == (4, 3, 1)


@pytest.mark.parametrize(("bound", "verdict", "code"), [(0.5, "PASSED", 0), (0.9, "FAILED", 1)])
def test_criteria_decide_the_exit_code(bound, verdict, code):
    rows = [{"prompt": p, "reference": "A"} for p in ("a", "b")]
    result = evaluate(rows, ["exact_match"], ask, criteria={"exact_match": bound})
    assert (result.verdict, result.exit_code) == (verdict, code)
    assert result.summary_table.set_index("metric").loc["exact_match", "verdict"] == verdict


def test_what_could_not_be_evaluated_does_not_pass():
    criterion = {"metric": "exact_match", "statistic": "std", "max": 0.5}
    result = evaluate([{"prompt": "a", "reference": "A"}], ["exact_match"], ask, criteria=[criterion])
    assert (result.verdict, result.exit_code) == ("NOT_EVALUATED", 1)


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv"])
def test_every_output_format_reads_back_the_same(format_):
    rows = [{"prompt": "a", "n": 1, "tags": ["x"], "reference": "A"}, {"prompt": "=b", "": None, "reference": "é"}]
    result = evaluate(
        [{"": "no name", **row} for row in rows], ["exact_match"], ask, output_options={"format": format_}
    )
    table = result.metrics_table
    assert table[""].fillna("-").tolist() == ["no name", "-"]
    assert table["prompt"].tolist() == ["a", "=b"]
    assert table["tags"][0] == ["x"]
    assert table["predicted_trajectory"].tolist() == [[], []]
    assert table["exact_match/score"].tolist() == [1.0, 0.0]
    assert result.summary_metrics["latency_in_seconds/mean"] == 0.25


def test_rows_that_a_limit_leaves_out_are_not_counted():
    rows = [json.loads(line) for line in good(9)]
    result = evaluate(rows, ["exact_match"], ask, dataset_options={"limit": 4}, trials=2)
    assert result.manifest["counts"] == {**result.manifest["counts"], "rows": 4, "ok": 8}
    assert result.summary_metrics["row_count"] == 4 == len(result.metrics_table) // 2
    assert "FINISHED · 4 rows × 2 trials" in render(result)


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv"])
def test_a_statistic_that_is_not_defined_is_none(format_):
    rows = [{"prompt": "a"}, {"prompt": "b", "reference": "B"}]
    metrics = ["exact_match", "trajectory_exact_match"]
    found = evaluate(rows, metrics, ask, output_options={"format": format_}).summary_metrics
    assert (found["exact_match/std"], found["exact_match/mean"]) == (None, 1.0)
    assert found["trajectory_exact_match/mean"] is None
    assert all(value is None or value == value for value in found.values())


def test_precision_and_recall_of_rouge_stand_in_the_table():
    from rouge_score.rouge_scorer import RougeScorer

    pairs = [("the cat sat on the mat", "a cat sat"), ("no", "yes"), ("a b c", "c b a d")]
    rows = [{"prompt": str(i), "response": ours, "reference": own} for i, (ours, own) in enumerate(pairs)]
    table = evaluate(rows, ["rouge_l", "response_match", "bleu"]).metrics_table.sort_values("prompt")
    for (ours, own), found in zip(pairs, table["rouge_l/details"], strict=True):
        expected = RougeScorer(["rougeL"]).score(own, ours)["rougeL"]
        assert found == {"precision": expected.precision, "recall": expected.recall}
    assert "response_match/details" in table
    assert "bleu/details" not in table


def test_data_in_memory_may_be_a_frame_a_list_or_columns():
    frame = pd.DataFrame({"prompt": ["b", "a"], "reference": ["B", "x"]}, index=[7, 3])
    for data in (frame, frame.to_dict("records"), frame.to_dict("list")):
        table = evaluate(data, ["exact_match"], ask).metrics_table
        assert table["prompt"].tolist() == ["b", "a"]
        assert table["exact_match/score"].tolist() == [1.0, 0.0]


def test_objects_that_cannot_be_pickled_are_called_where_they_are(tmp_path):
    stream, seen = (i for i in range(9)), []

    def live(prompt: str) -> str:
        assert stream is not None
        seen.append(prompt)
        return prompt.upper()

    def counted(row: dict) -> float:
        return float(len(row["response"]) + (stream is None))

    path = write(tmp_path / "rows.jsonl", good(3))
    result = evaluate(path, ["exact_match", counted], live, output=str(tmp_path / "out"))
    assert (result.summary_metrics["exact_match/mean"], result.summary_metrics["counted/mean"]) == (1.0, 2.0)
    assert sorted(seen) == ["p0", "p1", "p2"]
    options = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    with pytest.raises(RunError, match="cannot pickle 'generator' object"):
        evaluate(path, ["exact_match"], live, output=str(tmp_path / "two"), options=options)


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv"])
def test_integers_keep_their_digits_beside_missing_ones(format_: str) -> None:
    large = [2**62 + 1, None, -(2**63), 2**53 + 1]
    rows = [
        {"prompt": str(i), "response": "a", "large": number, "small": number and 3, "all": i}
        for i, number in enumerate(large)
    ]
    table = evaluate(rows, ["failure"], output_options={"format": format_, "shards": 2}).metrics_table
    assert [None if pd.isna(number) else int(number) for number in table["large"]] == large
    kinds = {name: str(table[name].dtype) for name in ("small", "all", "input_tokens")}
    assert kinds == {"small": "float64", "all": "int64", "input_tokens": "float64"}


def test_a_table_that_is_protected_from_spreadsheets_is_read_back(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "=1+1": "x", "mixed": -5}, {"prompt": "b", "=1+1": "-y", "mixed": [1]}]
    out = str(tmp_path / "out")
    result = evaluate(rows, ["failure"], ask, output=out, output_options={"format": "csv", "escape_formulas": True})
    table = result.metrics_table
    assert table["mixed"].tolist() == [-5, [1]]
    assert table["=1+1"].tolist() == ["x", "'-y"]
    assert [row["=1+1"] for row in rows_of(result, "instances")] == table.sort_values("instance_id")["=1+1"].tolist()
    (file,) = result.files("instances")
    assert '"\'=1+1"' in Path(file).read_text().splitlines()[0]

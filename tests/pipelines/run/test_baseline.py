"""Pairwise metrics against the answers of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalbeam import ConfigError, evaluate
from evalbeam.schemas.batch import Batch
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.transforms import join_baseline as joining
from evalbeam.transforms.join_baseline import Answers, join_answers


def fake_judge(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """A scripted judge: the longer answer is better."""
    first, second = (messages[-1]["content"].split(f"<response_{x}")[1].split("</")[0] for x in "ab")
    return {"explanation": first, "choice": "SAME" if len(first) == len(second) else "AB"[len(second) > len(first)]}


def old(prompt: str) -> str:
    if prompt == "2":
        raise ValueError("no answer")
    return "old" * int(prompt)


def new(prompt: str) -> str:
    return "new" * 2


def test_answers_of_another_run_by_id_and_trial(tmp_path: Path) -> None:
    rows = [{"prompt": str(i), "reference": "x"} for i in range(5)]
    earlier, name = str(tmp_path / "old"), "template/pairwise_fluency"
    evaluate(rows[1:], ["exact_match"], old, output=earlier, output_options={"shards": 2})
    rows[1]["baseline_prediction"] = "of the dataset"
    more: dict[str, Any] = {"judges": {"default": fake_judge}, "baseline": earlier}
    result = evaluate(rows, [name], new, output=str(tmp_path / "new"), **more)
    table = result.metrics_table
    assert table[f"{name}/pairwise_choice"].fillna("").tolist() == ["", "CANDIDATE", "", "BASELINE", "BASELINE"]
    assert set(table[f"{name}/error"].dropna()) == {
        "missing_baseline_model_response: the row has no baseline_model_response"
    }
    assert "of the dataset" not in "".join(table[f"{name}/explanation"].dropna())
    assert table["baseline_prediction"].tolist()[1] == "of the dataset"
    assert result.summary_metrics[f"{name}/baseline_model_win_rate"] == pytest.approx(2 / 3)
    trials = evaluate(rows, [name], new, output=str(tmp_path / "two"), trials=2, **more).metrics_table
    assert trials.loc[trials["trial"] == 1, f"{name}/status"].tolist() == ["skipped"] * 5


def test_few_row_groups_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalbeam.transforms.write.GROUP_ROWS", 8)
    rows = [{"prompt": str(i), "reference": "x"} for i in range(64)]
    result = evaluate(rows, ["exact_match"], new, output=str(tmp_path / "old"))
    read: list[Any] = []
    plain = joining._answers
    monkeypatch.setattr(joining, "_answers", lambda group: read.append(group) or plain(group))
    answers = Answers(result.files("instances"))
    ids = result.metrics_table["instance_id"].sort_values().tolist()
    batch = Batch(tuple(Example(Instance(i, {}), Invocation()) for i in ids[10:14]), 0, ())
    for _ in range(2):
        assert [e.get("baseline_model_response") for e in join_answers(batch, answers).rows] == ["newnew"] * 4
    assert 1 <= len(read) <= 2 < len(answers._groups)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    rows = [{"prompt": "1", "response": "x", "reference": "x"}]
    more: dict[str, Any] = {"judges": {"default": fake_judge}, "output": str(tmp_path / "out")}
    with pytest.raises(ConfigError, match="baseline: no finished run at"):
        evaluate(rows, ["template/pairwise_fluency"], baseline=str(tmp_path / "none"), **more)
    evaluate(rows, ["exact_match"], output=str(tmp_path / "csv"), output_options={"format": "csv"})
    with pytest.raises(ConfigError, match=r"found .*csv.*allowed: a run with output.format: parquet"):
        evaluate(rows, ["template/pairwise_fluency"], baseline=str(tmp_path / "csv"), **more)
    with pytest.raises(ConfigError, match=r"baseline: .* is this run's own output.path"):
        evaluate(rows, ["template/pairwise_fluency"], baseline=more["output"], **more)
    failing = {"target": old, "failure_threshold": 0.5, "failure_window": 1, "max_attempts": 1, "max_in_flight": 1}
    stopped = evaluate([{"prompt": "2"}] * 9, ["exact_match"], agent=failing, output=str(tmp_path / "stopped"))
    with pytest.raises(ConfigError, match=r"baseline: the run at '.*stopped' is stopped \(allowed: a finished run\)"):
        evaluate(rows, ["template/pairwise_fluency"], baseline=stopped.output, **more)

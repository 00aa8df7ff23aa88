"""A gate on means that people's labels correct."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam import compare, evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.schemas.errors import ConfigError


def run(folder: Path, name: str, right: int, passed: int, labelled: bool = True, **options: Any) -> str:
    """Of 600 answers, `right` are right by people, and the judge passes `passed`: all right ones and some others."""
    rows = [
        {"prompt": str(i), "reference": "a", "response": "a" if i * 7 % 600 < passed else "b", "id": str(i), "g": i % 2}
        for i in range(600)
    ]
    labels = [{"instance": str(i), "person": float(i * 7 % 600 < right)} for i in range(0, 600, 3)]
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(map(json.dumps, labels)))
    if labelled:
        options["labels"] = {"path": str(path), "id": "instance", "columns": {"exact_match": "person"}}
    given = {"output": folder / name, "slices": ["g"], "dataset_options": {"id": "id"}, **options}
    if "runnable" in given:
        rows = [{key: row[key] for key in row if key != "response"} for row in rows]
    evaluate(rows, ["exact_match"], **given)
    return str(folder / name)


def test_a_judge_that_became_kinder_is_no_gain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = run(tmp_path, "before", 420, 450), run(tmp_path, "after", 330, 540)
    raw, found = (compare(before, after, metrics=["exact_match"], corrected=c) for c in (None, True))
    assert (raw.exit_code, raw.differences[0].verdict, raw.differences[0].corrected_gain) == (0, "BETTER", None)
    one = found.differences[0]
    assert (found.exit_code, one.verdict, one.gain) == (1, "WORSE", pytest.approx(0.15))
    assert one.corrected_gain == pytest.approx(-0.15, abs=0.04)
    assert one.corrected_ci_low is not None
    assert one.corrected_ci_low < -0.15 < (one.corrected_ci_high or 0.0) < 0.0
    assert main(["compare", before, after, "--metrics", "exact_match", "--corrected"]) == 1
    assert "Corrected by labels: exact_match -0.1" in capsys.readouterr().out


def test_the_gate_of_the_configuration_and_its_slices(tmp_path: Path) -> None:
    gate = {"corrected": True, "metrics": ["exact_match"], "margin": 0.05, "slices": ["g"]}
    before, after = run(tmp_path, "before", 420, 450), run(tmp_path, "after", 420, 540, gate=gate)
    found = compare(before, after)
    assert [one.slice for one in found.differences] == [(), (("g", "0"),), (("g", "1"),)]
    assert found.differences[0].verdict in ("NO_WORSE", "INCONCLUSIVE")
    assert found.differences[0].corrected_gain == pytest.approx(0.0, abs=0.05)


def test_both_runs_need_labels(tmp_path: Path) -> None:
    before, after = run(tmp_path, "before", 420, 450), run(tmp_path, "after", 330, 540, labelled=False)
    with pytest.raises(ConfigError, match=r"gate\.corrected: no metric has labels in both .*before.* and .*after"):
        compare(before, after, corrected=True)


def test_missing_labels_are_told_before_the_run(tmp_path: Path) -> None:
    before = run(tmp_path, "before", 420, 450, labelled=False)
    gate = {"corrected": True, "against": before}
    with pytest.raises(ConfigError, match=r"gate\.corrected: no metric has labels"):
        run(tmp_path, "bare", 420, 450, labelled=False, gate=gate)
    with pytest.raises(ConfigError, match=r"gate\.corrected: .*before' has no labels of exact_match"):
        run(tmp_path, "after", 420, 450, gate=gate)
    assert not (tmp_path / "after").exists()


def test_corrected_means_of_a_run_that_stopped_early_show_nothing(tmp_path: Path) -> None:
    """Of two equal agents, the one that stops when it looks good would be better in one of ten comparisons."""
    rule = {"sequential": {"metric": "exact_match", "threshold": 0.5}}
    before = run(tmp_path, "before", 330, 540)
    answers = {str(i): "a" if i * 7 % 600 < 540 else "b" for i in range(600)}
    after = run(tmp_path, "after", 530, 540, runnable=lambda prompt: answers[prompt], statistics=rule)
    found = compare(before, after, metrics=["exact_match"], corrected=True)
    one = found.differences[0]
    assert one.uncalled
    assert (one.verdict, one.p, one.corrected_gain, found.exit_code) == ("INCONCLUSIVE", None, None, 4)
    assert one.reason.startswith("a run stopped early, and the interval of its corrected mean")

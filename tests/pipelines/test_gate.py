"""Gates: verdicts that were wrong, and runs that are compared as soon as they have finished."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import junitparser
import pytest

from evalbeam import compare, evaluate
from evalbeam.pipelines.cli.main import main


def recorded(folder: Path, name: str, scores: Sequence[dict[str, float | None]], **options: Any) -> str:
    """A run over as many rows, whose metrics score what is given."""
    rows = [{"prompt": str(i), "response": json.dumps(one), "group": f"g{i % 10}"} for i, one in enumerate(scores)]
    path = str(folder / name)
    names = list(dict.fromkeys(key for one in scores for key in one))

    def make(key: str) -> Any:
        def metric(row: dict[str, Any]) -> float | None:
            return json.loads(row["response"]).get(key)

        metric.__name__ = key
        return metric

    evaluate(rows, [make(key) for key in names], output=path, **options)
    return path


def test_the_same_agent_is_not_worse_in_many_metrics_and_slices(tmp_path: Path) -> None:
    """20 metrics × 11 slices: with a test for each at 5 %, three runs of four were called worse."""
    rng = random.Random(7)

    def draw() -> list[dict[str, float | None]]:
        return [{f"m{m}": float(rng.random() < 0.8) for m in range(20)} for _ in range(200)]

    before, after = recorded(tmp_path, "before", draw()), recorded(tmp_path, "after", draw())
    found = compare(before, after, slices=["group"])
    assert {d.family for d in found.differences if d.metric != "latency_in_seconds"} == {21 * 11}
    assert min(d.p or 1.0 for d in found.differences) < 0.05  # so that one of them alone would be called changed
    assert found.exit_code == 4
    assert compare(before, after, slices=["group"], inconclusive="pass").exit_code == 0
    assert compare(before, after, slices=["group"], inconclusive="fail").exit_code == 1


def test_five_newly_failing_of_twenty_do_not_pass(tmp_path: Path) -> None:
    before = recorded(tmp_path, "before", [{"right": 1.0}] * 20)
    after = recorded(tmp_path, "after", [{"right": float(i >= 5)} for i in range(20)])
    found = compare(before, after, metrics=["right"])
    (one,) = found.differences
    assert (one.newly_failing, one.fixed, one.p) == (5, 0, pytest.approx(2 / 32))
    assert (found.verdict, found.exit_code) == ("INCONCLUSIVE", 4)
    assert main(["compare", before, after, "--metrics", "right", "--margin", "0.1"]) == 4


def test_lost_scores_are_not_free(tmp_path: Path) -> None:
    before = recorded(tmp_path, "before", [{"right": 1.0}] * 100)
    after = recorded(tmp_path, "after", [{"right": None if i < 30 else 1.0} for i in range(100)])
    found = compare(before, after, metrics=["right"], margin=0.1)
    (one,) = found.differences
    assert (one.lost, one.coverage, one.verdict, found.exit_code) == (30, 0.7, "INCONCLUSIVE", 4)
    strict = compare(before, after, metrics=["right"], margin=0.1, min_coverage=0.95)
    assert (strict.verdict, strict.exit_code) == ("FAILED", 1)
    whole = compare(before, before, metrics=["right"], margin=0.1, min_coverage=0.95)
    assert (whole.verdict, whole.exit_code) == ("PASSED", 0)


def test_rows_that_are_gone_count_as_lost_coverage(tmp_path: Path) -> None:
    before = recorded(tmp_path, "before", [{"right": 1.0}] * 100)
    after = recorded(tmp_path, "after", [{"right": 1.0}] * 60)
    found = compare(before, after, metrics=["right"], slices=["group"], min_coverage=0.9)
    assert (found.only_before, found.differences[0].coverage) == (40, 0.6)
    assert {d.coverage for d in found.differences} == {0.6}
    assert [d.metric for d in found.uncovered] == ["right"]
    assert found.exit_code == 1


def test_trials_of_an_instance_are_one_unit(tmp_path: Path) -> None:
    """Two trials of each row are no more evidence than their means."""
    rows = [{"prompt": str(i), "reference": "y"} for i in range(8)]
    paths = [str(tmp_path / name) for name in ("before", "after")]
    for path, answer in zip(paths, ("y", "n"), strict=True):
        evaluate(rows, ["exact_match"], lambda prompt, a=answer: a if int(prompt) < 5 else "y", trials=2, output=path)
    (found,) = compare(*paths, metrics=["exact_match"]).differences
    assert (found.pairs, found.worse, found.p, found.verdict) == (8, 5, pytest.approx(2 / 32), "INCONCLUSIVE")


def test_equal_inputs_are_one_unit(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("before", "after")]
    for path, answer in zip(paths, ("y", "n"), strict=True):
        rows = [{"prompt": str(i % 4), "reference": "y", "response": answer, "n": i} for i in range(40)]
        evaluate(rows, ["exact_match"], output=path)
    (found,) = compare(*paths, metrics=["exact_match"]).differences
    assert (found.pairs, found.p, found.verdict) == (40, 2 / 2**4, "INCONCLUSIVE")


ROWS = [{"prompt": str(i), "reference": "y", "response": "y" if i >= 10 else "n"} for i in range(100)]


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a baseline, the same rows, and worse ones."""
    folder = tmp_path_factory.mktemp("gated")
    evaluate(ROWS, ["exact_match"], output=str(folder / "main"))
    worse = [{**row, "response": "n"} if i < 40 else row for i, row in enumerate(ROWS)]
    for name, rows in (("same", ROWS), ("worse", worse)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def run(gated: Path, name: str, folder: Path, *options: str) -> int:
    given = ["--dataset", str(gated / f"{name}.jsonl"), "--metrics", "exact_match", "--output", str(folder / name)]
    return main(["run", *given, "--gate-against", str(gated / "main"), *options])


def test_a_run_is_compared_as_soon_as_it_has_finished(
    gated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = ["--set", "gate={metrics: [exact_match], margin: 0.05, slices: [reference]}"]
    assert run(gated, "same", tmp_path, *gate[:1], gate[1], "--gate-against", str(gated / "main")) == 0
    assert "Gate: PASSED" in capsys.readouterr().out
    assert run(gated, "worse", tmp_path, *gate, "--gate-against", str(gated / "main")) == 1
    assert "Gate: FAILED" in capsys.readouterr().out
    assert f"gate, against {gated / 'main'}" in (tmp_path / "worse" / "report.html").read_text()
    again = compare(gated / "main", tmp_path / "worse")
    assert (again.exit_code, again.gate.margin, again.deciding) == (1, 0.05, ("exact_match",))
    assert {dict(d.slice).get("reference") for d in again.differences} == {None, "y"}


def test_a_gate_is_part_of_every_form(
    gated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    gate = ["--set", "gate={metrics: [exact_match], margin: 0.05}", "--gate-against", str(gated / "main")]
    for name, code, failures in (("same", 0, 0), ("worse", 1, 1)):
        out = tmp_path / name
        capsys.readouterr()
        assert run(gated, name, tmp_path, *gate, "--as", "json") == code
        found = json.loads(capsys.readouterr().out)["gate"]
        assert (found["exit_code"], found["deciding"], bool(found["reasons"])) == (code, ["exact_match"], bool(code))
        assert {d["metric"] for d in found["differences"]} >= {"exact_match"}
        main(["compare", str(gated / "main"), str(out), "--as", "junit"])
        (alone,) = junitparser.JUnitXml.fromstring(capsys.readouterr().out.encode())
        assert (alone.name, alone.tests, alone.failures, alone.errors) == ("evalbeam gate", 1, failures, 0)
        assert main(["compare", str(gated / "main"), str(out), "--as", "json"]) == code
        assert json.loads(capsys.readouterr().out) == found
    written = (tmp_path / "summary.md").read_text()
    assert written.count("## Gate PASSED") == 3  # one run, two comparisons
    assert written.count("## Gate FAILED") == 3
    assert "| exact\\_match | WORSE |" in written


def test_the_worse_exit_code_of_run_and_gate_counts(gated: Path, tmp_path: Path) -> None:
    assert run(gated, "same", tmp_path / "a") == 4
    assert run(gated, "same", tmp_path / "b", "--set", "criteria={exact_match: 0.95}") == 1
    assert run(gated, "same", tmp_path / "c", "--set", "gate.inconclusive=pass") == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate-against", "nowhere"], "gate.against: no finished run at 'nowhere'"),
        (["--set", "gate.metrics=[exact]"], "gate.metrics: no metric named 'exact'"),
        (["--set", "gate.metrics=[]"], "gate.metrics: found [] (allowed: at least one)"),
        (["--set", "gate.margins={exact_match: 2}"], "gate.margins.exact_match: found 2 for exact_match"),
        (["--set", "gate.margin=-1"], "gate.margin: found -1"),
        (["--set", "gate.metric=exact_match"], "unknown key 'metric'"),
        (["--set", "metrics=[exact_match, bleu]", "--set", "gate.metrics=[bleu]"], "has no metric 'bleu' to compare"),
    ],
)
def test_a_gate_that_cannot_be_asked_is_refused_before_the_run(
    gated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run(gated, "same", tmp_path, *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "same").exists()


def test_printed_in_another_form_the_run_stands_alone_on_the_standard_output(
    gated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(gated, "same", tmp_path, "--as", "json") == 4
    assert json.loads(capsys.readouterr().out)["gate"]["verdict"] == "INCONCLUSIVE"
    assert main(["wait", str(tmp_path / "same")]) == 4
    assert "Gate: INCONCLUSIVE" in capsys.readouterr().out


def test_rows_of_a_cluster_are_one_unit(gated: Path, tmp_path: Path) -> None:
    rows = [{"prompt": str(i), "reference": "y", "response": "y", "talk": str(i % 4)} for i in range(40)]
    worse = [{**row, "response": "n"} if row["talk"] == "1" else row for row in rows]
    paths = [str(tmp_path / name) for name in ("before", "after")]
    for path, answers in zip(paths, (rows, worse), strict=True):
        evaluate(answers, ["exact_match"], output=path)
    assert compare(*paths, metrics=["exact_match"]).exit_code == 1
    place = Path(paths[1]) / "manifest.json"
    manifest = json.loads(place.read_text())
    manifest["config"]["statistics"]["cluster"] = ["talk"]
    place.write_text(json.dumps(manifest))
    (found,) = compare(*paths, metrics=["exact_match"]).differences
    assert (found.worse, found.p, found.verdict) == (10, 2 / 2, "INCONCLUSIVE")  # one cluster changed


def test_rows_that_a_run_did_not_need_to_call_are_not_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": f"p{i}", "reference": f"P{i}" if i % 10 else "no"} for i in range(600)]
    rule = {"metric": "exact_match", "threshold": 0.8}
    agents = {
        "before": str.upper,
        "same": str.upper,
        "worse": lambda prompt: prompt if prompt[-1] < "4" else prompt.upper(),
    }
    paths = {name: str(tmp_path / name) for name in agents}
    for name, agent in agents.items():
        statistics = {} if name == "before" else {"sequential": rule}
        evaluate(rows, ["exact_match"], agent, output=paths[name], statistics=statistics)
    found = compare(paths["before"], paths["same"], margin=0.1, min_coverage=0.95)
    (one,) = (d for d in found.differences if d.metric == "exact_match")
    called = json.loads((tmp_path / "same" / "manifest.json").read_text())["sequential"]["rows"]
    assert (one.pairs, one.uncalled, one.lost, one.coverage) == (called, 600 - called, 0, 1.0)
    assert (one.instances, one.gain, one.verdict, found.exit_code) == (600, 0.0, "NO_WORSE", 0)
    assert -0.1 < (one.gain_ci_low or 0.0) < -0.02, "wider than of a number that was fixed beforehand"
    assert any("was decided after" in note and "left out" in note for note in found.notes)
    assert compare(paths["same"], paths["before"], margin=0.1).exit_code == 0
    worse = compare(paths["before"], paths["worse"], margin=0.1)
    (other,) = (d for d in worse.differences if d.metric == "exact_match")
    assert (other.verdict, other.lost, worse.exit_code) == ("WORSE", 0, 1)
    assert main(["compare", paths["before"], paths["same"], "--margin", "0.1"]) == 0
    assert "the rows that it did not call are left out" in " ".join(capsys.readouterr().out.split())

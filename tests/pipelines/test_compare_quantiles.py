"""Quantiles, pass^k and pass@k in a comparison and its gate: real runs, against their summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from evalbeam import ConfigError, EvaluationResult, compare, evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.compare import changes
from evalbeam.schemas.comparison import Difference

LATENCY = "latency_in_seconds/p95"


def rows(slower: float, trials: int, rightly: int) -> list[dict[str, Any]]:
    """300 questions with recorded trials: latencies of some seconds, and answers of which some trials are right."""
    rng = np.random.default_rng(1)
    usual, noise = rng.lognormal(0, 0.5, 300), np.random.default_rng(trials).lognormal(0, 0.2, (300, trials))
    return [
        {
            "id": str(i),
            "trial": trial,
            "prompt": f"p{i}",
            "reference": "yes",
            "locale": "de" if i % 3 else "en",
            "response": "yes" if (i * 7 + trial * 5) % 10 < rightly else "no",
            "latency_in_seconds": float(usual[i] * noise[i, trial] * slower),
        }
        for i in range(300)
        for trial in range(trials)
    ]


def run(folder: Path, name: str, data: list[dict[str, Any]], **options: Any) -> str:
    metric = {"metric": "exact_match", "pass_k": [1, 2]}
    evaluate(data, [metric], output=folder / name, dataset_options={"id": "id"}, slices=["locale"], **options)
    return str(folder / name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two runs of two and three trials, of which the second is slower and answers worse."""
    folder = tmp_path_factory.mktemp("runs")
    return run(folder, "before", rows(1.0, 2, 9)), run(folder, "after", rows(1.6, 3, 7))


def summary(path: str, metric: str, column: str) -> float:
    table = EvaluationResult.load(path).summary_table
    whole = table[[not s for s in table["slice"]]].set_index("metric")
    return float(whole[column][metric])


def of(found: Any, name: str) -> Difference:
    return next(d for d in found.differences if d.metric == name and not d.slice)


def test_both_quantiles_are_those_of_the_summaries(runs: tuple[str, str]) -> None:
    names = [f"latency_in_seconds/{name}" for name in ("median", "p90", "p95", "p99")]
    found = compare(*runs, metrics=names)
    assert [d.metric for d in found.differences] == names
    for name in names:
        one = of(found, name)
        expected = [summary(path, "latency_in_seconds", name.rpartition("/")[2]) for path in runs]
        assert [one.before, one.after] == expected
        assert (one.instances, one.pairs, one.family) == (300, 300, 4)
    assert (of(found, names[0]).verdict, of(found, LATENCY).verdict, found.exit_code) == ("WORSE", "WORSE", 1)
    assert (of(found, LATENCY).gain_ci_high or 0) < 0
    assert of(found, LATENCY).newly_failing is None


def test_pass_rates_are_those_of_the_summaries(runs: tuple[str, str]) -> None:
    names = ["exact_match/pass^2", "exact_match/pass@2", "exact_match"]
    found = compare(*runs, metrics=names, slices=[["locale"]])
    assert sorted({d.metric for d in found.differences}) == sorted(names)
    for name in names:
        one = of(found, name)
        assert (one.before, one.after) == pytest.approx(tuple(summary(path, name, "mean") for path in runs))
        assert (one.pairs, one.family) == (300, 9)
    assert (of(found, names[0]).verdict, found.exit_code) == ("WORSE", 1)


def test_a_gain_of_pass_rates_is_that_of_scores_of_instances(tmp_path: Path) -> None:
    """The same as a metric whose scores are the shares of pairs of trials that both pass."""
    shares = []
    for name, trials, rightly in (("before", 2, 9), ("after", 3, 7)):
        data = rows(1.0, trials, rightly)
        run(tmp_path, name, data)
        passed = np.array([row["response"] == "yes" for row in data]).reshape(300, trials).sum(axis=1)
        each = [
            {"prompt": f"p{i}", "id": str(i), "share": c * (c - 1) / (trials * (trials - 1))}
            for i, c in enumerate(passed.tolist())
        ]
        shares.append(str(tmp_path / f"shares-{name}"))
        evaluate(each, [share], output=shares[-1], dataset_options={"id": "id"}, runnable=lambda prompt: "yes")
    one = of(compare(tmp_path / "before", tmp_path / "after", metrics=["exact_match/pass^2"]), "exact_match/pass^2")
    other = of(compare(*shares, metrics=["share"]), "share")
    for name in ("gain", "before", "after", "better", "worse", "p"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12), name


def share(row: dict[str, Any]) -> float:
    return row["share"]


def test_a_trial_that_the_agent_failed_did_not_pass(tmp_path: Path) -> None:
    data = rows(1.0, 2, 10)
    failed = [
        {**row, "response": None, "failure": True} if row["trial"] == 1 and int(row["id"]) < 60 else row for row in data
    ]
    paths = run(tmp_path, "before", data), run(tmp_path, "after", failed)
    one = of(compare(*paths, metrics=["exact_match/pass^2"]), "exact_match/pass^2")
    assert (one.before, one.after, one.lost) == (1.0, pytest.approx(0.8), 0)
    assert one.after == pytest.approx(summary(paths[1], "exact_match/pass^2", "mean"))


def test_the_command_names_them(runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = f"{LATENCY},exact_match/pass^2"
    files = {name: str(tmp_path / name) for name in ("table.parquet", "changes.csv", "page.html")}
    options = ["--output", files["table.parquet"], "--changes", files["changes.csv"], "--html", files["page.html"]]
    given = ["--margin", f"{LATENCY}=3", "--margin", "exact_match/pass^2=0.5"]
    assert main(["compare", *runs, "--metrics", names, *given, *options]) == 0
    shown = capsys.readouterr().out
    assert LATENCY in shown
    assert "family of 2" in shown
    assert "Gate: PASSED" in shown
    table = pq.read_table(files["table.parquet"]).to_pylist()
    assert {row["metric"]: row["verdict"] for row in table} == dict.fromkeys(names.split(","), "NO_WORSE")
    changed = Path(files["changes.csv"]).read_text().splitlines()
    assert {line.split(",")[1].strip('"') for line in changed[1:]} == {"latency_in_seconds", "exact_match"}
    assert LATENCY in Path(files["page.html"]).read_text()
    assert main(["compare", *runs, "--metrics", LATENCY, "--as", "json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)["differences"]
    assert (one["metric"], one["verdict"]) == (LATENCY, "WORSE")


def test_what_is_not_named_is_compared_as_before(runs: tuple[str, str]) -> None:
    whole = {d.metric for d in compare(*runs).differences}
    assert whole == {"latency_in_seconds", "failure", "exact_match"}
    named = compare(*runs, margins={LATENCY: 2.0})
    assert {d.metric for d in named.differences} == whole | {LATENCY}
    assert LATENCY in named.deciding


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_every_form_of_a_table_gives_the_same(runs: tuple[str, str], tmp_path: Path, form: str) -> None:
    other = run(tmp_path, "other", rows(1.0, 2, 9), output_options={"format": form, "shards": 4})
    names = [LATENCY, "exact_match/pass@2"]
    assert compare(other, runs[1], metrics=names).differences == compare(*runs, metrics=names).differences


@pytest.mark.parametrize("name", ["latency_in_seconds/p96", "exact_match/pass^3", "exact_match/pass^1/p90", "x/p95"])
def test_an_unknown_name_is_told_with_the_known_ones(runs: tuple[str, str], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compare(*runs, metrics=[name])
    assert f"has no metric {name!r} to compare" in str(caught.value)
    assert "exact_match, exact_match/pass^1" in str(caught.value)
    assert "/median, /p90, /p95, /p99" in str(caught.value)


def test_a_gate_decides_by_them(runs: tuple[str, str], tmp_path: Path) -> None:
    gate = {"against": runs[0], "metrics": [LATENCY, "exact_match/pass^2"], "margins": {LATENCY: 0.5}}
    after = run(tmp_path, "after", rows(1.6, 3, 7), gate=gate)
    found = compare(runs[0], after)
    assert ({d.metric for d in found.differences}, found.exit_code) == ({LATENCY, "exact_match/pass^2"}, 1)
    for change, text in (
        (
            {"metrics": ["latency_in_seconds/p96"]},
            "gate.metrics: no metric named 'latency_in_seconds/p96'; did you mean",
        ),
        ({"metrics": ["exact_match/pass^4"]}, "gate.metrics: no metric named 'exact_match/pass.4'"),
        (
            {"metrics": ["exact_match/p90"], "margins": {"exact_match/p90": 1.5}},
            r"gate.margins.exact_match/p90: found 1\.5 for exact_match/p90",
        ),
        ({"margins": {"exact_match/pass^2": 1}}, r"gate.margins.exact_match/pass\^2: found 1 for exact_match/pass\^2"),
    ):
        with pytest.raises(ConfigError, match=text):
            run(tmp_path, "refused", rows(1.6, 3, 7), gate={**gate, **change})
    assert not (tmp_path / "refused").exists()


def test_an_earlier_run_without_so_many_trials_shows_nothing(runs: tuple[str, str], tmp_path: Path) -> None:
    single = run(tmp_path, "single", rows(1.0, 1, 9))
    found = compare(single, runs[1], metrics=["exact_match/pass^2"])
    assert (found.differences[0].gained, found.exit_code) == (300, 4)
    assert found.differences[0].reason == "no instance has a score in both runs"


def test_changes_are_of_the_scores_behind_the_names(runs: tuple[str, str]) -> None:
    some = list(changes(*runs, metrics=[LATENCY, "exact_match/pass^2"]))
    assert {one["metric"] for one in some} == {"latency_in_seconds", "exact_match"}
    assert some == list(changes(*runs, metrics=["latency_in_seconds", "exact_match"]))

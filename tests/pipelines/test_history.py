"""Runs over time: real runs, of which some from a day on answer worse."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import google.auth
import pandas as pd
import pyarrow.parquet as pq
import pytest
from bigquery_server import serving_bigquery
from google.oauth2.credentials import Credentials

from evalbeam import ConfigError, evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.history import history

STEP = 7


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve daily runs; from the eighth on fewer answers are right, the prompts are others, and so is a setting."""
    folder = tmp_path_factory.mktemp("history")
    for day in range(12):
        later = day >= STEP
        right = 80 - 30 * later + day % 3
        rows = [
            {"prompt": f"{'b' if later else 'a'}{i}", "reference": "yes", "response": "yes" if i < right else "no"}
            for i in range(100)
        ]
        metrics = ["exact_match", {"metric": "rouge_l", "use_stemmer": False}]
        output = folder / f"day-{day:02d}"
        evaluate(rows, metrics, output=str(output), statistics={"on_failure": "worst" if later else "exclude"})
        path = output / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["measured"]["started"] = 1_800_000_000 + 86_400 * day
        path.write_text(json.dumps(manifest))
    (folder / "no-run").mkdir()
    return folder


def test_the_run_that_changed_is_named_with_what_else_changed(runs: Path) -> None:
    found = history([f"{runs}/*"], metrics=["exact_match", "failure"])
    assert [Path(run).name for run, _ in found.runs] == [f"day-{day:02d}" for day in range(12)]
    ((metric, point),) = found.changes
    assert (metric, Path(point.run).name, point.date) == ("exact_match", "day-07", "2027-01-22T08:00:00Z")
    assert point.change is not None
    assert point.change.before == pytest.approx(0.81, abs=0.01)
    assert point.change.after == pytest.approx(0.51, abs=0.01)
    assert point.also_changed == ("statistics", "rows, as many others")


def test_the_command_prints_and_writes_it(runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    written = str(tmp_path / "history.parquet")
    assert main(["history", f"{runs}/day-*", "--metrics", "exact_match,failure", "--output", written]) == 0
    out = capsys.readouterr().out
    assert "12 runs, 2027-01-15T08:00:00Z … 2027-01-26T08:00:00Z" in out
    assert f"2027-01-22T08:00:00Z  exact_match 0.809 → 0.512, p 0.003: {runs}/day-07" in out
    assert "  also changed: statistics, rows, as many others" in out
    table = pd.read_parquet(written)
    assert len(table) == 24
    assert list(table[table["change"]]["run"]) == [f"{runs}/day-07"]
    assert main(["history", *map(str, sorted(runs.glob("day-*"))), "--as", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["metric"] for row in rows} == {"failure", "exact_match", "rouge_l"}
    assert sum(row["change"] for row in rows) == 2


@pytest.fixture
def warehouse(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The summaries of the runs as they are loaded into BigQuery, over the REST API of a fake; the table's address."""
    found = []
    for path in sorted(runs.glob("day-*")):
        day = {"run_id": f"gs://runs/{path.name}", "run_date": f"2027-01-{15 + int(path.name[4:]):02d}"}
        found += [{**day, **row} for row in pq.read_table(path / "summary.parquet").to_pylist()]
    floats = ("mean", "ci_low", "ci_high")
    types = {
        "run_date": "DATE",
        **dict.fromkeys(floats, "FLOAT"),
        **dict.fromkeys(("row_count", "scored_count"), "INTEGER"),
    }
    schema = [{"name": name, "type": types.get(name, "STRING"), "mode": "NULLABLE"} for name in found[0]]
    monkeypatch.setattr(google.auth, "default", lambda **_: (Credentials(token="t"), "p"))
    with serving_bigquery(evals="EU") as server:
        for table, fields in (("nightly_summary", schema), ("undated", [f for f in schema if f["name"] != "run_date"])):
            server.tables[f"p.evals.{table}"] = {"resource": {"schema": {"fields": fields}}, "rows": found}
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", server.url)
        yield "bq://p.evals.nightly_summary"


def test_runs_that_were_loaded_into_bigquery_are_followed(
    runs: Path, warehouse: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = history([f"{runs}/*"]), history([warehouse])
    assert [run for run, _ in there.runs] == [f"gs://runs/{Path(run).name}" for run, _ in here.runs]
    assert [date for _, date in there.runs] == [date[:10] for _, date in here.runs]
    assert there.series.keys() == here.series.keys()
    for name, points in there.series.items():
        assert [(p.row["mean"], p.change) for p in points] == [(p.row["mean"], p.change) for p in here.series[name]]
    assert len(there.changes) == len(here.changes) > 0
    assert main(["history", warehouse, "--metrics", "exact_match,failure"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "2027-01-22 exact_match 0.809 → 0.512, p 0.003: gs://runs/day-07" in out
    assert f"{warehouse} does not say what else changed but the number of rows" in out


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("bq://p.evals.undated", "p.evals.undated has no column run_date (allowed: the table summary of runs with"),
        ("bq://p.evals.none", "Not found: Table p.evals.none"),
        ("bq://p.evals", "found 'p.evals' (allowed: project.dataset.table)"),
    ],
)
def test_a_table_that_is_no_history_is_refused(warehouse: str, place: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^runs: .*{re.escape(words)}"):
        history([place])


def test_what_is_no_history_is_said(runs: Path) -> None:
    with pytest.raises(ConfigError, match=r"no finished run at .*no-run"):
        history([runs / "no-run"])
    with pytest.raises(ConfigError, match=r"no metric 'bleu' in .* \(allowed: latency_in_seconds, failure, "):
        history([f"{runs}/*"], metrics=["bleu"])


def test_the_page_shows_the_runs_and_their_change(runs: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(runs / "day-00", hostile)
    given = [*(str(runs / f"day-{day:02d}") for day in range(1, 12)), str(hostile)]
    found = history(given)
    assert main(["history", *given, "--html", str(tmp_path / "history.html")]) == 0
    page = (tmp_path / "history.html").read_text()
    assert page.count('<line class="limit"') == len(found.changes) > 0
    assert page.count("<polyline") == len(found.series)
    assert page.index("day-11") < page.index("day-01") < page.index("&lt;img src=x onerror=alert(1)&gt;")
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"<(script|img|link)\b|<[^>]*\b(src|href)=", page)

"""What the server finds, sorts and shows of a run's rows, against pandas on the same table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.display.digest import make_fault_finder, make_score_tests
from evalbeam.pipelines.report.page import render_page
from evalbeam.pipelines.report.scan import Bins, scan
from evalbeam.pipelines.run.tables import rows_of, summary_rows
from evalbeam.pipelines.view.faults import find_faults
from evalbeam.pipelines.view.query import Finder, Query, Superseded
from evalbeam.pipelines.view.run_view import RunView
from evalbeam.pipelines.view.table import RunTable

HOSTILE = "</script><script>document.title='broken'</script>"
View = Callable[..., Any]


@pytest.fixture(scope="module")
def shown(result: EvaluationResult, tmp_path_factory: pytest.TempPathFactory) -> RunView:
    return RunView(EvaluationResult.load(result.output), str(tmp_path_factory.mktemp("copies")))


@pytest.fixture(scope="module")
def frame(result: EvaluationResult) -> pd.DataFrame:
    return EvaluationResult.load(result.output).metrics_table


def texts_of(frame: pd.DataFrame) -> pd.Series:
    """All texts of each row, in lower case; JSON as orjson writes it."""
    named = [name for name in frame if frame[name].map(lambda v: isinstance(v, str | dict | list)).any()]
    shown = frame[named].map(
        lambda v: "" if v is None else v if isinstance(v, str) else json.dumps(v, separators=(",", ":"))
    )
    return shown.apply(lambda row: "\n".join(v for v in row if isinstance(v, str)), axis=1).str.lower()


# --------------------------------------------------------------------------------------------------- against pandas


@pytest.mark.parametrize(
    ("query", "mask"),
    [
        (Query(), lambda f: f["trial"] == f["trial"]),
        (Query(status="failed"), lambda f: f["status"] == "failed"),
        (
            Query(search="KITCHEN question"),
            lambda f: texts_of(f).map(lambda t: all(word in str(t) for word in ("kitchen", "question"))),
        ),
        (Query(search="k3"), lambda f: texts_of(f).str.contains("k3")),
        (Query(search="日本語"), lambda f: f["group"] == "日本語"),
        (Query(search="100%"), lambda f: f["trial"] < 0),
        (Query(search="/question 1\\d of/"), lambda f: f["prompt"].str.contains(r"Question 1\d of")),
        (Query(search="/question 1\\d of/s"), lambda f: f["trial"] < 0),  # with flags the case counts
        (Query(search="/QUESTION 1\\d of/i"), lambda f: f["prompt"].str.contains(r"Question 1\d of")),
        (Query(search="/^no 1$/"), lambda f: f["response"] == "no 1"),
        (Query(search="recordedfailure"), lambda f: f["status"] == "failed"),
        (Query(slices=(("group", "a"), ("level", "2"))), lambda f: (f["group"] == "a") & (f["level"] == 2)),
        (Query(slices=(("group", ""),)), lambda f: f["group"].isna()),
        (Query(ranges=(("weight", 2.0, 7.5),)), lambda f: f["weight"].between(2.0, 7.5)),
        (Query(ranges=(("rouge_l/score", 1.0, np.inf),)), lambda f: f["rouge_l/score"] >= 1),
        (Query(fault="exact_match is below 0.9"), lambda f: f["exact_match/score"] < 0.9),
        (Query(fault="call: RecordedFailure"), lambda f: f["status"] == "failed"),
        (Query(fault="*"), lambda f: (f["exact_match/score"] < 0.9) | (f["status"] == "failed")),
        (Query(fault="nobody"), lambda f: f["trial"] < 0),
        (
            Query(search="cellar", status="ok", ranges=(("weight", -np.inf, 5.0),)),
            lambda f: f["prompt"].str.contains("cellar") & (f["status"] == "ok") & (f["weight"] <= 5),
        ),
    ],
)
def test_rows_are_those_that_pandas_finds(
    shown: RunView, frame: pd.DataFrame, query: Query, mask: Callable[[pd.DataFrame], Any]
) -> None:
    positions, problem = shown.finder.find(query)
    assert problem == ""
    assert positions.tolist() == np.flatnonzero(mask(frame)).tolist()


@pytest.mark.parametrize(
    "name", ["weight", "rouge_l/score", "exact_match/score", "level", "prompt", "group", "latency_in_seconds", "status"]
)
@pytest.mark.parametrize("descending", [False, True])
def test_the_order_is_that_of_pandas(shown: RunView, frame: pd.DataFrame, name: str, descending: bool) -> None:
    positions, _ = shown.finder.find(Query(sort=f"-{name}" if descending else name))
    expected = frame[name].sort_values(ascending=not descending, kind="stable", na_position="last")
    assert positions.tolist() == expected.index.tolist()


@settings(max_examples=60)
@given(
    low=st.floats(-1, 11), high=st.floats(-1, 11), group=st.sampled_from(["", "a", "b", "日本語"]),
    level=st.sampled_from(["0", "1", "2"]), word=st.sampled_from(["", "kitchen", "cellar 3", "no 1", "k5"]),
    sort=st.sampled_from(["", "weight", "-weight", "-rouge_l/score"]),
)  # fmt: skip
def test_any_question_is_answered_as_pandas_would(
    shown: RunView, frame: pd.DataFrame, low: float, high: float, group: str, level: str, word: str, sort: str
) -> None:
    slices = (("group", group), ("level", level))
    positions, _ = shown.finder.find(Query(search=word, slices=slices, ranges=(("weight", low, high),), sort=sort))
    mask = frame["weight"].between(low, high) & (frame["level"] == int(level))
    mask &= frame["group"].isna() if group == "" else frame["group"] == group
    found = texts_of(frame)
    for one in word.split():
        mask &= found.str.contains(one, regex=False)
    kept = frame[mask]
    if sort:
        kept = kept.sort_values(sort.removeprefix("-"), ascending=sort[0] != "-", kind="stable", na_position="last")
    assert positions.tolist() == kept.index.tolist()


def test_what_is_no_expression_of_re2_is_told(shown: RunView) -> None:
    for search in ("/(/", "/(a)\\1/", "/a(?=b)/"):
        positions, problem = shown.finder.find(Query(search=search, status="failed"))
        assert problem.startswith("Not a regular expression: ")
        assert len(positions) == 30  # the other filters hold


def test_an_expression_that_backtracks_elsewhere_takes_no_time(tmp_path: Path) -> None:
    rows = [{"prompt": "a" * 50_000 + "!", "reference": "a", "response": "a"}]
    result = evaluate(rows, ["exact_match"], output=str(tmp_path / "out"))
    assert re.fullmatch("(a+)+", "aaaa")  # Python's would need longer than the universe is old for the text below
    finder = Finder(RunTable(result, str(tmp_path)), {})
    assert len(finder.find(Query(search="/^(a+)+$/"))[0]) == 1  # the response matches, the prompt does not
    assert len(finder.find(Query(search="/^(a|aa|a?)+b$/"))[0]) == 0


def test_a_search_for_which_nobody_waits_ends(shown: RunView) -> None:
    with pytest.raises(Superseded):
        shown.finder.find(Query(search="nobody waits"), lambda: False)


# ----------------------------------------------------------------------------------------------- faults and figures


def test_failing_rows_are_those_of_the_report(result: EvaluationResult, tmp_path: Path) -> None:
    summary = summary_rows(result)
    table = RunTable(result, str(tmp_path))
    find, expected = make_fault_finder(result, summary), {}
    for position, row in enumerate(rows_of(result, "instances")):
        for fault in find(row):
            expected.setdefault(fault.group, []).append(position)
    found = find_faults(table, make_score_tests(result, summary))
    assert {name: positions.tolist() for name, positions in found.items()} == expected
    assert len(expected) >= 2


def test_errors_of_metrics_are_faults(tmp_path: Path) -> None:
    def fail(row: dict[str, Any]) -> float:
        if "3" in str(row["prompt"]):
            raise ValueError(f"no score of {row['prompt']}")
        return 1.0

    rows = [{"prompt": f"p{i}", "response": "a"} for i in range(40)]
    result = evaluate(rows, [{"name": "own", "metric": fail}], output=str(tmp_path / "out"))
    summary = summary_rows(result)
    find = make_fault_finder(result, summary)
    expected = [i for i, row in enumerate(rows_of(result, "instances")) if find(row)]
    found = find_faults(RunTable(result, str(tmp_path)), make_score_tests(result, summary))
    assert [positions.tolist() for positions in found.values()] == [expected]
    assert len(expected) == 13


def test_the_page_shows_the_figures_of_the_report(result: EvaluationResult, shown: RunView) -> None:
    whole, ours = scan(result, summary_rows(result)), shown._scan()
    assert ours.histograms == whole.histograms
    assert (ours.failing, ours.scanned, ours.total) == (whole.failing, whole.scanned, whole.total)
    assert [(g.name, g.count, g.examples) for g in ours.groups] == [(g.name, g.count, g.examples) for g in whole.groups]


@given(st.lists(st.one_of(st.floats(), st.floats(0, 1e6)), max_size=60))
def test_a_column_is_counted_as_its_values_are(values: list[float]) -> None:
    one, whole = Bins(None), Bins(None)
    for value in values:
        if value >= 0 or value != value:
            one.add(value)
    whole.add_all(np.array([v for v in values if v >= 0 or v != v], np.float64))
    assert (one.counts, one.count, one.axis) == (whole.counts, whole.count, whole.axis)


# ------------------------------------------------------------------------------------------------------- the answers


def test_pages_of_rows_hold_the_values_of_the_table(result: EvaluationResult, frame: pd.DataFrame, view: View) -> None:
    client = view(result.output)
    asked = [
        ("page", "2"),
        ("size", "50"),
        ("sort", "-weight"),
        *(("col", name) for name in ("prompt", "weight", "tags")),
    ]
    found = client.get("rows?" + urlencode(asked)).value
    expected = frame.sort_values("weight", ascending=False, kind="stable")[100:150]
    assert (found["count"], found["page"], found["problem"]) == (330, 2, "")
    assert [row["values"]["prompt"] for row in found["rows"]] == expected["prompt"].tolist()
    assert [row["values"]["instance_id"] for row in found["rows"]] == expected["instance_id"].tolist()
    assert [json.loads(row["values"]["tags"]) for row in found["rows"]] == expected["tags"].tolist()
    last = client.get("rows?page=999&size=50").value
    assert (last["page"], len(last["rows"])) == (6, 30)
    assert len(client.get("rows?size=100000").value["rows"]) == 200


def test_a_row_opens_with_its_place(result: EvaluationResult, frame: pd.DataFrame, view: View) -> None:
    client = view(result.output)
    row = frame.iloc[77]
    found = client.get("row?" + urlencode({"row": row["instance_id"], "size": 50})).value
    assert (found["page"], found["place"], len(found["trials"])) == (1, 27, 1)
    for name, value in found["row"]["values"].items():
        expected = row[name]
        missing = expected is None or expected != expected
        assert (
            value is None if missing else value == (pytest.approx(expected) if isinstance(value, float) else expected)
        )
    other = "failed" if row["status"] == "ok" else "ok"
    assert client.get("row?" + urlencode({"row": row["instance_id"], "status": other})).value["place"] == -1
    assert client.get("row?row=nobody").value is None


@pytest.mark.parametrize("form", [{"format": "jsonl"}, {"format": "csv"}, {"format": "jsonl", "compression": "gzip"}])
def test_other_formats_are_shown_alike(shown: RunView, make: Callable[..., Any], tmp_path: Path, form: Any) -> None:
    other = RunView(make(tmp_path / "out", output_options=form), str(tmp_path))
    names = ["instance_id", "prompt", "group", "weight", "level", "status", "exact_match/score", "tags", "trial"]
    everything = np.arange(other.table.size)
    assert other.table.read(everything, names) == shown.table.read(everything, names)
    query = Query(search="kitchen", sort="-weight", slices=(("level", "1"),))
    assert other.finder.find(query)[0].tolist() == shown.finder.find(query)[0].tolist()
    assert {name: at.tolist() for name, at in other.faults.items()} == {
        n: at.tolist() for n, at in shown.faults.items()
    }
    assert other.page().count("<tr") == shown.page().count("<tr")


def test_long_cells_are_cut(tmp_path: Path, view: View) -> None:
    rows = [{"prompt": "p", "reference": "yes", "response": "<b>&\u2028" * 500_000}]
    result = evaluate(rows, ["exact_match"], output=str(tmp_path / "out"))
    client = view(result.output)
    assert len(client.get("rows?col=response").body) < 2_000
    found = client.get("row?" + urlencode({"row": result.metrics_table["instance_id"][0]}))
    assert len(found.body) < 200_000
    assert "(cut: 2,500,000 characters)" in found.value["row"]["values"]["response"]


def test_the_trials_of_an_instance_are_shown_together(tmp_path: Path, view: View) -> None:
    said = iter(range(100))
    rows = [{"prompt": f"p{i}"} for i in range(5)]
    result = evaluate(
        rows, ["latency_in_seconds"], lambda prompt: f"said {next(said)}", output=str(tmp_path / "o"), trials=3
    )
    first = result.metrics_table.iloc[4]
    asked = {"row": first["instance_id"], "trial": str(first["trial"])}
    found = view(result.output).get("row?" + urlencode(asked)).value
    assert [row["values"]["trial"] for row in found["trials"]] == [0, 1, 2]
    assert found["row"]["values"]["response"] == first["response"]


def test_the_report_still_holds_its_rows(result: EvaluationResult) -> None:
    page = render_page(result)
    assert "connect-src" not in page
    assert '"served"' not in page


def test_an_opened_row_has_the_spans_of_its_trace(tmp_path: Path, view: View) -> None:
    span = {"span_id": "a", "name": HOSTILE, "start_time_unix_nano": 5_000_000, "end_time_unix_nano": 12_000_000}
    trace = {"info": {"trace_id": "1"}, "data": {"spans": [span]}, "padding": "x" * 100_000}
    rows = [{"prompt": f"q{i}", "response": "x", "reference": "y", **({"trace": trace} if i else {})} for i in range(2)]
    result = evaluate(rows, ["exact_match"], output=str(tmp_path / "run"))
    client = view(result.output)
    for row in rows_of(result, "instances"):
        spans = client.get("row?" + urlencode({"row": row["instance_id"]})).value["row"]["spans"]
        shown = [{"name": HOSTILE, "kind": "UNKNOWN", "level": 0, "start": 0.0, "took": 7.0}]
        assert spans == (shown if row["prompt"] == "q1" else None)

"""The list of a folder's runs and the comparison of two, as the server shows them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam import EvaluationResult, compare
from evalbeam.pipelines.drawing.trends import HEIGHT, draw_trend
from evalbeam.pipelines.view.changes import KINDS, Scored, judge_rows
from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.paired import Scale

View = Callable[..., Any]
Make = Callable[..., EvaluationResult]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, make: Make) -> Path:
    """Three runs of different days, of which the last is worse, one of them with a hostile name; and what is no run."""
    folder = tmp_path_factory.mktemp("runs")
    for day, (name, right) in enumerate((("first", 2), ("a&b <i>c", 2), ("worse", 4))):
        make(folder / name, right=right)
        path = folder / name / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["measured"]["started"] = 1_800_000_000 + 86_400 * day
        path.write_text(json.dumps(manifest))
    (folder / "empty").mkdir()
    (folder / "broken").mkdir()
    (folder / "broken" / "manifest.json").write_text("{")
    return folder


def test_a_folder_of_runs_is_listed(runs: Path, view: View) -> None:
    client = view(str(runs))
    page = client.get().body.decode()
    assert "<script" not in page
    assert page.index("worse") < page.index("a&amp;b &lt;i&gt;c") < page.index(">first<")  # the newest first
    assert "2027-01-17T08:00:00Z" in page
    assert "not valid JSON" in page  # of the broken one
    assert page.count("<polyline") == 3  # a line for each metric
    assert 'href="a%26b%20%3Ci%3Ec/"' in page
    assert client.get("a%26b%20%3Ci%3Ec/").status == 200
    assert client.get("worse/rows?size=1").value["count"] == 330
    assert client.get("empty/").status == 404
    assert client.get("broken/").status == 400


def test_a_run_that_appears_is_listed(runs: Path, view: View, make: Make) -> None:
    client = view(str(runs))
    assert client.get("later/").status == 404
    make(runs / "later")
    assert b'href="later/"' in client.get().body
    assert client.get("later/").status == 200


def test_two_runs_are_compared(runs: Path, view: View) -> None:
    client = view(str(runs / "first"), str(runs / "worse"))
    page = client.get().body.decode()
    assert "WORSE" in page
    assert "Newly failing" in page
    assert 'id="explorer"' in page
    old, new = (
        EvaluationResult.load(str(runs / name)).metrics_table.set_index("prompt")["rouge_l/score"]
        for name in ("first", "worse")
    )
    change = (new - old).dropna().sort_values(kind="stable")
    columns = [("col", name) for name in ("prompt", "rouge_l/before", "rouge_l/change")]
    found = client.get("rows?" + urlencode([("sort", "rouge_l/change"), ("size", "100"), *columns])).value
    values = [row["values"] for row in found["rows"]]
    assert [one["rouge_l/change"] for one in values] == pytest.approx(change[:100].tolist())
    for one in values:
        assert one["rouge_l/before"] == pytest.approx(old[one["prompt"]])
    low = client.get("rows?" + urlencode({"range.rouge_l/change": "..-0.5"})).value["count"]
    assert low == int((change <= -0.5).sum()) > 0
    assert client.get("before/").status == client.get("after/").status == 200


def test_a_trend_keeps_within_its_box() -> None:
    rows = [{"mean": m, "ci_low": m - 0.1, "ci_high": m + 0.1} for m in (0.2, 0.9, 0.4)]
    found = draw_trend([0, 2, 3], rows, [2], 4)
    points = [tuple(map(float, point.split(","))) for point in (found.line + " " + found.band).split()]
    assert [x for x, _ in points[:3]] == [0.0, 66.67, 100.0]
    assert all(0 <= x <= 100 and 0 <= y <= HEIGHT for x, y in points)
    assert points[1][1] < points[2][1] < points[0][1]  # the higher the mean, the nearer to the top
    assert found.changes == [66.67]
    flat = draw_trend([0], [{"mean": 1.0, "ci_low": None, "ci_high": None}], [], 1)
    assert (flat.band, flat.last) == ("", (0.0, HEIGHT / 2))


def test_rows_that_fail_now_stand_first(runs: Path, view: View) -> None:
    folders = [str(runs / name) for name in ("first", "worse")]
    client = view(*folders)
    asked = [("sort", "change"), ("size", "200"), *(("col", name) for name in ("change", "exact_match/change"))]
    assert json.loads(re.search(r'id="rows">(.*?)</script>', client.get().body.decode())[1])["sort"] == "change"
    found = client.get("rows?" + urlencode(asked)).value["rows"]
    kinds = [row["values"]["change"] for row in found]
    assert kinds == sorted(kinds, key=KINDS.index)
    counts = {d.metric: (d.newly_failing, d.fixed) for d in compare(*folders).differences if not d.slice}
    for kind, expected in zip(KINDS, counts["exact_match"], strict=False):
        given = urlencode({"slice.change": kind, "range.exact_match/change": "-1..-1" if expected else "..", "size": 1})
        assert client.get(f"rows?{given}").value["count"] == expected
    assert counts["exact_match"][0] > 0


@given(st.data())
def test_changes_are_judged_as_by_the_comparison(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 5))
    score = st.sampled_from([0.0, 0.25, 0.5, 1.0, math.nan])
    scored = {}
    for name in "abc"[: data.draw(st.integers(1, 3))]:
        bound = data.draw(st.sampled_from([None, Threshold(0.5), Threshold(0.25, at_most=True)]))
        scale = Scale(data.draw(st.booleans()), *data.draw(st.sampled_from([(0.0, 1.0), (None, None)])), bound)
        sides = [np.array(data.draw(st.lists(score, min_size=size, max_size=size))) for _ in range(2)]
        scored[name] = Scored(scale, None, *sides)
    paired = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    codes, ranks = judge_rows(scored, paired)
    for i, place in enumerate(codes.places.tolist()):
        changed = [
            (one.scale, a, b)
            for one in scored.values()
            if not math.isnan(a := float(one.before[i])) and not math.isnan(b := float(one.after[i])) and a != b
        ]
        gains = [scale.gain(a, b) for scale, a, b in changed]
        passes = [(scale.passes(a), scale.passes(b)) for scale, a, b in changed]
        kind = "worse" if any(gain < 0 for gain in gains) else "better" if gains else "unchanged"
        kind = "newly failing" if (True, False) in passes else "fixed" if (False, True) in passes else kind
        assert codes.values[place] == (kind if paired[i] else "not in the first run")
        assert place <= ranks[i] <= place + 1

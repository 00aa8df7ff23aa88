"""The explorer of the page in a real browser: it filters, opens rows and keeps its state in the address."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.report import rows as packing
from evalbeam.pipelines.report import scan
from evalbeam.pipelines.report.page import render_page, write_report

Browse = Callable[..., str]


def words(dom: str) -> str:
    """The text of a document, without scripts and style."""
    return unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style)\b.*?</\1>", " ", dom, flags=re.S)))


def count(dom: str) -> str:
    """What the explorer says of the number of rows."""
    found = re.search(r'role="status"[^>]*>([^<]*)<', dom)
    assert found, dom[-2000:]
    return found[1]


def panel(dom: str) -> str:
    """The row that is open."""
    found = re.search(r"<dialog\b[^>]*\bopen\b.*?</dialog>", dom, re.S)
    assert found, "no row is open"
    return found[0]


def fragment(**state: str) -> str:
    return "#" + "&".join(f"{key.replace('__', '.')}={quote(value)}" for key, value in state.items())


def unpack(column: dict[str, Any], size: int) -> list[Any]:
    """The values of a packed column."""
    if "all" in column:
        return [column["all"]] * size
    return column.get("values") or [column["different"][place] for place in column["places"]]


@pytest.fixture(scope="module")
def page(result: EvaluationResult) -> Path:
    return Path(write_report(result))


def test_it_becomes_ready_and_shows_every_row(page: Path, browse: Browse) -> None:
    dom = browse(page)
    assert 'data-ready="true"' in dom
    assert count(dom) == "24 of 24 rows."
    assert dom.count("<tr") > 24
    assert not re.search(r"<dialog\b[^>]*\bopen\b", dom)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"status": "failed"}, 3),
        ({"q": "QUESTION 日本語"}, 5),  # both words, in whichever columns
        ({"q": r"/question 1\d/"}, 10),
        ({"q": r"/QUESTION 1\d/i"}, 10),
        ({"slice__group": "日本語"}, 6),
        ({"range__exact_match/score": "1..1"}, 12),
        ({"range__latency_in_seconds": "..0.05"}, 6),
        ({"fault": "call: RecordedFailure"}, 3),
        ({"fault": "exact_match is below 0.9", "slice__group": "a"}, 2),
    ],
)
def test_the_address_filters(
    page: Path, result: EvaluationResult, browse: Browse, state: dict[str, str], expected: int
) -> None:
    assert count(browse(page, fragment(**state))) == f"{expected} of 24 rows."


def test_what_is_no_regular_expression_is_told(page: Path, browse: Browse) -> None:
    assert count(browse(page, fragment(q="/(/"))).startswith("Not a regular expression: ")


def test_rows_are_sorted_and_those_without_a_value_stand_last(
    page: Path, result: EvaluationResult, browse: Browse
) -> None:
    dom = browse(page, fragment(sort="-latency_in_seconds", cols="latency_in_seconds"))
    shown = re.findall(r'<td class="n[^>]*>([^<]*)</td></tr>', dom.partition('class="wide rows"')[2])
    values = sorted(result.metrics_table["latency_in_seconds"].dropna(), reverse=True)
    assert shown[:21] == [f"{value:g}" for value in values]
    assert set(shown[21:]) == {"–"}


def test_a_row_opens_with_all_that_is_known_of_it(page: Path, result: EvaluationResult, browse: Browse) -> None:
    table = result.metrics_table
    row = table[table["prompt"] == "question 6"]
    assert list(row["status"]) == ["failed"]
    shown = words(panel(browse(page, fragment(row=row["instance_id"].iloc[0]))))
    assert "call: RecordedFailure" in shown
    other = table[table["prompt"] == "question 9"].iloc[0]
    opened = panel(browse(page, fragment(row=other["instance_id"])))
    shown = re.sub(r"\s+", " ", words(opened))
    assert "exact_match is below 0.9" in shown
    assert re.search(r"Scores Metric Score Why exact_match 0 ", shown)
    assert f"evalbeam show {result.output} {other['instance_id']}" in shown


def test_no_text_of_a_row_is_read_as_html(page: Path, result: EvaluationResult, browse: Browse, hostile: str) -> None:
    ids = result.metrics_table.set_index("prompt")["instance_id"]
    states = [fragment(row=ids[name]) for name in ids.index if "question 0" in name or "<script>" in name]
    given = {f"slice__{hostile}": hostile, f"range__{hostile}": hostile}
    states.append(fragment(q=hostile, fault=hostile, sort=hostile, cols=hostile, row=hostile, **given))
    for state in ["", *states]:
        dom = browse(page, state)
        bare = re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", dom, flags=re.S)
        assert "<title>Evaluation " in dom
        assert 'data-ready="true"' in dom
        assert not re.search(r"<(script|img)\b", bare)
        assert not re.search("[\x00-\x08\x1b\u2028\u2029\u202e]", words(dom))


def test_a_script_that_is_not_ours_does_not_run(page: Path, tmp_path: Path, browse: Browse) -> None:
    foreign = "<script>document.title = 'broken'</script><p onclick='0' style='color:red'>here</p>"
    (tmp_path / "other.html").write_text(page.read_text().replace("</body>", foreign + "</body>"))
    dom = browse(tmp_path / "other.html")
    assert "<title>Evaluation " in dom
    assert 'data-ready="true"' in dom


def press(page: str, *keys: str) -> str:
    """The page with a script that presses keys once the explorer is ready; the policy that forbids it is left out."""
    script = f"""<script>(async () => {{
      while (!document.getElementById("explorer").dataset.ready) await new Promise((done) => setTimeout(done, 5));
      for (const key of {json.dumps(keys)}) {{
        (document.activeElement || document.body).dispatchEvent(new KeyboardEvent("keydown", {{key, bubbles: true}}));
        await new Promise((done) => setTimeout(done, 0));
      }}
      document.querySelector("main").dataset.hash = location.hash;
    }})()</script>"""
    return re.sub("<meta http-equiv[^>]*>", "", page).replace("</body>", script + "</body>")


def test_keys_move_and_open(page: Path, result: EvaluationResult, tmp_path: Path, browse: Browse) -> None:
    table = result.metrics_table
    for keys, expected in ((("j", "j", "Enter"), 1), (("j", "j", "j", "k", "Enter"), 1), (("j", "Enter", "j", "j"), 2)):
        (tmp_path / "pressed.html").write_text(press(page.read_text(), *keys))
        dom = browse(tmp_path / "pressed.html")
        assert table["instance_id"][expected] in panel(dom)
        assert f'data-hash="#row={table["instance_id"][expected]}"' in dom


# --------------------------------------------------------------------------------------------------- differences


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": given}


ALIGNED = [
    ([call("a"), call("b")], [call("a"), call("b")], ["same", "same"]),
    ([call("a"), call("b")], [call("b")], ["missing", "same"]),
    ([call("b")], [call("a"), call("b")], ["extra", "same"]),
    ([call("a", x=1, y=2)], [call("a", y=2, x=1)], ["same"]),
    ([call("a", x=1)], [call("a", x=2)], ["wrong argument"]),
    ([call("a"), call("b"), call("c")], [call("a"), call("z"), call("c")], ["same", "wrong tool", "same"]),
    ([], [call("a")], ["extra"]),
    ([call("a")], [], ["missing"]),
]


def test_trajectories_are_aligned_step_by_step(tmp_path: Path, browse: Browse) -> None:
    rows = [
        {"prompt": f"p{i}", "response": "x", "reference_trajectory": reference, "predicted_trajectory": predicted}
        for i, (reference, predicted, _) in enumerate(ALIGNED)
    ]
    result = evaluate(rows, ["trajectory_exact_match"], output=tmp_path / "out")
    path, ids = write_report(result), result.metrics_table.set_index("prompt")["instance_id"]
    for i, (_, _, expected) in enumerate(ALIGNED):
        opened = panel(browse(path, fragment(row=ids[f"p{i}"])))
        assert re.findall(r'<td class="verdict-cell"[^>]*>([^<]*)<', opened) == expected


def test_the_difference_of_texts_keeps_both(tmp_path: Path, browse: Browse) -> None:
    rows = [{"prompt": "p", "reference": "The light is on, café.", "response": "The lamp is on now, café."}]
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    opened = panel(browse(write_report(result), fragment(row=result.metrics_table["instance_id"][0])))
    before, after = re.findall(r"<h4[^>]*>(?:Expected|Response)</h4><pre[^>]*>(.*?)</pre>", opened)
    assert (unescape(re.sub("<.*?>", "", before)), unescape(re.sub("<.*?>", "", after))) == (
        rows[0]["reference"],
        rows[0]["response"],
    )
    assert re.findall("<del[^>]*>(.*?)</del>", before) == ["light"]
    assert "".join(re.findall("<ins[^>]*>(.*?)</ins>", after)).split() == ["lamp", "now"]


def test_votes_turns_and_trials_are_shown(tmp_path: Path, browse: Browse) -> None:
    said = iter(range(100))

    def ask(prompt: str) -> dict[str, Any]:
        turns = [{"prompt": prompt, "response": f"first {next(said)}"}, {"prompt": "and then?", "response": "last"}]
        return {"response": "last", "turns": turns}

    judge = {"target": lambda messages, schema: {"score": 4, "explanation": "well said"}}
    metrics = [{"name": "spoken", "metric": "fluency", "samples": 2}]
    result = evaluate([{"prompt": "hello"}], metrics, ask, output=tmp_path / "o", trials=2, judges={"default": judge})
    opened = words(panel(browse(write_report(result), fragment(row=result.metrics_table["instance_id"][0]))))
    shown = re.sub(r"\s+", " ", opened)
    assert "Conversation user hello agent first" in shown
    assert "trial 0 trial 1" in shown
    assert "default: 4" in shown


# -------------------------------------------------------------------------------------------------------- bounds


def test_a_huge_cell_is_cut(tmp_path: Path, browse: Browse) -> None:
    rows = [{"prompt": "p", "reference": "yes", "response": "<b>&\u2028" * 2_500_000, "failure": False}]
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    path = write_report(result)
    assert Path(path).stat().st_size < 400_000
    dom = browse(path, fragment(row=result.metrics_table["instance_id"][0]))
    assert "(cut: 12,500,000 characters)" in words(panel(dom))


def test_of_many_rows_the_failing_ones_are_held_whole(
    tmp_path: Path, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (packing, scan):
        monkeypatch.setattr(module, "MOST_ROWS", 4)
    monkeypatch.setattr(scan, "MOST_SCANNED", 30)
    rows = [{"prompt": f"p{i}", "reference": "yes", "response": "yes" if i % 4 else "no"} for i in range(60)]
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out", output_options={"shards": 4})
    text = render_page(result)
    found = re.search(r'id="rows">(.*?)</script>', text)
    assert found
    data = json.loads(found[1])
    table = EvaluationResult.load(result.output).metrics_table
    first = table[:30]
    failing = list(first[first["exact_match/score"] == 0]["prompt"])
    assert len(failing) > 4
    assert (data["rows"], data["total"], len(data["partial"])) == (30, 60, 26)
    (prompts,) = [unpack(column, data["rows"]) for column in data["columns"] if column["name"] == "prompt"]
    assert [prompt for prompt in prompts if prompt] == failing[:4]
    told = re.sub(r"\s+", " ", text)
    assert "What follows is of the first 30 of 60 rows" in told
    assert "holds 4 of 60 rows whole, failing ones first, and of 30 the scores and slices" in told
    assert count(browse(write_report(result))) == "30 of 30 rows. The page holds 30 of 60 rows."


def test_the_bytes_of_the_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOST_BYTES", 20_000)
    rows = [{"prompt": f"p{i} " + "<" * 300, "reference": "yes", "response": "no"} for i in range(40)]
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    found = re.search(r'id="rows">(.*?)</script>', render_page(result))
    assert found
    assert len(found[1]) < 25_000
    assert len(json.loads(found[1])["partial"]) > 0


def test_packed_rows_are_the_rows_of_the_table(result: EvaluationResult) -> None:
    found = re.search(r'id="rows">(.*?)</script>', render_page(result))
    assert found
    data = json.loads(found[1])
    for column in data["columns"]:
        values = column.get("values")
        if "all" in column:
            values = [column["all"]] * data["rows"]
        elif values is None:
            values = [column["different"][place] for place in column["places"]]
        expected = [
            None if value is None or value != value else value for value in result.metrics_table[column["name"]]
        ]
        assert values == (pytest.approx(expected) if column["type"] == "float64" else expected)

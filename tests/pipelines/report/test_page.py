"""The page of a run: complete, readable without its script, and nothing in it that a dataset's text could break."""

from __future__ import annotations

import json
import re
import tracemalloc
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.report.page import render_page, write_report

Browse = Callable[..., str]


class Reader(HTMLParser):
    """Elements, attributes and text of a page, its tags counted."""

    VOID = ("meta", "img", "br", "hr", "link", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.code: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.code if self.open[-1:] in (["style"], ["script"]) else self.text).append(data)


def test_the_page_needs_nothing_else_and_escapes_everything(
    result: EvaluationResult, rows: list[dict[str, Any]]
) -> None:
    text = render_page(result)
    page = Reader(text)
    assert not page.tags & {"img", "link", "iframe", "object", "embed", "form"}
    names = [name for name, _ in page.attributes]
    assert not [name for name in names if name in ("src", "style", "srcset") or name.startswith("on")]
    assert all((value or "").startswith("#") for name, value in page.attributes if name == "href")
    assert "url(" not in text
    assert "@import" not in text
    shown = " ".join(page.text)
    assert shown.count("<script>document.title='broken'</script>") > 1
    for word in ("Criteria", "Metrics", "Not scored", "Unusable rows", "Configuration"):
        assert word in shown
    assert "missing_reference 3" in shown
    assert not re.search("[\x00-\x08\x1b\u2028\u2029\u202e]", re.sub("[\u2028\u2029]", "", " ".join(page.text)))
    assert not re.search("[\x00-\x08\x1b\u2028\u2029\u202e]", "".join(page.code))


def test_writing_it_again_gives_the_same_bytes(result: EvaluationResult) -> None:
    path = Path(write_report(result))
    first = path.read_bytes()
    assert write_report(EvaluationResult.load(result.output)) == str(path)
    assert path.read_bytes() == first
    assert {p.name for p in path.parent.iterdir() if p.is_file()} == {
        "errors.parquet",
        "failure_groups.parquet",
        "manifest.json",
        "report.html",
        "summary.parquet",
        "worst_slices.parquet",
    }


def test_the_verdict_comes_first(result: EvaluationResult) -> None:
    words = re.sub(r"\s+", " ", " ".join(Reader(render_page(result)).text))
    assert re.search(r"FAILED 1 of 3 criteria 24 rows 1 unusable 3 calls failed", words)
    assert words.index("FAILED 1 of 3") < words.index("Criteria") < words.index("Metrics")


def test_only_the_own_style_and_script_may_run(result: EvaluationResult) -> None:
    text = render_page(result)
    found = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)
    assert found
    policy = found[1].replace("&#39;", "'")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    for kind, pattern in (("style-src", "<style>(.*?)</style>"), ("script-src", "<script>(.*?)</script>")):
        (inline,) = re.findall(pattern, text, re.S)
        assert rules[kind] == f"'sha256-{b64encode(sha256(inline.encode()).digest()).decode()}'"


def luminance(colour: str) -> float:
    """Relative luminance of #rgb or #rrggbb as WCAG 2.2 defines it."""
    digits = colour.lstrip("#")
    digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
    shares = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_groups_and_slices_of_the_tables_are_on_the_page_with_links_to_rows(tmp_path: Path) -> None:
    step = [{"tool_name": "book", "tool_input": {}}, {"tool_name": "confirm", "tool_input": {}}]
    rows: list[dict[str, Any]] = [
        {
            "prompt": f"p{i}",
            "locale": "de" if i % 4 == 0 else "en",
            "reference_trajectory": step,
            "predicted_trajectory": step[:1] if i % 4 == 0 else step,
            **({"failure": 1, "error_type": "Timeout", "error_message": f"took {i} s"} if i % 25 == 7 else {}),
        }
        for i in range(400)
    ]
    lines = [*map(json.dumps, rows), "{broken"]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    result = evaluate(str(tmp_path / "rows.jsonl"), ["trajectory_exact_match"], output=tmp_path / "out")
    text = render_page(result)
    for row in result.failure_groups_table.to_dict("records"):
        shown = text.partition('id="groups"')[2].partition("</section>")[0]
        block = shown.partition(f"{row['message'][:20]}")[2].partition("</li>")[0]
        assert f"<b>{row['count']}</b>" in block
        example = row["examples"][0]
        assert (example in block) if row["kind"] == "row" else (f'href="#row={example}"' in block)
    worst = result.worst_slices_table.iloc[0]
    shown = text.partition('id="worst"')[2].partition("</section>")[0]
    assert "locale=de" in shown
    assert f'href="#row={worst["examples"][0]}"' in shown
    assert re.search(r"<b>0\.000</b></td><td class=\"n\">1\.000</td>", shown)


def test_a_page_is_written_without_copies_of_it_in_memory(tmp_path: Path) -> None:
    rows = [
        {
            "prompt": f"p{i} " + "word " * 400,
            "reference": "yes",
            "response": f"no {i}",
            "reference_trajectory": [{"tool_name": "open", "tool_input": {"row": i, "step": j}} for j in range(20)],
        }
        for i in range(3000)
    ]
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    tracemalloc.start()
    path = write_report(result)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2.5 * Path(path).stat().st_size  # the texts of the rows, and one piece at a time


@pytest.mark.parametrize("dark", [False, True])
def test_the_colours_of_text_have_enough_contrast(result: EvaluationResult, dark: bool) -> None:
    """WCAG AA: at least 4.5 to 1."""
    blocks = re.findall(r":root \{(.*?)\}", render_page(result), re.S)
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", blocks[dark]))
    pairs = [(ink, back) for ink in ("ink", "soft", "good", "bad", "warn", "mark") for back in ("back", "band")]
    pairs += [(f"{word}", f"{word}-back") for word in ("good", "bad", "warn")]
    pairs += [("ink", "added"), ("ink", "removed"), ("bad", "bad-back")]
    for pair in pairs:
        low, high = sorted(luminance(colours[name]) for name in pair)
        assert (high + 0.05) / (low + 0.05) >= 4.5, pair


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (360, False)])
def test_a_browser_shows_it(result: EvaluationResult, tmp_path: Path, browse: Browse, width: int, dark: bool) -> None:
    measure = """<script>const style = getComputedStyle(document.body)
      parent.postMessage([document.title, innerWidth, document.documentElement.scrollWidth,
        style.backgroundColor, style.color].join("|"), "*")</script>"""
    page = re.sub("<meta http-equiv[^>]*>", "", render_page(result))  # whose rules keep out the script that measures
    (tmp_path / "inner.html").write_text(page.replace("</body>", measure + "</body>"))
    (tmp_path / "outer.html").write_text(
        f'<!doctype html><body><iframe src="inner.html" style="width:{width}px;height:700px;border:0"></iframe>'
        '<pre id="out"></pre><script>onmessage = e => document.getElementById("out").textContent = e.data</script>'
    )
    found = re.search(r'<pre id="out">(.*?)</pre>', browse(tmp_path / "outer.html", dark=dark, size=width + 40))
    assert found
    title, inner, content, background, ink = found[1].split("|")
    assert title == f"Evaluation {result.output}"  # no script of the dataset has run
    assert int(inner) == width
    assert int(content) <= width  # tables scroll on their own, the page does not
    shades = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (background, ink)]
    assert (shades[0] < 150 < 500 < shades[1]) if dark else (shades[1] < 150 < 500 < shades[0])

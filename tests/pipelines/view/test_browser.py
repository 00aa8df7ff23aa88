"""The page of the server in a real browser: it asks the server for rows, and nothing else is fetched."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from browser import Tab, browsing, find_chromium

from evalbeam import EvaluationResult

View = Callable[..., Any]
READY = "document.getElementById('explorer')?.dataset.ready"
HIDDEN = "\u2028"  # shown as the replacement character
COUNT = "document.querySelector('.count').textContent"


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    if find_chromium() is None:
        pytest.skip("no Chromium is installed")
    with browsing() as tab:
        yield tab


def open_page(tab: Tab, address: str) -> None:
    """Opens a page from nothing, so that no part of an earlier one is left."""
    tab.open("about:blank")
    tab.open(address)
    tab.wait(READY)


def test_rows_are_searched_sorted_and_opened(result: EvaluationResult, view: View, tab: Tab) -> None:
    frame = result.metrics_table
    open_page(tab, view(result.output).server.address)
    assert tab.run(COUNT) == "330 of 330 rows."
    assert tab.run("document.querySelectorAll('.rows tbody tr').length") == 50
    tab.run("const box = document.querySelector('input[type=search]'); box.value = 'cellar'; "
            "box.dispatchEvent(new Event('input'))")  # fmt: skip
    tab.wait(f"{COUNT}.startsWith('110 ')")
    tab.run("[...document.querySelectorAll('thead button')].find(b => b.textContent === 'latency_in_seconds').click()")
    tab.wait("document.querySelector('[aria-sort=ascending]')")
    kept = frame[frame["prompt"].str.contains("cellar")].sort_values("latency_in_seconds")
    tab.run("document.querySelector('.rows tbody tr').click()")
    tab.wait("document.querySelector('dialog[open] .body')")
    assert kept["prompt"].iloc[0] in tab.run("document.querySelector('dialog').textContent")
    tab.run("document.querySelector('dialog').dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true}))")
    tab.wait(
        f"document.querySelector('dialog[open]').textContent.includes({json.dumps(kept['prompt'].iloc[1].rpartition(HIDDEN)[2])})"
    )
    assert "sort=latency_in_seconds" in tab.run("location.hash")


def test_the_address_keeps_what_is_seen(result: EvaluationResult, view: View, tab: Tab) -> None:
    frame = result.metrics_table
    row = frame[frame["status"] == "ok"].sort_values("weight", ascending=False, kind="stable").iloc[120]
    state = urlencode({"status": "ok", "sort": "-weight", "row": row["instance_id"]})
    open_page(tab, f"{view(result.output).server.address}#{state}")
    assert tab.run(COUNT) == "300 of 330 rows."
    assert row["prompt"] in tab.run("document.querySelector('dialog[open]').textContent")
    assert tab.run("document.querySelector('.pager span').textContent") == "Page 3 of 6"


def test_no_text_is_read_as_html_and_nothing_else_is_fetched(result: EvaluationResult, view: View, tab: Tab) -> None:
    frame = result.metrics_table
    hostile = frame[frame["prompt"].str.contains("<script>")].iloc[0]
    client = view(result.output)
    open_page(tab, f"{client.server.address}#row={hostile['instance_id']}")
    assert "<script>" in tab.run("document.querySelector('dialog[open]').textContent")
    assert tab.run("document.title") == f"Evaluation {result.output}"
    fetched = tab.run("performance.getEntriesByType('resource').map(one => one.name)")
    assert fetched
    assert all(name.startswith(client.server.address) for name in fetched)
    script = """(async () => {
      let told = "";
      addEventListener("securitypolicyviolation", (event) => { told = event.effectiveDirective; });
      await fetch("http://127.0.0.1:1/").catch(() => new Promise((done) => setTimeout(done, 0)));
      return told;
    })()"""
    assert tab.run(script) == "connect-src"


def test_an_ended_server_is_told(result: EvaluationResult, tab: Tab) -> None:
    command = [sys.executable, "-m", "evalbeam", "view", result.output, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            open_page(tab, process.stdout.readline().strip())
        finally:
            process.kill()
    tab.run("history.replaceState(null, '', '#status=ok'); dispatchEvent(new HashChangeEvent('hashchange'))")
    tab.wait(f"{COUNT}.includes('evalbeam view has ended')")


def test_a_comparison_is_sorted_by_change(
    view: View, tab: Tab, tmp_path: Any, make: Callable[..., EvaluationResult]
) -> None:
    before, after = make(tmp_path / "before"), make(tmp_path / "after", right=4)
    address = view(before.output, after.output).server.address
    open_page(tab, f"{address}#sort=exact_match%2Fchange")
    heads = tab.run("[...document.querySelectorAll('#explorer thead button')].map(b => b.textContent)")
    assert "exact_match/change ↑" in heads
    place = heads.index("exact_match/change ↑") + 1
    cells = f"[...document.querySelectorAll('#explorer tbody td:nth-child({place})')].map(c => c.textContent)"
    assert set(tab.run(cells)) == {"-1"}

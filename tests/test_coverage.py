"""The tables of what is covered: every row names tests that exist, or says why there is none."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from .conftest import ROOT

PAGES = ("adk-coverage", "agent-evaluation", "grounding-coverage", "vertex-coverage")
ROW = re.compile(r"^\|(?P<cells>.+)\|(?P<tests>[^|]*)\|$")
NAMED = re.compile(r"`(?:(?P<file>[\w/.]+\.py)::)?(?P<name>test_\w+)`")
FOLDER = re.compile(r"`(?P<short>\w)` is\s+`(?P<path>tests/[\w/]+)`")
UNPROVED = re.compile(r"none(?:: [^:]+)?")
"""A row without a test; what it says of itself is the reason."""


@cache
def files_of_tests() -> dict[str, set[Path]]:
    """Files of each test."""
    found = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), flags=re.M):
            found[name].add(path.relative_to(ROOT))
    return dict(found)


def rows(text: str) -> list[tuple[str, str]]:
    """(other cells, cell of the tests) of all rows of tables but their headings."""
    lines = [m for line in text.splitlines() if (m := ROW.match(line))]
    return [
        (m["cells"], m["tests"].strip()) for m in lines if m["tests"].strip().lower() != "test" and "---" not in m[0]
    ]


def faults(text: str) -> list[str]:
    """Rows that name no test, or one that does not exist."""
    folders = {m["short"]: m["path"] for m in FOLDER.finditer(text)}
    found = []
    for cells, told in rows(text):
        named = list(NAMED.finditer(told))
        if not named and not UNPROVED.fullmatch(told):
            found.append(f"no test: {cells}")
        if re.search(r"\bpartly\b(?!:)", cells):
            found.append(f"partly, and no reason: {cells}")
        for match in named:
            short, _, rest = (match["file"] or "").partition("/")
            file = f"{folders.get(short, short)}/{rest}" if rest else short
            if not any(str(path).endswith(file) for path in files_of_tests().get(match["name"], ())):
                found.append(f"{match[0]} does not exist")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_tests_that_exist(page: str) -> None:
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text()
    assert len(rows(text)) >= 20
    assert faults(text) == []


def test_every_table_of_tests_is_looked_at() -> None:
    pages = (path for path in (ROOT / "docs").rglob("*.md") if re.search(r"\|\s*[Tt]est\s*\|$", path.read_text(), re.M))
    assert sorted(path.stem for path in pages) == list(PAGES)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| a | b | `test_that_is_not_there` |", "`test_that_is_not_there` does not exist"),
        ("| a | b | `test_docs.py::test_every_row_names_tests_that_exist` |", "does not exist"),
        ("| a | b | |", "no test: "),
        ("| a | partly | `test_the_readme_is_short` |", "partly, and no reason"),
    ],
)
def test_mistakes_are_found(row: str, fault: str) -> None:
    (found,) = faults(row)
    assert fault in found


def test_right_rows_have_no_fault() -> None:
    text = "Folders: `p` is `tests/pipelines`.\n| A | Test |\n|---|---|\n| d | none |\n"
    text += "| a | partly: it is | `test_docs.py::test_the_readme_is_short` |\n"
    text += "| c | `p/test_conformance.py::test_home_assistant_slices_in_one_run` |\n"
    assert len(rows(text)) == 3
    assert faults(text) == []

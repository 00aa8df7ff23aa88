"""What is said of the Makefile is so."""

from __future__ import annotations

import re
from pathlib import Path

_SAID = re.compile(r"[`(]make ([a-z][a-z-]*)|^make ([a-z][a-z-]*)", re.MULTILINE)


def test_every_target_that_is_named_is_there(root: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(), re.MULTILINE))
    files = [*root.glob("*.md"), *(p for p in (root / "deploy").rglob("*") if p.is_file() and p.suffix != ".pyc")]
    files += [p for room in ("tests", "pipelines", "transforms") for p in (root / room).rglob("*.py")]
    files += [root / "pyproject.toml", root / ".ci" / "run"]
    named = {(p.name, one or other) for p in files for one, other in _SAID.findall(p.read_text(errors="ignore"))}
    assert {"test", "flink-jar", "test-deploy", "demo"} <= {target for _, target in named}
    assert sorted(place for place in named if place[1] not in targets) == []

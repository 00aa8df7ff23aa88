"""What the Dockerfiles say of the package, and what an image is given of a checkout, is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest


@pytest.fixture
def project(root: Path) -> dict[str, object]:
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("folder", ["dataflow", "flink"])
def test_the_extras_are_those_there_are(root: Path, project: dict[str, dict[str, object]], folder: str) -> None:
    text = (root / "deploy" / folder / "Dockerfile").read_text()
    (named,) = re.findall(r"# Names of extras, with commas: (.*)\.\n", text)
    assert named.split(", ") == sorted(set(project["optional-dependencies"]) - {"dev", "docs"})
    assert re.findall(r"^ARG EXTRAS=(.*)$", text, re.MULTILINE) == ["text"]


def test_an_image_gets_all_of_the_package(root: Path) -> None:
    given = re.findall(r"^!(.+)$", (root / ".dockerignore").read_text(), re.MULTILINE)
    rooms = {"schemas", "transforms", "pipelines"}
    assert rooms | {path.name for path in root.glob("*.py")} | {"py.typed"} <= set(given)
    assert [name for name in given if not (root / name).exists()] == []

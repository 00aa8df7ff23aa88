"""What the README promises: its quick start runs as printed, and its tables name what there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from evalbeam import EvaluationConfig
from evalbeam.pipelines.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    """The text below a heading, up to the next one of its rank."""
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of every fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.S | re.M)


def test_the_quick_start_runs_as_printed(tmp_path: Path) -> None:
    found = blocks(section("Quick start"))
    assert [language for language, _ in found] == ["sh", "sh", "python", "python"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, code in found:
        command = ["bash", "-euc", code] if language == "sh" else [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        for shown in re.findall(r"print\(.*\)\s+# (.*)", code):
            assert shown in done.stdout
    for name in ("flags", "file", "again"):
        assert (tmp_path / "out" / name / "manifest.json").exists()


def keys(model: Any = EvaluationConfig, prefix: str = "") -> list[str]:
    """Dotted keys of everything a configuration may say."""
    found = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        nested = isinstance(kind, type) and issubclass(kind, BaseModel)
        found += keys(kind, f"{prefix}{name}.") if nested else [f"{prefix}{name}"]
    return found


def test_every_configuration_key_is_described_and_every_described_key_exists() -> None:
    first_cells = re.findall(r"^\| (`[^|]*`) \|", section("Configuration"), flags=re.M)
    described = [key for cell in first_cells for key in re.findall(r"`([^`]+)`", cell)]
    assert sorted(described) == sorted(keys())


def test_options_in_the_text_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    known = capsys.readouterr().out
    quick_start = re.findall(r"^evalbeam run .*", section("Quick start"), flags=re.M)
    flags = set(re.findall(r"--\w+", "".join(quick_start)))
    assert flags >= {"--dataset", "--agent", "--set"}
    assert all(f"{flag} " in known for flag in flags)
    typed = "".join(code for language, code in blocks(README) if language == "sh")
    commands = set(re.findall(r"^evalbeam ([a-z-]+)", typed, flags=re.M)) | set(
        re.findall(r"`evalbeam ([a-z-]+)", README)
    )
    assert commands >= {"run", "check", "init", "metrics"}
    assert [main([command, "--help"]) for command in sorted(commands)] == [0] * len(commands)


def test_metrics_in_the_table_are_registered() -> None:
    from evalbeam.transforms import registry

    named = set(re.findall(r"`([a-z0-9_]+)`", section("Metrics").partition("\n\nTrajectory metrics take")[0]))
    assert len(named) > 20
    assert {registry.full_name("metric", name, ("rapid",)) for name in named} <= set(registry.names("metric"))


def test_make_targets_in_the_text_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, flags=re.M))
    assert named >= {"demo", "test"}
    assert named <= set(targets)


def test_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert all((ROOT / link).exists() for link in links)
    assert all((ROOT / path).exists() for path in re.findall(r"`(transforms/[\w/]+\.py)`", README))

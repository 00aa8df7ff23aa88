"""What the README and the pages of docs/ promise: blocks run as a reader would run them, and what they name exists."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pydantic import BaseModel
from warm_commands import warm_commands

from evalbeam import EvaluationConfig
from evalbeam.pipelines.cli.main import make_parser
from evalbeam.pipelines.run import result
from evalbeam.pipelines.run.judges import build_judges, full_names
from evalbeam.pipelines.run.parts import build_metrics
from evalbeam.schemas.errors import ConfigError
from evalbeam.transforms import registry

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
REASONS = {
    "it serves until Ctrl-C",
    "it needs another machine",
    "the tests run in an environment that has it",
    "`make demo` is another test, `make test` would run itself",
    "it needs a Flink cluster",
    "it needs a Google Cloud project",
    "it needs a CI system",
    "it needs a service to send to",
    "it needs google-adk and its model",
}
"""Why a block is not run. A new reason is added here, where it is seen."""
_BLOCK = re.compile(r"(?:<!-- ([^>]*) -->\n)?^```(\w+)\n(.*?)^```$", flags=re.S | re.M)
_DEMO = "import sys; from evalbeam.pipelines.demo import __main__ as m; sys.exit(m.main(m.build_arguments([])))"
_SECONDS = re.compile(r" · [\d.,]+ s$")
"""End of the first line of a summary: how long the run took, which no page says."""
_SHOWN = re.compile(r"^(?:print\(.*|.*exit code \$\?\")\s+# (.*)$", flags=re.M)


class Block(NamedTuple):
    """A fenced block: what the comment above it says, its language, and its text."""

    note: str
    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text())]


def run_page(page: Path, folder: Path, env: dict[str, str]) -> Iterator[str]:
    """Runs a page's blocks one after the other in a folder; gives what went wrong."""
    folder.mkdir()
    said = ""
    for note, language, code in blocks(page):
        if note == "printed by: make demo":
            said = subprocess.run(["python", "-c", _DEMO], cwd=folder, env=env, capture_output=True, text=True).stdout
        if note.startswith("printed by"):
            lines = {" ".join(_SECONDS.sub("", line).split()) for line in said.splitlines()}
            yield from (f"not printed: {line}" for line in code.splitlines() if " ".join(line.split()) not in lines)
        if language not in ("sh", "python") or note.startswith("not run:"):
            continue
        command = ["bash", "-euc", code] if language == "sh" else ["python", "-c", code]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        said = done.stdout
        if done.returncode:
            yield f"exit code {done.returncode} of\n{code}\n{done.stdout}\n{done.stderr}"
            return
        yield from (f"not printed: {shown}\n{said}" for shown in _SHOWN.findall(code) if shown not in said)


def test_every_block_runs_as_printed(tmp_path: Path) -> None:
    """Each page in an empty folder of its own, its blocks in order."""
    with warm_commands(tmp_path) as env, ThreadPoolExecutor(2) as pool:
        names = [page.relative_to(ROOT) for page in PAGES]
        folders = [tmp_path / f"{i} {page.stem}" for i, page in enumerate(PAGES)]
        found = pool.map(lambda page, folder: list(run_page(page, folder, env)), PAGES, folders)
        wrong = [f"{name}: {text}" for name, texts in zip(names, found, strict=True) for text in texts]
    assert not wrong, "\n\n".join(wrong)


def test_blocks_that_are_not_run_say_why() -> None:
    every = [(page.stem, block) for page in PAGES for block in blocks(page)]
    assert {block.language for _, block in every} == {"sh", "python", "yaml", "text"}
    notes = [block.note for _, block in every if block.note and not block.note.startswith("printed by")]
    assert {note.removeprefix("not run: ") for note in notes} == REASONS
    runnable = [block for _, block in every if block.language in ("sh", "python")]
    assert len([b for b in runnable if not b.note.startswith("not run:")]) > len(runnable) / 2


def written_configurations() -> list[tuple[str, dict[str, Any]]]:
    """(page, content) of all yaml blocks."""
    return [(p.stem, yaml.safe_load(b.code)) for p in PAGES for b in blocks(p) if b.language == "yaml" and not b.note]


@pytest.mark.parametrize(("page", "content"), written_configurations())
def test_yaml_is_a_configuration_or_a_part_of_one(page: str, content: dict[str, Any]) -> None:
    """Its keys are known; its metrics, judges and their parameters exist."""
    base = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"]}
    config = EvaluationConfig.parse({**base, **content}, page)
    dialect = "databricks" if page == "databricks" else config.dataset.dialect
    names = full_names([m for m in config.metrics if ":" not in str(m.metric)], dialect)
    metrics = build_metrics(names)
    judges = {name: judge for name, judge in config.judges.items() if "replay" not in judge.type}
    build_judges(judges, metrics if judges else ())
    for name in {*config.judges} - {*judges}:
        assert config.judges[name].params["run"]


def keys(model: type[BaseModel] = EvaluationConfig, prefix: str = "") -> Iterator[str]:
    """Dotted keys of everything a configuration may say, down to its nested sections."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        nested = isinstance(kind, type) and issubclass(kind, BaseModel)
        yield from keys(kind, f"{prefix}{name}.") if nested else [f"{prefix}{name}"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    missing = [name for name in ("mkdocs", "material", "mkdocstrings") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    env = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_the_site(site: Path) -> None:
    """It builds strictly without a network, asks for nothing from one, and describes all there is."""
    loaded = [
        f"{page.name}: {address}"
        for page in site.rglob("*.html")
        for address in re.findall(r'<(?:script|img|link|iframe)[^>]* (?:src|href)="(https?:[^"]+)"', page.read_text())
    ]
    assert not loaded
    configuration = (site / "reference" / "configuration.html").read_text()
    missing = [key for key in keys() if f'id="{key.replace(".", "-")}"' not in configuration]
    assert not missing
    described = (site / "reference" / "metrics.html").read_text()
    assert [name for name in registry.names("metric") if f"<code>{name}</code>" not in described] == []
    commands = (site / "reference" / "command-line.html").read_text()
    (choices,) = (a.choices for a in make_parser()._actions if isinstance(a.choices, dict))
    assert [name for name in choices if f'id="evalbeam-{name}"' not in commands] == []
    python = (site / "reference" / "python.html").read_text()
    assert [name for name in __import__("evalbeam").__all__ if f'.{name}"' not in python] == ["__version__"]


def test_readers_find_their_questions(site: Path) -> None:
    """What the site's search knows: words, and the pages on which they stand."""
    index = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    wanted = {"resume": "how-to/resume", "denominator": "concepts/denominators", "flink": "how-to/flink"}
    for word, page in wanted.items():
        titles = [d["location"] for d in index if word in d["title"].lower()]
        assert any(location.startswith(page) for location in titles), word


def test_exit_codes_are_described() -> None:
    table = (DOCS / "reference" / "exit-codes.md").read_text()
    codes = {getattr(result, name) for name in dir(result) if name.startswith("EXIT_")}
    assert {int(code) for code in re.findall(r"^\| (\d) \|", table, flags=re.M)} == codes


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_names_in_the_text_exist(page: Path) -> None:
    """Links, commands, options of ours, keys of a configuration, make targets and files."""
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link and not link.startswith("#")]
    assert [link for link in links if not (page.parent / link.partition("#")[0]).exists()] == []
    (choices,) = (a.choices for a in make_parser()._actions if isinstance(a.choices, dict))
    typed = re.findall(r"`evalbeam ([a-z][a-z-]+)", text)
    typed += re.findall(r"^evalbeam ([a-z][a-z-]+)", "".join(b.code for b in blocks(page) if b.language == "sh"), re.M)
    assert [name for name in typed if name not in choices] == []
    sections = {"dataset", "agent", "statistics", "output", "compat", "budget", "gate"}
    named = re.findall(rf"`((?:{'|'.join(sections)})\.[a-z_.]+)`", text)
    known = {*keys(), *(f"output.bigquery.{k}" for k in ("dataset", "run_id", "run_date"))}
    unknown = [key for key in named if key not in known and not key.startswith(("agent.", "dataset.columns."))]
    assert not unknown
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert [name for name in re.findall(r"`make ([a-z-]+)", text) if name not in targets] == []
    files = re.findall(r"`((?:schemas|transforms|pipelines|tests|deploy)/[\w/.-]*)`", text)
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 170


def test_mistakes_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nfalse\n```\n")
    assert list(run_page(page, tmp_path / "run", dict(os.environ)))
    with pytest.raises(ConfigError):
        test_yaml_is_a_configuration_or_a_part_of_one("page", {"agent": {"target": "a:b", "timeout": "soon"}})

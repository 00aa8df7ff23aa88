"""Writes the reference pages while MkDocs builds the site: they are generated from the code and never committed.

Each page has a committed introduction, `docs/reference/<name>.md`, that holds the comment `<!-- generated -->`; what
the code says of itself takes its place.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

import pydantic
import yaml
from mkdocs.plugins import event_priority
from pydantic import BaseModel

import evalbeam
from evalbeam.pipelines.cli import catalogue
from evalbeam.pipelines.cli.main import make_parser
from evalbeam.schemas import findings, summary_tables, tables
from evalbeam.schemas.config import calls, evaluation, gate, labels, sequential, sinks, storage
from evalbeam.transforms import registry

ROOT = Path(__file__).resolve().parent.parent
_sources = tempfile.TemporaryDirectory()
MARK = "<!-- generated -->"

SECTIONS: dict[str, tuple[type[BaseModel], str]] = {
    "": (evaluation.EvaluationConfig, "The top level of the file."),
    "dataset": (storage.DatasetConfig, ""),
    "dataset.columns.<column>": (storage.ColumnConfig, ""),
    "agent": (evaluation.AgentConfig, ""),
    "agent.rate_limit": (calls.RateLimit, "A judge takes the same keys."),
    "metrics[]": (evaluation.MetricConfig, "The parameters of the metric stand beside these keys."),
    "judges.<name>": (evaluation.JudgeConfig, ""),
    "prices.<model>": (evaluation.PriceConfig, ""),
    "criteria[]": (evaluation.CriterionConfig, "`{metric: 0.9}` is short for `[{metric: metric, min: 0.9}]`."),
    "labels": (labels.LabelsConfig, "See [Labels](../how-to/labels.md)."),
    "gate": (gate.GateConfig, "See [Gate a release in CI](../how-to/ci.md)."),
    "budget": (evaluation.BudgetConfig, ""),
    "statistics": (evaluation.StatisticsConfig, ""),
    "statistics.sequential": (sequential.SequentialConfig, "See [Stop early](../how-to/stop-early.md)."),
    "output": (storage.OutputConfig, ""),
    "output.bigquery": (storage.BigQueryConfig, ""),
    "output.mlflow": (sinks.MlflowConfig, "See [Sinks](../how-to/sinks.md)."),
    "output.otel": (sinks.OtelConfig, "See [Sinks](../how-to/sinks.md)."),
    "output.vertex_experiment": (sinks.VertexExperimentConfig, "See [Sinks](../how-to/sinks.md)."),
    "compat": (evaluation.CompatConfig, ""),
}
"""Section of a configuration -> (its model, a sentence about it)."""

FAMILIES = {
    "trajectory": "Tool calls",
    "tool_call": "Tool calls as JSON",
    "text": "Text against a reference",
    "databricks": "Retrieval and tokens",
    "grounding": "Text against facts",
    "rapid": "Rapid evaluation, by a judge",
    "template": "Templates, by a judge",
    "rubric": "Rubrics, by a judge",
    "translation": "Translations, by Vertex AI's service",
    "databricks_judges": "Databricks Agent Evaluation, by a judge",
    "mlflow": "MLflow, computed",
    "mlflow_judges": "MLflow, by a judge",
    "mlflow_conversation_judges": "MLflow, conversations, by a judge",
    "adk": "ADK, computed",
    "adk_judges": "ADK, by a judge",
    "adk_conversation_judges": "ADK, conversations, by a judge",
    "custom": "Your own function",
    "performance": "Always there",
}
"""Module of a metric -> heading of its family."""

KINDS = {"agent": "Agents", "judge": "Judges", "checker": "Checkers of `grounding`"}


@event_priority(100)  # before mkdocstrings looks at its paths
def on_config(config: Any) -> None:
    """MkDocs has read its configuration: mkdocstrings is given the package alone.

    In the checkout it would look through .venv as well, which takes longer than all the rest of the build.
    """
    package = Path(_sources.name) / "evalbeam"
    package.mkdir(exist_ok=True)
    for file in ROOT.glob("*.py"):
        shutil.copy(file, package)
    for room in ("schemas", "transforms", "pipelines"):
        shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    config.plugins["mkdocstrings"].config["handlers"]["python"]["paths"] = [_sources.name]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """MkDocs asks for the text of a page: a reference page gets its generated part."""
    if MARK not in markdown:
        return markdown
    if Path(evalbeam.__file__).resolve().parent != ROOT:
        raise RuntimeError(f"the reference would be of {evalbeam.__file__}; install this checkout: make docs")
    return markdown.replace(MARK, "\n".join(PAGES[Path(page.file.src_uri).stem]()))


def list_keys() -> Iterator[tuple[str, str, str, str]]:
    """(dotted key, type, default, meaning) of every key of a configuration, section by section."""
    for section, (model, _) in SECTIONS.items():
        described = catalogue.find_attributes(model)
        for name, field in model.model_fields.items():
            key = f"{section}.{field.alias or name}" if section else name
            yield key, _type(field.annotation, field.metadata), _default(field), described.get(field.alias or name, "")


def _configuration() -> Iterator[str]:
    rows = list(list_keys())
    for section, (model, words) in SECTIONS.items():
        about = catalogue.summarize(registry.Part("", model, {}))
        yield f"\n## {f'`{section}`' if section else 'Top level'} {{ #{_anchor(section or 'top-level')} }}\n"
        yield f"{about} {words}".strip() + "\n"
        yield "| key | type | default | meaning |\n|---|---|---|---|"
        for key, type_, default, meaning in rows:
            if key.rpartition(".")[0] == section:
                name = f'<span id="{_anchor(key)}">`{key.rpartition(".")[2]}`</span>'
                yield f"| {name} | {_cell(type_)} | {_cell(default)} | {_cell(meaning)} |"


def _parts() -> Iterator[str]:
    for kind, heading in KINDS.items():
        yield f"\n## {heading}\n"
        for name in registry.names(kind):
            part = registry.find(kind, name)
            yield f"\n### `{name}` {{ #{kind}-{_anchor(name)} }}\n"
            yield catalogue.summarize(part) + "\n"
            yield from _parameters(part)


def _parameters(part: registry.Part) -> Iterator[str]:
    shown = [p for p in catalogue.list_parameters(part) if p.meaning]  # the others are for tests alone
    types = typing.get_type_hints(part.factory)
    if shown:
        yield "| parameter | type | default | meaning |\n|---|---|---|---|"
        for one in shown:
            default = one.default.removeprefix("default ")
            default = "none" if default == "None" else default if default == "required" else f"`{default}`"
            yield f"| `{one.name}` | {_cell(_type(types[one.name]))} | {_cell(default)} | {_cell(one.meaning)} |"
        yield ""


def _metrics() -> Iterator[str]:
    groups = catalogue.group_names()
    for module, heading in FAMILIES.items():
        mine = [names for names in groups if _module(names[0]) == module]
        yield f"\n## {heading}\n"
        yield "| name | range | reads | what it is |\n|---|---|---|---|"
        for names in mine:
            part = registry.find("metric", names[0])
            shown = ", ".join(f"[`{name}`](#{_anchor(names[0])})" for name in names)
            reads = ", ".join(f"`{column}`" for column in catalogue.show_inputs(part).split(", ") if column != "–")
            preset = ", ".join(f"`{k}: {v}`" for k, v in part.preset.items())
            first = catalogue.summarize(part).partition("\n\n")[0].replace("\n", " ")
            yield f"| {shown} | {catalogue.show_range(part)} | {reads} | {_cell(preset or first)} |"
        for names in mine:
            part = registry.find("metric", names[0])
            yield f"\n### {', '.join(names)} {{ #{_anchor(names[0])} }}\n"
            yield catalogue.summarize(part) + "\n"
            yield from _parameters(part)


def _module(name: str) -> str:
    return registry.find("metric", name).factory.__module__.rpartition(".")[2]


def _commands() -> Iterator[str]:
    parser = make_parser()
    for action in parser._actions:  # argparse has no public way to read a parser
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"\n## evalbeam {name}\n"
                yield f"{command.description}\n"
                yield f"```text\n{' '.join(command.format_usage().removeprefix('usage: ').split())}\n```\n"
                yield from _options(command)
                if command.epilog:
                    yield f"\n```text\n{command.epilog.strip()}\n```"


def _options(command: argparse.ArgumentParser) -> Iterator[str]:
    yield "| argument | meaning |\n|---|---|"
    for action in command._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        words = ", ".join(action.option_strings)
        value = f" {action.metavar}" if action.metavar else ""
        yield f"| `{(words + value).strip()}` | {_cell(action.help or '')} |"


def _tables() -> Iterator[str]:
    columns = {
        "instances": tables.instance_columns((), [tables.MetricColumns("<metric>", tuple(_OPTIONAL))]),
        "summary": summary_tables.WITH_LABELS,
        "validity": summary_tables.VALIDITY,
        "errors": tables.ERRORS,
        "failure_groups": findings.FAILURE_GROUPS,
        "worst_slices": findings.WORST_SLICES,
        "comparison": tables.COMPARISON,
        "history": findings.HISTORY,
    }
    words = yaml.safe_load((ROOT / "docs" / "columns.yaml").read_text())
    for name, found in columns.items():
        yield f"\n## {name}\n"
        yield words[name].pop("about") + "\n"
        yield "| column | type | meaning |\n|---|---|---|"
        for column in found:
            measured = " Measured: two live runs may differ in it." if column.volatile else ""
            yield f"| `{column.name}` | {column.type} | {_cell(words[name].pop(column.name))}{measured} |"
        if words[name]:
            raise RuntimeError(f"docs/columns.yaml: {name} has no columns {sorted(words[name])}")


_OPTIONAL = ("explanation", "pairwise_choice", "confidence", "details")


def _python() -> Iterator[str]:
    homes = {name: home for home, names in evalbeam._HOMES.items() for name in names}
    groups: dict[str, list[str]] = {}
    for name in evalbeam.__all__:
        if name in homes:
            groups.setdefault(homes[name].split(".")[0], []).append(name)
    headings = {"pipelines": "Runs", "transforms": "Metrics and agents", "schemas": "Rows, scores, errors"}
    for room, heading in headings.items():
        yield f"\n## {heading}\n"
        for name in groups[room]:
            yield f"::: evalbeam.{homes[name]}.{name}\n    options:\n      heading: {name}\n"


def _type(annotation: Any, metadata: Any = ()) -> str:
    """A type in words: what someone who writes YAML may put there."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(args[0], [m for one in args[1:] for m in getattr(one, "metadata", [one])])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin in (typing.Union, UnionType):
        return " or ".join(_type(one, metadata) for one in args if one is not NoneType)
    if origin in (list, tuple):
        return f"list of {_type(args[0])}"
    if origin is dict:
        return f"mapping to {_type(args[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel | Mapping):
        return "mapping"
    if annotation is Sequence:
        return "list"
    words = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "any"}
    return ", ".join([words.get(annotation, str(getattr(annotation, "__name__", annotation))), *_bounds(metadata)])


def _bounds(metadata: Any) -> Iterator[str]:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    for one in metadata:
        for name, sign in signs.items():
            if (bound := getattr(one, name, None)) is not None:
                yield f"{sign} {bound:,}"
        if isinstance(one, pydantic.AfterValidator):
            yield "a power of two"


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel) or value in ({}, [], (), None, ""):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _anchor(key: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", key.lower()).strip("-")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "configuration": _configuration,
    "parts": _parts,
    "metrics": _metrics,
    "command-line": _commands,
    "python": _python,
    "tables": _tables,
}
"""Name of a reference page -> what generates it."""

"""Changed configurations: each is valid, or refused with a ConfigError that names the place; never anything else.

Checked is all that a configuration decides before anything is read or called: its form and every part built from it.
"""

from __future__ import annotations

import copy
import json
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalbeam.pipelines.run.build import make_plan
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.schemas.errors import ConfigError, Mistakes
from evalbeam.transforms.calls.context import RunContext

from .valid_configs import ADK_MODULE, CHAIN_MODULE, MODULE, valid

ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 2**31, 10**30, -(10**30), 0.5, -0.5, 1e308, float("nan"), float("inf")),
    *("", " ", "x", "auto", "HOME", "exact_match", "valid_parts:ask", "valid_parts:", ":", "no.such:thing", "x" * 500),
    *("${env:HOME}", "${secret:x}", "{prompt}", "{", "[", "a[*].b", "1e5", "2024-01-01", "日本\u0000\ud7ff", "%s{0}"),
    *([], [[]], {}, {"a": "b"}, [None], [1, "a"], [["HOME"]], [{"a": "b"}], {"a": {"b": []}}, {"1": 2}, {"": None}),
    *({"metric": "exact_match"}, {"type": "google"}, {"type": [], "as": {}}, [[["a"]]], {"a": [{"b": None}]}),
]
SECTIONS = frozenset(EvaluationConfig.model_fields)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "valid_parts.py").write_text(MODULE)
    (tmp_path / "valid_adk.py").write_text(ADK_MODULE)
    (tmp_path / "valid_chain.py").write_text(CHAIN_MODULE)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": "a", "response": "a"}))
    (tmp_path / "labels.jsonl").write_text(json.dumps({"instance_id": "0" * 32, "person": 1, "chance": 0.5}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def outcome(config: Any) -> str:
    """What comes of a configuration: "valid", or the place that an error names.

    Raises:
        Exception: It is refused in another way.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = Mistakes()
            plan = make_plan(EvaluationConfig.parse(config, found=found), found=found)
            context = RunContext()
            _ = plan.columns, plan.metric_facts, plan.allowed, plan.judge(context), plan.record(context), plan.shards
            json.dumps(plan.shown_config())
    except ConfigError as error:
        return error.where if len(str(error)) < 4000 else f"an endless message: {str(error)[:200]}"
    return "valid"


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value could be replaced, at any depth."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*prefix, step)
        yield from paths(inner, (*prefix, step))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def odd(rng: random.Random, config: Any, depth: int = 0) -> Any:
    """Any JSON value: an odd one, a part of the configuration itself, or a list or mapping of such."""
    kind = rng.randrange(8)
    if kind == 0:
        return copy.deepcopy(at(config, rng.choice(list(paths(config)))))
    if kind == 1 and depth < 3:
        return [odd(rng, config, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 2 and depth < 3:
        keys = rng.choices(["a", "type", "metric", "name", "judge", "1", ""], k=rng.randrange(3))
        return {key: odd(rng, config, depth + 1) for key in keys}
    return copy.deepcopy(rng.choice(ODD))


def changed(rng: random.Random, config: Any) -> list[tuple[Any, ...]]:
    """Changes a configuration in one place or two; returns where."""
    where = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        path = rng.choice(list(paths(config)))
        parent, last, kind = at(config, path[:-1]), path[-1], rng.randrange(9)
        if kind == 0:
            del parent[last]
        elif kind == 1 and isinstance(parent, dict):
            misspelt = list(str(last))
            misspelt.insert(rng.randrange(len(misspelt) + 1), rng.choice("abcxyz_ .é"))
            parent["".join(misspelt)] = parent.pop(last)
        elif kind == 1 or (kind == 2 and isinstance(parent, list)):
            parent.insert(last, copy.deepcopy(parent[last]))
        elif kind == 2:
            parent[rng.choice(["unknown", "größe", "path ", "", "metric.s", "target", "type"])] = odd(rng, config)
        elif kind == 3:
            parent[last] = [parent[last]]
        elif kind == 4:
            parent[last] = {rng.choice("ab"): parent[last]}
        else:
            parent[last] = odd(rng, config)
        where.append(path)
        if not config:
            break
    return where


def fuzzed(seed: str, count: int) -> Counter[str]:
    """How many changed configurations were valid and how many refused; what else came of them fails."""
    rng, found = random.Random(seed), Counter[str]()
    originals = valid()
    for number in range(count):
        config = copy.deepcopy(rng.choice(originals))
        where = changed(rng, config)
        try:
            place = outcome(config)
        except Exception as error:
            raise AssertionError(f"seed {seed!r}, {number}: {where}: {config}") from error
        named = place in set(map(str, config)) or place.partition(".")[0] in SECTIONS | {"valid"}
        assert named, (seed, number, where, place)
        found["valid" if place == "valid" else "refused"] += 1
    return found


def test_the_originals_are_valid() -> None:
    assert [outcome(config) for config in valid()] == ["valid"] * len(valid())


@pytest.mark.parametrize("secrets", [[["HOME"]], [{"a": "b"}], [1], [None], {"A": ["${env:HOME}"]}, "HOME", 7])
def test_secrets_that_are_no_names_are_refused_and_not_shown(secrets: Any) -> None:
    config = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"]}
    with pytest.raises(ConfigError, match=r"^agent\.secrets") as error:
        EvaluationConfig.parse({**config, "agent": {"target": "valid_parts:ask", "secrets": secrets}})
    assert "HOME" not in str(error.value).partition("allowed")[0]


def test_names_of_files_that_are_too_long_are_names_of_no_files() -> None:
    config = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"]}
    assert outcome({**config, "agent": {"target": "valid_parts:ask", "packages": ["x" * 500]}}) == "agent.packages.0"
    assert outcome({**config, "agent": {"type": "adk", "target": "x" * 500}}) == "agent.target"
    assert outcome({**config, "dataset": {"path": "x" * 500}}) == "dataset.path"


def test_a_presets_body_is_a_mapping_and_a_parts_own_parameters_are_named_in_full() -> None:
    body = {"target": "https://models.example.com/v1/chat/completions", "preset": "openai_chat", "body": ["m"]}
    config = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"]}
    assert outcome({**config, "agent": body}) == "agent.body"
    named = {"metric": "custom", "metric_function": "no", "name": "n"}
    assert outcome({**config, "metrics": [named]}) == "metrics.0.metric_function"
    asked = {"metrics": ["fluency"], "judges": {"default": {"type": "openai", "model": "m", "api_key": "written"}}}
    assert outcome({**config, **asked}) == "judges.default.api_key"


@pytest.mark.parametrize("batch", range(2))
def test_changed_configurations(batch: int) -> None:
    found = fuzzed(f"few {batch}", 300)
    assert found["valid"] > 30
    assert found["refused"] > 120


@pytest.mark.parity
@pytest.mark.parametrize("batch", range(24))
def test_many_changed_configurations(batch: int) -> None:
    assert fuzzed(f"many {batch}", 1000).total() == 1000

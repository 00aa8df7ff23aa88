"""Names to parts: registered once, found with help, built from checked parameters; user code imported by name."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.errors import ConfigError
from evalbeam.transforms import registry
from evalbeam.transforms.registry import Part, build, find, load_object, names, register


@dataclass(frozen=True)
class Sample:
    """A part with parameters of many types."""

    word: str
    mode: Literal["a", "b"] = "a"
    size: int | None = None
    modes: dict[str, Literal["a", "b"] | list[str]] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    policy: CallPolicy = CallPolicy()
    anything: Any = None
    own: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        if self.word == "bad":
            raise ValueError("word is bad")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    names("metric")
    kept = dict(registry._parts["metric"])
    yield
    registry._parts["metric"] = kept


def test_registered_parts_are_found_and_built() -> None:
    register("metric", "sample")(Sample)
    register("metric", "sample_b", mode="b")(Sample)
    register("metric", "sample")(Sample)
    assert {"sample", "sample_b", "trajectory_precision", "failure"} <= set(names("metric"))
    assert names("metric") == sorted(names("metric"))
    assert build(find("metric", "sample"), {"word": "x"}, "here") == Sample("x")
    assert build(find("metric", "sample_b"), {"word": "x"}, "here") == Sample("x", "b")


def test_a_name_is_registered_once() -> None:
    register("metric", "sample")(Sample)
    with pytest.raises(ValueError, match=r"metric 'sample' is already registered by .*\.Sample"):
        register("metric", "sample")(type("Other", (), {}))


def test_a_missing_name_gets_an_offer() -> None:
    near = r"'trajectory_precision', '.*' or '.*'\?$"
    with pytest.raises(ConfigError, match=r"^metrics\.1: no metric named 'trajectory_presicion'; did you mean " + near):
        find("metric", "trajectory_presicion", "metrics.1")
    listed = r"\(allowed: a name that `evalbeam metrics` lists, or module:name\)"
    with pytest.raises(ConfigError, match=f"no metric named 'qqq' {listed}"):
        find("metric", "qqq")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "here: sample needs the parameter 'word'"),
        ({"word": "x", "sise": 1}, "here: sample has no parameter 'sise'; did you mean 'size'?"),
        ({"word": "x", "own": 1}, "here: sample has no parameter 'own' (allowed: word, mode, size, modes, call"),
        ({"word": 3}, "here: sample: word is 3 (allowed: text)"),
        ({"word": "x", "mode": "c"}, "here: sample: mode is 'c' (allowed: 'a' or 'b')"),
        ({"word": "x", "size": "two"}, "here: sample: size is 'two' (allowed: a whole number)"),
        ({"word": "x", "modes": {"t": "c"}}, "here: sample: modes.t is 'c' (allowed: 'a' or 'b')"),
        ({"word": "x", "call": 3}, "here: sample: call is 3 (allowed: callable)"),
        ({"word": "x", "policy": {"timeout": -1}}, "here: sample: policy.timeout is -1 (allowed: "),
        ({"word": "bad"}, "here: sample: word is bad"),
    ],
)
def test_wrong_parameters_are_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Part("sample", Sample, {}), params, "here")
    assert str(caught.value).startswith(message)


def test_right_parameters_arrive() -> None:
    given = {"word": "x", "size": 2, "modes": {"t": ["k"]}, "call": len, "policy": {"timeout": 5}, "anything": sys}
    assert build(Part("sample", Sample, {}), given, "here") == Sample(
        "x", size=2, modes={"t": ["k"]}, call=len, policy=CallPolicy(timeout=5), anything=sys
    )
    with pytest.raises(ConfigError, match="has no parameter 'mode'"):
        build(Part("sample_b", Sample, {"mode": "b"}), {"word": "x", "mode": "a"}, "here")


def test_a_factory_may_be_a_function() -> None:
    def factory(word: str) -> str:
        return word * 2

    assert build(Part("twice", factory, {}), {"word": "x"}, "here") == "xx"
    with pytest.raises(ConfigError, match=r"here: twice: .*unexpected keyword argument 'size'"):
        build(Part("twice", factory, {}), {"size": 1}, "here")


def test_entry_points_add_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("starts", f"{__name__}:Sample", "evalbeam.metric")
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or type(sys)(__name__))
    monkeypatch.setattr(sys.modules[__name__], "Sample", Sample, raising=False)
    found = {"evalbeam.metric": [point]}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found.get(group, []))
    monkeypatch.setattr(registry, "_loaded", set())
    assert find("metric", "starts").factory is Sample


# --- user code by name ------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "agent_of_mine.py").write_text("class Box:\n    ask = staticmethod(len)\n\ndef answer(p): return p\n")
    (tmp_path / "broken_of_mine.py").write_text("raise RuntimeError('no key')\n")
    (tmp_path / "ending_of_mine.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "needy_of_mine.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_load_object(module: Path) -> None:
    assert load_object("agent_of_mine:answer", "agent.target")("x") == "x"
    assert load_object("agent_of_mine:Box.ask", "agent.target") is len


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("answer", "agent.target: 'answer' names no object (allowed: \"module:name\")"),
        (":answer", "agent.target: ':answer' names no object"),
        ("agent_of_mine:", "agent.target: 'agent_of_mine:' names no object"),
        (
            "agent_of_yours:x",
            "agent.target: cannot import 'agent_of_yours': module 'agent_of_yours' not found (allowed: a module in the",
        ),
        ("needy_of_mine:x", "agent.target: cannot import 'needy_of_mine': module 'not_installed_anywhere' not found"),
        ("broken_of_mine:x", "agent.target: importing 'broken_of_mine' failed: RuntimeError: no key"),
        ("ending_of_mine:x", "agent.target: importing 'ending_of_mine' failed: SystemExit: 3"),
        ("agent_of_mine:anser", "agent.target: 'agent_of_mine' has no 'anser'; did you mean 'answer'?"),
        ("agent_of_mine:Box.aks", "agent.target: 'agent_of_mine' has no 'Box.aks'; did you mean 'ask'?"),
    ],
)
def test_what_cannot_be_loaded_says_why(module: Path, target: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_object(target, "agent.target")
    assert str(caught.value).startswith(message)


def test_the_working_directory_is_searched(module: Path) -> None:
    script = "import sys; sys.path[:] = [p for p in sys.path if p]\n"
    script += "from evalbeam.transforms.registry import load_object\nprint(load_object('agent_of_mine:answer', '')(7))"
    path = os.pathsep.join(p for p in sys.path if p and Path(p) != module)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=module,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_listing_metrics_imports_nothing_heavy() -> None:
    script = "import sys; from evalbeam.transforms import registry; registry.names('metric')\n"
    script += "print(sorted({'apache_beam', 'pandas', 'nltk', 'sacrebleu', 'rouge_score'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

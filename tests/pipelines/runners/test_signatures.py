"""Signatures that are remembered, beside those that Beam reads."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import core
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, get_dofn_specs

from evalbeam.pipelines.runners.signatures import known_signatures

SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())
TOTAL = beam.DoFn.StateParam(SUM)


class Plain(beam.DoFn):
    def process(self, element: Any) -> Any:
        yield element


class Other(Plain):
    def process(self, element: Any, side: Any, at: Any = beam.DoFn.TimestampParam) -> Any:  # type: ignore[override]
        yield element, side, at

    def finish_bundle(self, window: Any = beam.DoFn.WindowParam) -> None:
        pass

    @staticmethod
    def still(one: int, two: int = 2) -> None:
        pass

    @classmethod
    def of_all(cls, one: int) -> None:
        pass


class Counting(beam.DoFn):
    def process(self, element: Any, total: Any = TOTAL) -> Any:  # type: ignore[override]
        total.write(1)
        yield element


def changed() -> Plain:
    """A step with a method of its own."""
    step = Plain()
    step.process = lambda element, more: None  # type: ignore[method-assign, assignment]
    return step


def wrapped(function: Any) -> beam.DoFn:
    """The step that Beam makes of a function."""
    return beam.FlatMap(function).fn


COUNTING = Counting()
STEPS = [
    Plain(),
    changed(),
    Other(),
    Plain(),
    COUNTING,
    wrapped(lambda one, two=2: [one, two]),
    wrapped(lambda one, total=TOTAL: [one, total]),
    wrapped(str.split),
]


def read() -> list[Any]:
    found: list[Any] = [get_dofn_specs(step) for step in STEPS]
    for step in STEPS:
        names = [name for name in dir(step) if not name.startswith("_") and callable(getattr(step, name))]
        found.append({name: core.get_function_arguments(step, name) for name in names})
    return found


def test_they_are_those_that_beam_reads() -> None:
    expected = read()
    with known_signatures():
        assert read() == read() == expected
    assert expected[STEPS.index(COUNTING)] == ({SUM}, set())


def test_nobody_changes_what_is_remembered() -> None:
    with known_signatures():
        core.get_function_arguments(Plain(), "process")[0].append("more")
        assert core.get_function_arguments(Plain(), "process") == (["element"], [])


def test_a_method_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plain = core.get_function_arguments
    monkeypatch.setattr(core, "get_function_arguments", lambda obj, name: asked.append(name) or plain(obj, name))
    with known_signatures():
        for step in (Plain(), Plain(), Other()):
            core.get_function_arguments(step, "setup")
    assert asked == ["setup"]


def test_beam_has_its_own_function_again_when_the_last_run_ends() -> None:
    own = core.get_function_arguments
    with known_signatures():
        with known_signatures():
            inner = core.get_function_arguments
        assert core.get_function_arguments is inner is not own
    assert core.get_function_arguments is own

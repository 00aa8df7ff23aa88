"""Every metric scores every row it can, and says why of every row it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoreColumn
from evalbeam.transforms.metrics._inputs import ConfiguredMetric
from evalbeam.transforms.metrics.base import Metric, ScoringBatch
from evalbeam.transforms.score import score_examples


@dataclass(frozen=True)
class Length(Metric):
    """Length of the response; raises on "boom"."""

    inputs: ClassVar = ("response", "reference")

    def score(self, example: Example) -> Score:
        if example.get("response") == "boom":
            raise ValueError("cannot measure")
        return Score(float(len(example.get("response"))), details={"n": 1})


@dataclass(frozen=True)
class Fragile(Length):
    """A batch path that breaks on one row."""

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        if "boom" in batch.column("response"):
            raise RuntimeError("whole batch")
        return ScoreColumn([0.1] * len(batch.examples))


@dataclass(frozen=True)
class Failures(Metric):
    """Sees every row."""

    sees_failures: ClassVar = True

    def score(self, example: Example) -> Score:
        return Score(float(not example.invocation.answered))


def examples() -> tuple[Example, ...]:
    def one(i: int, row: dict, **call) -> Example:
        return Example(Instance(str(i), row), Invocation(**call))

    return (
        one(0, {"reference": "r"}, response="abc"),
        one(1, {"reference": "r"}, status="failed", error_type="TimeoutError"),
        one(2, {}, response="abc"),
        one(3, {"reference": "r"}),
        one(4, {"reference": "r"}, response="boom"),
        one(5, {"reference": "r"}, status="not_called"),
        one(6, {"reference": "r"}, response="abcd"),
    )


def run(*metrics: Metric, float32: bool = False):
    uses = [ConfiguredMetric(f"m{i}", m) for i, m in enumerate(metrics)]
    return score_examples(Batch(examples(), 4, (("reference", "string"),)), uses, float32)


def test_rows_in_are_rows_out_with_the_reason_beside_every_missing_score():
    scored = run(Length(), Failures())
    assert (len(scored.examples), scored.part, scored.columns) == (7, 4, (("reference", "string"),))
    column = scored.scores["m0"]
    assert column.values == [3.0, None, None, None, None, None, 4.0]
    assert column.details == {0: {"n": 1}, 6: {"n": 1}}
    assert [column.at(i).status for i in range(7)] == ["scored"] + ["skipped"] * 3 + ["error", "skipped", "scored"]
    codes = {i: e.code for i, e in column.errors.items()}
    assert codes == {1: "agent_failed", 2: "missing_reference", 3: "missing_response", 4: "ValueError", 5: "not_called"}
    assert scored.scores["m1"].values == [0, 1, 0, 0, 0, 1, 0]


def test_a_row_that_breaks_the_batch_path_does_not_take_its_neighbours_along():
    column = run(Fragile()).scores["m0"]
    assert column.values == [3.0, None, None, None, None, None, 4.0]
    assert column.status[4] == "error"


def test_float32_rounds_as_the_vertex_service_stores():
    @dataclass(frozen=True)
    class Third(Length):
        def score(self, example: Example) -> Score:
            return Score(1 / 3)

    assert run(Third(), float32=True).scores["m0"].values[0] == 0.3333333432674408


def test_metrics_with_the_same_inputs_share_what_they_compute():
    seen = []

    @dataclass(frozen=True)
    class Shares(Length):
        def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
            tokens = batch.share("tokens", lambda: seen.append(1) or [r.split() for r in batch.column("response")])
            return ScoreColumn([float(len(t)) for t in tokens])

    run(Shares(), Shares())
    assert seen == [1]

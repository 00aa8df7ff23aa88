"""What a metric is.

A metric is a frozen dataclass whose fields are the parameters a config may set, registered under a name:

    @register("metric", "starts_with")
    @dataclass(frozen=True)
    class StartsWith(Metric):
        '''1 iff the response starts with `prefix`.'''

        prefix: str
        inputs: ClassVar = ("response",)
        range: ClassVar = (0.0, 1.0)
        binary: ClassVar = True

        def score(self, example: Example) -> Score:
            return Score(float(str(example.get("response")).startswith(self.prefix)))

Metrics know no Beam, no cloud and no configuration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from ...schemas.conversation import pair_turns
from ...schemas.instance import FROM_INVOCATION, Example, Turn
from ...schemas.result import Better, Score, ScoreColumn
from ..calls.errors import classify_error
from ..registry import register

__all__ = ["Derived", "Metric", "ScoringBatch", "failure_of", "guarded", "register"]

T = TypeVar("T")


class ScoringBatch:
    """Examples to score, all of which have the metric's inputs, and a memo that the metrics of a batch share.

    Attributes:
        examples: 1 to 1,024 examples in order.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        self._memo: dict[Hashable, Any] = {}

    def share(self, key: Hashable, compute: Callable[[], T]) -> T:
        """`compute()`, once for all metrics that ask under the same key (tokens, parsed trajectories ...)."""
        if key not in self._memo:
            self._memo[key] = compute()
        return self._memo[key]

    def column(self, name: str) -> list[Any]:
        """Values of one input, one for each example."""
        return self.share(("column", name), lambda: self._values(name))

    def _values(self, name: str) -> list[Any]:
        if name in FROM_INVOCATION:
            return list(map(attrgetter(f"invocation.{FROM_INVOCATION[name]}"), self.examples))
        return [e.instance.get(name) for e in self.examples]

    def turns(self) -> list[tuple[tuple[Turn, Turn | None], ...]]:
        """(expected, actual) of every turn of every example, see `pair_turns`."""
        return self.share("turns", lambda: [pair_turns(e) for e in self.examples])


class Metric(ABC):
    """Base of all metrics; subclasses implement `score`, and `score_batch` where a batch is faster than its rows.

    Attributes:
        inputs: Names of the values an example must have; a row without one of them is skipped with
            code `missing_<input>`, a row whose agent failed with code `agent_failed`; `score` sees only the others.
        range: Lowest and highest possible score, or `None`.
        best: The value in `range` that is best; default its upper end. Without a range, the end that scores should come
            near.
        binary: Whether every score is 0 or 1 (its interval is Wilson's).
        outputs: Which columns beside score, status and error it fills: "explanation", "pairwise_choice", "confidence",
            "details".
        measured: Whether its scores are measured times, in which two live runs differ.
        sees_failures: Whether it also scores rows whose agent failed or was not called.
    """

    inputs: ClassVar[tuple[str, ...]] = ()
    range: ClassVar[tuple[float, float] | None] = None
    best: ClassVar[float | None] = None
    binary: ClassVar[bool] = False
    outputs: ClassVar[tuple[str, ...]] = ()
    measured: ClassVar[bool] = False
    sees_failures: ClassVar[bool] = False

    @abstractmethod
    def score(self, example: Example) -> Score:
        """Scores one example that has all inputs. An exception becomes a score with status "error"."""

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        """Scores all examples of a batch; same results as `score` row by row, which is the default."""
        return ScoreColumn.of([guarded(self, example) for example in batch.examples])

    @property
    def variant(self) -> str:
        """What follows its name in the columns where a run uses the metric several times; "" where nothing does."""
        return ""

    def ends(self) -> tuple[float, float] | None:
        """(worst, best) score: worst is the end of the range farthest from the best; `None` without a range."""
        if self.range is None:
            return None
        low, high = self.range
        best = high if self.best is None else self.best
        return (low if best - low >= high - best else high), best

    @property
    def better(self) -> Better:
        """Which of two scores is the better one: the higher, the lower, or the one nearer to `best`."""
        if self.best is None:
            return "higher"
        if self.range is None or self.best <= self.range[0]:
            return "lower"
        return "higher" if self.best >= self.range[1] else "nearer"


class Derived(Metric):
    """Base of the metrics that follow from what the other metrics of a run say of a row, once judges have answered."""

    sees_failures: ClassVar[bool] = False

    def score(self, example: Example) -> Score:
        """Not applicable: in a run that asks no judge there is nothing to derive it from."""
        return Score(status="not_applicable")

    @abstractmethod
    def derive(self, scores: Mapping[str, tuple[Metric, Score]]) -> Score:
        """Scores a row by the (metric, score) of the others, by their names in the order of the columns."""


def guarded(metric: Metric, example: Example) -> Score:
    """`metric.score(example)`, with an exception turned into a score with status "error"."""
    try:
        return metric.score(example)
    except Exception as error:  # a metric's fault is that row's data, never the run's end
        return failure_of(error)


def failure_of(error: BaseException) -> Score:
    """The score of a row on which a metric raised: the exception's type as code, its text without addresses."""
    fault = classify_error(error)
    return Score.failed(fault.error_type, fault.message)

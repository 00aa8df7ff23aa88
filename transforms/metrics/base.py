"""The base classes of metrics.

A metric is a frozen dataclass whose fields are the parameters a config may set, registered under a name:

    @register("metric", "starts_with")
    @dataclass(frozen=True)
    class StartsWith(Metric):
        '''1 if the response starts with `prefix`, else 0.'''

        prefix: str
        inputs: ClassVar = ("response",)
        range: ClassVar = (0.0, 1.0)
        binary: ClassVar = True

        def score(self, example: Example) -> Score:
            return Score(float(str(example.get("response")).startswith(self.prefix)))

Metrics do not depend on Beam, cloud services or configuration.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ...schemas.conversation import pair_turns
from ...schemas.instance import FROM_INVOCATION, Example, Turn
from ...schemas.result import Better, Score, ScoreColumn
from ..calls.errors import classify_error
from ..registry import name_of, register

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Derived", "Metric", "ScoringBatch", "failure_of", "register", "score_safely"]

T = TypeVar("T")
_OTHERS = sys.stdlib_module_names | {(__package__ or "").partition(".")[0]}
"""Packages that are not the user's own code, beside the installed ones."""


class ScoringBatch:
    """Examples that have all inputs of a metric, and a memo shared by all metrics of the batch.

    Attributes:
        examples: 1 to 1,024 examples in order.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        self._memo: dict[Hashable, Any] = {}

    def share(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns `compute()`, computed once per key for all metrics (tokens, parsed trajectories ...)."""
        if key not in self._memo:
            self._memo[key] = compute()
        return self._memo[key]

    def column(self, name: str) -> list[Any]:
        """Returns the values of one input, one per example."""
        return self.share(("column", name), lambda: self._values(name))

    def _values(self, name: str) -> list[Any]:
        if name in FROM_INVOCATION:
            return list(map(attrgetter(f"invocation.{FROM_INVOCATION[name]}"), self.examples))
        return [e.instance.get(name) for e in self.examples]

    def turns(self) -> list[tuple[tuple[Turn, Turn | None], ...]]:
        """Returns (expected, actual) of every turn of every example, see `pair_turns`."""
        return self.share("turns", lambda: [pair_turns(e) for e in self.examples])


class Metric(ABC):
    """Base of all metrics; subclasses implement `score`, and `score_batch` if scoring a batch at once is faster.

    Attributes:
        inputs: Names of the required values. Rows without one of them are skipped with code `missing_<input>`, rows
            whose agent failed with code `agent_failed`; `score` gets only the other rows.
        range: Lowest and highest possible score, or `None`.
        best: The best score; default: the upper end of `range`. Without a range, the value that scores should approach.
        binary: True if every score is 0 or 1.
        outputs: Columns filled in addition to score, status and error: "explanation", "pairwise_choice", "confidence",
            "details".
        measured: True if scores are measured times, which differ between two live runs.
        sees_failures: True to score also rows whose agent failed or was not called.
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
        """Scores all examples of a batch, with the same results as `score`; calls `score` for each by default."""
        return ScoreColumn.of([score_safely(self, example) for example in batch.examples])

    def pool(self, sums: np.ndarray) -> np.ndarray:
        """Returns the score of all rows together, from sums of what `ScoreColumn.sums` has of each row.

        Args:
            sums: float64 of shape (cases, sums).

        Raises:
            NotImplementedError: The metric has no such score.
        """
        raise NotImplementedError

    @property
    def metric_name(self) -> str:
        """Name of its columns, as in the Vertex AI SDK: its own, else the registered one."""
        own = getattr(self, "name", "")
        return (own if isinstance(own, str) else "") or name_of("metric", self) or type(self).__name__

    def __str__(self) -> str:
        return self.metric_name

    @property
    def variant(self) -> str:
        """Suffix of the column names if a run uses the metric several times; "" for none."""
        return ""

    def ends(self) -> tuple[float, float] | None:
        """Returns (worst, best) score; worst is the end of the range farthest from best. `None` without a range."""
        if self.range is None:
            return None
        low, high = self.range
        best = high if self.best is None else self.best
        return (low if best - low >= high - best else high), best

    @property
    def better(self) -> Better:
        """The better one of two scores: the "higher", the "lower", or the "nearer" to `best`."""
        if self.best is None:
            return "higher"
        if self.range is None or self.best <= self.range[0]:
            return "lower"
        return "higher" if self.best >= self.range[1] else "nearer"


class Derived(Metric):
    """Base of metrics that are derived from the other scores of a row, after judges have answered."""

    sees_failures: ClassVar[bool] = False

    def score(self, example: Example) -> Score:
        """Returns `not_applicable`: a run without judges has nothing to derive the score from."""
        return Score(status="not_applicable")

    @abstractmethod
    def derive(self, scores: Mapping[str, tuple[Metric, Score]]) -> Score:
        """Scores a row from the other metrics' (metric, score), by name in the order of the columns."""


def score_safely(metric: Metric, example: Example) -> Score:
    """Returns `metric.score(example)`; an exception becomes a score with status "error"."""
    try:
        return metric.score(example)
    except Exception as error:  # an error in a metric must not end the run
        return failure_of(error)


def failure_of(error: BaseException) -> Score:
    """Builds the error score of an exception.

    The code is its type. The message has no memory addresses; if the user's own code was on the way, it ends with the
    innermost place in it, "(mine.py, line 3)".
    """
    fault, place = classify_error(error), _find_own_place(error)
    return Score.failed(fault.error_type, f"{fault.message} ({place})" if place else fault.message)


def _find_own_place(error: BaseException) -> str | None:
    """Returns the innermost place of a traceback that is neither in this package nor in an installed one."""
    found = None
    for frame, line in walk_tb(error.__traceback__):
        path, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in _OTHERS and "site-packages" not in path:
            found = f"{os.path.basename(path)}, line {line}"
    return found

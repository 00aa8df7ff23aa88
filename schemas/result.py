"""What comes out: scores, summaries, verdicts and rejected rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from .instance import Example
from .json import Json

Status: TypeAlias = Literal["scored", "error", "skipped", "not_applicable"]


@dataclass(frozen=True, slots=True)
class ScoreError:
    """Why there is no score: a stable snake_case code and a sentence without addresses or durations."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Score:
    """One metric's result on one example.

    Attributes:
        value: The score, float64; `None` unless `status` is "scored" by number.
        label: A verdict in words, e.g. "CANDIDATE" of a pairwise metric.
        explanation: Reasons in text, where the metric gives them.
        confidence: In [0, 1], where the metric gives it.
        details: Anything else, JSON.
        status: "scored", "error" (tried, failed), "skipped" (inputs missing, agent failed) or "not_applicable".
        error: Why, unless scored.
    """

    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    confidence: float | None = None
    details: Json = None
    status: Status = "scored"
    error: ScoreError | None = None

    @classmethod
    def failed(cls, code: str, message: str) -> Score:
        """A score that was tried and could not be computed."""
        return cls(status="error", error=ScoreError(code, message))

    @classmethod
    def skipped(cls, code: str, message: str) -> Score:
        """A score whose inputs are not there."""
        return cls(status="skipped", error=ScoreError(code, message))


@dataclass(slots=True)
class ScoreColumn:
    """One metric's results over a batch, as a column: dense values, everything rarer by position.

    Attributes:
        values: One float or `None` for each example.
        status: Status of the positions that are not "scored".
        errors: Why, for the positions that are not "scored".
        labels: Labels of the scores that have one.
        explanations: Explanations of the scores that have one.
        confidences: Confidences of the scores that have one.
        details: Details of the scores that have some.
    """

    values: list[float | None]
    status: dict[int, Status] = field(default_factory=dict)
    errors: dict[int, ScoreError] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    explanations: dict[int, str] = field(default_factory=dict)
    confidences: dict[int, float] = field(default_factory=dict)
    details: dict[int, Json] = field(default_factory=dict)

    @classmethod
    def of(cls, scores: Sequence[Score]) -> ScoreColumn:
        """The same results, row by row ones taken into a column."""
        column = cls([None] * len(scores))
        for i, score in enumerate(scores):
            column.put(i, score)
        return column

    def put(self, i: int, score: Score) -> None:
        """Sets position `i`."""
        self.values[i] = score.value
        if score.status != "scored":
            self.status[i] = score.status
        for name, value in (
            ("errors", score.error),
            ("labels", score.label),
            ("explanations", score.explanation),
            ("confidences", score.confidence),
            ("details", score.details),
        ):
            if value is not None:
                getattr(self, name)[i] = value

    def at(self, i: int) -> Score:
        """Position `i` as a Score."""
        return Score(
            self.values[i],
            self.labels.get(i),
            self.explanations.get(i),
            self.confidences.get(i),
            self.details.get(i),
            self.status.get(i, "scored"),
            self.errors.get(i),
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """Calls of one metric's questions to one judge, summed up.

    Attributes:
        calls: Questions with a verdict of the model, whether made now or found in the journal.
        failed: Questions without a verdict.
        unknown: Answers of the model, verdicts or not, whose provider told no tokens.
        input_tokens, output_tokens: Tokens of all answers that named them, of those that were no verdict too.
        open: Questions that were not asked, since the run was stopped or its budget spent.
    """

    calls: int = 0
    failed: int = 0
    unknown: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    open: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.calls + other.calls,
            self.failed + other.failed,
            self.unknown + other.unknown,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.open + other.open,
        )


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """Examples of one output part in order, and their scores by metric name, in the order the metrics were given.

    `spent` holds, by (metric, judge, how the answers came: live or by a batch), what its judge metrics asked.
    """

    examples: Sequence[Example]
    scores: dict[str, ScoreColumn]
    part: int = 0
    columns: tuple[tuple[str, str], ...] = ()
    spent: dict[tuple[str, str, str], Tally] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A dataset row that cannot be evaluated, and where it stood.

    Attributes:
        file: Path of the file as given; "" for data in memory.
        range: Number of the byte range of the file that the row starts in.
        line: Line (JSONL, CSV: physical line; others: row) counted from 1 within the range.
        code: A stable snake_case word, e.g. "malformed_json".
        message: What was found and what was allowed.
        raw: The raw text as far as it can be shown, at most 1,000 characters.
    """

    file: str
    range: int
    line: int
    code: str
    message: str
    raw: str


class SliceKey(NamedTuple):
    """Key of one summary row: slice columns with their values, and the metric. () is the whole dataset.

    A string value stands as it is, another JSON value as its JSON text, a missing one as `None`.
    """

    slice: tuple[tuple[str, str | None], ...]
    metric: str


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the summary table; every statistic is `None` where it is not defined (metrics.md §9).

    `row_count` counts rows of the slice, `scored_count + error_count + skipped_count` makes it up
    (not-applicable rows are counted as skipped); `coverage` is scored_count / row_count. The trials
    of an instance are one cluster for `se` and interval (`ci_method` "cluster"), unless that is "normal".

    What judges were asked for a metric stands in its first row over the whole dataset alone, so that a column's sum is
    the run's: `judge_calls` (questions, answered or not), `judge_input_tokens`, `judge_output_tokens` and `judge_cost`
    of the answers, `None` where not all of it is known, and in `judges` the same for each judge. All of it follows from
    the answers, and so from the journal: two runs that find the same answers write the same.
    """

    slice: tuple[tuple[str, str | None], ...]
    metric: str
    row_count: int
    scored_count: int
    error_count: int
    skipped_count: int
    coverage: float | None = None
    mean: float | None = None
    std: float | None = None
    se: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str | None = None
    min: float | None = None
    max: float | None = None
    median: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mode: float | None = None
    variance: float | None = None
    worst_case_mean: float | None = None
    best_case_mean: float | None = None
    pass_rate: float | None = None
    threshold: float | None = None
    verdict: str | None = None
    judge_calls: int | None = None
    judge_input_tokens: int | None = None
    judge_output_tokens: int | None = None
    judge_cost: float | None = None
    judges: Json = None


Verdict: TypeAlias = Literal["PASSED", "FAILED", "NOT_EVALUATED"]
Better: TypeAlias = Literal["higher", "lower", "nearer"]
"""Which of two scores is the better one; "nearer" to a best score within the metric's range."""

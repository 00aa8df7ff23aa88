"""Results: scores, summaries, verdicts and rejected rows."""

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
        value: The score, float64; `None` unless `status` is "scored" and the result is a number.
        label: A verdict as text, e.g. "CANDIDATE" of a pairwise metric.
        explanation: Reasons as text, if the metric gives them.
        confidence: Confidence in [0, 1], if the metric gives it.
        details: Further data as JSON.
        status: "scored", "error" (scoring failed), "skipped" (inputs missing, agent failed) or "not_applicable".
        error: The reason, unless scored.
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
        """Builds a score with status "error": scoring failed."""
        return cls(status="error", error=ScoreError(code, message))

    @classmethod
    def skipped(cls, code: str, message: str) -> Score:
        """Builds a score with status "skipped": its inputs are missing."""
        return cls(status="skipped", error=ScoreError(code, message))


@dataclass(slots=True)
class ScoreColumn:
    """One metric's results over a batch, as a column: dense values, rarer fields by position.

    Attributes:
        values: One float or `None` for each example.
        status: Status of the positions that are not "scored".
        errors: Reasons of the positions that are not "scored".
        labels: Labels of the scores that have one.
        explanations: Explanations of the scores that have one.
        confidences: Confidences of the scores that have one.
        details: Details of the scores that have some.
        sums: What a score of all rows together is computed from, by position, if the metric has one.
    """

    values: list[float | None]
    status: dict[int, Status] = field(default_factory=dict)
    errors: dict[int, ScoreError] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    explanations: dict[int, str] = field(default_factory=dict)
    confidences: dict[int, float] = field(default_factory=dict)
    details: dict[int, Json] = field(default_factory=dict)
    sums: dict[int, Sequence[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, scores: Sequence[Score]) -> ScoreColumn:
        """Builds a column from scores."""
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
        """Returns the score of position `i`."""
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
    """Totals of one metric's questions to one judge.

    Attributes:
        calls: Questions with a verdict, whether asked in this run or found in the journal.
        failed: Questions without a verdict.
        unknown: Answers, verdicts or not, whose provider reported no tokens.
        input_tokens, output_tokens: Reported tokens of all answers, verdicts or not.
        open: Questions not asked because the run was stopped or its budget exhausted.
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
    """Examples of one output part in order, and their scores by metric name, in the order of the metrics.

    `spent` holds the questions of judge metrics by (metric, judge, mode of the answers: live or batch).
    """

    examples: Sequence[Example]
    scores: dict[str, ScoreColumn]
    part: int = 0
    columns: tuple[tuple[str, str], ...] = ()
    spent: dict[tuple[str, str, str], Tally] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A dataset row that cannot be evaluated, and its location.

    Attributes:
        file: Path of the file as configured; "" for data in memory.
        range: Number of the byte range of the file that the row starts in.
        line: Line (JSONL, CSV: physical line; others: row) counted from 1 within the range.
        code: A stable snake_case word, e.g. "malformed_json".
        message: What was found and what is allowed.
        raw: The raw text, at most 1,000 characters.
    """

    file: str
    range: int
    line: int
    code: str
    message: str
    raw: str


class SliceKey(NamedTuple):
    """Key of one summary row: slice columns with their values, and the metric. () is the whole dataset.

    A string value is kept, any other JSON value becomes its JSON text, a missing one is `None`.
    """

    slice: tuple[tuple[str, str | None], ...]
    metric: str


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the summary table; a statistic is `None` if it is undefined.

    `row_count` is the number of rows of the slice and equals `scored_count + error_count + skipped_count`
    (not-applicable rows count as skipped); `coverage` is scored_count / row_count. The trials of an instance, equal
    inputs, and rows with equal values in `statistics.cluster` form one cluster for `se` and the interval (`ci_method`
    "cluster"), unless the interval is "normal". For metrics with a range the interval is Wilson's within it ("wilson"),
    else Student's ("t").

    Only the first row of a metric over the whole dataset holds its judge statistics, so that the sum of a column is
    that of the run: `judge_calls` (questions, answered or not), `judge_input_tokens`, `judge_output_tokens` and
    `judge_cost` of the answers, `None` if not all of it is known; `judges` holds the same for each judge. All of them
    are derived from the answers, and so from the journal: runs with the same answers write the same values.

    The fields from `corrected_mean` to `labels` stand in the table only if people's labels are configured: the mean
    corrected by them, its interval, `lambda` (how much the scores count, in [0, 1]) and the number of labels.
    `validity` is the row of the validity table. `intervals` holds the (low, high) ends that criteria with a confidence
    of their own ask for, by the text of the confidence and then by statistic.
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
    n_clusters: int | None = None
    design_effect: float | None = None
    median_ci_low: float | None = None
    median_ci_high: float | None = None
    p90_ci_low: float | None = None
    p90_ci_high: float | None = None
    p95_ci_low: float | None = None
    p95_ci_high: float | None = None
    p99_ci_low: float | None = None
    p99_ci_high: float | None = None
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
    corrected_mean: float | None = None
    corrected_ci_low: float | None = None
    corrected_ci_high: float | None = None
    lambda_: float | None = None
    labels: int | None = None
    validity: dict[str, Json] | None = None
    intervals: dict[str, dict[str, tuple[float | None, float | None]]] = field(default_factory=dict)


OF_LABELS = ("corrected_mean", "corrected_ci_low", "corrected_ci_high", "lambda_", "labels")
"""Fields of a summary that only labels give; a trailing underscore is no part of the column's name."""

Verdict: TypeAlias = Literal["PASSED", "FAILED", "NOT_EVALUATED", "INCONCLUSIVE"]
Better: TypeAlias = Literal["higher", "lower", "nearer"]
"""Which of two scores is better; "nearer" means nearer to a best score within the metric's range."""

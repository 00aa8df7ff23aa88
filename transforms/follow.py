"""The step that follows a metric: rows are called in waves until its mean is shown to differ from a threshold.

The rows of all shards meet in one place, where one worker process calls the agent for the first inputs in the order of
their selection hashes, scores them, looks, and calls the next ones. Answers and votes are kept in the journals of the
run, where the steps that follow find them. The order depends on the ids alone, so the decision depends on the data and
the answers, and neither on the engine nor on which calls an earlier start has made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from ..schemas.batch import Batch
from ..schemas.calls import NOT_MADE, Call
from ..schemas.config.calls import CallPolicy
from ..schemas.config.sequential import SequentialConfig
from ..schemas.identity import HASHES, input_id, selection_hash
from ..schemas.instance import Instance
from ..schemas.result import ScoredBatch, ScoreError
from ..schemas.run_folder import AGENT
from .calls.context import RunContext
from .calls.fanout import NO_ANSWER, FanOut, Work
from .facts import DatasetStats
from .invoke import AgentCaller, InvokeAgent
from .judge import JudgeCaller, JudgeExamples
from .metrics._inputs import ConfiguredMetric
from .runtime.coders import coder_of
from .score import score_examples
from .statistics.following import Followed, confidence_sequence
from .statistics.sequential import decide

MOST_ROWS, MOST_BYTES = 10_000, 256 << 20
"""Most rows that are followed, and their bytes as JSON, more or less: they are in the memory of one process. If they
decide nothing, the others are called at once."""

coder_of(Followed)


@dataclass
class FollowMetric(beam.PTransform):
    """PCollection[Batch[Instance]] -> PCollection[Followed], one, unless there is no batch.

    Attributes:
        rule: What is followed, and how.
        use: The metric.
        invoke: The step that answers the rows after this one.
        judge: The step that asks the judges after it, for the metrics that do not derive from others; `None` if the
            metric asks none.
        context: The start of the run.
        facts: Singleton side input.
        sample: Share of the dataset that was selected by the same hashes, in (0, 1].
        worst: Score that counts for a row whose agent failed; `None` if it counts as none.
        float32: Round scores to float32 (`compat.float32`).
    """

    rule: SequentialConfig
    use: ConfiguredMetric
    invoke: InvokeAgent
    judge: JudgeExamples | None
    context: RunContext
    facts: AsSingleton
    sample: float = 1.0
    worst: float | None = None
    float32: bool = False

    @property
    def unknown(self) -> Followed:
        """What is known before the first row."""
        return Followed(self.rule.metric, self.rule.threshold, self.rule.confidence)

    def expand(self, input_or_inputs: beam.PCollection[Batch[Instance]]) -> beam.PCollection[Followed]:
        judge, context = self.judge, self.context
        asking = None if judge is None else judge.caller(1)  # one process makes all calls of this step
        caller = WaveCaller(self.invoke.caller(1), asking, self.rule, self.use, self.worst, self.float32)
        replayed = self.invoke.journals_replayed | ({} if judge is None else judge.journals_replayed)
        own = {} if context.agent_journal is None else {AGENT: context.agent_journal}
        calling = FanOut(caller, context, context.judge_journal, Followed, replayed=replayed, journals=own)
        first = beam.Map(_first_rows, self.facts, self.sample).with_output_types(tuple[int, Batch])
        joined = beam.MapTuple(_join).with_output_types(Batch)
        return input_or_inputs | "First" >> first | "MeetAll" >> beam.GroupByKey() | "Join" >> joined | calling  # type: ignore[return-value]  (`|` gives a PValue)


def _first_rows(batch: Batch[Instance], facts: DatasetStats, sample: float) -> tuple[int, Batch[Instance]]:
    """The rows of a batch that may be followed, all under one key; an empty batch where there are none."""
    share = min(MOST_ROWS / max(facts.rows, 1), MOST_BYTES / max(facts.bytes, 1))
    end = share * sample * HASHES
    rows = tuple(row for row in batch.rows if selection_hash(row.instance_id) < end)
    return 0, Batch(rows, 0, batch.columns)


def _join(_: int, batches: Iterable[Batch[Instance]]) -> Batch[Instance]:
    """All rows as one batch, in the order in which they are called."""
    found = list(batches)
    rows = [row for batch in found for row in batch.rows]
    rows.sort(key=lambda row: (selection_hash(row.instance_id), row.instance_id))
    return Batch(tuple(rows), 0, found[0].columns)


def cut_waves(rows: Iterable[Instance], inputs: int) -> Iterator[tuple[Instance, ...]]:
    """Cuts rows into waves of a number of inputs each; rows with equal inputs, which follow one another, stay together.

    The last wave may be smaller.
    """
    wave: list[Instance] = []
    number = 0
    for _, same in groupby(rows, key=lambda row: input_id(row.instance_id)):
        wave += same
        number += 1
        if number == inputs:
            yield tuple(wave)
            wave, number = [], 0
    if wave:
        yield tuple(wave)


@dataclass(frozen=True)
class WaveCaller:
    """Calls the agent in waves, and asks the judges of their answers; the other fields are those of `FollowMetric`.

    Attributes:
        agent: Calls the agent.
        judge: Asks the judges; `None` if the metric asks none.
    """

    agent: AgentCaller
    judge: JudgeCaller | None
    rule: SequentialConfig
    use: ConfiguredMetric
    worst: float | None = None
    float32: bool = False

    @property
    def endpoints(self) -> dict[str, CallPolicy]:
        """The agent, and the judges."""
        return self.agent.endpoints | ({} if self.judge is None else self.judge.endpoints)

    def connect(self, endpoint: str) -> Callable[[Call], Any]:
        """The callable of the agent or of a judge."""
        if self.judge is None or endpoint in self.agent.endpoints:
            return self.agent.connect(endpoint)
        return self.judge.connect(endpoint)

    def work(self, batch: Batch[Instance]) -> Work:
        """Calls wave after wave, until the mean is decided, no row is left, or calls are not made any more."""
        known = Followed(self.rule.metric, self.rule.threshold, self.rule.confidence)
        means: list[float] = []
        for rows in cut_waves(batch.rows, self.rule.wave):
            scored = yield from self._score(Batch(rows, 0, batch.columns))
            if self._left(scored):
                break
            means += self._means(scored)
            known = self.look(known.rows + len(rows), means)
            if known.side is not None or known.problem is not None:
                break
        return known

    def look(self, rows: int, means: Sequence[float]) -> Followed:
        """What is known after some rows.

        Args:
            rows: Number of rows called.
            means: Mean score of each input that has any, in the order of the calls.
        """
        rule, metric = self.rule, self.use.metric
        known = Followed(rule.metric, rule.threshold, rule.confidence, rows)
        if not len(means):
            return known
        ends = (0.0, 1.0) if metric.binary else metric.range
        assert ends is not None
        if min(means) < ends[0] or max(means) > ends[1]:
            odd = min(means) if min(means) < ends[0] else max(means)
            found = f"{rule.metric} scored {odd:g}, which is beyond its range {ends[0]:g} to {ends[1]:g}"
            return replace(known, problem=found)
        low, high = confidence_sequence(means, ends, rule.confidence, metric.binary and self.agent.trials == 1)
        return replace(known, low=low, high=high, side=decide((low, high), rule.threshold))

    def _score(self, wave: Batch[Instance]) -> Work:
        """Calls and scores a wave; computed metrics other than the followed one are left to the steps that follow."""
        outcomes = yield self.agent.calls(wave)
        answered = self.agent.complete(wave, outcomes)
        if self.judge is None:
            return score_examples(answered, [self.use], self.float32)
        scored = yield from self.judge.work(score_examples(answered, []))
        return scored

    def _left(self, scored: ScoredBatch) -> bool:
        """Returns whether calls of a wave were not made, so that its scores are not those of its rows."""
        errors = scored.scores[self.use.name].errors.values()
        if any(example.invocation.status in NOT_MADE for example in scored.examples):
            return True
        return any(error.code in NOT_MADE and error.message != NO_ANSWER for error in errors)

    def _means(self, scored: ScoredBatch) -> Iterator[float]:
        """The mean score of each input, over its rows and trials; nothing for one without a score."""
        column = scored.scores[self.use.name]
        rows = enumerate(scored.examples)
        for _, same in groupby(rows, key=lambda row: input_id(row[1].instance.instance_id)):
            scores = [self._value(column.values[i], column.errors.get(i)) for i, _ in same]
            found = [score for score in scores if score is not None]
            if found:
                yield sorted((min(found), math.fsum(found) / len(found), max(found)))[1]  # rounding stays in the range

    def _value(self, value: float | None, error: ScoreError | None) -> float | None:
        if value is None and error is not None and error.code == "agent_failed":
            return self.worst
        return value if value is not None and math.isfinite(value) else None

"""Instances become examples: the agent runs on each, or its recorded answer is taken from the row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.pvalue import AsSingleton

from ..schemas.batch import MAX_BYTES, MAX_ROWS, Batch, cut_rows, example_out, make_example
from ..schemas.calls import Call, Outcome
from ..schemas.config.calls import CallPolicy
from ..schemas.identity import canonical
from ..schemas.instance import Example, Instance
from ..schemas.json import Json
from ..schemas.run_folder import AGENT
from .agents.base import Agent, Recording, invocation_of, read_answer
from .calls.bundle import MAX_HELD_BYTES
from .calls.callee import reading
from .calls.capture import capturing, complete
from .calls.context import RunContext
from .calls.fanout import FanOut, Work
from .io.secrets import provide


@dataclass
class InvokeAgent(beam.PTransform):
    """PCollection[Batch[Instance]] -> PCollection[Batch[Example]], each instance `trials` times.

    A batch whose answers are large leaves as several.

    Attributes:
        agent: What answers, an `Agent` or a `Recording`.
        policy: Limits, timeouts and retries; ignored if answers are recorded.
        trials: Runs of the agent on each instance, at least 1.
        context: The start of the run: where calls are kept, and what they may cost.
        given: Columns and standard fields that an agent which takes the whole row is given; `None` gives all.
        secrets: (environment variable, reference) that the agent needs, see `secrets`.
        replayed: Journal of another run that has all the answers there are, see `FanOut`.
        batch: Whether calls are handed over in batches instead of being made, see `FanOut.handed`.
        closed: Singleton side input that ends the calls, see `FanOut.closed`.
    """

    agent: Agent | Recording
    policy: CallPolicy
    trials: int = 1
    context: RunContext = field(default_factory=RunContext)
    given: tuple[str, ...] | None = None
    secrets: tuple[tuple[str, str], ...] = ()
    replayed: str | None = None
    batch: bool = False
    closed: AsSingleton | None = None

    @property
    def rows(self) -> int:
        """Rows that a batch should hold at most: so many that the largest answers allowed fit into memory together."""
        if isinstance(self.agent, Recording):
            return MAX_ROWS
        return max(1, min(MAX_ROWS, MAX_HELD_BYTES // (self.policy.max_answer_bytes * self.trials)))

    @property
    def journals_replayed(self) -> dict[str, str]:
        """The journal of another run that stands for the agent, by its endpoint."""
        return {} if self.replayed is None else {AGENT: self.replayed}

    def caller(self, processes: int) -> AgentCaller:
        """Who calls the agent, as one of some processes that share the limits of the run."""
        assert isinstance(self.agent, Agent)
        policy = self.policy.for_one_of(processes)
        return AgentCaller(self.agent, policy, self.trials, self.context.fingerprint, self.given, self.secrets)

    def expand(self, input_or_inputs: beam.PCollection[Batch[Instance]]) -> beam.PCollection[Batch[Example]]:
        if isinstance(self.agent, Recording):
            recall = beam.Map(recalled, self.agent, self.trials)
            return input_or_inputs | "Recall" >> recall.with_output_types(Batch)  # type: ignore[return-value]  (`|` gives a PValue)
        context, caller = self.context, self.caller(self.context.processes)
        handed = {AGENT: context.folder.agent_batches} if self.batch and context.folder is not None else {}
        replayed = self.journals_replayed
        call = FanOut(caller, context, context.agent_journal, replayed=replayed, handed=handed, closed=self.closed)
        return input_or_inputs | "Call" >> call | "Split" >> beam.FlatMap(split).with_output_types(Batch)  # type: ignore[return-value]  (`|` gives a PValue)


def recalled(batch: Batch[Instance], agent: Recording, trials: int) -> Batch[Example]:
    """The batch with the recorded answers of its rows, under the numbers of their trials."""
    recall = agent.recall
    rows = [make_example(row, recall(row), (row.trial or 0) if row.fields else 0) for row in batch.rows]
    if trials > 1:
        rows = [make_example(r.instance, r.invocation, trial) for r in rows for trial in range(trials)]
    return Batch(tuple(rows), batch.part, batch.columns)


def split(batch: Batch[Example]) -> Iterator[Batch[Example]]:
    """The batch in order as batches of about `MAX_BYTES` of answers at most, cut as `cut_rows` says."""
    # The encoded list has a comma for each row but one, and two brackets.
    if len(orjson.dumps([example_out(r)[1] for r in batch.rows])) - len(batch.rows) - 1 <= MAX_BYTES:
        yield batch
        return
    for rows in cut_rows(batch.rows, attrgetter("instance.instance_id"), _answer_bytes, len(batch.rows)):
        yield Batch(tuple(rows), batch.part, batch.columns) if len(rows) < len(batch.rows) else batch


def _answer_bytes(example: Example) -> int:
    return len(orjson.dumps(example_out(example)[1]))


@dataclass(frozen=True)
class AgentCaller:
    """Calls an agent once for each instance of a batch and trial; the fields are those of `InvokeAgent`."""

    agent: Agent
    policy: CallPolicy
    trials: int = 1
    fingerprint: str = ""
    given: tuple[str, ...] | None = None
    secrets: tuple[tuple[str, str], ...] = ()

    @property
    def endpoints(self) -> dict[str, CallPolicy]:
        """The one endpoint: the agent."""
        return {AGENT: self.policy}

    def connect(self, endpoint: str) -> Callable[[Call], Any]:
        """The agent's callable, with its answers read and checked."""
        provide(dict(self.secrets))
        limit, read = self.policy.max_answer_bytes, self.agent.read
        return reading(
            capturing(self.agent.connect()),
            lambda call: (_fresh(call.request), call.key),
            lambda found, call: complete(read_answer(read(found[0]), limit), found[1], limit),
        )

    def work(self, batch: Batch[Instance]) -> Work:
        """One call for each row and trial."""
        outcomes = yield self.calls(batch)
        return self.complete(batch, outcomes)

    def calls(self, batch: Batch[Instance]) -> list[Call]:
        """The calls of a batch: for each instance, one for each trial."""
        whole = self.agent.whole_row
        made = []
        for row in batch.rows:
            request = self.agent.request(row)
            if request is None:
                request = _row_given(row, self.given) if whole else row.get("prompt")
            ordinal = row.instance_id.partition("-")[2]
            for trial in range(self.trials):
                parts = [orjson.dumps((ordinal, self.fingerprint, trial)), canonical(request)]
                key = hashlib.sha256(b"\n".join(parts)).hexdigest()
                made.append(Call(key, request, row.instance_id[:2], AGENT))
        return made

    def complete(self, batch: Batch[Instance], outcomes: Sequence[Outcome]) -> Batch[Example]:
        """The examples, in the order of the calls."""
        pairs = ((row, trial) for row in batch.rows for trial in range(self.trials))
        rows = [Example(row, invocation_of(o), trial) for (row, trial), o in zip(pairs, outcomes, strict=True)]
        return Batch(tuple(rows), batch.part, batch.columns)


def _row_given(instance: Instance, names: tuple[str, ...] | None) -> dict[str, Json]:
    row = {**instance.row, **instance.fields}
    if "prompt" not in row and (prompt := instance.get("prompt")) is not None:
        row["prompt"] = prompt
    return row if names is None else {n: v for n in names if (v := row.get(n, instance.get(n))) is not None}


def _fresh(value: Json) -> Json:
    """A copy an agent may change without changing the row, or what its next attempt sees."""
    if isinstance(value, dict):
        return {k: _fresh(v) for k, v in value.items()}
    return [_fresh(v) for v in value] if isinstance(value, list) else value

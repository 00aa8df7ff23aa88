"""Scored batches get the scores of judges: every judge metric on every row, many questions at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import apache_beam as beam

from ..schemas.calls import NOT_MADE, Call, Outcome
from ..schemas.config.calls import CallPolicy
from ..schemas.conversation import usage_of
from ..schemas.errors import JudgeError
from ..schemas.instance import Example
from ..schemas.json import Json
from ..schemas.json_text import jsonable
from ..schemas.judging import Answer, Ask, Message, Reply
from ..schemas.result import Score, ScoreColumn, ScoredBatch, ScoreError, Tally
from ..schemas.usage import share_cost, usage_in
from .calls.callee import reading
from .calls.context import RunContext
from .calls.fanout import NO_ANSWER, FanOut, Work
from .judge_costs import BATCH, LIVE
from .judge_sessions import Session, grouped
from .judges.base import Consult, Judge, Question, Refused, Truncated
from .judging.joint_questions import encode_parts, join_asks, part_name, split_answer
from .judging.parse import InvalidVerdict, check_verdict, read_parts, read_verdict
from .judging.shapes import TEXT
from .metrics._inputs import (
    ConfiguredMetric,
    Inputs,
    round_scores,
    scatter,
)
from .metrics._judged import is_judged
from .metrics.base import Derived
from .runtime.dialogue import Asking

Place: TypeAlias = tuple[str, str, str]
"""Identity of a call across judges: endpoint, prefix of the journal, key."""
ENDPOINT = "judge:"
"""Prefix of the names of judges' endpoints."""
_CODES: Mapping[str, str] = {"Refused": "refused", "Truncated": "truncated", "InvalidVerdict": "invalid_verdict"}
"""Errors of answers that are no verdict, and their codes."""


@dataclass(frozen=True)
class Replayed:
    """A judge of another run whose answers are taken over.

    Attributes:
        journal: Folder of that run's votes.
        identity: What they depend on beside the questions.
        model: Name of the model.
        combine_metrics: Whether it was asked jointly.
        prompts: Hashes of the prompts of that run's metrics.
        together: Of each metric that it was asked about jointly those of its prompts, sorted.
    """

    journal: str
    identity: Mapping[str, Json]
    model: str
    combine_metrics: bool = False
    prompts: frozenset[str] = frozenset()
    together: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class JudgeUse:
    """A judge in a run, and how its calls are made.

    Attributes:
        judge: The judge.
        policy: How its calls are made.
        mode: "live" asks it at once; "batch" and "batch_files" hand its questions over, see `JudgeExamples.batch`.
        replayed: The judge of another run that it stands for; no call is made then.
        combine_metrics: Whether the questions that several metrics have about a row are put to it as one.
    """

    judge: Judge
    policy: CallPolicy
    mode: str = "live"
    replayed: Replayed | None = None
    combine_metrics: bool = False

    @property
    def identity(self) -> Mapping[str, Json]:
        """All that its answers depend on beside the question."""
        return self.judge.identity if self.replayed is None else self.replayed.identity

    @property
    def model_name(self) -> str:
        """Name under which its price is looked up."""
        return self.judge.model_name if self.replayed is None else self.replayed.model


@dataclass
class JudgeExamples(beam.PTransform):
    """PCollection[ScoredBatch] -> PCollection[ScoredBatch], one for one, with the scores of the judge metrics.

    Attributes:
        metrics: All metrics of the run in the order of their columns, computed ones too.
        judges: The judges by their names in the configuration.
        context: The start of the run: where votes are kept, and what they may cost.
        float32: Round scores to float32 (`compat.float32`).
    """

    metrics: tuple[ConfiguredMetric, ...]
    judges: Mapping[str, JudgeUse]
    context: RunContext = field(default_factory=RunContext)
    float32: bool = False

    @property
    def journals_replayed(self) -> dict[str, str]:
        """The journals of other runs that stand for judges, by their endpoints."""
        return {ENDPOINT + n: u.replayed.journal for n, u in self.judges.items() if u.replayed is not None}

    def caller(self, processes: int) -> JudgeCaller:
        """Who asks the judges, as one of some processes that share the limits of the run."""
        uses = {n: replace(u, policy=u.policy.for_one_of(processes)) for n, u in self.judges.items()}
        return JudgeCaller(self.metrics, uses, self.float32)

    def expand(self, input_or_inputs: beam.PCollection[ScoredBatch]) -> beam.PCollection[ScoredBatch]:
        context, caller = self.context, self.caller(self.context.processes)
        batched = [n for n, u in self.judges.items() if u.mode != "live"]
        folder = context.folder
        handed = {} if folder is None else {ENDPOINT + n: folder.judge_batches(n) for n in batched}
        replayed = self.journals_replayed
        asking = FanOut(caller, context, context.judge_journal, ScoredBatch, replayed=replayed, handed=handed)
        return input_or_inputs | "Ask" >> asking  # type: ignore[return-value]  (`|` gives a PValue)


@dataclass(frozen=True)
class JudgeCaller:
    """Puts the questions of judge metrics to their judges; the fields are those of `JudgeExamples`."""

    metrics: tuple[ConfiguredMetric, ...]
    judges: Mapping[str, JudgeUse]
    float32: bool = False
    _identities: dict[str, bytes] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def endpoints(self) -> dict[str, CallPolicy]:
        """One for each judge."""
        return {ENDPOINT + name: use.policy for name, use in self.judges.items()}

    def connect(self, endpoint: str) -> Callable[[Call], Any]:
        """A judge's callable, with its answers read and checked. A judge without a client fails every question."""
        try:
            consult = self.judges[endpoint.removeprefix(ENDPOINT)].judge.connect()
        except Exception as error:  # of the provider's client: no key, say; answers and other scores are kept
            consult = _unable(f"{type(error).__name__}: {error}")
        return reading(consult, lambda call: (question(call),), kept)

    def work(self, batch: ScoredBatch) -> Work:
        """All questions of a batch's rows that are open, at once, then those that follow from the answers.

        Trials and equal rows that ask the same share one call, as the journal has one answer for them.
        """
        sessions: list[Session] = []
        ready = Inputs(batch.examples)
        found: dict[str, tuple[list[int], dict[int, Score]]] = {}
        for use in self._judged():
            scoring, places, skipped = ready.ready(use.metric)
            found[use.name] = (places, skipped)
            sessions += [Session(use, scoring.examples[i], place) for i, place in enumerate(places)]
        tallies: dict[tuple[str, str, str], Tally] = {}
        known: dict[Place, Outcome] = {}
        paid: set[Place] = set()
        while open_ := [s for s in sessions if s.score is None]:
            groups = grouped(open_, self._joint)
            asked = [(join_asks([part.ask for part in group]), group[0].session.place) for group in groups]
            calls = [self.call(ask, batch.examples[place]) for ask, place in asked]
            yield from _each_once(calls, known)
            for group, call in zip(groups, calls, strict=True):
                answers = split_answer(answer_of(_paid_once(known[_place(call)], call, paid)), len(group))
                for part, answer in zip(group, answers, strict=True):
                    key = (part.session.metric, part.ask.judge, BATCH if answer.batched else LIVE)
                    tallies[key] = tallies.get(key, Tally()) + _tally(answer)
                    part.session.answers[part.place] = answer
            for session in open_:
                session.advance()
        return self._complete(batch, found, sessions, tallies)

    def call(self, ask: Ask, example: Example) -> Call:
        """The call that a question is; its key is a hash of all that the answer depends on."""
        asked = jsonable([[list(m) for m in ask.messages], ask.schema, ask.vote])
        key = hashlib.sha256(asked + b"\n" + self._identity(ask.judge)).hexdigest()
        row = example.instance.instance_id
        request = {"messages": ask.messages, "schema": ask.schema, "vote": ask.vote, "data": ask.data, "row": row}
        if ask.parts:
            request["parts"] = {part_name(i): part.data for i, part in enumerate(ask.parts)}
        return Call(key, request, row[:2], ENDPOINT + ask.judge)

    @property
    def _joint(self) -> set[str]:
        return {name for name, use in self.judges.items() if use.combine_metrics}

    def _judged(self) -> list[ConfiguredMetric]:
        return [use for use in self.metrics if is_judged(use.metric)]

    def _identity(self, judge: str) -> bytes:
        known = self._identities.get(judge)
        if known is None:
            known = self._identities[judge] = jsonable(self.judges[judge].identity)
        return known

    def _complete(
        self,
        batch: ScoredBatch,
        found: Mapping[str, tuple[list[int], dict[int, Score]]],
        sessions: Sequence[Session],
        tallies: Mapping[tuple[str, str, str], Tally],
    ) -> ScoredBatch:
        scores = dict(batch.scores)
        for name, (places, skipped) in found.items():
            column = ScoreColumn.of([s.score or Score() for s in sessions if s.metric == name])
            column = scatter(column, places, skipped, len(batch.examples)) if skipped else column
            scores[name] = round_scores(column) if self.float32 else column
        for use in self.metrics:
            if isinstance(use.metric, Derived):
                scores[use.name] = self._derived(use.metric, scores, batch)
        ordered = {use.name: scores[use.name] for use in self.metrics}
        return ScoredBatch(batch.examples, ordered, batch.part, batch.columns, dict(tallies))

    def _derived(self, metric: Derived, scores: Mapping[str, ScoreColumn], batch: ScoredBatch) -> ScoreColumn:
        """Scores derived from the other scores of each answered row; unanswered rows stay skipped."""
        others = [use for use in self.metrics if not isinstance(use.metric, Derived)]
        _, places, skipped = Inputs(batch.examples).ready(metric)
        rows = ({use.name: (use.metric, scores[use.name].at(i)) for use in others} for i in places)
        column = ScoreColumn.of([metric.derive(row) for row in rows])
        return scatter(column, places, skipped, len(batch.examples)) if skipped else column


class NoClient(JudgeError):
    """The client of a judge could not be created."""


def _unable(why: str) -> Consult:
    async def consult(question: Question) -> Reply:
        raise NoClient(why)

    return consult


def _place(call: Call) -> Place:
    return call.endpoint, call.prefix, call.key


def _each_once(calls: Sequence[Call], known: dict[Place, Outcome]) -> Asking[Call, Outcome, None]:
    """Has the calls made whose outcomes are not known, and adds these.

    Those whose prompts begin alike follow one another, since providers keep what they have read of a beginning.
    """
    once: dict[Place, Call] = {}
    for call in calls:
        if (place := _place(call)) not in known:
            once.setdefault(place, call)
    order = sorted(once.values(), key=lambda call: (call.endpoint, call.request["messages"]))
    outcomes = (yield order) if order else ()
    known.update((_place(call), outcome) for call, outcome in zip(order, outcomes, strict=True))


def question(call: Call) -> Question:
    """The question of a call."""
    asked = call.request  # out of a file, its messages are lists
    return Question(tuple(Message(*m) for m in asked["messages"]), asked["schema"], call.key, asked["vote"])


def kept(reply: Reply, call: Call, batched: bool = False) -> Json:
    """The JSON that the journal keeps of a reply: its verdict and tokens, and for a batch reply the row that pays for
    it.

    Raises:
        Refused, Truncated, InvalidVerdict: There is no verdict in it; the error carries its tokens.
    """
    usage: dict[str, Json] | None = None
    if reply.usage is not None:
        usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
        usage |= {"batch": True, "row": call.request.get("row")} if batched else {}
    try:
        return {"value": _verdict(reply, call.request), "usage": usage}
    except JudgeError as error:
        error.usage = usage
        raise


def _verdict(reply: Reply, request: Mapping[str, Any]) -> Json:
    schema, data = request["schema"], request["data"]
    if reply.finish == "refused":
        raise Refused(f"the judge refused: {reply.text[:200]}" if reply.text else "the judge refused")
    try:
        if (parts := request.get("parts")) is not None:
            said = reply.text if reply.value is None else reply.value
            return encode_parts(read_parts(said, schema, parts), reply.finish == "length")
        if reply.finish == "length" and schema == TEXT:  # a text that may be cut off anywhere
            raise InvalidVerdict("the text is cut off")
        return read_verdict(reply.text, schema, data) if reply.value is None else check_verdict(reply.value, schema)
    except InvalidVerdict:
        if reply.finish == "length":
            raise Truncated("the judge ran into its limit of tokens (allowed: more max_tokens)") from None
        raise


def answer_of(outcome: Outcome, whole: bool = False) -> Answer:
    """The answer that came of a call.

    Args:
        outcome: What came of it.
        whole: Whether the text of an error that may pass is told, too: it says something else each time.
    """
    told = outcome.value["usage"] if outcome.value else None
    known = outcome.kind != "ok" or usage_of(told) is not None
    spent = usage_in(outcome.value) if known else None, bool(told and told.get("batch"))
    if outcome.kind == "ok":
        return Answer(outcome.value["value"], None, *spent)
    if outcome.kind in NOT_MADE:
        lacking = outcome.error_message == NO_ANSWER
        return Answer(error=ScoreError(outcome.kind, NO_ANSWER if lacking else "the judge was not asked"))
    name, text = outcome.error_type or "", outcome.error_message
    lasting = outcome.kind in ("permanent", "invalid_answer")
    error = ScoreError(_CODES.get(name, "judge_failed"), f"{name}: {text}" if lasting or whole else name)
    return Answer(None, error, *spent)


def _paid_once(outcome: Outcome, call: Call, paid: set[Place]) -> Outcome:
    """The outcome, with tokens for one row: the first that asks, or of an answer by a batch the one that pays it.

    Args:
        outcome: What came of the call.
        call: The call.
        paid: Places of the calls whose tokens were counted for this row or one beside it; added to.
    """
    payer = ((outcome.value or {}).get("usage") or {}).get("row", call.request["row"])
    again = payer != call.request["row"] or _place(call) in paid
    paid.add(_place(call))
    return share_cost(outcome) if again else outcome


def _tally(answer: Answer) -> Tally:
    if answer.open:
        return Tally(open=1)
    usage, good = answer.usage, int(answer.error is None)
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return Tally(good, 1 - good, int(answer.error is None or answer.error.code in _CODES.values()))
    return Tally(good, 1 - good, 0, usage.input_tokens, usage.output_tokens)

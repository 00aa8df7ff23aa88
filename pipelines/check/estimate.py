"""What a run's judges would be asked and what that would cost, estimated from the first rows without a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...schemas.conversation import is_conversation, pair_turns
from ...schemas.instance import Chunk, Example, Instance, Invocation, Turn
from ...schemas.judging import PROMPTS
from ...transforms.agents.base import add_turns, trajectory_of
from ...transforms.join_baseline import BASELINE
from ...transforms.metrics._inputs import Inputs
from ...transforms.metrics._judged import JudgedMetric
from ..display.costs import UNKNOWN, known, money
from ..display.terminal import plain, table
from ..run.judges import joined_metrics
from ..run.plan import Plan
from .forecast import Forecast, forecast

CHARACTERS = 4
"""Characters of a token, about: of English in most models; other languages take more tokens."""
RESPONSE = "x" * 400
"""Stands for an agent's answer, and for a passage it retrieves, where a row says nothing of how long it is."""
UNKNOWN_ROWS = 1000
"""Rows for which is estimated where their number is not known."""

Span = tuple[float, float]


@dataclass(frozen=True)
class JudgeEstimate:
    """What one metric asks of one judge, (least, most) each.

    Attributes:
        metric, judge, model: Who is asked for what.
        calls: Questions.
        input_tokens, output_tokens: Estimated tokens given and made; `None` of services that count no tokens.
        cost: In the currency of `prices`; `None` where there is no price.
    """

    metric: str
    judge: str
    model: str
    calls: Span
    input_tokens: Span | None
    output_tokens: Span | None
    cost: Span | None


def estimated(plan: Plan, examples: Sequence[Example], looked_at: int, rows: int) -> list[JudgeEstimate]:
    """What the metrics of a plan ask of each judge.

    Args:
        plan: The plan.
        examples: The usable ones of the first rows; without an answer where the agent is asked.
        looked_at: How many rows were looked at.
        rows: Rows of the run.
    """
    given = examples if plan.recorded else [imagined(e, plan.config.baseline is not None) for e in examples]
    inputs, scale = Inputs(given), rows * plan.config.trials / max(looked_at, 1)
    found = []
    for use in plan.judged:
        assert isinstance(use.metric, JudgedMetric)
        sums = {judge: (Forecast(), Forecast()) for judge in use.metric.judges}
        for example in inputs.ready(use.metric)[0].examples:
            for judge, (least, most) in forecast(use.metric, example).items():
                sums[judge] = (sums[judge][0].plus(least), sums[judge][1].plus(most))
        for judge, bounds in sums.items():
            if plan.judges[judge].replayed is not None:  # another run's answers, without a call
                continue
            found.append(_estimate(plan, use.name, judge, bounds, scale, use.metric.speaks == PROMPTS))
    return found


def _estimate(
    plan: Plan, metric: str, judge: str, bounds: tuple[Forecast, Forecast], scale: float, counts: bool
) -> JudgeEstimate:
    use = plan.judges[judge]
    model = use.judge.model_name
    calls, given, made = ((getattr(bounds[0], n) * scale, getattr(bounds[1], n) * scale) for n in Forecast._fields)
    if not counts:
        return JudgeEstimate(metric, judge, model, calls, None, None, None)
    tokens = [(low / CHARACTERS, high / CHARACTERS) for low, high in (given, made)]
    price = plan.config.prices.get(model)
    low, high = (price and price.cost(*each, batched=use.mode != "live") for each in zip(*tokens, strict=True))
    cost = None if low is None or high is None else (low, high)
    return JudgeEstimate(metric, judge, model, calls, tokens[0], tokens[1], cost)


def imagined(example: Example, baseline: bool = False) -> Example:
    """A row as it may look once an agent has answered: as the references say, else with answers of a usual length.

    Args:
        example: The row, without an answer.
        baseline: Whether the answers of another run join it.
    """
    own = example.instance
    reference = own.get("reference")
    response = RESPONSE if reference is None else reference
    calls, _ = trajectory_of(own.get("reference_trajectory"))
    answer = Invocation("ok", response, calls or (), (Chunk(RESPONSE),))
    if is_conversation(own.get("conversation")):
        answer = add_turns(replace(answer, response=None), tuple(_answered(turn) for turn, _ in pair_turns(example)))
    elif own.get("scenario") is not None:
        answer = add_turns(answer, (Turn(str(own.get("scenario")), RESPONSE),))
    if baseline:
        own = Instance(own.instance_id, own.row, {**own.fields, BASELINE: own.get(BASELINE) or response})
    return Example(own, answer)


def _answered(expected: Turn) -> Turn:
    return replace(expected, response=expected.response or RESPONSE, trajectory=expected.trajectory or ())


def lines(found: Sequence[JudgeEstimate], plan: Plan, rows: int | None, width: int) -> Iterator[str]:
    """The estimate in words: calls and tokens by metric and judge."""
    if not found:
        return
    calls = span(calls_of(found, plan))
    where = "" if rows is not None else f" for each {UNKNOWN_ROWS:,} rows"
    yield f"calls to expect: about {calls}{where}, as the first rows are; none was made now"
    cells = [
        [one.metric, one.judge, one.model, *(span(s) for s in (one.calls, one.input_tokens, one.output_tokens))]
        + [span(one.cost, exact=True)]
        for one in found
    ]
    if len(found) > 1:
        sums = (_all([getattr(one, n) for one in found], n) for n in _SUMMED)
        cells.append(["all", "", "", calls, *sums])
    columns = [(heading, heading in _HEADINGS[3:]) for heading in _HEADINGS]
    yield from (plain(line) for line in table(columns, cells, width, ("Model", "Judge")))
    yield f"tokens are estimated: {CHARACTERS} characters each, verdicts with one to three sentences, no thinking;"
    answers = "the rows' own" if plan.recorded else "taken to be like the references, else of 400 characters"
    yield f"  answers of the agent are {answers}; from the fewest votes that decide to all"
    if any(judge.combine_metrics for judge in plan.judges.values()):
        yield "  of joint judges, tokens are those of the metrics asked by themselves, which are more"
    yield from _warnings(found, plan, rows)


def calls_of(found: Sequence[JudgeEstimate], plan: Plan) -> Span:
    """Calls of all judges: of the metrics that a judge is asked jointly, those of the one that asks most."""
    low = high = 0.0
    for name, judge in plan.judges.items():
        together = {use.name for use in joined_metrics(name, judge, plan.judged)}
        alone = [one.calls for one in found if one.judge == name and one.metric not in together]
        joint = [one.calls for one in found if one.judge == name and one.metric in together]
        low += sum(span[0] for span in alone) + max((span[0] for span in joint), default=0.0)
        high += sum(span[1] for span in alone) + max((span[1] for span in joint), default=0.0)
    return low, high


def _warnings(found: Sequence[JudgeEstimate], plan: Plan, rows: int | None) -> Iterator[str]:
    """Bounds of the budget that the estimate exceeds; a run is refused only for what it needs in any case."""
    budget = plan.config.budget
    if rows is None:
        return
    own = rows * plan.calls_per_row
    calls = own + round(calls_of(found, plan)[0])
    if budget.max_calls is not None and calls > budget.max_calls:
        yield f"warning: budget.max_calls {budget.max_calls:,} is less than about {calls:,}, {own:,} of the agent"
    counted = [tokens[0] for one in found for tokens in (one.input_tokens, one.output_tokens) if tokens is not None]
    tokens = round(sum(counted))
    if budget.max_tokens is not None and tokens > budget.max_tokens:
        yield f"warning: budget.max_tokens {budget.max_tokens:,} is less than about {tokens:,} of judges alone"


_HEADINGS = ("Metric", "Judge", "Model", "Calls", "Tokens in", "Tokens out", "Cost")
_SUMMED = ("input_tokens", "output_tokens", "cost")


def _all(spans: Sequence[Span | None], name: str) -> str:
    whole = [s for s in spans if s is not None]
    sums = (sum(low for low, _ in whole), sum(high for _, high in whole))
    return span(sums if len(whole) == len(spans) else None, exact=name == "cost")


def span(found: Span | None, exact: bool = False) -> str:
    """Least and most, one number where they are the same."""
    if found is None:
        return UNKNOWN
    low, high = (money(v) if exact else known(round(v)) for v in found)
    return low if low == high else f"{low} – {high}"

"""Estimates the calls, tokens and cost of a run's judges from the first rows, without any call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...schemas.config.list_prices import CURRENCY, choose_price, find_price
from ...schemas.conversation import is_conversation, pair_turns
from ...schemas.instance import Chunk, Example, Instance, Invocation, Turn
from ...schemas.judging import PROMPTS
from ...transforms.agents.base import add_turns, trajectory_of
from ...transforms.join_baseline import BASELINE
from ...transforms.metrics._inputs import Inputs
from ...transforms.metrics._judged import JudgedMetric
from ..display.costs import UNKNOWN, describe_list_prices, format_known, format_money
from ..display.terminal import plain, table
from ..run.judges import joined_metrics
from ..run.plan import Plan
from .forecast import Forecast, forecast

CHARACTERS = 4
"""Characters per token, roughly: holds for English in most models; other languages take more tokens."""
RESPONSE = "x" * 400
"""Placeholder of usual length for an agent's answer and for a retrieved passage, if a row tells no length."""
UNKNOWN_ROWS = 1000
"""Number of rows of the estimate if the number of rows is unknown."""

Span = tuple[float, float]


@dataclass(frozen=True)
class JudgeEstimate:
    """Estimated use of one judge by one metric; each span is (minimum, maximum).

    Attributes:
        metric, judge, model: Names of the metric, the judge and its model.
        calls: Number of questions.
        input_tokens, output_tokens: Estimated tokens; `None` for services that count no tokens.
        cost: In the currency of `prices`, or of list prices if there are none; `None` if the model has no price.
    """

    metric: str
    judge: str
    model: str
    calls: Span
    input_tokens: Span | None
    output_tokens: Span | None
    cost: Span | None


def estimate_judges(plan: Plan, examples: Sequence[Example], looked_at: int, rows: int) -> list[JudgeEstimate]:
    """Estimates what each metric of a plan asks of each judge.

    Args:
        plan: The plan.
        examples: The usable rows of the sample; without answers if an agent is called.
        looked_at: Number of rows of the sample, the unusable ones included.
        rows: Number of rows of the run.
    """
    given = examples if plan.recorded else [add_expected_answer(e, plan.config.baseline is not None) for e in examples]
    inputs, scale = Inputs(given), rows * plan.config.trials / max(looked_at, 1)
    estimates = []
    for use in plan.judged:
        assert isinstance(use.metric, JudgedMetric)
        sums = {judge: (Forecast(), Forecast()) for judge in use.metric.judges}
        for example in inputs.ready(use.metric)[0].examples:
            for judge, (least, most) in forecast(use.metric, example).items():
                sums[judge] = (sums[judge][0].plus(least), sums[judge][1].plus(most))
        for judge, bounds in sums.items():
            if plan.judges[judge].replayed is not None:  # answers of another run: no call
                continue
            estimates.append(_estimate(plan, use.name, judge, bounds, scale, use.metric.speaks == PROMPTS))
    return estimates


def _estimate(
    plan: Plan, metric: str, judge: str, bounds: tuple[Forecast, Forecast], scale: float, counts: bool
) -> JudgeEstimate:
    use = plan.judges[judge]
    model = use.judge.model_name
    calls, given, made = ((getattr(bounds[0], n) * scale, getattr(bounds[1], n) * scale) for n in Forecast._fields)
    if not counts:
        return JudgeEstimate(metric, judge, model, calls, None, None, None)
    tokens = [(low / CHARACTERS, high / CHARACTERS) for low, high in (given, made)]
    price = choose_price(model, plan.config.prices)
    low, high = (price and price.cost(*each, batched=use.mode != "live") for each in zip(*tokens, strict=True))
    cost = None if low is None or high is None else (low, high)
    return JudgeEstimate(metric, judge, model, calls, tokens[0], tokens[1], cost)


def add_expected_answer(example: Example, baseline: bool = False) -> Example:
    """Adds the answer an agent might give: that of the references, else one of usual length.

    Args:
        example: The row, without an answer.
        baseline: Whether to add an answer of another run as well.
    """
    own = example.instance
    reference = own.get("reference")
    response = RESPONSE if reference is None else reference
    calls, _ = trajectory_of(own.get("reference_trajectory"))
    answer = Invocation("ok", response, calls or (), (Chunk(RESPONSE),))
    if is_conversation(own.get("conversation")):
        answer = add_turns(
            replace(answer, response=None), tuple(_complete_turn(turn) for turn, _ in pair_turns(example))
        )
    elif own.get("scenario") is not None:
        answer = add_turns(answer, (Turn(str(own.get("scenario")), RESPONSE),))
    if baseline:
        own = Instance(own.instance_id, own.row, {**own.fields, BASELINE: own.get(BASELINE) or response})
    return Example(own, answer)


def _complete_turn(expected: Turn) -> Turn:
    return replace(expected, response=expected.response or RESPONSE, trajectory=expected.trajectory or ())


def render_estimates(estimates: Sequence[JudgeEstimate], plan: Plan, rows: int | None, width: int) -> Iterator[str]:
    """Yields the lines of the estimate: calls, tokens and cost by metric and judge, with warnings."""
    if not estimates:
        return
    calls = format_span(count_calls(estimates, plan))
    where = "" if rows is not None else f" for each {UNKNOWN_ROWS:,} rows"
    yield f"expected calls: about {calls}{where}, estimated from the first rows; none was made by this check"
    currency = currency_of(plan)
    cells = [
        [one.metric, one.judge, one.model, *(format_span(s) for s in (one.calls, one.input_tokens, one.output_tokens))]
        + [format_span(one.cost, money=currency)]
        for one in estimates
    ]
    if len(estimates) > 1:
        sums = (
            format_span(sum_spans([getattr(one, n) for one in estimates]), money=currency if n == "cost" else None)
            for n in _SUMMED
        )
        cells.append(["all", "", "", calls, *sums])
    columns = [(heading, heading in _HEADINGS[3:]) for heading in _HEADINGS]
    yield from (plain(line) for line in table(columns, cells, width, ("Model", "Judge")))
    yield f"tokens are estimated: {CHARACTERS} characters each, verdicts of one to three sentences, no thinking;"
    answers = "those of the rows" if plan.recorded else "assumed to equal the references, else to have 400 characters"
    yield f"  the agent's answers are {answers}; from the fewest deciding votes to all votes"
    yield from note_list_prices(plan, [one.model for one in estimates])
    if any(judge.combine_metrics for judge in plan.judges.values()):
        yield "  for joint judges, tokens are those of the metrics asked separately, which is an upper bound"
    yield from _warn_of_budget(estimates, plan, rows)


def count_calls(estimates: Sequence[JudgeEstimate], plan: Plan) -> Span:
    """Sums the calls of all judges; metrics asked jointly count as the one of them with the most calls."""
    low = high = 0.0
    for name, judge in plan.judges.items():
        combined = {use.name for use in joined_metrics(name, judge, plan.judged)}
        alone = [one.calls for one in estimates if one.judge == name and one.metric not in combined]
        joint = [one.calls for one in estimates if one.judge == name and one.metric in combined]
        low += sum(span[0] for span in alone) + max((span[0] for span in joint), default=0.0)
        high += sum(span[1] for span in alone) + max((span[1] for span in joint), default=0.0)
    return low, high


def _warn_of_budget(estimates: Sequence[JudgeEstimate], plan: Plan, rows: int | None) -> Iterator[str]:
    """Yields a warning for each bound of the budget that the estimate exceeds; only certain excess refuses a run."""
    budget = plan.bounds
    if rows is None:
        return
    own = rows * plan.calls_per_row
    calls = own + round(count_calls(estimates, plan)[0])
    if budget.exceeded(calls):
        expected = f"the expected {calls:,} calls ({own:,} of the agent)"
        yield f"warning: budget.max_calls {budget.max_calls:,} is less than {expected}"
    counted = [tokens[0] for one in estimates for tokens in (one.input_tokens, one.output_tokens) if tokens is not None]
    tokens = round(sum(counted))
    if budget.exceeded(tokens=tokens):
        yield f"warning: budget.max_tokens {budget.max_tokens:,} is less than the judges' expected {tokens:,} tokens"


_HEADINGS = ("Metric", "Judge", "Model", "Calls", "Tokens in", "Tokens out", "Cost")
_SUMMED = ("input_tokens", "output_tokens", "cost")


def sum_spans(spans: Sequence[Span | None]) -> Span | None:
    """Sums spans; `None` if one of them is unknown."""
    whole = [s for s in spans if s is not None]
    return (sum(low for low, _ in whole), sum(high for _, high in whole)) if len(whole) == len(spans) else None


def format_span(bounds: Span | None, money: str | None = None) -> str:
    """Formats a span as "minimum – maximum", or as one number if both are the same.

    Args:
        bounds: The span.
        money: The currency of an amount; `None` for a count.
    """
    if bounds is None:
        return UNKNOWN
    low, high = (format_known(round(v)) if money is None else format_money(v) for v in bounds)
    return (low if low == high else f"{low} – {high}") + (f" {money}" if money else "")


def currency_of(plan: Plan) -> str:
    """Returns the currency of a plan's amounts; that of the list prices if the configuration has no prices."""
    return plan.config.currency if plan.config.prices else CURRENCY


def note_list_prices(plan: Plan, models: Iterable[str]) -> Iterator[str]:
    """Yields a line that says from when the list prices of models are, if they are used."""
    listed = {m: price for m in models if not plan.config.prices and (price := find_price(m)) is not None}
    if listed:
        yield f"costs: {describe_list_prices(listed)}, not yours; `prices` sets yours"


def render_agent(plan: Plan, examples: Sequence[Example], looked_at: int, rows: int | None) -> Iterator[str]:
    """Yields the estimated tokens and cost of the agent's answers, if its model has a price.

    Only prompts and answers are counted: what an agent adds to a prompt, and what it says to tools, is not known.

    Args:
        plan: The plan.
        examples, looked_at: As for `estimate_judges`.
        rows: Number of rows of the run; `None` if it is unknown.
    """
    model = plan.agent_model
    price = choose_price(model, plan.config.prices) if model else None
    if model is None or price is None:
        return
    scale = (UNKNOWN_ROWS if rows is None else rows) * plan.config.trials / max(looked_at, 1) / CHARACTERS
    given = sum(len(str(e.instance.get("prompt") or "")) for e in examples) * scale
    made = sum(len(str(add_expected_answer(e).invocation.response or "")) for e in examples) * scale
    cost = format_money(price.cost(given, made, batched=plan.config.agent.mode != "live"), currency_of(plan))
    each = f" for each {UNKNOWN_ROWS:,} rows" if rows is None else ""
    yield f"expected cost: {cost}{each} ({model}; {given:,.0f} tokens in, {made:,.0f} out: prompts and answers alone)"
    yield from note_list_prices(plan, [model])

"""The models of eval.yaml: pydantic models that reject unknown keys.

`EvaluationConfig.load` reads YAML or JSON text; errors name the key, the value found and the values allowed.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from ..errors import ConfigError, Mistakes
from ..values import slice_text
from .calls import CallPolicy
from .explain import explain_error, show_value
from .gate import GateConfig
from .labels import LabelsConfig
from .part import ConfigPart
from .salvage import drop_refused
from .sequential import SequentialConfig
from .storage import DatasetConfig, OutputConfig, Shards
from .yaml_text import load_yaml

Mode: TypeAlias = Literal["live", "batch", "batch_files"]
"""How calls are made: directly, in batches submitted to the provider, or in batch files that the user submits."""


class AgentConfig(CallPolicy):
    """The agent and the policy of its calls; the keys of the policy are on the same level as the agent's own.

    Attributes:
        type: Registered name of an agent type, such as "function"; "auto" infers it from the target. Without a target,
            the answers are in the rows.
        target: "module:name" of the agent, the object itself from Python, or an address.
        version: Declared version of the agent, part of its fingerprint.
        model: Name under which `prices` price the agent's tokens, unless the `usage` of an answer names its model.
        failure_threshold: As in the call policy; by default, the calls stop if more than half of the first 200 fail.
        packages: Wheels, folders with Python code and at most one requirements file of the agent; they are made
            importable on this machine and on every worker.
        secrets: Environment variables that the agent needs, with a reference to each value (see `transforms.secrets`)
            that is resolved on the worker. A list of names refers to variables of the same names.
        mode: As for a judge; only for agents behind OpenAI's chat completions.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    type: str = "auto"
    target: Any = None
    version: str | None = None
    model: str | None = None
    failure_threshold: float | None = Field(default=0.5, gt=0, lt=1)
    packages: tuple[str, ...] = ()
    secrets: dict[str, str] = {}
    mode: Mode = "live"

    @field_validator("secrets", mode="before")
    @classmethod
    def _references(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
            value = {name: f"${{env:{name}}}" for name in value}
        if not isinstance(value, Mapping) or not all(map(_is_secret, value, value.values())):
            raise ValueError("names of environment variables, or {VARIABLE: ${env:NAME}}; never a value")
        return value

    @property
    def params(self) -> dict[str, Any]:
        """The agent's own parameters besides `target`."""
        return dict(self.__pydantic_extra__ or {})


def _is_secret(name: Any, reference: Any) -> bool:
    """Returns true if the name is valid for an environment variable and the reference points to a secret."""
    texts = isinstance(name, str) and isinstance(reference, str)
    return texts and bool(re.fullmatch(r"[^=\0]+", name) and re.fullmatch(r"\$\{(env|secret):[^{}]+\}", reference))


class PriceConfig(ConfigPart):
    """Price of 1,000,000 tokens of a model.

    Attributes:
        input, output: Prices of input and output tokens, in the currency of all prices.
        batch_input, batch_output: Prices through the batch interface; `None` if unknown.
        date: The day of the prices, if it is to be kept with the costs.
    """

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    batch_input: float | None = Field(default=None, ge=0)
    batch_output: float | None = Field(default=None, ge=0)
    date: datetime.date | None = None

    def cost(self, given: float, made: float, batched: bool = False) -> float | None:
        """Returns the cost of input tokens (`given`) and output tokens (`made`); `None` if their price is unknown."""
        of_given, of_made = (self.batch_input, self.batch_output) if batched else (self.input, self.output)
        return None if of_given is None or of_made is None else (given * of_given + made * of_made) / 1e6


class JudgeConfig(CallPolicy):
    """A judge model and the policy of its calls; the keys of the policy are on the same level as the judge's own.

    Attributes:
        type: "google", "openai", "anthropic", "function" ...; "function" if only a target is given.
        failure_threshold: As in the call policy; by default, the calls stop if more than half of the first 200 fail.
        mode: "live" calls the judge directly. "batch" submits its questions to the provider's batch interface, and
            "batch_files" only writes the files; the same command run later reads the answers.
        combine_metrics: Whether the questions of several metrics about a row are combined into one call.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    type: str = "function"
    mode: Mode = "live"
    combine_metrics: bool = False
    max_in_flight: int = Field(default=16, ge=1, le=100_000)
    failure_threshold: float | None = Field(default=0.5, gt=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, value: Any) -> Any:
        if isinstance(value, str) and ":" not in value:  # judges: {type: ...} without a name for the judge
            raise ValueError('a mapping with type ..., or "module:name" of a function')
        return value if isinstance(value, Mapping | list | int | float | None) else {"target": value}

    @property
    def params(self) -> dict[str, Any]:
        """The judge's own parameters."""
        return dict(self.__pydantic_extra__ or {})


class MetricConfig(BaseModel):
    """One metric of the run: registered name, output name and parameters.

    Attributes:
        metric: A registered name, "module:name" of a function or class, or the object itself from Python.
        name: What the metric is called in the tables; default: its registered name.
        pass_k: Numbers of trials, such as [1, 2, 4]: for each k the summary has the rows `<name>/pass^k`, how likely it
            is that all of k trials pass, and `<name>/pass@k`, that one does. A trial passes with the best score; if
            scores are not 0 or 1, with `threshold` or better, which is then not a parameter of the metric.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    metric: Any
    name: str
    pass_k: list[Annotated[int, Field(ge=1, strict=True)]] = []

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, value: Any) -> Any:
        if not isinstance(value, Mapping | list | int | float | None):
            value = {"metric": value}
        if isinstance(value, Mapping):
            value = dict(value)
            if "metric" not in value and "name" not in value:
                raise ValueError("a metric needs the key 'metric' (a registered name or module:name)")
            metric = value.setdefault("metric", value.get("name"))
            value.setdefault("name", metric if isinstance(metric, str) else _object_name(metric))
        return value

    @field_validator("pass_k", mode="before")
    @classmethod
    def _number_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, int) else value

    @field_validator("pass_k")
    @classmethod
    def _distinct(cls, value: list[int]) -> list[int]:
        return sorted(set(value))

    @model_serializer(mode="wrap")
    def _leave_out_empty(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if key != "pass_k" or value}

    @property
    def params(self) -> dict[str, Any]:
        """The metric's own parameters."""
        given = dict(self.__pydantic_extra__ or {})
        return {key: value for key, value in given.items() if key != "threshold"} if self.pass_k else given

    @property
    def pass_threshold(self) -> Any:
        """The score with which a trial passes, as given beside `pass_k`; `None` if it is not."""
        return (self.__pydantic_extra__ or {}).get("threshold") if self.pass_k else None


def _object_name(metric: Any) -> str:
    """Returns the name of a metric given as an object; "" if only its registration may name it."""
    name = getattr(metric, "name", None) or getattr(metric, "__name__", "")
    return name if isinstance(name, str) else ""


class CriterionConfig(ConfigPart):
    """A bound on one statistic of one metric.

    Attributes:
        metric: Output name of the metric.
        statistic: Column of the summary table.
        min, max: Inclusive bounds; at least one.
        slice: Values of the slice by column, null for a missing value; `{}` for the whole dataset.
        confidence: Level in (0, 1) of the interval that decides: the criterion passes if all of it is within the
            bounds, fails if none is, and else is inconclusive. By default the statistic itself decides. For mean,
            median, p90, p95, p99 and corrected_mean.
    """

    metric: str
    statistic: str = "mean"
    min: float | None = None
    max: float | None = None
    slice: dict[str, str | None] = {}
    confidence: float | None = Field(default=None, gt=0, lt=1)

    @field_validator("slice", mode="before")
    @classmethod
    def _as_shown(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {k: slice_text(v) if isinstance(v, bool | int | float) else v for k, v in value.items()}

    @model_validator(mode="after")
    def _bounded(self) -> CriterionConfig:
        if self.min is None and self.max is None:
            raise ValueError("a criterion needs 'min' or 'max'")
        return self


class StatisticsConfig(ConfigPart):
    """Statistics of the summary table.

    Attributes:
        ci: "auto" is Wilson's interval for metrics with a range and for scores that are all 0 or 1, Student's t for
            others; "normal" is the normal approximation for all, clipped to the range if there is one; "bootstrap" is
            the percentiles of 1,000 replicates, unless all scores are equal.
        confidence: Level of the interval, in (0, 1).
        on_failure: "exclude" leaves rows whose agent failed out of means; "worst" counts them with the worst value.
        ratios: Ratios of sums by name, each of two metrics: {cost_per_success: [cost, success]}. Each has rows of its
            own in the summary, over the rows that have both, with intervals by the bootstrap.
        cluster: Dataset columns whose equal values make rows depend on each other, such as a conversation's id. By
            default, and for rows that lack a value, rows with equal inputs are a cluster.
        sequential: Calls the agent in waves, and no more once the mean of a metric is shown to differ from a threshold.
    """

    ci: Literal["auto", "normal", "bootstrap"] = "auto"
    confidence: float = Field(default=0.95, gt=0, lt=1)
    on_failure: Literal["exclude", "worst"] = "exclude"
    ratios: dict[str, tuple[str, str]] = {}
    cluster: list[str] = []
    sequential: SequentialConfig | None = None

    @field_validator("cluster", mode="before")
    @classmethod
    def _column_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class BudgetConfig(ConfigPart):
    """Bounds on what the whole run spends, agent and judges together, over all its starts.

    Attributes:
        max_calls: Maximum attempts of all calls, except those refused for their rate. A dataset that needs more is
            refused before the first call.
        max_tokens: Maximum input and output tokens of all answers that report their usage.
    """

    max_calls: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)


class CompatConfig(ConfigPart):
    """Switches that reproduce the behaviour of another product if evalbeam differs from it.

    Attributes:
        float32: Round scores to float32, as the Vertex service does.
        win_rate_all_rows: Count rows without a verdict in win rates, as EvalTask does.
        adk_verdicts: Decide as ADK does: a missing expected response is an empty one, and a case passes even if a
            criterion could not be evaluated.
    """

    float32: bool = False
    win_rate_all_rows: bool = False
    adk_verdicts: bool = False


class EvaluationConfig(ConfigPart):
    """A whole evaluation.

    Attributes:
        dataset: The rows.
        agent: The agent that answers the rows; default: the rows hold recorded answers.
        metrics: The metrics, in the order of the output columns.
        judges: The judge models by name; a metric that names none uses "default".
        baseline: Folder of a finished run whose answers pairwise metrics compare against.
        prices: Prices of the models of agents and judges by model name; the cost of other models is unknown.
        currency: Currency of `prices`, such as EUR, shown behind amounts.
        criteria: Bounds that decide the verdict: {metric: minimum} or a list of criteria.
        slices: Lists of dataset columns whose values break down the summary.
        labels: What people say of some rows; it corrects the means of judges.
        gate: What a comparison with an earlier run has to show.
        trials: Number of agent runs for each row.
        budget: Bounds on what the run spends.
        replay: Output folder of another run; its answers are scored instead of calling the agent.
        statistics: How means and intervals are computed.
        output: The folder of the tables, and their format.
        compat: Switches that reproduce what another product does.
        shards: Number of ranges of the id's hash that partition the work, a power of two; default: 256 if an agent is
            called, else by the size of the dataset. The tables do not depend on it.
    """

    dataset: DatasetConfig
    agent: AgentConfig = AgentConfig()
    metrics: Annotated[list[MetricConfig], Field(min_length=1)]
    judges: dict[str, JudgeConfig] = {}
    baseline: str | None = None
    prices: dict[str, PriceConfig] = {}
    currency: str = ""
    criteria: list[CriterionConfig] = []
    slices: list[list[str]] = []
    labels: LabelsConfig | None = None
    gate: GateConfig = GateConfig()
    trials: int = Field(default=1, ge=1, le=1000)
    budget: BudgetConfig = BudgetConfig()
    replay: str | None = None
    statistics: StatisticsConfig = StatisticsConfig()
    output: OutputConfig = OutputConfig()
    compat: CompatConfig = CompatConfig()
    shards: Shards | None = None

    @field_validator("slices", mode="before")
    @classmethod
    def _slice_lists(cls, value: Any) -> Any:
        return [[s] if isinstance(s, str) else s for s in value] if isinstance(value, list) else value

    @field_validator("criteria", mode="before")
    @classmethod
    def _criteria_forms(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        rows: list[Any] = []
        for metric, bound in value.items():
            for one in bound if isinstance(bound, list) else [bound]:
                rows.append({"metric": metric, **(one if isinstance(one, Mapping) else {"min": one})})
        return rows

    @classmethod
    def parse(cls, data: Any, source: str = "", found: Mistakes | None = None) -> EvaluationConfig:
        """Validates a mapping as a configuration.

        Args:
            data: The parsed YAML or JSON.
            source: Name of the file, for messages.
            found: Takes the mistakes; what is refused then has its default. Default: the mistakes are raised.

        Raises:
            ConfigError: A key or value is invalid; the message names each such key, the value and what is allowed.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"found {show_value(data)}", where=source, allowed="a mapping with dataset, metrics ...")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            explained = explain_error(error, source, cls)
            if found is None or (rest := cls._rest(data, error, found)) is None:
                raise explained from None
            found.add(explained)
            return rest
        except RecursionError:
            raise ConfigError("the configuration refers to itself", where=source) from None

    @classmethod
    def _rest(cls, data: Mapping[str, Any], error: ValidationError, found: Mistakes) -> EvaluationConfig | None:
        """Returns the configuration without what is refused; `None` if nothing is left that could be checked."""
        left: dict[str, Any] = dict(data)
        for _ in range(3):  # keys, then sections that are not valid without them
            left = drop_refused(left, error, cls, found)
            try:
                return cls.model_validate(left)
            except ValidationError as further:
                error = further
        return None

    @classmethod
    def load(cls, text: str, source: str = "") -> EvaluationConfig:
        """Parses and validates YAML or JSON text; raises as `parse` and `load_yaml` do."""
        return cls.parse(load_yaml(text, source), source)

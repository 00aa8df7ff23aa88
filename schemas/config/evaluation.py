"""What a user may write in eval.yaml: pydantic models that refuse unknown keys.

`EvaluationConfig.load` reads YAML or JSON text; errors name the key, what was found and what is allowed.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..errors import ConfigError
from ..values import slice_text
from .calls import CallPolicy
from .explain import explained, shown
from .storage import ConfigPart, DatasetConfig, OutputConfig, Shards
from .yaml_text import load_yaml

Mode: TypeAlias = Literal["live", "batch", "batch_files"]
"""How calls are made: at once; in batches that are handed to the provider; in files that somebody else carries."""


class AgentConfig(CallPolicy):
    """Which agent is called, and how; the keys of the call policy stand beside the agent's own.

    Attributes:
        type: Registered name of an agent, such as "function"; "auto" finds it from the target; where there is none,
            the rows carry the answers.
        target: "module:name" of the agent, the object itself from Python, or an address.
        version: Declared version of the agent, part of its fingerprint.
        failure_threshold: As in the call policy; by default an agent of which half the first 200 calls fail is asked
            no more.
        packages: Wheels, folders with Python code and at most one requirements file that the agent consists of; they
            are made importable here and on every worker.
        secrets: Environment variables the agent needs, with a reference to each value (see `transforms.secrets`) that
            is resolved on the worker. A list of names stands for variables of the same name.
        mode: As that of a judge; for an agent behind OpenAI's chat completions.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    type: str = "auto"
    target: Any = None
    version: str | None = None
    failure_threshold: float | None = Field(default=0.5, gt=0, lt=1)
    packages: tuple[str, ...] = ()
    secrets: dict[str, str] = {}
    mode: Mode = "live"

    @field_validator("secrets", mode="before")
    @classmethod
    def _references(cls, value: Any) -> Any:
        given = {name: f"${{env:{name}}}" for name in value} if isinstance(value, list | tuple) else value
        for reference in given.values() if isinstance(given, Mapping) else ():
            if not re.fullmatch(r"\$\{(env|secret):[^{}]+\}", str(reference)):
                raise ValueError("names of environment variables, or {VARIABLE: ${env:NAME}}; never a value")
        return given

    @property
    def params(self) -> dict[str, Any]:
        """The agent's own parameters beside `target`."""
        return dict(self.__pydantic_extra__ or {})


class PriceConfig(ConfigPart):
    """What 1,000,000 tokens of a model cost, and the day on which that was so.

    Attributes:
        input, output: Price of tokens given and made, in any currency, the same for all models.
        batch_input, batch_output: The same of answers that come by a batch; `None` where they are not known.
        date: The day.
    """

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    batch_input: float | None = Field(default=None, ge=0)
    batch_output: float | None = Field(default=None, ge=0)
    date: datetime.date

    def cost(self, given: float, made: float, batched: bool = False) -> float | None:
        """What tokens given and made cost, `None` where that is not known."""
        of_given, of_made = (self.batch_input, self.batch_output) if batched else (self.input, self.output)
        return None if of_given is None or of_made is None else (given * of_given + made * of_made) / 1e6


class JudgeConfig(CallPolicy):
    """A judge model, and how it is called; the keys of the call policy stand beside the judge's own.

    Attributes:
        type: "google", "openai", "anthropic", "function" ...; a function where only a target is given.
        failure_threshold: As in the call policy; by default a judge of which half the first 200 calls fail is asked no
            more.
        mode: "live" asks the judge at once; "batch" hands its questions over to its provider's batch interface, and
            "batch_files" only writes the files; the same command later takes the answers in.
        combine_metrics: Whether the questions that several metrics have about a row are put to the judge as one.
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
        if isinstance(value, str) and ":" not in value:  # the keys of a judge without its name
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
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    metric: Any
    name: str

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

    @property
    def params(self) -> dict[str, Any]:
        """The metric's own parameters."""
        return dict(self.__pydantic_extra__ or {})


def _object_name(metric: Any) -> str:
    """Name of a metric given as an object; "" leaves it to the name it is registered under."""
    name = getattr(metric, "name", None) or getattr(metric, "__name__", "")
    return name if isinstance(name, str) else ""


class CriterionConfig(ConfigPart):
    """A bound on one statistic of one metric.

    Attributes:
        metric: Output name of the metric.
        statistic: Column of the summary table the bound is on.
        min, max: Inclusive bounds; at least one.
        slice: Values of the slice the bound is on, a missing one null; `{}` for the whole dataset.
    """

    metric: str
    statistic: str = "mean"
    min: float | None = None
    max: float | None = None
    slice: dict[str, str | None] = {}

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
    """How summaries are computed.

    Attributes:
        ci: "auto" is Wilson's interval for 0/1 metrics and Student's t for others; "normal" for all.
        confidence: Level of the interval, in (0, 1).
        on_failure: Whether rows whose agent failed are left out of means or count with the metric's worst value.
    """

    ci: Literal["auto", "normal"] = "auto"
    confidence: float = Field(default=0.95, gt=0, lt=1)
    on_failure: Literal["exclude", "worst"] = "exclude"


class BudgetConfig(ConfigPart):
    """What a whole run may spend, agent and judges together, over all its starts.

    Attributes:
        max_calls: Attempts of all calls, those refused for their rate left out. A dataset that needs more is refused
            before the first call.
        max_tokens: Tokens of all answers that name their usage, given and made.
    """

    max_calls: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)


class CompatConfig(ConfigPart):
    """Switches that reproduce what another product does where we decided otherwise.

    Attributes:
        float32: Scores carry the float32 rounding that the Vertex service shows.
        win_rate_all_rows: Win rates count rows without a verdict too, as EvalTask does.
        adk_verdicts: A case passes although a criterion could not be evaluated, as with ADK.
    """

    float32: bool = False
    win_rate_all_rows: bool = False
    adk_verdicts: bool = False


class EvaluationConfig(ConfigPart):
    """A whole evaluation.

    Attributes:
        dataset: The rows.
        agent: What answers them; recorded answers where left out.
        metrics: What is measured, in the order of the output columns.
        judges: The judge models by name; a metric that names none asks "default".
        baseline: Folder of a finished run whose answers pairwise metrics compare with.
        prices: Prices of judge models by the model's name; the cost of others is unknown.
        criteria: Bounds that decide the verdict: {metric: minimum} or a list of criteria.
        slices: Lists of dataset columns by whose values the summary is broken down.
        trials: How often the agent runs on each row.
        budget: Bounds on what the run spends.
        replay: Output folder of another run whose answers are scored instead of calling the agent.
        statistics: How means and intervals are computed.
        output: The folder of the tables, and their format.
        compat: Switches that reproduce what another product does.
        shards: Ranges of the id's hash that the work is cut into, a power of two; default: 256 where an agent is
            called, else by the size of the dataset. The tables do not depend on it.
    """

    dataset: DatasetConfig
    agent: AgentConfig = AgentConfig()
    metrics: Annotated[list[MetricConfig], Field(min_length=1)]
    judges: dict[str, JudgeConfig] = {}
    baseline: str | None = None
    prices: dict[str, PriceConfig] = {}
    criteria: list[CriterionConfig] = []
    slices: list[list[str]] = []
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
    def parse(cls, data: Any, source: str = "") -> EvaluationConfig:
        """The config a mapping describes.

        Args:
            data: What YAML or JSON gave.
            source: Name of the file, for messages.

        Raises:
            ConfigError: Names the first key that is wrong, what was found there and what is allowed.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"found {shown(data)}", where=source, allowed="a mapping with dataset, metrics ...")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise explained(error, source, cls) from None
        except RecursionError:
            raise ConfigError("the configuration refers to itself", where=source) from None

    @classmethod
    def load(cls, text: str, source: str = "") -> EvaluationConfig:
        """The config that YAML (or JSON) text describes; see `parse`."""
        return cls.parse(load_yaml(text, source), source)

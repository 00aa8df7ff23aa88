"""Rubric metrics with the methods and the predefined metrics of the Vertex AI SDK."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...schemas.config.evaluation import JudgeConfig
from ...schemas.errors import ConfigError
from ...schemas.instance import Example, Instance, Invocation
from ...schemas.json import Json
from ...schemas.judging import Answer, Ask
from ...transforms.judging.prompts import load_prompt
from ...transforms.metrics import rubric
from ...transforms.metrics.rubric import RubricGenerationConfig
from ...transforms.metrics.template import PairwiseMetric, PointwiseMetric
from ...transforms.runtime.dialogue import Asking
from ..run.judges import build_judge
from .autoraters import build_judges, complete_judges, read_autorater
from .judge_now import ask_now

if TYPE_CHECKING:
    import pandas as pd

_COLUMN = "rubrics"


@dataclass(frozen=True, kw_only=True)
class RubricBasedMetric(rubric.RubricBasedMetric):
    """Share of properties that the answer has, in [0, 1]; or, with a pairwise critique, the better of two answers.

    The arguments are those of the metric `rubric`.
    """

    def generate_rubrics(self, eval_dataset: pd.DataFrame) -> pd.DataFrame:
        """Has the properties of every row written, so that they can be reviewed before they are judged.

        Args:
            eval_dataset: The rows, with the columns that the template of `generation_config` shows; not changed.

        Returns:
            The rows with a column `rubrics`, and one for everything else that `parsing_fn` returns; `None` where the
            judge failed, of which a warning tells.

        Raises:
            ConfigError: There is no judge to ask; a column is missing.
        """
        if _COLUMN in eval_dataset.columns:
            warnings.warn("the dataset has rubrics already; none were written", stacklevel=2)
            return eval_dataset
        judges, _ = complete_judges([self], build_judges(read_autorater(None), [self]))
        config = JudgeConfig.model_validate(judges[self.writer])
        names = self.prompts[1].variables
        if lacking := next((name for name in names if name not in eval_dataset.columns), None):
            shown = ", ".join(map(str, eval_dataset.columns))
            raise ConfigError(f"the dataset has no column {lacking!r}", where="generate_rubrics", allowed=shown)
        rows: Any = eval_dataset.to_dict("records")
        examples = [Example(Instance(str(i), row), Invocation()) for i, row in enumerate(rows)]
        found = ask_now(build_judge(config, "judges"), config, self._write(examples), self.writer)
        columns = dict.fromkeys([_COLUMN, *(key for _, beside in found for key in beside)])
        values = [{_COLUMN: list(rubrics) if rubrics else None, **beside} for rubrics, beside in found]
        written: dict[str, Any] = {name: [value.get(name) for value in values] for name in columns}
        return eval_dataset.assign(**written)

    def _write(self, examples: list[Example]) -> Asking[Ask, Answer, list[tuple[Any, dict[str, Json]]]]:
        """Asks for the properties of all rows at once."""
        answers = yield [self.ask_writer(example) for example in examples]
        found: list[tuple[Any, dict[str, Json]]] = []
        for i, answer in enumerate(answers):
            try:
                if answer.error is not None:
                    raise ValueError(answer.error.message)
                found.append(self.read_written(answer.value))
            except Exception as error:  # the user's parser may raise anything
                warnings.warn(f"row {i} has no rubrics: {error}", stacklevel=4)
                found.append((None, {}))
        return found


def _predefine(task: str) -> tuple[RubricBasedMetric, RubricBasedMetric]:
    """Makes the pointwise and the pairwise metric of a task."""
    name = "rubrics" if task == "instruction_following" else f"rubrics_{task}"
    written = RubricGenerationConfig(prompt_template=load_prompt(f"template/{name}").text)
    single = PointwiseMetric(metric=f"rb_{task}", metric_prompt_template=load_prompt("template/critique_prompt").text)
    pair = PairwiseMetric(
        metric=f"pairwise_rb_{task}", metric_prompt_template=load_prompt("template/pairwise_critique").text
    )
    return (
        RubricBasedMetric(generation_config=written, critique_metric=single),
        RubricBasedMetric(generation_config=written, critique_metric=pair),
    )


_FOLLOWING, _PAIRWISE_FOLLOWING = _predefine("instruction_following")
_QUALITY, _PAIRWISE_QUALITY = _predefine("text_quality")


class _NoImages(type):
    """Explains why a predefined metric of the SDK is not here."""

    @property
    def MULTIMODAL_UNDERSTANDING(cls) -> RubricBasedMetric:
        found = "PredefinedRubricMetrics has no MULTIMODAL_UNDERSTANDING, since judges are shown texts only"
        raise ConfigError(found, where="metrics", allowed="INSTRUCTION_FOLLOWING, TEXT_QUALITY")


class PredefinedRubricMetrics:
    """Rubric metrics whose properties are written by the judge, under the SDK's names; the prompts are evalbeam's."""

    class Pointwise(metaclass=_NoImages):
        """Share of properties that the answer has."""

        INSTRUCTION_FOLLOWING = _FOLLOWING
        TEXT_QUALITY = _QUALITY

    class Pairwise(metaclass=_NoImages):
        """The better of two answers, by properties."""

        INSTRUCTION_FOLLOWING = _PAIRWISE_FOLLOWING
        TEXT_QUALITY = _PAIRWISE_QUALITY

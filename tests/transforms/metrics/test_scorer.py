"""Scorers of MLflow get what MLflow's own harness gives them, and their results count as there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import AssessmentError, Feedback, Trace
from mlflow.genai.evaluation.entities import EvalItem
from mlflow.genai.scorers import scorer
from mlflow.genai.scorers.aggregation import _cast_assessment_value_to_float

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score
from evalbeam.transforms.dialects.databricks import Databricks
from evalbeam.transforms.dialects.traces import Traces
from evalbeam.transforms.metrics.base import ScoringBatch
from evalbeam.transforms.metrics.scorer import as_scorer

ROWS: list[dict[str, Any]] = [
    {"inputs": {"question": "Who wrote Faust?"}, "outputs": "Goethe", "expectations": {"expected_response": "Goethe"}},
    {"inputs": {"question": "Hi", "n": 2}, "outputs": {"content": "Ho", "rank": [1]}, "expectations": {"mood": "good"}},
    {"inputs": '{"question": "Hi"}', "outputs": "Ho"},
]


def example(row: dict[str, Any], dialect: Any = None, **invocation: Any) -> Example:
    fields = (dialect or Databricks()).fields(row)
    return Example(Instance("id", row, fields), Invocation(**{"response": fields.get("response"), **invocation}))


def score(target: Any, of: Example, **params: Any) -> Score:
    metric = as_scorer(target, "m", params)
    assert metric is not None
    return metric.score_batch(ScoringBatch([of])).at(0)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("decorated", [True, False])
def test_a_scorer_is_given_what_mlflow_gives_it(row: dict[str, Any], decorated: bool) -> None:
    given: list[Any] = []

    def probe(inputs: Any, outputs: Any, expectations: Any, trace: Any) -> bool:
        given.append({"inputs": inputs, "outputs": outputs, "expectations": expectations, "trace": trace})
        return True

    assert score(scorer(probe) if decorated else probe, example(row)).value == 1.0
    item = EvalItem.from_dataset_row(row)
    assert given == [{name: getattr(item, name) for name in given[0]}]


def test_one_parameter_is_enough() -> None:
    assert score(scorer(lambda outputs: len(outputs), name="m"), example(ROWS[0])).value == 6.0

    def length(outputs: str) -> int:
        return len(outputs)

    assert score(length, example(ROWS[0])).value == 6.0


def test_a_scorer_sees_what_the_agent_returned() -> None:
    called = example(ROWS[0], response="Ho", attempts=1, extra={"outputs": {"content": "Ho"}})
    assert score(lambda outputs: outputs == {"content": "Ho"}, called).value == 1.0
    plain = example(ROWS[0], response="Ho", attempts=1)
    assert score(lambda outputs: outputs == "Ho", plain).value == 1.0


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_traces_are_mlflows(conformance: Path, form: Any) -> None:
    text = (conformance / "traces" / "mlflow_v3" / "tool_agent.json").read_text()
    value = json.loads(text)
    row = {"trace": form(value)}

    @scorer
    def tools(trace: Trace) -> int:
        return len(trace.search_spans(span_type="TOOL"))

    wanted = len(Trace.from_json(text).search_spans(span_type="TOOL"))
    assert wanted > 0
    assert score(tools, example(row)).value == wanted
    assert score(tools, example(value, Traces())).value == wanted
    assert score(lambda trace: trace is None, example(ROWS[0])).value == 1.0


def test_metric_functions_of_databricks_are_called_by_keyword() -> None:
    row = {"request": "Hi", "response": "Ho", "expected_facts": ["x"], "request_id": "r"}

    def named(*, request: str, response: str, expected_facts: list[str], request_id: str, **kwargs: Any) -> bool:
        return (request, response, expected_facts, request_id) == ("Hi", "Ho", ["x"], "r") and "tool_calls" in kwargs

    assert score(named, example(row)).value == 1.0


@pytest.mark.parametrize("result", [3, 2.5, True, False, "yes", "No", None, Feedback(value="yes", rationale="so")])
def test_results_count_as_in_mlflow(result: Any) -> None:
    found = score(scorer(lambda outputs: result, name="m"), example(ROWS[0]))
    feedback = result if isinstance(result, Feedback) else Feedback(value=result) if result is not None else None
    assert found.value == (None if feedback is None else _cast_assessment_value_to_float(feedback))
    assert found.status == ("not_applicable" if result is None else "scored")
    assert found.explanation == (result.rationale if isinstance(result, Feedback) else None)


def test_other_text_stands_in_the_details_and_errors_are_errors() -> None:
    assert score(lambda outputs: "formal", example(ROWS[0])) == Score(label="formal", details={"value": "formal"})
    broken = Feedback(error=AssessmentError("NO_MODEL", "none is there"))
    found = score(lambda outputs: broken, example(ROWS[0]))
    assert found == Score.failed("NO_MODEL", "none is there")
    raised = score(scorer(lambda outputs: 1 / 0, name="m"), example(ROWS[0]))
    assert raised.error is not None
    assert raised.error.code == "ZeroDivisionError"


def test_several_feedbacks_need_one_with_the_name_of_the_scorer() -> None:
    both = [Feedback(name="m", value=True, rationale="so"), Feedback(name="tone", value="warm")]
    found = score(lambda outputs: both, example(ROWS[0]))
    assert (found.value, found.explanation) == (1.0, "so")
    assert found.details["tone"] == {"value": "warm", "rationale": None}
    other = score(lambda outputs: both[1:] * 2, example(ROWS[0]))
    assert other.status == "error"


def test_functions_of_the_row_stay_functions_of_the_row() -> None:
    for function in (lambda row: 1, lambda instance: 1, lambda row, outputs=None: 1, len, str):
        assert as_scorer(function, "m", {}) is None


def test_parameters_of_the_configuration_are_bound() -> None:
    assert score(lambda outputs, most: len(outputs) <= most, example(ROWS[0]), most=3).value == 0.0


def test_scorers_of_sessions_get_their_traces(conformance: Path) -> None:
    folder = conformance / "traces" / "mlflow_v3"
    traces = [json.loads((folder / f"session_turn{i}.json").read_text()) for i in (1, 2, 3)]

    @scorer
    def turns(session: list[Trace]) -> int:
        return len({t.info.trace_id for t in session})

    assert score(turns, example({"trace": traces[0], "session": traces})).value == 3.0
    found = score(turns, example(ROWS[0]))
    assert found.error is not None
    assert found.error.code == "missing_session"

"""What the graph promises: what is fused, what is lifted, and that nothing but plain coders crosses a shuffle."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from evalbeam.pipelines.run.build import make_plan
from evalbeam.pipelines.run.evaluate import Evaluate
from evalbeam.pipelines.runners import options as engines
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.transforms.calls.context import RunContext

AGENTS = {"recorded": {}, "live": {"target": "evalbeam.pipelines.demo.agent:answer"}}


FOLLOWING = {"statistics": {"sequential": {"metric": "exact_match", "threshold": 0.8}}}


@pytest.fixture(params=AGENTS, scope="module")
def graph(request, tmp_path_factory):
    return graph_of(tmp_path_factory.mktemp("graph"), agent=AGENTS[request.param])


@pytest.fixture(scope="module")
def following(tmp_path_factory):
    """The graph of a run that may stop early."""
    return graph_of(tmp_path_factory.mktemp("following"), agent=AGENTS["live"], **FOLLOWING)


def graph_of(folder, **sections):
    path = folder / "rows.jsonl"
    path.write_text('{"prompt": "x", "response": "y"}\n')
    section = {"dataset": {"path": str(path)}, "metrics": ["exact_match"], "slices": ["c"], **sections}
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | Evaluate(make_plan(EvaluationConfig.parse(section)))
    return pipeline.to_runner_api()


def stages(graph) -> list[str]:
    return [stage.name for stage in FnApiRunner().create_stages(graph)[1]]


def stage_with(graph, step: str) -> str:
    (found,) = [s for s in stages(graph) if step in s]
    return found


def test_reading_and_calling_are_not_fused(graph):
    reading = stage_with(graph, "Evaluate-Read-Read")
    calling = stage_with(graph, "Evaluate-Invoke")
    assert reading != calling
    assert "Evaluate-Normalize" in reading
    assert "MeetByShard/Write" in reading
    assert "MeetByShard/Read" in calling


def test_from_the_shuffle_to_the_scores_a_row_flows_straight_down(graph):
    calling = stage_with(graph, "Evaluate-Invoke")
    for step in ("Evaluate-Cut-Cut", "Evaluate-ScoreExamples-Score", "Evaluate-Instances-Encode"):
        assert step in calling
    assert "OrderByPart/Write" in calling
    assert "WritePart" not in calling


def test_aggregates_are_lifted_into_the_stage_of_their_rows(graph):
    assert "Summarize/Merge/Precombine" in stage_with(graph, "Evaluate-ScoreExamples-Score")
    assert "Facts/DatasetStats/CombinePerKey/Precombine" in stage_with(graph, "Evaluate-Read-Read")


def test_no_row_is_copied_by_a_flatten(graph):
    rows = [s for s in stages(graph) if "Flatten/Read" in s and ("MeetByShard" in s or "OrderByPart" in s)]
    assert rows == []


BEAMS_OWN = (
    "Impulse",
    "Map(decode)",
    "FlatMap(<lambda",
    "ReshufflePerKey",
    "AddRandomKeys",
    "KeyWithVoid",
    "DatasetStats",
)


def test_no_collection_of_ours_is_pickled(graph, following):
    for one in (graph, following):
        assert_not_pickled(one)


def test_all_rows_wait_for_the_followed_metric(following):
    waves, calling = stage_with(following, "Evaluate-Follow-FanOut"), stage_with(following, "Evaluate-Invoke")
    assert waves != calling
    assert "MeetAll/Read" in waves
    (invoke,) = [t for t in following.components.transforms.values() if t.unique_name.endswith("Invoke/Call/Call")]
    assert len(invoke.inputs) == 2, "its rows, and why calls end"


def assert_not_pickled(graph):
    from apache_beam.coders import Coder, coders
    from apache_beam.runners.pipeline_context import PipelineContext

    context = PipelineContext(graph.components)
    seen = 0
    for name, collection in graph.components.pcollections.items():
        if any(part in collection.unique_name for part in BEAMS_OWN):
            continue
        coder: Coder = context.coders.get_by_id(collection.coder_id)
        pickled = [c for c in _parts(coder) if isinstance(c, coders.FastPrimitivesCoder | coders.PickleCoder)]
        assert pickled == [], f"{name} {collection.unique_name}: {coder}"
        seen += 1
    assert seen > 20


def _parts(coder) -> list:
    return [coder, *(p for inner in coder._get_component_coders() for p in _parts(inner))]


@pytest.mark.parametrize(
    ("flags", "processes"),
    [
        ([], 1),
        (["--direct_num_workers=3"], 1),
        (["--direct_num_workers=3", "--direct_running_mode=multi_processing"], 3),
    ],
)
def test_limits_of_a_run_are_divided_over_its_processes(flags, processes, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "x"}\n')
    agent = {**AGENTS["live"], "max_in_flight": 50, "max_in_flight_total": 30}
    section = {"dataset": {"path": str(tmp_path / "rows.jsonl")}, "metrics": ["exact_match"], "agent": agent}
    found = engines.processes(engines.pipeline_options(flags))
    assert found == processes
    step = make_plan(EvaluationConfig.parse(section)).invoke(RunContext(processes=found))
    assert step.policy.for_one_of(step.context.processes).max_in_flight == 30 // processes
